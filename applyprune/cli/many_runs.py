"""The verbs that run many sets: ``apply``, ``plan`` and ``diff`` with ``--all-in``.

One connection, one stream of events, one end. What is wrong with the files of any set ends the
command before a cluster is asked; what is wrong with the input of a set ends only that set.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from applyprune.api.sets import ApplySet
from applyprune.cli.advice import add_advice, with_rights
from applyprune.cli.config import conditions_at
from applyprune.cli.confirmation import Confirmation, show_events
from applyprune.cli.many_sets import ConcernedSets, concerned_by, sets_of_call
from applyprune.cli.options import Ask, is_given
from applyprune.cli.reporting import with_finished
from applyprune.cli.session import input_reader, namespace_of, open_session
from applyprune.cluster.shared_reads import MOST, SharedReads
from applyprune.engine.set_runs import SetRun, SetRuns
from applyprune.errors import (
    ApplypruneError,
    Interrupted,
    PlanOutdated,
    RunFailed,
    UsageError,
    raise_all,
)
from applyprune.model.events import Finished, Planned, SetEvent, SetsBegan, WarningRaised
from applyprune.model.fate import Outcome
from applyprune.model.identity import SetKey
from applyprune.model.options import DryRun, Mode, WaitMode
from applyprune.model.text import and_more, counted
from applyprune.output.plan_text import plan_table, record_lines
from applyprune.output.progress import LiveDisplay
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.approval import (
    PlanFiles,
    changes_anything,
    is_blocked,
    needed_consent,
    with_own_approval,
)
from applyprune.planning.between_sets import SetInput, between_sets
from applyprune.sources import Input
from applyprune.sources.plan_files import refuse_unwritable, write_plan
from applyprune.sources.tree import shown_path
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import click

    from applyprune.cli.many_sets import SetCall, SetCalls
    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths, Session
    from applyprune.cli.target import ClusterTarget, Condition
    from applyprune.engine.ports import Cancellation
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Problem
    from applyprune.output.terminal import Terminal
    from applyprune.planning.approval import Consent, PlanFile
    from applyprune.planning.world import CommandSets

Ending: TypeAlias = "Callable[[Iterator[Event]], Iterator[Event]]"
"""Changes how the events of a set end."""
_SHOWN = 5


class ManySets(Struct, frozen=True):
    """The sets of one command, of one cluster."""

    calls: SetCalls
    concerned: ConcernedSets
    """Those that the command is about."""
    cluster_target: ClusterTarget
    """The cluster of all of them, with the conditions of each."""
    plans: Mapping[SetKey, PlanFile] | None = None
    """The plan that each is bound to; None for whatever they plan themselves."""

    @property
    def keys(self) -> Sequence[SetKey]:
        """Return the sets that the command is about."""
        return [one.found.key for one in self.concerned.sets]


def many_sets(
    ctx: click.Context,
    folder: str,
    since: str | None,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    plans: PlanFiles | None = None,
) -> ManySets:
    """Return the sets of a call; raise all that is wrong with their files.

    With ``plans``, only those sets are meant that have one.
    """
    calls = sets_of_call(ctx, folder, namespace_of(cluster_target), reporting)
    found = concerned_by(calls, folder, since) if since else ConcernedSets(calls.sets)
    bound = None if plans is None else _plans_of(plans, calls)
    if plans is not None and bound is not None:
        sets = [one for one in calls.sets if one.found.key in bound]
        removed = tuple(dict.fromkeys((*found.removed, *plans.removed)))
        found = replace(found, sets=sets, removed=removed)
    conditions: dict[Condition, None] = {}
    for call in found.sets:
        conditions |= dict.fromkeys(call.values["cluster_target"].conditions)
        paths: InputPaths | None = call.values.get("paths")
        if paths is not None and paths.at and not is_given("context", ctx):
            conditions |= dict.fromkeys(conditions_at(paths.paths, paths.at))
    target = replace(cluster_target, context=calls.context, conditions=tuple(conditions))
    return ManySets(calls, found, target, bound)


def _plans_of(plans: PlanFiles, calls: SetCalls) -> Mapping[SetKey, PlanFile]:
    """Return the plan of each set; raise UsageError for plans of sets that are not there."""
    found = {SetKey(one.namespace, one.name): one for one in plans.files}
    if lost := [str(key) for key in found.keys() - {one.found.key for one in calls.sets}]:
        raise UsageError(
            f"the plan has sets that are not below {plans.folder}: {and_more(lost, _SHOWN)}",
            hint="Run this in the folder in which the plan was made, and make it again if sets "
            "have gone.",
        )
    return found


def look_at_many(
    many: ManySets,
    looking: Callable[..., Options],
    output: PlansOutput | None = None,
    ended: Ending | None = None,
) -> Iterator[Event]:
    """Show what an apply of all sets would do; ``looking`` makes the options of a dry run."""

    def options_of(call: SetCall) -> Options:
        options: Options = looking(call.values["options"], check=call.values["check"])
        return options

    return run_many(many, options_of, Inputs(many), ended=ended, output=output)


def apply_many(many: ManySets, reporting: Reporting, *, yes: bool) -> int:
    """Apply all sets, and return the exit code; on a terminal, show the plans first, and ask."""
    asks = [call.values["ask"] for call in many.concerned.sets]
    ask_for = next((one for one in Ask if one in asks), Ask.DELETIONS)  # the strictest comes first
    confirmation = Confirmation(reporting, yes, ask_for=ask_for)

    def options_of(call: SetCall) -> Options:
        options: Options = call.values["options"]
        check = call.values["check"] and many.plans is None
        options = replace(options, mode=Mode.APPLY, check=check)
        if many.plans is not None:
            return with_own_approval(options, many.plans[call.found.key])
        # The digest is of one of the sets; the others prune what no guard refuses.
        return replace(options, prune=replace(options.prune, only_approved=False))

    def events() -> Iterator[Event]:
        is_dry = any(options_of(one).dry_run is not DryRun.OFF for one in many.concerned.sets)
        agreed, inputs = None, Inputs(many)
        if confirmation.can_ask and not (is_dry or yes or ask_for is Ask.NEVER):
            agreed = _agreed(many, options_of, inputs, confirmation)
        yield from run_many(many, options_of, inputs, agreed=agreed)

    return reporting.print_events(events(), plan_is_shown=confirmation.can_ask)


def _agreed(
    many: ManySets,
    options_of: Callable[[SetCall], Options],
    inputs: Inputs,
    confirmation: Confirmation,
) -> Mapping[SetKey, Consent]:
    """Show the plan of each set, and return what somebody agrees to; raise Declined after a no."""
    reporting = confirmation.reporting
    plans: dict[SetKey, Plan] = {}

    def looking(call: SetCall, *, compares: bool = False) -> Options:
        options = options_of(call)
        diff = replace(options.diff, enabled=True) if compares else options.diff
        return replace(options, dry_run=DryRun.SERVER, diff=diff)

    failed: list[str] = []
    with closing(LiveDisplay(reporting.terminal)) as live:
        for event in run_many(many, looking, inputs):
            live.show(event)
            match event:
                case SetEvent(key=key, event=Planned(plan=found)):
                    plans[key] = found
                case SetEvent(key=key, event=Finished(exit_code=code)) if code:
                    failed.append(str(key))
    changing = [
        (call, plan)
        for call in many.concerned.sets
        if (plan := plans.get(call.found.key)) is not None
        and changes_anything(plan)
        and not is_blocked(plan, looking(call))
    ]
    needed = {call.found.key: needed_consent(plan, Mode.APPLY) for call, plan in changing}
    if any(
        confirmation.needs_answer(plan, needed[call.found.key], frozenset())
        for call, plan in changing
    ):
        _show_plans(changing, reporting.terminal)
        if failed:
            reporting.terminal.err(f"cannot be applied: {and_more(sorted(failed), _SHOWN)}")

        def details() -> None:
            compared = partial(looking, compares=True)
            show_events(reporting.terminal, run_many(many, compared, inputs), "diff")

        sets = counted(len(changing), "set")
        confirmation.ask(f"the apply of {sets}", f"Apply these changes to {sets}?", details=details)
    return needed


def _show_plans(plans: Sequence[tuple[SetCall, Plan]], terminal: Terminal) -> None:
    width, _ = terminal.size()
    for call, plan in plans:
        key = call.found.key
        applyset = ApplySetIdentity(key.name, key.namespace)
        terminal.err(f"{key.name} in namespace {key.namespace} ({call.found.folder}):")
        terminal.err(plan_table(plan, Mode.APPLY, applyset, width))
        if records := "\n".join(record_lines(plan, width)):
            terminal.err(records)


def run_many(
    many: ManySets,
    options_of: Callable[[SetCall], Options],
    inputs: Inputs,
    *,
    agreed: Mapping[SetKey, Consent] | None = None,
    ended: Ending | None = None,
    output: PlansOutput | None = None,
) -> Iterator[Event]:
    """Run all sets, and yield the events of each, and one end for all of them.

    ``options_of`` returns the options of one set, and ``agreed`` has what somebody has agreed to
    for each; None if nobody was asked. ``ended`` changes how the events of a set end.
    """
    began = time.monotonic()
    if output is not None:
        refuse_unwritable(output.path)
    yield SetsBegan(len(many.keys))
    yield from map(WarningRaised, many.concerned.notes)
    if not many.keys:
        if output is not None:
            output.write((), many.concerned.removed)
        yield Finished({}, 0, time.monotonic() - began)
        return
    with open_session(many.cluster_target) as session:
        inputs.read(session.stop)
        order, reads = many.calls.order, _Reads(session)
        needed = order.needed_by(many.keys)
        runs = {}
        for call in many.concerned.sets:
            key, options = call.found.key, options_of(call)
            if key in needed:
                # What others depend on must be ready, too.
                options = replace(options, wait=replace(options.wait, mode=WaitMode.ALL))
            consent = None if agreed is None else agreed.get(key, frozenset())
            bound = None if many.plans is None else many.plans[key]
            runs[key] = _Run(key, inputs.of[key], options, session, reads, consent, bound, ended)
        between = between_sets(
            SetInput(key, one.input.given, one.options)
            for key, one in runs.items()
            if one.input.given is not None
        )
        for key, found in between.errors.items():
            runs[key].errors += found
        folders = {call.found.key: call.found.folder for call in many.concerned.sets}
        every = SetRuns(
            {key: SetRun(folders[key], one.events) for key, one in runs.items()},
            order,
            between,
            session.stop,
            many.concerned.removed,
            [key for key, one in runs.items() if one.input.given is None],
            is_dry=all(one.options.dry_run is not DryRun.OFF for one in runs.values()),
        )
        session.cluster.remember_kinds()
        yield from session.reported(every.events())
        if output is not None:
            plans = [(one.plan, one.options, one.applyset) for one in runs.values()]
            output.write(plans, many.concerned.removed)
        yield _end(every, time.monotonic() - began)


class Inputs:
    """The input of each set, which is read once: what is applied is what was shown."""

    def __init__(self, many: ManySets) -> None:
        """Take the sets; nothing is read yet."""
        self._calls = many.concerned.sets
        self.of: dict[SetKey, _SetInput] = {}

    def read(self, stop: Cancellation) -> None:
        """Read the inputs that are not read yet; raise Interrupted."""
        for call in self._calls:
            stop.check(is_unchanged=True)
            if call.found.key not in self.of:
                self.of[call.found.key] = _input_of(call)


class _SetInput(Struct, frozen=True):
    """The input of one set."""

    given: Input | None
    """None if it cannot be read."""
    warnings: Sequence[Problem]
    error: ApplypruneError | None = None


def _input_of(call: SetCall) -> _SetInput:
    warnings: list[Problem] = []
    try:
        return _SetInput(input_reader(call.values["paths"])(warn=warnings.append), warnings)
    except ApplypruneError as error:
        return _SetInput(None, warnings, error)


class _Reads:
    """What runs that begin at about the same time read together; thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = Lock()
        self._shared: SharedReads | None = None
        self._left: set[SetKey] = set()

    def of(self, upcoming: Sequence[SetKey]) -> SharedReads:
        """Return the reads for the first of these sets; the others begin soon, and share them."""
        key = upcoming[0]
        with self._lock:
            if self._shared is None or key not in self._left or not self._shared.is_fresh:
                sets = [ApplySetIdentity(one.name, one.namespace) for one in upcoming[:MOST]]
                self._shared = SharedReads(self._session.cluster.client, sets)
                self._left = set(upcoming[:MOST])
            self._left.remove(key)
            return self._shared


class _Run(Struct):
    """One of the sets, and its runs."""

    key: SetKey
    input: _SetInput
    options: Options
    session: Session
    reads: _Reads
    agreed: Consent | None
    bound: PlanFile | None
    ended: Ending | None
    errors: list[ApplypruneError] = field(default_factory=list)
    """What is wrong with its input beside that of others."""
    plan: Plan | None = None
    """What it has planned, if all of it can be done."""

    @property
    def applyset(self) -> ApplySet:
        """Return the set."""
        return ApplySet(self.key.name, self.key.namespace, cluster=self.session.cluster)

    def events(self, command: CommandSets, upcoming: Sequence[SetKey]) -> Iterator[Event]:
        """Yield the events of one run; an error is the last but one."""
        events = self._checked(command, self.reads.of(upcoming))
        return with_finished(events if self.ended is None else self.ended(events))

    def _checked(self, command: CommandSets, reads: SharedReads) -> Iterator[Event]:
        """Yield the events of a run that does no more than somebody has agreed to."""
        yield from map(WarningRaised, self.input.warnings)
        given = self.input.given or Input()
        raise_all([*filter(None, (self.input.error,)), *self.errors])
        cluster, stop, applyset = self.session.cluster, self.session.stop, self.applyset
        events = applyset.iter_run_among(
            given, self.options, command, stop, plan=self.bound, reads=reads
        )
        try:
            for event in with_rights(events, applyset.identity, given):
                if isinstance(event, Planned):
                    self.plan = event.plan
                    self._refuse_more(event.plan)
                elif isinstance(event, Finished) and event.counts.get(Outcome.FAILED):
                    self.plan = None
                    cluster.client.forget()
                yield event
        except ApplypruneError as error:
            add_advice(error, applyset.identity, cluster)
            raise

    def _refuse_more(self, plan: Plan) -> None:
        if self.agreed is None or is_blocked(plan, self.options):
            return
        # guard: agreed-for-each-set never
        if not needed_consent(plan, self.options.mode) <= self.agreed:
            raise PlanOutdated(
                f"the set {self.key} needs more than you have agreed to",
                reason="the cluster has changed since the question",
                hint="It goes no further. Run the same command again.",
            )


class PlansOutput(Struct, frozen=True):
    """The plan file of all sets that one call writes."""

    reporting: Reporting
    folder: str
    path: str
    expires_in: float
    """Seconds."""

    def write(
        self,
        plans: Sequence[tuple[Plan | None, Options, ApplySet]],
        removed: Sequence[SetKey],
    ) -> None:
        """Write the file, if the plan of each set can be applied or approved."""
        files = []
        for plan, options, applyset in plans:
            if plan is None:
                name = SetKey(applyset.namespace, applyset.name)
                self._say(f"was not written: the plan of the set {name} cannot be applied")
                return
            files.append(
                applyset.plan_file(
                    plan, options=options.apply, prune=options.prune, expires_in=self.expires_in
                )
            )
        write_plan(self.path, PlanFiles(self.folder, tuple(files), tuple(removed)))
        until = f"{files[0].expires:%Y-%m-%d %H:%M UTC}" if files else ""
        self._say(f"was written: the plans are valid until {until}" if files else "has no plan")

    def _say(self, text: str) -> None:
        if not self.reporting.quiet:
            self.reporting.terminal.err(f"{shown_path(self.path)} {text}")


def _end(every: SetRuns, elapsed: float) -> Finished:
    """Return the end of the command: the code of what failed, 3 if sets failed differently."""
    counts: Counter[Outcome] = Counter()
    for one in every.finished.values():
        counts.update(one.counts)
    if every.cancellation.requested:
        error = _interrupted(every)
        return Finished(dict(counts), error.exit_code, elapsed, error.problem)
    # A set that was not run does not decide it.
    codes = {every.finished[key].exit_code for key in every.begun}
    failed = [str(key) for key in every.finished if every.finished[key].exit_code > 1]
    if not failed:
        return Finished(dict(counts), max(codes, default=0), elapsed)
    names = and_more(failed, _SHOWN)
    failure = RunFailed(f"{len(failed)} of the {len(every.finished)} sets failed: {names}")
    worst = codes - {0, 1}
    code = worst.pop() if len(worst) == 1 else failure.exit_code
    return Finished(dict(counts), code, elapsed, replace(failure.problem, exit_code=code))


def _interrupted(every: SetRuns) -> ApplypruneError:
    """Return the error of a command that a signal has ended, with what it has done."""
    code = every.cancellation.exit_code
    cut = [str(key) for key in every.begun if every.finished[key].exit_code == code]
    parts = [
        counted(len(every.begun) - len(cut), "set", "is", "are") + " done",
        counted(len(every.runs) - len(every.begun), "has", "have") + " not begun",
    ]
    if cut:
        parts.insert(1, f"{and_more(sorted(cut), _SHOWN)} {'was' if len(cut) == 1 else 'were'} cut")
    error = Interrupted(code - 128)
    error.problem = replace(error.problem, reason=", ".join(parts))
    return error
