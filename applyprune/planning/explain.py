"""Why a run would do with one object what it would do: all that it was judged by, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.model.events import Explanation
from applyprune.model.inventory import Inventory, Ownership
from applyprune.model.live import Absent, LiveObject, Unknown
from applyprune.model.plan import Action, ApplyStep, Plan, RemoveStep
from applyprune.planning.annotations import orphan_mark
from applyprune.planning.applyset import PART_OF
from applyprune.planning.ownership.managed_fields import own_apply_entry
from applyprune.planning.ownership.owner import fingerprint_of, foreign_owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import State
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity

ORPHAN = "applyprune.dev/prune: disabled"


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """One object, and everything that a run would know when it decides about it.

    ``by_input`` says that there was an input; without one, ``plan`` is of a prune in which this
    object alone has left the set. ``owner`` names the other set whose label it bears.
    """

    ref: Ref
    state: State
    plan: Plan
    inventory: Inventory
    target: ApplySetIdentity
    by_input: bool
    schemas: Mapping[GroupKind, int | None] = field(default_factory=dict, hash=False)
    owner: str = ""

    @property
    def entry(self) -> InventoryEntry | None:
        """Return what the inventory records of it."""
        return self.inventory.entries.get(self.ref)

    @property
    def step(self) -> ApplyStep | RemoveStep | None:
        """Return what the plan says of it; None when no run touches it."""
        for applied in self.plan.applies:
            if applied.desired.ref == self.ref:
                return applied
        return next((one for one in self.plan.removals if one.entry.ref == self.ref), None)

    @property
    def desired(self) -> Desired | None:
        """Return what the input wants of it."""
        return self.step.desired if isinstance(self.step, ApplyStep) else None


def explained(case: ExplainInput) -> Explanation:
    """Return the verdict and the reasons; no part of them holds a value of the object."""
    reasons = (
        *_of_input(case),
        *_of_record(case),
        *_of_live(case),
        *_of_fingerprint(case),
        *_of_order(case),
        *_of_orphaning(case),
        *_of_guards(case),
    )
    origin = case.desired.origin if case.desired is not None else None
    return Explanation(case.ref, _verdict(case), reasons, origin)


def _of_input(case: ExplainInput) -> Iterator[str]:
    if not case.by_input and case.entry is None:
        yield "no input was given"
    elif not case.by_input:
        yield "no input was given: it is judged as if it alone had left the set"
    elif case.desired is None:
        yield "it is not in the input"
    else:
        yield f"it is in the input: {case.desired.origin}"


def _of_record(case: ExplainInput) -> Iterator[str]:
    entry = case.entry
    if entry is None:
        yield "the inventory does not list it"
        return
    how = "created" if entry.ownership is Ownership.OWNED else "adopted"
    uid = f"UID {entry.uid}" if entry.uid else "no apply of it was ever confirmed"
    before = "was absent before" if entry.uid_before_apply is None else "was there before"
    yield f"the inventory lists it: {how} by this set, {uid}; it {before} its last apply"
    if entry.deleting:
        yield "a run that was cut off meant to delete it"
    if entry.orphaning:
        yield "a run that was cut off meant to orphan it"
    if case.desired is not None:
        same = entry.digest == case.desired.digest
        if not entry.digest:
            yield "nothing is recorded of the manifest that was applied last"
        else:
            yield f"its manifest is {'the one' if same else 'not the one'} that was applied last"


def _of_live(case: ExplainInput) -> Iterator[str]:
    state, entry = case.state, case.entry
    if isinstance(state, Unknown):
        yield f"it could not be read: {state.problem}"
        return
    if isinstance(state, Absent):
        yield "it is not there" + ("" if state.proven else ", as far as a list can tell")
        return
    told = ""
    if entry is not None and entry.uid:
        told = ", the recorded one" if entry.uid == state.uid else ", not the recorded one"
    yield f"it is there: UID {state.uid}{told}"
    label = state.labels.get(PART_OF, "")
    if label == case.target.id:
        yield "it bears this set's label"
    elif label:
        yield f"it bears the label of another set: {case.owner or label}"
    else:
        yield "it bears no set's label"
    applied = own_apply_entry(state, case.target.manager)
    if applied is not None:
        yield f"{case.target.manager} has applied it, {applied.get('time', 'nobody knows when')}"
    else:
        yield f"{case.target.manager} is not among its field managers"
    if state.terminating:
        held = f", held by {', '.join(state.finalizers)}" if state.finalizers else ""
        yield f"it is being deleted{held}"


def _of_fingerprint(case: ExplainInput) -> Iterator[str]:
    """Tell each part of the fingerprint by which a run knows that nothing has changed."""
    live, entry = case.state, case.entry
    if entry is None or not isinstance(live, LiveObject):
        return
    then = entry.fingerprint
    if then is None:
        yield "there is no fingerprint of the last apply: it was cut off, or its reply was lost"
        return
    now = fingerprint_of(live, case.target.manager, case.schemas.get(case.ref.group_kind))
    parts = [("resourceVersion", then.resource_version == live.resource_version)]
    if then.generation is not None or live.generation is not None:
        parts.append(("generation", then.generation == live.generation))
    parts.append(
        (
            "the fields that the set owns",
            now is not None and now.managed_fields == then.managed_fields,
        )
    )
    parts.append(("the time of its apply", now is not None and now.time == then.time))
    if case.ref.group_kind in case.schemas:
        parts.append(("its CRD's generation", then.schema == case.schemas[case.ref.group_kind]))
    for holds, words in ((True, "as at the last apply"), (False, "changed since")):
        named = [name for name, same in parts if same is holds]
        if named:
            yield f"{words}: {', '.join(named)}"


def _of_order(case: ExplainInput) -> Iterator[str]:
    source = case.desired or case.entry
    if source is None:
        return
    earlier = ", ".join(ref.short for ref in source.depends_on)
    yield f"wave {source.wave.wave}" + (f", after {earlier}" if earlier else "")
    if case.desired is not None and case.desired.needs:
        yield f"names {', '.join(sorted(ref.short for ref in case.desired.needs))}"


def _of_orphaning(case: ExplainInput) -> Iterator[str]:
    recorded = case.entry.orphan_reason if case.entry else ""
    if recorded:
        yield f"marked to be orphaned, as recorded at its last apply: {recorded}"
    if isinstance(case.state, LiveObject):
        if (rule := orphan_mark(case.state.metadata)) and rule != recorded:
            yield f"marked to be orphaned: {rule}"
        if case.entry and (owner := foreign_owner(case.state, case.target.manager)):
            yield f"it has an owner of somebody else's: {owner}"


def _of_guards(case: ExplainInput) -> Iterator[str]:
    step = case.step
    if step is not None and step.problem is not None:
        yield str(step.problem)
    elif isinstance(step, RemoveStep):
        if step.action is Action.DELETE and step.reason:
            yield f"it {step.reason}"
        if case.plan.refusal is not None:
            yield str(case.plan.refusal)
        elif case.plan.no_prune:
            yield f"nothing is pruned in this run: {case.plan.no_prune}"


def _verdict(case: ExplainInput) -> str:
    step = case.step
    if isinstance(step, ApplyStep):
        return _of_apply(step, case.entry)
    if isinstance(step, RemoveStep):
        told = _of_removal(step, case.plan)
        return told if case.by_input else f"If it left the set: {told[0].lower()}{told[1:]}"
    if isinstance(case.state, LiveObject) and case.state.labels.get(PART_OF) == case.target.id:
        check = f"`applyprune inventory check {case.target.arguments}` tells whether it should be."
        return f"No run touches it: it bears the set's label and is not listed. {check}"
    if case.owner or (isinstance(case.state, LiveObject) and PART_OF in case.state.labels):
        return "No run of this set touches it: it is another set's."
    if isinstance(case.state, Absent):
        return "There is no such object, neither here nor in this set."
    return "No run of this set touches it: it is neither in the input nor listed."


def _of_apply(step: ApplyStep, entry: InventoryEntry | None) -> str:
    match step.action:
        case Action.CREATE:
            return "It would be created."
        case Action.NOTHING:
            why = step.reason or "it is as its last apply left it"
            return f"Nothing would be sent: {why}. --reapply-all sends it all the same."
        case Action.UPDATE:
            changed = entry is not None and entry.digest not in {"", step.desired.digest}
            why = "its manifest has changed" if changed else "others may have changed it"
            return f"It would be applied: {step.reason or why}."
        case _:
            return "It would not be applied; why, and what can be done, is said above."


def _of_removal(step: RemoveStep, plan: Plan) -> str:
    match step.action:
        case Action.DELETE if plan.no_prune:
            return "It would be deleted, but for what is said above."
        case Action.DELETE:
            orphan = f"--orphan {step.entry.ref.short}, or the annotation {ORPHAN}"
            return f"It would be deleted. To orphan it instead: {orphan}."
        case Action.ORPHAN if (
            step.entry.ownership is Ownership.ADOPTED and "adopted" in step.reason
        ):
            return f"It would be orphaned: {step.reason}. --prune-adopted would delete it."
        case Action.ORPHAN:
            return f"It would be orphaned: {step.reason}."
        case Action.REMOVE_FROM_INVENTORY:
            return f"It would only be removed from the inventory: {step.reason}."
        case Action.LEAVE:
            return f"It would stay, and stay listed: {step.reason}."
        case _:
            return "It would stay, and stay listed; why, and what can be done, is said above."
