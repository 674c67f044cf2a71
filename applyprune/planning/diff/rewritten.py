"""Find the values of a manifest that the server has not stored as they were sent.

An admission webhook, or a plugin of the server, may change an object after the apply has decided
who owns which field. So the reply still names the set as the owner of a value that is not its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import ListItem, Path, leaves, to_server, value_at
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.fields.stored_value import is_stored
from applyprune.planning.ownership.managed_fields import own_apply_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject

_SHOWN = 5


def rewritten_fields(body: Mapping[str, Any], after: LiveObject, manager: str) -> tuple[str, ...]:
    """Return the fields that have another value in the reply to an apply than in what was sent."""
    if after.body is None:
        return ()
    entry = own_apply_entry(after, manager) or {}
    return tuple(
        to_server(path)
        for path in leaves(entry.get("fieldsV1") or {})
        if not is_stored(
            value_at(body, path), value_at(after.body, _defaulted(path)), str(path[-1])
        )
    )


def _defaulted(path: Path) -> Path:
    """Return a path without the empty keys of items: the server has filled them in."""
    return tuple(
        ListItem(tuple(key for key in step.keys if key[1] not in ("", None)) or step.keys)
        if isinstance(step, ListItem)
        else step
        for step in path
    )


def rewritten_problem(found: Mapping[Ref, tuple[str, ...]]) -> Problem | None:
    """Return the warning about rewritten fields, without their values; None if there are none."""
    objects = [
        f"{ref.short} at {and_more(paths, _SHOWN)}" for ref, paths in sorted(found.items()) if paths
    ]
    if not objects:
        return None
    return Problem(
        kind=ProblemKind.REWRITTEN_VALUES,
        message="the server stores other values than the manifests have: "
        + and_more(objects, _SHOWN, "; "),
        reason="an admission webhook has probably rewritten them, or the server does not know them",
        hint="Put the stored values into the manifests, or leave these fields out. "
        "With applyprune.dev/ignore-fields, they are only sent at creation.",
    )
