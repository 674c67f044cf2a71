"""The streams of events that runs with the plans of ``plans.py`` have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from applyprune.cli.reporting import with_finished
from applyprune.engine.context import RunSummary
from applyprune.errors import raise_all
from applyprune.model.events import (
    Finished,
    InventoryWritten,
    ObjectDiff,
    ObjectDone,
    Phase,
    Planned,
    PruneBlocked,
    Started,
    WarningRaised,
)
from applyprune.model.fate import Fate
from applyprune.model.identity import GVK
from applyprune.model.options import Approval, DryRun, HelmHooks, Mode
from applyprune.model.plan import ApplyStep, Guard, Plan, Removals, RemoveStep
from applyprune.model.problem import Manifest
from applyprune.planning.approval import is_blocked, with_approval, without_unapproved
from applyprune.planning.desired import find_hooks, hooks_refusal
from applyprune.planning.plan import apply_forecast, forecast, not_pruned
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.output.plans import ALLOWED, DELETION, REFUSED, applied, refused_by, wanted
from tests.support.planning import CATALOGUE, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from applyprune.model.events import Event
    from applyprune.model.options import Options

_ELAPSED = 1.2


def started(mode: Mode = Mode.APPLY, dry_run: DryRun = DryRun.OFF) -> Started:
    """Return the beginning of a run on the set."""
    return Started("run1", mode, "web", "home", dry_run)


def finished(summary: RunSummary) -> Finished:
    """Return the end of a run, which always takes the same time."""
    return replace(summary.finished(), elapsed=_ELAPSED)


def ended_by(refuse: Callable[[], object], *before: Event) -> Iterator[Event]:
    """Yield the events of a run up to the error that this call raises, and its end."""

    def events() -> Iterator[Event]:
        yield from before
        refuse()

    for event in with_finished(events()):
        yield replace(event, elapsed=_ELAPSED) if isinstance(event, Finished) else event


def previewed(plan: Plan, mode: Mode = Mode.APPLY, *, diff: bool = False) -> Iterator[Event]:
    """Yield the events of ``plan``, of ``diff`` and of a dry run."""
    summary, options = RunSummary("run1", dry=True), options_of(mode=mode)
    summary.held = is_blocked(plan, options)
    yield started(mode, DryRun.SERVER)
    yield from map(WarningRaised, plan.warnings)
    yield Planned(plan)
    diffs = {each.ref: each for each in _diffs(plan)} if diff else {}
    for done in forecast(plan, options):
        if done.ref in diffs:
            yield diffs[done.ref]
        yield from summary.counted((done,))
    yield from _blocked(plan, summary)
    yield finished(summary)


def ran(plan: Plan, mode: Mode = Mode.APPLY, **given: Any) -> Iterator[Event]:
    """Yield the events of a run that does what its plan says, or that its plan stops."""
    summary, options = RunSummary("run1"), options_of(mode=mode, **given)
    yield started(mode)
    yield from map(WarningRaised, plan.warnings)
    yield Planned(plan)
    if is_blocked(plan, options):
        summary.held = True
        refused = (step for step in plan.applies if step.problem is not None)
        yield from summary.counted(map(apply_forecast, refused))
        yield from summary.counted(not_pruned(step, plan.no_prune) for step in plan.removals)
    else:
        yield InventoryWritten(Phase.BEFORE_APPLY, 20, 4)
        yield from summary.counted(_done(plan, options))
        yield InventoryWritten(Phase.FINAL, 16, 6)
    yield from _blocked(plan, summary)
    yield finished(summary)


def _blocked(plan: Plan, summary: RunSummary) -> Iterator[Event]:
    if plan.refusal is not None:
        summary.refusal = plan.refusal
        yield PruneBlocked(plan.refusal)


def _done(plan: Plan, options: Options) -> Iterator[ObjectDone]:
    """Yield how each object ends: as the plan says, with the reason of its step."""
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *plan.removals)
    reasons = {step.entry.ref: step.reason for step in steps if step.fate is not Fate.PRUNE}
    for done in forecast(replace(plan, applies=tuple(map(_plain, plan.applies))), options):
        yield replace(done, reason=reasons.get(done.ref, "")) if not plan.no_prune else done


def _plain(step: ApplyStep) -> ApplyStep:
    return replace(step, not_checked="")


def _diffs(plan: Plan) -> Iterator[ObjectDiff]:
    for step in plan.applies:
        if step.fate.is_applied:
            before = None if step.fate is Fate.CREATE else {"data": {"k": "1"}}
            after = {"data": {"k": "2"}}
            origin = step.desired.origin
            yield ObjectDiff(step.desired.ref, step.fate, before, after, origin, step.not_checked)
    for removal in () if plan.no_prune else plan.removals:
        if removal.fate is Fate.PRUNE:
            before = {"data": {"k": "1"}}
            yield ObjectDiff(
                removal.entry.ref, removal.fate, before, None, not_checked=removal.not_checked
            )


def _hooks(*names: str) -> Iterator[Event]:
    """Yield the events of an input with chart hooks, which the user has not decided about."""
    manifests = []
    for line, name in enumerate(names, 1):
        one = wanted(name, "Job", line, metadata={"annotations": {"helm.sh/hook": "pre-install"}})
        gvk = GVK("batch", "v1", "Job")
        manifests.append(Manifest(gvk, "home", name, one.packed, one.origin))
    hooks, *_ = find_hooks(manifests, CATALOGUE, "home", options_of())
    yield from ended_by(partial(raise_all, [*hooks_refusal(hooks, HelmHooks.REFUSE)]), started())


def _unapproved(approval: Approval) -> Iterator[Event]:
    plan = without_unapproved(
        replace(ALLOWED, guards=(), warnings=()), options_of(approval=approval), takes_set=False
    )
    return ran(plan, approval=approval)


def _approved_otherwise() -> Iterator[Event]:
    """Yield the events of a run whose approval is of other deletions than its plan has."""
    approved = f"sha256:{'e' * 64}"
    lifted = Removals(ALLOWED.removals, ALLOWED.guards, None)
    plan = replace(_few(Guard.MAX_PRUNE), if_approved=lifted)
    refused = with_approval(plan, TARGET, options_of(approved=approved))
    refused = replace(refused, digest=plan.digest, warnings=plan.warnings)
    return ran(refused, approved=approved)


def _few(guard: Guard) -> Plan:
    """Return a plan that this guard refuses, with few objects."""
    plan = refused_by(guard)
    applies, removals = (applied(Fate.CHANGE, "settings"),), plan.removals[:1]
    return replace(plan, applies=applies, removals=removals, warnings=(), consequences=())


REFUSALS: Mapping[str, Sequence[Event]] = {
    "one chart hook": tuple(_hooks("migrate")),
    "two chart hooks": tuple(_hooks("migrate", "seed")),
    "plan not approved": tuple(_unapproved(Approval.ALWAYS)),
    "deletions not approved": tuple(_unapproved(Approval.PRUNE)),
    "other deletions approved": tuple(_approved_otherwise()),
    **{f"guard {guard}": tuple(ran(_few(guard))) for guard in Guard},
}
"""Runs that stop for one reason, each under its name."""
STREAMS: Mapping[str, Sequence[Event]] = {
    "allowed": tuple(previewed(ALLOWED)),
    "allowed-diff": tuple(previewed(ALLOWED, diff=True)),
    "allowed-apply": tuple(ran(ALLOWED)),
    "refused": tuple(previewed(REFUSED)),
    "refused-apply": tuple(ran(REFUSED)),
    "deletion": tuple(previewed(DELETION, Mode.DELETE)),
    "deletion-run": tuple(ran(DELETION, Mode.DELETE)),
}
