"""Find field conflicts in the state that was read, without asking the server.

Only certain conflicts count: another manager owns a field, and its live value is another one than
the manifest's. Lists, mappings and texts that may be quantities do not count, because the server
compares them in a form of its own. The server's reply to the apply has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from applyprune.errors import Conflict
from applyprune.model.fieldset import Path, to_server, value_at
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.shared_fields import shared_fields
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.plan import ApplyStep
    from applyprune.planning.applyset import ApplySetIdentity

_QUANTITY = pattern(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[a-zA-Z]{0,2})")


def shares_fields(step: ApplyStep, applyset: ApplySetIdentity) -> bool:
    """Return whether another manager owns a field that the apply sets without force."""
    return next(_shared(step, applyset), None) is not None


def visible_conflict(step: ApplyStep, applyset: ApplySetIdentity) -> Conflict | None:
    """Return the conflict that an apply would end with; ``step.live`` was read in full.

    It is worded like the server's own. Return None if the state that was read shows no conflict.
    """
    live = step.live
    if live is None or live.body is None:
        return None
    causes = [
        {"reason": "FieldManagerConflict", "field": to_server(path), "message": _message(entry)}
        for path, entry in _shared(step, applyset)
        if _differ(value_at(sent(step.desired), path), value_at(live.body, path))
    ]
    if not causes:
        return None
    return Conflict(
        f"{len(causes)} fields are owned by other field managers", code=409, causes=causes
    )


def _shared(
    step: ApplyStep, applyset: ApplySetIdentity
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    request, live = step.request, step.live
    if request is not None and live is not None and not request.force:
        yield from shared_fields(step.desired, live, step.migration, applyset)


def _differ(ours: object, theirs: object) -> bool:
    if isinstance(ours, str) and isinstance(theirs, str):
        may_be_equal = _QUANTITY.fullmatch(ours) and _QUANTITY.fullmatch(theirs)
        return ours != theirs and not may_be_equal
    is_plain = all(isinstance(value, bool) for value in (ours, theirs)) or all(
        isinstance(value, int) and not isinstance(value, bool) for value in (ours, theirs)
    )
    return is_plain and ours != theirs


def _message(entry: Mapping[str, Any]) -> str:
    """Return the words of apimachinery's managedfields/internal/conflict.go."""
    words = [f'conflict with "{entry.get("manager", "")}"']
    if entry.get("subresource"):
        words.append(f'with subresource "{entry["subresource"]}"')
    if entry.get("operation") == "Update":
        words.append(f"using {entry.get('apiVersion', '')}")
        if entry.get("time"):
            words.append(f"at {entry['time']}")
    return " ".join(words)
