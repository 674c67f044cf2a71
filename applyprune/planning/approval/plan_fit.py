"""Compare a plan file with the plan that is made again: what no longer fits, and why.

An interrupted apply of a plan file is continued with the same file. Then steps that are already
done fit too, and those whose request may have arrived before the interruption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from applyprune.model.identity import Ref
from applyprune.model.live import NAMESPACE
from applyprune.model.plan import ApplyStep, Fate, Plan, RemoveStep
from applyprune.planning.approval.planned_objects import PlannedObject, planned_object
from applyprune.planning.ownership.managed_fields import owns_all, times_of
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.inventory import Inventory, InventoryEntry
    from applyprune.model.problem import Origin
    from applyprune.planning.approval.plan_file import PlanFile

_WORDS: Mapping[Fate, str] = {
    Fate.CREATE: "create it",
    Fate.CHANGE: "apply it",
    Fate.LEAVE: "leave it as it is",
    Fate.RECREATE: "recreate it",
    Fate.ADOPT: "adopt it",
    Fate.ORPHAN: "orphan it",
    Fate.PRUNE: "prune it",
    Fate.REMOVE_FROM_INVENTORY: "only remove it from the inventory",
    Fate.REFUSE: "refuse it",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """An object for which the plan file no longer fits."""

    ref: Ref
    reason: str
    """What is different, as a sentence about the object."""
    origin: Origin | None = None
    """The place of its manifest; None if it is not in the input."""


def misfits(
    file: PlanFile,
    plan: Plan,
    inventory: Inventory,
    *,
    continues: bool,
    unknown: Mapping[Ref, str] = MappingProxyType({}),
) -> Iterator[Misfit]:
    """Yield each object for which the file does not fit the plan that was made now.

    ``continues`` says that an interrupted apply of this very file has written the inventory last.
    ``unknown`` are the objects of the input that could not be planned, each with the reason.
    """
    before = {one.ref: one for one in file.objects}
    steps: dict[Ref, ApplyStep | RemoveStep] = {
        **{step.entry.ref: step for step in plan.removals},
        **{step.desired.ref: step for step in plan.applies},
    }
    for ref in sorted({*before, *steps}):
        step, old = steps.get(ref), before.get(ref)
        entry = inventory.entries.get(ref)
        if reason := unknown.get(ref) or _reason(old, step, entry, continues=continues):
            origin = step.desired.origin if isinstance(step, ApplyStep) else None
            yield Misfit(ref, reason, origin)
    recovered = {(entry.ref, entry.uid) for entry in plan.recovered}
    if not continues:
        for ref, _ in sorted({*file.recovered} ^ recovered):
            yield Misfit(ref, "it has the set's label, and the inventory does not list it")


def input_misfits(
    file: PlanFile, plan: Plan, unknown: Mapping[Ref, str] = MappingProxyType({})
) -> Iterator[Misfit]:
    """Yield each object that the input has in another form than the file, whatever is live.

    ``unknown`` is that of ``misfits``.
    """
    before = {one.ref: one.manifest for one in file.objects if one.manifest}
    steps = {step.desired.ref: step for step in plan.applies}
    for ref in sorted({*before, *steps}):
        step, old = steps.get(ref), before.get(ref, "")
        new = step.desired.digest if step else ""
        if reason := unknown.get(ref) or _input_reason(old, new):
            yield Misfit(ref, reason, step.desired.origin if step else None)


def refused_since(plan: Plan) -> Iterator[Misfit]:
    """Yield each object that the checks after ``misfits`` refuse; no plan with one has a file.

    The server's schema may have changed, for example.
    """
    for step in plan.faults:
        ref = step.desired.ref
        said = step.problem.message if step.problem else step.reason
        yield Misfit(ref, said.removeprefix(f"{ref}: "), step.desired.origin)


def _input_reason(old: str, new: str) -> str:
    """Return how two manifests differ, by their digests; empty if they do not."""
    if old == new:
        return ""
    if old and new:
        return "its manifest has changed"
    return "the input no longer has it" if old else "the input has it, and the plan does not"


def _reason(
    old: PlannedObject | None,
    step: ApplyStep | RemoveStep | None,
    entry: InventoryEntry | None,
    *,
    continues: bool,
) -> str:
    """Return why one object does not fit; empty if it does."""
    if step is None or old is None:
        return _one_sided(old, step, continues=continues)
    new = planned_object(step)
    if new.manifest and not old.manifest:
        return "the input has it again"
    if reason := _input_reason(old.manifest, new.manifest):
        return reason
    if continues and _is_under_way(old, step, entry):
        return ""
    if step.problem is not None and new.fate is Fate.REFUSE:
        return step.problem.message
    is_awaited = _awaits_controller(old) and new.fate is Fate.ADOPT
    return "" if is_awaited else _changed_state(old, new)


def _one_sided(
    old: PlannedObject | None, step: ApplyStep | RemoveStep | None, *, continues: bool
) -> str:
    if isinstance(step, ApplyStep):
        return _input_reason("", step.desired.digest)
    if step is not None:
        return f"it has left the set: an apply would {_WORDS[planned_object(step).fate]}"
    if old is None or (continues and not old.manifest):
        return ""  # it was removed, as planned
    return "the input no longer has it" if old.manifest else "the inventory no longer lists it"


def _changed_state(old: PlannedObject, new: PlannedObject) -> str:
    """Return how the live object, or the decision about it, differs from the plan."""
    if old.uid and not new.uid:
        return "it was deleted meanwhile"
    if new.uid and not old.uid:
        return "it was created meanwhile"
    if old.uid != new.uid:
        return "it was deleted and created again meanwhile"
    is_left = old.decided is Fate.LEAVE and new.decided is Fate.LEAVE
    if old.state != new.state and not is_left:
        return "it has been changed meanwhile"
    if old.decided is not new.decided and not (old.is_checked and new.fate is Fate.ADOPT):
        if (old.decided, new.decided) == (Fate.LEAVE, Fate.CHANGE):
            return "its live state differs from its manifest now"
        return f"the plan was to {_WORDS[old.fate]}; now an apply would {_WORDS[new.fate]}"
    # What goes with a recreation is counted when the check has found it; the digest binds it.
    if old.fate is not Fate.RECREATE and old.cascade != new.cascade:
        return "its deletion would delete other objects now"
    return ""


def _is_under_way(
    old: PlannedObject, step: ApplyStep | RemoveStep, entry: InventoryEntry | None
) -> bool:
    """Return whether an object is as an interrupted apply of the plan may have left it."""
    if isinstance(step, RemoveStep):
        return _is_being_removed(old, step, entry)
    same = step.live is not None and step.live.uid == old.uid
    changes = same and (old.is_checked or old.fate in {Fate.CHANGE, Fate.ADOPT})
    if step.fate is Fate.LEAVE:
        is_new = old.fate in {Fate.CREATE, Fate.RECREATE} or _awaits_controller(old)
        return changes or is_new
    if entry is None:
        return False
    if _awaits_controller(old):
        return step.fate in {Fate.CHANGE, Fate.ADOPT}
    if old.fate is Fate.RECREATE:
        return _is_being_recreated(old, step, entry)
    if old.fate is Fate.CREATE:
        return step.fate is Fate.CHANGE and (_has_arrived(old, step) or _is_made(step, entry))
    is_sent = step.fate in {Fate.CHANGE, Fate.ADOPT}
    return changes and is_sent and (old.state == _state(step) or _has_arrived(old, step))


def _awaits_controller(old: PlannedObject) -> bool:
    """Return whether the plan adopts an object that a controller is about to create."""
    return old.fate is Fate.ADOPT and not old.uid


def _state(step: ApplyStep) -> str:
    return planned_object(step).state


def _is_made(step: ApplyStep, entry: InventoryEntry) -> bool:
    """Return whether the run has made the Namespace of a new set, before it sends its manifest."""
    is_new = step.desired.ref.group_kind == NAMESPACE and not entry.digest
    return is_new and step.live is not None and step.live.uid == entry.uid_before_apply


def _is_being_recreated(old: PlannedObject, step: ApplyStep, entry: InventoryEntry) -> bool:
    live = step.live
    # The inventory says first that the old object is being deleted, and then that none exists.
    is_next = not entry.deleting and entry.uid_before_apply != old.uid
    if live is None:
        return step.fate is Fate.CREATE and (entry.deleting or is_next)
    if live.uid == old.uid:
        return entry.deleting and live.terminating
    return is_next and step.fate is Fate.CHANGE and _has_arrived(old, step)


def _is_being_removed(old: PlannedObject, step: RemoveStep, entry: InventoryEntry | None) -> bool:
    # The inventory says what a run will delete or orphan, before the first of these requests.
    if entry is None:
        return False
    leaves = step.fate is Fate.REMOVE_FROM_INVENTORY
    if old.fate is Fate.ORPHAN:
        return entry.orphaning and leaves
    if old.fate is not Fate.PRUNE or not entry.deleting:
        return False
    live = step.live
    if live is None or live.uid != old.uid:
        return leaves
    return live.terminating and step.fate is Fate.PRUNE


def _has_arrived(old: PlannedObject, step: ApplyStep) -> bool:
    """Return whether the set has applied an object since the plan, and nobody has undone it.

    Another run of the set would have written the inventory. managedFields count in seconds: an
    apply within the second of the one before the plan counts as none, so the plan is refused.
    """
    live, request = step.live, step.request
    if live is None or request is None or times_of(live, request.manager) == old.applied:
        return False
    return owns_all(live, request.manager, request.body)
