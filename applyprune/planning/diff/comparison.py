"""Compare both states of an object: whether it changes, and how that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.events import ObjectDiff
from applyprune.model.fieldset import Drift, from_pointer, is_under, left_out
from applyprune.model.plan import ApplyStep, Fate, RemoveStep
from applyprune.planning.diff.drift import drifted_from_manifest, manifest_drift, recorded_drift
from applyprune.planning.diff.states import substance
from applyprune.planning.fields.ignore_rule import IgnoreRule, ignored_paths
from applyprune.planning.fields.redact import masked
from applyprune.planning.ownership.owner import fingerprint_of
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject


@dataclass(frozen=True, slots=True)
class Comparison:
    """An object before and after, as a dry run has it; Secret values are not masked yet."""

    step: ApplyStep
    fate: Fate
    before: LiveObject | None = field(repr=False)
    """The object in full; None if it would be created."""
    body: Mapping[str, Any] | None = field(hash=False, repr=False)
    """The object afterwards."""
    after: LiveObject | None = field(default=None, repr=False)
    """The server's reply; None if something else has computed ``body``."""
    not_checked: str = ""
    """What the server could not check, in words."""


def has_changed(comparison: Comparison, rules: Sequence[IgnoreRule]) -> bool:
    """Return whether an object changes, apart from its bookkeeping and the ignored fields."""
    then, now = _states(comparison)
    if then == now:
        return False
    ignored = ignored_paths(rules, comparison.step.desired.ref)
    return not ignored or _without(then, ignored) != _without(now, ignored)


def changes_ownership(before: LiveObject, after: LiveObject, manager: str) -> bool:
    """Return whether a set owns other fields afterwards: the server writes that too."""
    then, now = (fingerprint_of(live, manager, None) for live in (before, after))
    return then is None or now is None or then.managed_fields != now.managed_fields


def diff_of(
    comparison: Comparison,
    rules: Sequence[IgnoreRule],
    recorded: Mapping[Ref, InventoryEntry],
    manager: str,
) -> ObjectDiff:
    """Return a comparison as it is shown: without ignored fields, and with Secrets masked.

    ``recorded`` are the entries of the inventory as read, ``manager`` is the set's field manager.
    """
    desired = comparison.step.desired
    ref, before, after = desired.ref, comparison.before, comparison.after
    ignored = ignored_paths(rules, ref)
    states = _states(comparison)
    # Mask the whole object first: a rule that ignores the kind must not unmask a Secret.
    then, now = (_without(state, ignored) for state in masked(*states, desired.body))
    drifted = drifted_from_manifest(desired, recorded.get(ref), before, manager)
    drift: tuple[Drift, ...] = ()
    entry = recorded.get(ref)
    if drifted and entry is not None and before is not None and after is not None:
        is_same_manifest = entry.digest == desired.digest
        found = manifest_drift(before, after, manager)
        drift = tuple(
            drift
            for drift in (found if is_same_manifest else recorded_drift(entry, before, manager))
            if not any(is_under(from_pointer(drift.path), path) for path in ignored)
        )
    return ObjectDiff(
        ref,
        comparison.fate,
        then,
        now,
        desired.origin,
        comparison.not_checked,
        drifted=drifted,
        drift=drift,
    )


def removal_diff(step: RemoveStep, live: LiveObject, *, not_checked: str = "") -> ObjectDiff:
    """Return the diff of an object that would be deleted."""
    body, _ = masked(substance(live.body or {"metadata": live.metadata}), None)
    return ObjectDiff(step.entry.ref, step.fate, body, None, not_checked=not_checked)


def _states(
    comparison: Comparison,
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    status = "status" in comparison.step.desired.body
    before = comparison.before.body if comparison.before is not None else None
    return tuple(  # type: ignore[return-value]
        None if state is None else substance(state, status=status)
        for state in (before, comparison.body)
    )


def _without(state: Mapping[str, Any] | None, ignored: Sequence[Any]) -> Mapping[str, Any] | None:
    return None if state is None else left_out(state, ignored)
