"""Refuse the objects of the input that the set cannot contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.live import mapping
from applyprune.model.problem import Mark
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Manifest

_NAME = ("metadata", "name")


def refuse_non_member(
    desired: Desired,
    manifest: Manifest,
    applyset: ApplySetIdentity,
    seen: Mapping[Ref, Desired],
    *,
    override: str,
) -> None:
    """Raise InputError for an object that the set cannot contain.

    It is in the set twice, has a label of a set, or is the inventory. ``seen`` are the objects of
    the input before it, ``override`` is the namespace that the user gives to all.
    """
    if (twin := seen.get(desired.ref)) is not None:
        together = " --namespace-override gives both the same namespace." if override else ""
        raise InputError(
            f"{desired.ref} is in the set twice",
            location=manifest.origin,
            reason=f"it is also in {twin.origin}",
            hint=f"Remove the duplicate.{together}",
            marks=(Mark(_NAME, "here"), Mark(_NAME, "and here", twin.origin)),
        )
    labels = mapping(manifest.body["metadata"].get("labels"))
    for label in (PART_OF, SET_ID):
        if label in labels:
            raise InputError(
                f"{desired.ref} already has the label {label}",
                location=manifest.origin,
                reason="applyprune sets this label to the set that owns the object",
                hint="Remove the label from the manifest.",
                field=("metadata", "labels", label),
            )
    if applyset.records_in(desired.ref):
        raise InputError(
            f"{desired.ref} is the inventory of this set",
            location=manifest.origin,
            hint="Remove it from the input, or choose another name for the set.",
            field=_NAME,
        )
