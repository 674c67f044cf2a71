"""Explain what a run would do with one object: every fact that decided it, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from applyprune.model.events import Explanation
from applyprune.model.fate import Fate
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
from applyprune.model.live import LiveObject, Missing, NotListed, State, Unknown
from applyprune.model.plan import (
    ApplyRule,
    ApplyStep,
    Cause,
    Desired,
    Guard,
    GuardVerdict,
    Plan,
    RemoveStep,
)
from applyprune.model.problem import Problem
from applyprune.model.text import and_more
from applyprune.planning.applyset import OWNED_BY, PART_OF, ApplySetIdentity
from applyprune.planning.conflicts import repeats_last_apply
from applyprune.planning.managed_fields import own_writer
from applyprune.planning.marks import DISABLED, PRUNE, orphan_mark, unknown_mark
from applyprune.planning.normalize import may_be_secret
from applyprune.planning.ownership import fingerprint_of, foreign_owner, has_witness, owned_by_tool

ORPHAN_MARK = f"{PRUNE}: {DISABLED}"
_REFUSED = "It would not be applied. The reasons below say why."
_PREVENTED = "but the reasons below prevent it."
_REMOVED = {
    Fate.PRUNE: "deleted",
    Fate.ORPHAN: "orphaned",
    Fate.REMOVE_FROM_INVENTORY: "removed from the inventory",
}
_BY_OTHERS = "others may have changed it"
_SHOWN = 3


class ExplainInput(Struct, frozen=True):
    """One object, and all facts that a run has when it decides about the object."""

    ref: Ref
    state: State
    plan: Plan
    """The plan of the run; without an input, of a prune in which only this object left the set."""
    inventory: Inventory
    applyset: ApplySetIdentity
    by_input: bool
    """Whether an input was given."""
    schemas: Mapping[GroupKind, int | None] = field(default_factory=dict)
    """The generation of the CRD of each custom kind."""
    owner: str = ""
    """The name of the other set whose label the object has; empty if none or unknown."""
    hook: str = ""
    """Its events and its place, if it is a chart hook that is left out."""
    silent: Problem | None = None
    """Why the kind of an object in the input is unknown; None if it is known."""
    is_blocked: bool = False
    """Whether the run would write nothing at all, because its plan is refused."""
    unready: tuple[str, ...] = ()
    """Why it is not ready, and its last warnings; empty if it is, or if that is unknown."""

    @property
    def entry(self) -> InventoryEntry | None:
        return self.inventory.entries.get(self.ref)

    @property
    def step(self) -> ApplyStep | RemoveStep | None:
        """Return the object's step in the plan; None if no run changes it."""
        for applied in self.plan.applies:
            if applied.desired.ref == self.ref:
                return applied
        return next((step for step in self.plan.removals if step.entry.ref == self.ref), None)

    @property
    def is_released(self) -> bool:
        """Return whether the input says that a listed object does not belong to the set."""
        step, entry = self.step, self.entry
        if entry is None or not isinstance(step, RemoveStep):
            return False
        return step.entry.orphan_reason != entry.orphan_reason

    @property
    def desired(self) -> Desired | None:
        return self.step.desired if isinstance(self.step, ApplyStep) else None


def explanation_of(case: ExplainInput) -> Explanation:
    """Return the verdict and the reasons; they contain no values of the object."""
    evidence = (
        *_of_input(case),
        *_of_record(case),
        *_of_live(case),
        *_of_fingerprint(case),
        *_of_order(case),
        *_of_orphaning(case),
        *_of_checks(case),
        *_of_guards(case),
    )
    causes = tuple(_of_problem(case))
    # What keeps the run from going on is not why an object is left as it is.
    is_left = isinstance(case.step, ApplyStep) and case.step.fate is Fate.LEAVE
    reasons = (*evidence, *causes) if is_left else (*causes, *evidence)
    origin = case.desired.origin if case.desired is not None else None
    passed = tuple(_results(case, GuardVerdict.PASSED))
    return Explanation(case.ref, _verdict(case), reasons, origin, passed)


def _of_problem(case: ExplainInput) -> Iterator[str]:
    """Yield why the object would not be applied or deleted: the evidence stands below that."""
    step = case.step
    problem = case.silent if step is None else step.problem
    if problem is not None:
        yield str(problem)
    elif isinstance(step, ApplyStep) and case.is_blocked:
        if others := and_more([fault.desired.ref.short for fault in case.plan.faults], _SHOWN):
            yield f"nothing is applied in this run, because of {others}"
        if case.plan.refusal is not None:
            yield str(case.plan.refusal)


def _of_input(case: ExplainInput) -> Iterator[str]:
    if not case.by_input and case.entry is None:
        yield "no input was given"
    elif not case.by_input:
        yield "no input was given, so this assumes that only this object has left it"
    elif case.hook:
        yield f"it is in the input {case.hook}"
    elif case.silent is not None:
        yield f"it is in the input: {case.silent.location}"
    elif case.is_released:
        yield "it is in the input, which says that it does not belong to the set"
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
    existed = "did not exist" if entry.uid_before_apply is None else "existed"
    uid = f"UID {entry.uid}" if entry.uid else f"no apply was confirmed; before, it {existed}"
    yield f"the inventory lists it: {how} by this set, {uid}"
    if isinstance(case.state, LiveObject) and entry.ownership is Ownership.OWNED:
        has = "has" if has_witness(case.state, case.applyset) else "does not have"
        yield f"it {has} the annotation {OWNED_BY} of this set"
    if entry.deleting:
        stays = isinstance(case.state, LiveObject) and not case.state.terminating
        yield "an earlier run meant to delete it" + " and did not" * stays
    if entry.orphaning:
        yield "an earlier run meant to orphan it and did not record that it has"
    if case.desired is not None and not entry.digest:
        yield "the last applied manifest is unknown"
    elif case.desired is not None:
        yield _of_manifest(case.desired, entry, case)


def _of_manifest(desired: Desired, entry: InventoryEntry, case: ExplainInput) -> str:
    """Return how a manifest differs from the last applied one."""
    if entry.digest != desired.digest:
        return "its manifest is different from the last applied manifest"
    live, manager = case.state, case.applyset.manager
    if not (may_be_secret(desired.body) and isinstance(live, LiveObject)):
        return "its manifest is the same as the last applied manifest"
    is_same = repeats_last_apply(desired, entry, live, manager)
    if is_same is None:
        return "its values were not read, so it is unknown whether its manifest has changed"
    relation = "the same values as" if is_same else "other values than"
    return f"its manifest has {relation} the last applied manifest, by the live ones"


def _of_live(case: ExplainInput) -> Iterator[str]:
    state, entry = case.state, case.entry
    if isinstance(state, Unknown):
        yield f"it could not be read: {state.problem}"
        return
    if isinstance(state, Missing):
        yield "it does not exist" + (", according to a list" * isinstance(state, NotListed))
        return
    recorded = ""
    if entry is not None and entry.uid:
        same = entry.uid == state.uid
        recorded = ", as in the inventory" if same else ", but the inventory has another UID"
    yield f"it exists: UID {state.uid}{recorded}"
    label = state.labels.get(PART_OF, "")
    if label == case.applyset.id:
        yield "it has this set's label"
    elif label:
        yield f"it has the label of another set: {case.owner or label}"
    else:
        yield "it has no set's label"
    manager = case.applyset.manager
    if (applied := own_writer(state, manager)) is not None:
        yield f"{manager} has applied it, {applied.time or 'time unknown'}"
    else:
        yield f"{manager} is not among its field managers"
    if entry is None and (tool := owned_by_tool(state, case.applyset)):
        yield f"its labels or annotations say that it belongs to {tool}"
    if state.terminating:
        blocked = f", blocked by {', '.join(state.finalizers)}" if state.finalizers else ""
        yield f"it is being deleted{blocked}"
    yield from case.unready


def _of_fingerprint(case: ExplainInput) -> Iterator[str]:
    """Yield what has and has not changed since the fingerprint of the last apply."""
    live, entry = case.state, case.entry
    if entry is None or not isinstance(live, LiveObject):
        return
    then = entry.fingerprint
    if then is None:
        yield "no fingerprint of the last apply: the run was interrupted, or the response was lost"
        return
    now = fingerprint_of(live, case.applyset.manager, case.schemas.get(case.ref.group_kind))
    parts = [("the object (resourceVersion)", then.resource_version == live.resource_version)]
    if then.generation is not None or live.generation is not None:
        parts.append(("its spec (generation)", then.generation == live.generation))
    owns = now is not None and now.managed_fields == then.managed_fields
    parts.append(("the fields that the set owns", owns))
    parts.append(("when the set applied it", now is not None and now.time == then.time))
    if case.ref.group_kind in case.schemas:
        parts.append(("its CRD (generation)", then.schema == case.schemas[case.ref.group_kind]))
    changed = [name for name, same in parts if not same]
    if not changed:
        yield "nothing has changed it since the last apply"
        return
    yield f"changed since the last apply: {', '.join(changed)}"
    if same := [name for name, same in parts if same]:
        yield f"not changed since then: {', '.join(same)}"


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
        if case.entry and (unknown := unknown_mark(case.state.metadata, case.ref.group_kind)):
            yield f"never deleted, because {unknown} is not understood"
        if case.entry and (owner := foreign_owner(case.state, case.applyset.manager)):
            yield f"somebody else has set an owner: {owner}"


def _of_checks(case: ExplainInput) -> Iterator[str]:
    step = case.step
    if isinstance(step, ApplyStep) and step.is_checked:
        yield "the server has checked it by a dry run"
    if step is not None and step.not_checked:
        yield step.not_checked


def _of_guards(case: ExplainInput) -> Iterator[str]:
    step = case.step
    if not isinstance(step, RemoveStep):
        return
    if step.ignored:
        yield step.ignored
    if step.problem is not None:
        if step.is_doomed and case.plan.refusal is not None:
            yield str(case.plan.refusal)
        return
    if step.fate is Fate.PRUNE and step.reason:
        yield f"it {step.reason}"
    yield from _results(case, GuardVerdict.LIFTED)  # the refusal has what refuses it
    if case.plan.refusal is not None:
        yield str(case.plan.refusal)
    elif case.plan.no_prune:
        yield f"nothing is pruned in this run: {case.plan.no_prune}"


def _results(case: ExplainInput, verdict: GuardVerdict) -> Iterator[str]:
    """Yield each guard of the object's deletion with this verdict; none of a refused one."""
    step = case.step
    if not isinstance(step, RemoveStep) or step.problem is not None or not step.is_doomed:
        return
    # Without an input, that it is empty says nothing.
    hidden = frozenset() if case.by_input else {Guard.EMPTY_INPUT}
    for result in case.plan.guards:
        if result.verdict is verdict and result.guard not in hidden:
            yield str(result)


def _verdict(case: ExplainInput) -> str:
    step = case.step
    if isinstance(step, ApplyStep):
        verdict = _of_apply(step, case)
        prevented = case.is_blocked and step.request is not None
        return f"{verdict[:-1]}, {_PREVENTED}" if prevented else verdict
    if isinstance(step, RemoveStep):
        verdict = _of_removal(step, case.plan)
        if case.by_input:
            return verdict
        return f"If removed from the input: {verdict[0].lower()}{verdict[1:]}"
    return _REFUSED if case.silent is not None else _of_other(case)


def _of_apply(step: ApplyStep, case: ExplainInput) -> str:
    match step.fate:
        case Fate.CREATE:
            return "It would be created."
        case Fate.LEAVE:
            return _of_leave(step)
        case Fate.RECREATE:
            return f"It would be deleted and recreated: {step.reason}."
        case Fate.CHANGE | Fate.ADOPT:
            cause = "its manifest has changed" if _has_changed(step, case) else _BY_OTHERS
            causes = (step.reason,) if step.fate is Fate.ADOPT else (cause, step.reason)
            return f"It would be applied: {'; '.join(filter(None, causes))}."
        case _:
            return _REFUSED


def _has_changed(step: ApplyStep, case: ExplainInput) -> bool:
    entry, live = case.entry, case.state
    if entry is None or not entry.digest:
        return False
    if not isinstance(live, LiveObject):
        return entry.digest != step.desired.digest
    return repeats_last_apply(step.desired, entry, live, case.applyset.manager) is False


def _of_leave(step: ApplyStep) -> str:
    if step.request is not None:
        return "It would be applied, and nothing would change."
    if step.cause is Cause.CONFLICT_SKIPPED:
        return f"It would be skipped: {step.reason}."
    if step.cause is Cause.LEAVE_MARK:
        return f"It would be left alone: {step.reason}."
    if step.desired.apply is not ApplyRule.ALWAYS:
        return f"Nothing would be sent: {step.reason}."
    reason = step.reason or "it is unchanged since the last apply"
    return f"Nothing would be sent: {reason}. --reapply-all sends it anyway."


def _of_removal(step: RemoveStep, plan: Plan) -> str:
    if plan.no_prune and step.fate in _REMOVED:
        return f"It would be {_REMOVED[step.fate]}, {_PREVENTED}"
    match step.fate:
        case Fate.PRUNE:
            orphan = f"--orphan {step.entry.ref.short}, or the annotation {ORPHAN_MARK}"
            return f"It would be deleted. To orphan it instead: {orphan}."
        case Fate.ORPHAN if step.cause is Cause.ADOPTED:
            return f"It would be orphaned: {step.reason}. --prune-also adopted would delete it."
        case Fate.ORPHAN:
            return f"It would be orphaned: {step.reason}."
        case Fate.REMOVE_FROM_INVENTORY:
            return f"It would only be removed from the inventory: {step.reason}."
        case Fate.LEAVE:
            return f"It would not be pruned, and stay in the inventory: {step.reason}."
        case _:
            return "It would not be pruned, and stay in the inventory. The reasons below say why."


def _of_other(case: ExplainInput) -> str:
    if isinstance(case.state, LiveObject) and case.state.labels.get(PART_OF) == case.applyset.id:
        check = f"To check: `applyprune inventory check {case.applyset.arguments}`."
        return f"No run changes it: it has the set's label, but is not in the inventory. {check}"
    if case.hook:
        return "No run applies it: applyprune runs no hooks."
    if case.owner or (isinstance(case.state, LiveObject) and PART_OF in case.state.labels):
        return "No run of this set changes it: it belongs to another set."
    if isinstance(case.state, Missing):
        return "No such object, neither in the cluster nor in this set."
    return "No run of this set changes it: it is neither in the input nor in the inventory."
