"""Warn about the parts of a manifest that are not sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from applyprune.model.live import mapping
from applyprune.model.problem import Mark, Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.applyset import OWNED_BY
from applyprune.planning.fields.null_fields import unnamed_nulls
from applyprune.planning.order import is_built_in
from applyprune.planning.schema.server_errors import dotted

if TYPE_CHECKING:
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Manifest

_SHOWN = 3


def unsent_parts(desired: Desired, manifest: Manifest) -> Iterator[Problem]:
    """Yield a warning for each part of a manifest that is not sent."""
    if manifest.namespace and not desired.resource.namespaced:
        yield Problem(
            kind=ProblemKind.IGNORED_NAMESPACE,
            message=f"{desired.ref.short} is cluster-scoped: its namespace is ignored",
            location=str(manifest.origin),
            origin=manifest.origin,
            field=("metadata", "namespace"),
            hint=f"Remove metadata.namespace {manifest.namespace!r} from the manifest.",
        )
    if left := unnamed_nulls(manifest.body, custom=not is_built_in(desired.ref.group)):
        yield Problem(
            kind=ProblemKind.IGNORED_NULL,
            message=f"{desired.ref.short}: null is left out, and removes nothing, in "
            f"{and_more([dotted(place) for place in left], _SHOWN)}",
            location=str(manifest.origin),
            origin=manifest.origin,
            reason="it is in an item of a list that has no name",
            hint="Leave the field out. A field that the set has owned is removed then.",
            marks=tuple(map(Mark, left)),
            field=left[0],
        )
    if OWNED_BY in mapping(manifest.body["metadata"].get("annotations")):
        yield Problem(
            kind=ProblemKind.IGNORED_ANNOTATION,
            message=f"{desired.ref}: the annotation {OWNED_BY} is left out",
            location=str(manifest.origin),
            origin=manifest.origin,
            field=("metadata", "annotations", OWNED_BY),
            reason="it says which set has created an object, and only applyprune writes it",
            hint="Remove the annotation from the manifest.",
        )
