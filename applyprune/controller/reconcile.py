"""One reconcile of a Bundle, from its spec to its status.

It reads what the Bundle is made of, applies that in one run, and reports the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from applyprune.clock import BOOT_CLOCK, CLOCK
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.controller.clients import (
    AccountMissing,
    BundleObjects,
    Impersonation,
    ServiceAccountClient,
    request_of,
    status_of,
)
from applyprune.controller.clusters import AwaitsTurn, OtherClusters, Target
from applyprune.controller.drift import (
    counts_before,
    drift_report,
    is_new_attempt,
    winning_writers,
)
from applyprune.controller.pending_plan import pending_plan, withheld_sets
from applyprune.controller.queue import with_jitter
from applyprune.controller.reasons import DriftPolicy, Key, Reason
from applyprune.controller.removal import Finalizer, read_deleted, removed_by
from applyprune.controller.report import Reporter, WarningLog, log_event, utc_now
from applyprune.controller.result import (
    RunResult,
    collect,
    count_elsewhere,
    error_message,
    new_result,
    observation_in,
    planned_refs,
    problem_message,
    reason_of,
)
from applyprune.controller.sources import (
    FoundSource,
    LoadedSource,
    SourceAwaited,
    SourceMissing,
    SourceNeeds,
    SourceReader,
    found_source,
)
from applyprune.controller.spec import (
    BundleSpec,
    Dependency,
    GitSpec,
    InvalidSpec,
    OciSpec,
    read_bundle,
)
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    has_waited,
    is_bundle_ready,
    next_reconcile,
    observes_generation,
    progressing_status,
    unwatched_in,
    unwritten_answer,
    with_elsewhere,
)
from applyprune.controller.task import (
    ABSENT,
    MOST_WATCHED,
    Answer,
    AppliedObjects,
    ReconcileHistory,
    SeenState,
    SiblingFacts,
    SourceObjects,
    SourceState,
    Task,
    Unwatched,
)
from applyprune.engine.context import RunRequest
from applyprune.engine.ports import Cancellation
from applyprune.engine.run import run
from applyprune.errors import ApplypruneError, Conflict, Interrupted, NotFound, problems_of
from applyprune.model.events import Event, Planned, Status
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import RunSource
from applyprune.model.live import LiveObject
from applyprune.model.options import Approval, Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import ProblemKind
from applyprune.planning.cel import compile_rule
from applyprune.planning.marks import APPROVE, FINALIZER
from applyprune.planning.ownership import foreign_label
from applyprune.planning.server_errors import denied_account
from applyprune.planning.world import Siblings
from applyprune.sources.tree import error_of
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.controller.pending_plan import PendingPlan
    from applyprune.model.inventory import HolderObservation
    from applyprune.model.plan import ApplyStep

_INVALID_SPEC_DELAY = 600.0
"""Seconds until the next look at a Bundle with an invalid spec."""
_SHORT_RUN = 20
"""How many objects a run sends or removes within a moment."""
_UNTIL_CHANGE = frozenset({Reason.SUSPENDED, Reason.FETCHING})
"""The reasons that only a change ends, of the Bundle or of its source."""
_NOT_FOUND = {
    AccountMissing: Reason.SERVICE_ACCOUNT_NOT_FOUND,
    SourceMissing: Reason.SOURCE_NOT_FOUND,
}


class Reconciler(Struct):
    """Reconciles Bundles, one at a time; it keeps nothing of one for the next."""

    bundles: BundleObjects
    impersonation: Impersonation
    clusters: OtherClusters
    sources: SourceReader
    reporter: Reporter
    _current: OneReconcile | None = None
    _ended: bool = False

    def reconcile(self, task: Task) -> Answer:
        """Reconcile a Bundle once.

        Raises ApplypruneError if not even the Bundle's status could be written.
        """
        self._current = current = OneReconcile(
            self.bundles,
            self.impersonation,
            self.clusters,
            self.sources,
            self.reporter,
            task.key,
            task.history,
            task.drifted,
            WarningLog(task.key, task.history.warned),
            task.source,
            task.unwatched,
            task.undecided,
        )
        if self._ended:
            current.stop.request(0)
        try:
            return current.run()
        except Interrupted:
            # The Bundle changed in between, or the process ends.
            return Answer(0.0, task.history)
        except AwaitsTurn as turn:
            history = replace(task.history, cluster=turn.cluster)
            return replace(current.answer, delay=0.0, history=history)
        finally:
            self._current = None

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the reconcile of an older generation of a Bundle; None ends any; thread-safe.

        What is in flight is finished and recorded.
        """
        current = self._current
        if current is not None and current.key == key:
            current.cut_off(generation)

    def end(self) -> None:
        """End the reconcile that is under way, and every later one; thread-safe."""
        self._ended = True
        if (current := self._current) is not None:
            current.stop.request(0)


class OneReconcile(Struct):
    """One reconcile of one Bundle, as far as it has come."""

    bundles: BundleObjects
    impersonation: Impersonation
    clusters: OtherClusters
    sources: SourceReader
    reporter: Reporter
    key: Key
    history: ReconcileHistory
    drifted: frozenset[Ref]
    """The objects that may have drifted; empty for the whole set."""
    warnings: WarningLog
    source_state: SourceState | None = None
    """What is known of its source on another host; None if nothing is."""
    unwatched: str | None = None
    """Why not all of its objects are watched; "" if they are, None if nobody knows."""
    undecided: tuple[str, ...] | None = None
    """The siblings that may still take what leaves its set; None if they are not known."""
    loaded: SourceState | None = None
    """The state of the source that it applies; None if it came not so far, or has none."""
    stop: Cancellation = field(default_factory=Cancellation)
    generation: int | None = None
    """The generation that it works on; None before it has read the Bundle."""
    newest: int = 0
    """The newest generation that a watch has seen since the beginning."""
    run_result: RunResult = field(default_factory=RunResult)
    revision: str = ""
    answer: Answer = field(default_factory=lambda: Answer(None))
    """The answer so far."""
    is_part: bool = False
    """Whether its run was about the drifted objects only."""
    marked: LiveObject | None = None
    """The Bundle as marked as progressing; None if it was not."""
    gives: bool = False
    """Whether it has offered something although it waits for a dependency."""
    is_new_source: bool = False
    """Whether its source was written since the last run, if a revision may not show that."""

    def cut_off(self, generation: int | None) -> None:
        """End it if it works on an older generation, or will; None ends it anyway."""
        self.newest = max(self.newest, generation or 0)
        if generation is None or self.newest > (self.generation or self.newest):
            self.stop.request(0)

    def run(self) -> Answer:
        """Reconcile the Bundle; raises Interrupted when it has changed meanwhile."""
        began = CLOCK.now()
        self.stop.check()
        live = self.bundles.get(self.key)
        if live is None:
            return Answer(None, gone=True)
        self.generation = live.generation
        if self.newest > (self.generation or 0):
            # It was changed while it was read.
            raise Interrupted(0)
        if live.terminating:
            return self._remove(live, began)
        try:
            bundle = self.clusters.owning(read_bundle(live))
        except InvalidSpec as error:
            message = problem_message(problems_of(error)[0])
            result = ReconcileResult(ConditionStatus.NOT_READY, Reason.INVALID_SPEC, message)
            measured = self.reporter.report(live, result, CLOCK.now() - began)
            return Answer(with_jitter(_INVALID_SPEC_DELAY), self.history, measured=measured)
        except ApplypruneError as error:
            # The controller may not read the UID of its own cluster.
            result = failed_result(error, self.run_result, self.revision)
            measured = self.reporter.report(live, result, CLOCK.now() - began)
            return replace(unwritten_answer(self.history), measured=measured)
        self.run_result = new_result(bundle)
        self.answer = replace(self.answer, sibling=sibling_facts(bundle))
        if bundle.spec.kube_config is None:
            self.history = replace(self.history, cluster="")
        live, result = self._apply(live, bundle)
        result = with_rights_named(result, bundle)
        if result.reason is Reason.FETCHING and observes_generation(
            status_of(live), live.generation
        ):
            # For example after a restart: what the status says still holds, and others may wait.
            return replace(self.answer, delay=_fallback(bundle), history=self.history)
        self._keep_warnings(is_whole=self.run_result.plan is not None and not self.is_part)
        live = self.marked or live
        unwatched = why_unwatched(live, bundle, self.run_result, self.unwatched)
        result = replace(result, source=self.loaded, handles=self._handles(live))
        result = with_drift_reported(
            result,
            live,
            bundle,
            is_part=self.is_part,
            unwatched=unwatched,
            is_new_source=self.is_new_source,
        )
        if result.ready is ConditionStatus.NOT_READY:
            self.impersonation.forget()
        measured = self.reporter.report(live, result, CLOCK.now() - began, bundle)
        if not self.is_part:
            told = sibling_facts(bundle, self.run_result, self.loaded)
            told = replace(told, gives=told.gives or self.gives)
            self.answer = replace(self.answer, sibling=told)
        fails = fails_to_revert(result, is_for_drift=bool(self.drifted or self.history.unreverted))
        seconds, history = next_reconcile(self.history, bundle, result, fails_to_revert=fails)
        delay: float | None = delay_with_contention(seconds, result)
        if result.reason in _UNTIL_CHANGE:
            delay = _fallback(bundle)
        return replace(
            self.answer,
            delay=delay_after(delay, result) if self.is_part else delay,
            history=history,
            lacks_kinds=result.reason is Reason.KIND_NOT_FOUND and not history.cluster,
            measured=measured,
        )

    def _apply(self, live: LiveObject, bundle: BundleSpec) -> tuple[LiveObject, ReconcileResult]:
        """Return the Bundle as last stored, and the result of its apply."""
        spec = bundle.spec
        self.answer = replace(self.answer, waits_for=frozenset())
        if spec.suspend:
            self.history = replace(self.history, was_suspended=True)
            return live, ReconcileResult(
                ConditionStatus.SAME, Reason.SUSPENDED, "spec.suspend is true"
            )
        dependencies = {
            one.name: self.bundles.get((bundle.namespace, one.name)) for one in spec.depends_on
        }
        beside = paths_beside(bundle, dependencies)
        if waiting := unready_dependencies(bundle, dependencies, self.bundles):
            self._offer(live, bundle, beside)
            return live, self._dependent(bundle, waiting)
        try:
            with self.impersonation.as_account(
                bundle.namespace, spec.service_account_name, must_exist=True
            ) as own:
                source, kubeconfig = self._source(own, live, bundle, beside)
                if waiting := outdated_dependencies(dependencies, beside, source.state):
                    self._offer(live, bundle, beside)
                    return live, self._dependent(bundle, waiting)  # guard: dependency-of-a-commit
                self.loaded = source.state
                with self.clusters.target(live, bundle, own, kubeconfig, self.history) as target:
                    target.needs_namespace(bundle)
                    live = self._settled(live, target)  # guard: recorded-cluster -> live
                    store = target.client.store(bundle.target)
                    live = self._hold(live, store)  # guard: held-before-run
                    if not self._correct_drift(live, bundle, target.client, source):
                        self._run(live, target.client, store, self._request(live, bundle, source))
                        self._revert_beside_faults(live, bundle, target.client, source)
        except Interrupted:
            raise
        except SourceAwaited as awaited:
            self._check_again(awaited.older_than)
            self.answer = replace(self.answer, waits_for=frozenset(dependencies))
            message = "its source is being fetched"
            return live, ReconcileResult(ConditionStatus.WAITING, Reason.FETCHING, message)
        except (AccountMissing, SourceMissing) as error:
            return live, ReconcileResult(
                ConditionStatus.NOT_READY,
                _NOT_FOUND[type(error)],
                problem_message(problems_of(error)[0]),
                revision=self.revision,
                retries=True,
            )
        except ApplypruneError as error:
            self.stop.check()  # an interrupted reconcile reports no result
            return live, failed_result(error, self.run_result, self.revision)
        self.stop.check()
        unwatched = why_unwatched(live, bundle, self.run_result, self.unwatched)
        objects = applied_objects(
            bundle, self.run_result, is_part=self.is_part, unwatched=unwatched
        )
        self.answer = replace(self.answer, objects=objects)
        if (result := self._waiting(live, bundle)) is not None:
            return live, result
        pending = pending_plan(self.run_result, bundle, live.annotations.get(APPROVE, ""))
        ended = ended_result(self.run_result, self.revision, pending)
        return live, with_source_problem(ended, self.loaded)

    def _offer(self, live: LiveObject, bundle: BundleSpec, beside: Mapping[str, str]) -> None:
        """Offer what has left the set of a Bundle that waits for a dependency.

        That one may fail only because this Bundle has its objects.
        """
        if not (bundle.sibling_key and self.undecided) or FINALIZER not in live.finalizers:
            return
        spec, offering = bundle.spec, new_result(bundle)
        # The dependency is what the Bundle waits for: that says its status.
        with (
            suppress(ApplypruneError, SourceAwaited),
            self.impersonation.as_account(
                bundle.namespace, spec.service_account_name, must_exist=True
            ) as own,
        ):
            source, kubeconfig = self._source(own, live, bundle, beside)
            with self.clusters.target(live, bundle, own, kubeconfig, self.history) as target:
                wanted = self._request(live, bundle, source)
                wanted = replace(wanted, only_offers=True)
                store, client = target.client.store(bundle.target), target.client.cluster
                collect(run(wanted, client, store, self.stop), offering, lambda _: None)
        self.stop.check()
        self.gives = bool(offering.offered)

    def _dependent(self, bundle: BundleSpec, waiting: Sequence[str]) -> ReconcileResult:
        """Return the result of a Bundle that waits for others, for these reasons."""
        names = frozenset(dependency.name for dependency in bundle.spec.depends_on)
        self.answer = replace(self.answer, waits_for=names)
        message = "; ".join(waiting)
        return ReconcileResult(
            ConditionStatus.NOT_READY, Reason.DEPENDENCY_NOT_READY, message, retries=True
        )

    def _keep_warnings(self, *, is_whole: bool) -> None:
        """Keep what was logged; of a run about a part, what was logged before stays known."""
        before = frozenset() if is_whole else self.history.warned
        self.history = replace(self.history, warned=before | self.warnings.now)

    def _handles(self, live: LiveObject) -> bool:
        """Return whether this reconcile handles what reconcile-now asks for.

        A source on another host must have been checked since it was asked for.
        """
        read = self.answer.source
        if read is None or read.remote is None:
            return True
        asked = request_of(live)
        known = self.source_state.handled if self.source_state is not None else ""
        return known == asked  # guard: handled-by-a-check -> True

    def _check_again(self, older_than: str) -> None:
        """Ask for a check that begins later than a time; none if it is empty."""
        read = self.answer.source
        if older_than and read is not None and read.remote is not None:
            remote = replace(read.remote, older_than=older_than)
            self.answer = replace(self.answer, source=replace(read, remote=remote))

    def _source(
        self,
        account_client: ServiceAccountClient,
        live: LiveObject,
        bundle: BundleSpec,
        beside: Mapping[str, str],
    ) -> tuple[LoadedSource, bytes]:
        """Read source and kubeconfig; what they consist of is watched even if it is unreadable."""

        def keep(read: SourceObjects) -> None:
            self.answer = replace(self.answer, source=read)

        asked = request_of(live)
        if self.history.was_suspended:  # guard: checked-after-resume never
            now = self.bundles.client.time_now()
            self.history = replace(self.history, was_suspended=False, resumed=now)
        needs = SourceNeeds(
            self.warnings, asked, beside, self._found_by_others(live), self.history.resumed
        )
        states = self.source_state, self.history.source
        source, kubeconfig = self.sources.read(bundle, account_client.cluster, states, needs, keep)
        self.revision = source.revision
        if source.state is None or not source.state.unusable:
            self.history = replace(self.history, source=source.state)
        return source, kubeconfig

    def _found_by_others(self, live: LiveObject) -> FoundSource | None:
        """Return what another replica has found in the source; None if that does not count."""
        status, client = status_of(live), self.bundles.client
        found = found_source(status)
        if found is None or found.generation != live.generation:
            return None
        is_own = status.get("replica") == self.reporter.replica
        # Of a time that has not come yet, nothing would ever be newer.
        return None if is_own or found.checked > (client.time_now() or "9") else found

    def _settled(self, live: LiveObject, target: Target) -> LiveObject:
        """Return the Bundle with the cluster in its status in which something is applied next.

        Raises Interrupted when the Bundle has changed.
        """
        status = {key: value for key, value in status_of(live).items() if key != "cluster"}
        if target.identity is not None:
            status["cluster"] = target.identity.status
        stored = self.bundles.write_status(live, status)
        if stored is None or stored.generation != live.generation:
            raise Interrupted(0)
        if target.previous:
            self.reporter.changed_cluster(stored, target.previous)
        return stored

    def _hold(self, live: LiveObject, store: ConfigMapStore) -> LiveObject:
        """Return the Bundle with the finalizer, without which no run may write anything.

        A Bundle whose account may not even read the inventory gets none: it can be deleted at once.
        Raises Interrupted when the Bundle has changed.
        """
        if FINALIZER in live.finalizers:
            return live
        store.read_ahead()
        try:
            held = self.bundles.add_finalizer(live)
        except (Conflict, NotFound):
            raise Interrupted(0) from None
        if held.generation != live.generation:
            raise Interrupted(0)
        return held

    def _correct_drift(
        self,
        live: LiveObject,
        bundle: BundleSpec,
        account_client: ServiceAccountClient,
        source: LoadedSource,
    ) -> bool:
        """Set back the drift of the drifted objects alone; return whether that is the result.

        If nothing was written, and something is wrong, a run of the whole set tells what.
        """
        # guard: correction-of-settled -> not (self.drifted)
        if not (self.drifted and may_correct_alone(live, bundle, self.history, self.revision)):
            return False
        whole = self.run_result
        self.run_result = result_of_part(live, bundle)
        store = account_client.store(bundle.target)
        try:
            request = self._request(live, bundle, source, self.drifted)
            self._run(live, account_client, store, request)
        except Interrupted:
            raise
        except ApplypruneError:
            if self.run_result.changed:
                self.is_part = True
                raise
        else:
            self.is_part = self.run_result.changed or self.run_result.exit_code == 0
        if not self.is_part:
            self.run_result = whole
        return self.is_part

    def _revert_beside_faults(
        self,
        live: LiveObject,
        bundle: BundleSpec,
        account_client: ServiceAccountClient,
        source: LoadedSource,
    ) -> None:
        """Revert drift although a fault in the plan has kept the run from writing anything.

        A commit that the server would refuse must not end the care for what is applied already.
        """
        whole = self.run_result
        if not (refs := drift_beside_faults(whole, bundle)):
            return
        part, store = result_of_part(live, bundle), account_client.store(bundle.target)
        request = self._request(live, bundle, source, refs)
        try:
            collect(
                run(request, account_client.cluster, store, self.stop),
                part,
                partial(log_event, self.warnings, request, part),
            )
        except Interrupted:
            raise
        except ApplypruneError:
            pass  # the plan of the whole set says what is wrong, and what has drifted
        whole.add_changes(part)

    def _request(
        self,
        live: LiveObject,
        bundle: BundleSpec,
        source: LoadedSource,
        corrects: frozenset[Ref] = frozenset(),
    ) -> RunRequest:
        history, now = self.history, (live.generation, self.revision)
        # It may be asked for twice in one reconcile.
        self.is_new_source = self.is_new_source or history.version not in {"", source.version}
        if (history.generation, history.revision) != now or self.is_new_source:
            # What an older one was waited for does not count.
            self.history = replace(
                history, generation=now[0], revision=now[1], waiting_since=None, ready_checks=0
            )
        self.history = replace(self.history, version=source.version)
        source = replace(source, is_new=self.is_new_source)
        withholds = partial(withheld_sets, bundle, self.bundles)
        asked = request_of(live)
        is_new = status_of(live).get("lastHandledReconcileAt", "") != asked
        wanted = run_request(
            live,
            bundle,
            source,
            self.history.observation,
            corrects,
            withholds,
            continues=self.history.waiting_since is not None,
            is_asked=bool(asked) and is_new and self._handles(live),
        )
        return replace(wanted, siblings=siblings_of(bundle, self.undecided))

    def _run(
        self,
        live: LiveObject,
        account_client: ServiceAccountClient,
        store: ConfigMapStore,
        request: RunRequest,
    ) -> None:
        run_result = self.run_result

        def each(event: Event) -> None:
            log_event(self.warnings, request, run_result, event)
            if isinstance(event, Planned):
                self._begin(live, event.plan)

        collect(run(request, account_client.cluster, store, self.stop), run_result, each)

    def _begin(self, live: LiveObject, plan: Plan) -> None:
        """Mark the Bundle as progressing, if that may take a while; end the run if it has changed.

        Of a short run, the result says as much. That the set gets objects elsewhere is said first:
        after a crash, nobody else would know that the namespace does not take them with it.
        """
        before = status_of(live)
        refs = planned_refs(plan) if self.run_result.set_size is None else ()
        elsewhere = count_elsewhere(refs, self.run_result.namespace)
        # guard: elsewhere-first -> status = status_now = before
        status = status_now = with_elsewhere(before, elsewhere)
        sent = sum(step.request is not None for step in plan.applies) + len(plan.removals)
        if sent > _SHORT_RUN and status.get("observedGeneration") != live.generation:
            status_now = progressing_status(
                status, live.generation or 0, utc_now(), replica=self.reporter.replica
            )
        if status_now is before:
            return
        self.marked = self.bundles.write_status(live, status_now)
        if self.marked is None or self.marked.generation != live.generation:
            self.stop.request(0)

    def _waiting(self, live: LiveObject, bundle: BundleSpec) -> ReconcileResult | None:
        """Return the result of a run that waits for objects; None if it does not, or too long.

        The wait goes on in later reconciles, so it holds no worker.
        """
        waiting = self.run_result.waiting
        if not waiting:
            self.history = replace(self.history, waiting_since=None, ready_checks=0)
            return None
        now = BOOT_CLOCK.now()
        # Another replica may have waited already.
        waited = has_waited(status_of(live), self.revision, live.generation)
        self.history = self.history.after_ready_check(now, waited=bundle.timeout if waited else 0.0)
        if self.history.has_waited(bundle.timeout, now):
            return None
        return ReconcileResult(
            ConditionStatus.WAITING,
            Reason.PROGRESSING,
            self.run_result.waiting_summary,
            revision=self.revision,
            run_result=self.run_result,
            retries=True,
        )

    def _remove(self, live: LiveObject, began: float) -> Answer:
        """Remove what a deleted Bundle has applied, and look again before its removal ends."""
        deleted = read_deleted(live)
        deleted = replace(deleted, bundle=self.clusters.owning(deleted.bundle))
        if self.history.generation != live.generation:
            # What it was waited for before its deletion, or before a change of it, does not count.
            fresh = replace(
                self.history,
                waiting_since=None,  # guard: removal-waits-anew
                ready_checks=0,
            )
            self.history = replace(fresh, generation=live.generation)
        # Before the removal: it may end in between, and would not be looked at again.
        left = deleted.seconds_left
        bundles, recorder, stop = self.bundles, self.reporter.recorder, self.stop
        readable = deleted.bundle
        with suppress(InvalidSpec):
            readable = read_bundle(live)  # with its source, of which the removal knows nothing
        siblings = siblings_of(readable, self.undecided)
        removal = Finalizer(
            bundles,
            self.impersonation,
            self.clusters,
            recorder,
            stop,
            self.history,
            self.warnings,
            siblings,
        )
        result = removal.finalize(deleted)
        removed = removed_by(self.history, result.run_result)
        self.history = replace(self.history, removed=tuple(removed.items()))
        self._keep_warnings(is_whole=False)
        told = replace(sibling_facts(readable, result.run_result), takes=False)
        self.answer = replace(self.answer, sibling=told)
        if result.done:
            measured = self.reporter.removed(self.key, result, CLOCK.now() - began)
            return Answer(None, gone=True, measured=measured)
        measured = self.reporter.report(live, result, CLOCK.now() - began, deleted.bundle)
        if result.ready is ConditionStatus.WAITING:
            self.history = self.history.after_ready_check(BOOT_CLOCK.now())
        delay, history = next_reconcile(self.history, deleted.bundle, result, removes=True)
        delay = min(delay, left + 1.0) if left > 0 else delay  # guard: late-removal -> delay
        return replace(self.answer, delay=delay, history=history, measured=measured)


# The run that applies a Bundle, and what it tries again or leaves to others.


def run_request(
    live: LiveObject,
    bundle: BundleSpec,
    source: LoadedSource,
    observation: HolderObservation | None,
    corrects: frozenset[Ref] = frozenset(),
    withholds: Callable[[Mapping[str, LiveObject]], Mapping[str, str]] | None = None,
    *,
    continues: bool = False,
    is_asked: bool = False,
) -> RunRequest:
    """Return the run that applies a Bundle; with ``corrects``, only the drift of these objects.

    One that ``continues`` the wait of an earlier run is not checked again. ``is_asked`` says
    whether it is the one that handles a new value of reconcile-now.
    """
    counts = counts_before(live, source.revision, is_new_source=source.is_new)
    options = bundle.options(
        Mode.APPLY,
        approved=live.annotations.get(APPROVE, ""),
        source=source.version,
        contended=winning_writers(counts, bundle.spec.drift.reverts, _now()),
        corrects=corrects,
        continues=continues,
        tries_rewritten=tries_rewritten(live, bundle, source.revision),
        reruns_jobs=is_asked and may_send_again(bundle),
    )
    return RunRequest(
        bundle.target,
        source.manifests,
        bundle.spec.target_namespace or bundle.namespace,
        options,
        ignored=source.ignored,
        who=bundle.owner,
        owner=bundle.owner,
        takes_over=bool(bundle.spec.inventory_name),
        observation=observation,
        withholds=withholds,
        source=lambda: RunSource(bundle.spec.source.shown, source.revision),
    )


# The Bundles with which objects may be exchanged.


_UNKNOWN = ("other Bundles of its source",)


def siblings_of(bundle: BundleSpec, undecided: tuple[str, ...] | None) -> Siblings | None:
    """Return what a run must know of the siblings; None if the Bundle can have none.

    What leaves the set is offered as long as nobody knows them: soon they are known.
    """
    key = bundle.sibling_key
    if not key:
        return None
    names = _UNKNOWN if undecided is None else tuple(f"the Bundle {name}" for name in undecided)
    return Siblings(key, names, takes=_takes_offers(bundle))


def sibling_facts(
    bundle: BundleSpec, result: RunResult | None = None, source: SourceState | None = None
) -> SiblingFacts:
    """Return what the siblings of a Bundle must know after a run of its whole set, if there was."""
    applyset = bundle.target
    facts = SiblingFacts(bundle.sibling_key, applyset.id, takes=_takes_offers(bundle))
    if result is None or result.plan is None or not facts.key:
        return facts
    wanted: defaultdict[Fate, set[str]] = defaultdict(set)
    for step in result.plan.applies:
        label = foreign_label(step.live, applyset) if step.live is not None else ""
        if label and step.desired.ref not in result.written:
            wanted[step.fate].add(label)
    return replace(
        facts,
        has_planned=True,
        content=source.content.content if source is not None and source.content else "",
        refused=frozenset(wanted[Fate.REFUSE]),
        prevented=frozenset(wanted[Fate.ADOPT]),
        gives=bool(result.offered) or bool(result.outcomes[Outcome.ORPHANED]),
    )


def _takes_offers(bundle: BundleSpec) -> bool:
    return not bundle.spec.suspend and bundle.spec.approval is not Approval.ALWAYS


def tries_rewritten(live: LiveObject, bundle: BundleSpec, revision: str) -> bool:
    """Return whether this reconcile sends again what admission has rewritten.

    Once, because whoever has changed or asked for something may have removed the webhook too.
    """
    is_rewritten = bool(status_of(live).get("rewritten"))
    return may_send_again(bundle) and is_rewritten and is_new_attempt(live, revision)


def may_send_again(bundle: BundleSpec) -> bool:
    """Return whether one reconcile may send what the next one would leave alone."""
    spec = bundle.spec
    # A plan that waits for an approval would not be the same in the next reconcile.
    return spec.drift.policy is DriftPolicy.CORRECT and spec.approval is not Approval.ALWAYS


# The Bundles that a Bundle depends on.


_MAX_SEEN = 100


Dependencies: TypeAlias = "Mapping[str, LiveObject | None]"
"""The Bundles that a Bundle depends on, by name; None for one that does not exist."""


def unready_dependencies(
    bundle: BundleSpec, dependencies: Dependencies, bundles: BundleObjects
) -> Sequence[str]:
    """Return why dependencies of a Bundle are not ready; empty when all are ready."""
    reasons = [
        reason
        for dependency in bundle.spec.depends_on
        if (reason := _reason(dependency, dependencies[dependency.name]))
    ]
    if reasons and (cycle := _cycle(bundle, bundles)):
        reasons.append(f"they depend on each other: {' → '.join(cycle)}")
    return reasons


def paths_beside(bundle: BundleSpec, dependencies: Dependencies) -> Mapping[str, str]:
    """Return the paths of the dependencies that have the very same source, by their names."""
    own, found = bundle.spec.source.remote, {}
    for dependency in bundle.spec.depends_on:
        live = dependencies[dependency.name]
        # A rule of the user's own says when it is ready.
        if own is None or live is None or dependency.ready_when:
            continue
        with suppress(InvalidSpec):
            other = read_bundle(live).spec.source.remote
            if other is not None and _version_of(other) == _version_of(own):
                found[dependency.name] = other.path
    return found


def _version_of(source: GitSpec | OciSpec) -> tuple[object, ...]:
    return source.url, source.ref


def outdated_dependencies(
    dependencies: Dependencies, beside: Mapping[str, str], state: SourceState | None
) -> Sequence[str]:
    """Return which dependencies have not applied what the newest check has found at their paths.

    Raises SourceAwaited if that is not known yet, or a dependency has seen a newer check.
    """
    outdated = []
    for name, path in beside.items():
        live, content = dependencies[name], (state.beside.get(path) if state is not None else None)
        if live is None or state is None or content is None:
            raise SourceAwaited
        found = found_source(status_of(live))
        if found is None:
            outdated.append(f"the status of the Bundle {name} does not say what it has applied")
            continue
        if (found.path, found.content) == (path, content):
            continue
        if state.checked and found.checked >= state.checked:
            raise SourceAwaited(older_than=found.checked)
        outdated.append(f"the Bundle {name} has not applied yet what its source has now")
    return outdated


def _reason(dependency: Dependency, live: LiveObject | None) -> str:
    name = dependency.name
    if live is None:
        return f"the Bundle {name} does not exist"
    if live.terminating:
        return f"the Bundle {name} is being deleted"
    if dependency.ready_when and observes_generation(status_of(live), live.generation):
        judged = compile_rule(dependency.ready_when, where="spec.dependsOn").judge(live.body or {})
        ready = judged.status is Status.CURRENT
        return "" if ready else f"the Bundle {name}: {judged.message}"
    if not dependency.ready_when and is_bundle_ready(status_of(live), live.generation):
        return ""
    if (live.body or {}).get("spec", {}).get("suspend") is True:
        return f"the Bundle {name} is suspended, and its last change has not been applied"
    return f"the Bundle {name} is not ready"


def _cycle(bundle: BundleSpec, bundles: BundleObjects) -> Sequence[str]:
    """Return the path from a Bundle back to itself; empty if none is found in 100 Bundles."""
    dependencies = bundle.spec.depends_on
    paths: list[tuple[str, ...]] = [(bundle.name, dependency.name) for dependency in dependencies]
    seen: set[str] = set()
    while paths and len(seen) < _MAX_SEEN:
        path = paths.pop()
        if path[-1] == bundle.name:
            return path
        if path[-1] in seen:
            continue
        seen.add(path[-1])
        live = bundles.get((bundle.namespace, path[-1]))
        paths += [(*path, name) for name in (_depends_on(live) if live is not None else ())]
    return ()


def _depends_on(live: LiveObject) -> Sequence[str]:
    spec = (live.body or {}).get("spec") or {}
    return [str(dependency.get("name")) for dependency in spec.get("dependsOn") or ()]


# A reconcile of single drifted objects, while nothing else of their Bundle needs a look.


def may_correct_alone(
    live: LiveObject, bundle: BundleSpec, history: ReconcileHistory, revision: str
) -> bool:
    """Return whether drift is all that may have changed since the last reconcile.

    ``revision`` is that of the source now. Whatever else there is to decide or to report needs the
    whole set: a change of the Bundle or of its source, a request, a failure, an approval.
    """
    status, spec = status_of(live), bundle.spec
    sets_back = spec.drift.policy is DriftPolicy.CORRECT and spec.approval is Approval.AUTOMATIC
    is_settled = is_bundle_ready(status, live.generation) and "pendingPlan" not in status
    return (
        sets_back
        and is_settled
        and FINALIZER in live.finalizers
        and not history.failures
        and status.get("lastAppliedRevision") == revision
        and status.get("lastAttemptedRevision") == revision
        and status.get("lastHandledReconcileAt", "") == request_of(live)
    )


def drift_beside_faults(run_result: RunResult, bundle: BundleSpec) -> frozenset[Ref]:
    """Return the objects whose drift a run would have reverted if its plan had no fault.

    Not beside a conflict, which somebody must decide: that holds back everything.
    """
    plan, spec = run_result.plan, bundle.spec
    sets_back = spec.drift.policy is DriftPolicy.CORRECT and spec.approval is Approval.AUTOMATIC
    if plan is None or not (sets_back and plan.stops):
        return frozenset()
    if any(step.problem and step.problem.conflicts for step in plan.faults):
        return frozenset()
    return frozenset(
        step.desired.ref
        for step in plan.applies
        if step.is_reapplied and step.fate in {Fate.CHANGE, Fate.CREATE}
    )


def result_of_part(live: LiveObject, bundle: BundleSpec) -> RunResult:
    """Return the result to collect of a run about a part of a Bundle's set, whose size is known."""
    objects = status_of(live).get("objects") or {}
    return replace(new_result(bundle), set_size=int(objects.get("total") or 0))


def delay_after(delay: float | None, result: ReconcileResult) -> float | None:
    """Return the seconds until the next reconcile of the whole set, after one of a part of it.

    None leaves the time that is known already.
    """
    if result.ready is ConditionStatus.READY:
        return None
    if result.ready is ConditionStatus.WAITING or result.reason is Reason.CONTENDED:
        return delay
    return 0.0


def fails_to_revert(result: ReconcileResult, *, is_for_drift: bool) -> bool:
    """Return whether a reconcile has failed to revert drift for a reason that may pass.

    ``is_for_drift`` says that drift was the reason for it; else only its plan shows drift.
    """
    run = result.run_result
    if result.ready is not ConditionStatus.NOT_READY or not result.retries:
        return False
    if run is None or run.plan is None:
        return is_for_drift and result.reason in {Reason.API_ERROR, Reason.UNREACHABLE}
    drifted = {step.desired.ref for step in run.plan.applies if step.is_reapplied or step.drift}
    passing = {ref for ref, failed in run.failing.items() if failed.passing}
    return not drifted.isdisjoint(passing)


# The objects of a Bundle, and how a reconcile has left each, to compare it with a watch.


def applied_objects(
    bundle: BundleSpec, run_result: RunResult, *, is_part: bool, unwatched: str = ""
) -> AppliedObjects | None:
    """Return where the objects are; ``unwatched`` is what the status says about their watches."""
    if run_result.plan is None:
        return None
    target = bundle.target
    waits = bool(run_result.waiting)
    steps = _followed(run_result)
    is_followed = bundle.spec.drift.policy is not DriftPolicy.IGNORE or waits
    # In another cluster, nothing is watched: there, only the interval triggers.
    is_here = bundle.spec.kube_config is None
    if not (is_followed and is_here) or len(steps) > MOST_WATCHED:
        steps = ()
    return AppliedObjects(
        bundle.spec.service_account_name,
        target.id,
        target.manager,
        frozenset((step.desired.resource, step.desired.ref.namespace) for step in steps),
        {step.desired.ref: _seen_state(step, run_result, target.manager) for step in steps},
        is_part,
        waits,
        unwatched,
    )


def why_unwatched(
    live: LiveObject, bundle: BundleSpec, run_result: RunResult, known: str | None
) -> str:
    """Return why drift is only seen at the interval; empty if it is seen at once.

    ``known`` is what the watches show; as long as they show nothing, what the status says holds.
    """
    if bundle.spec.kube_config is not None:
        return Unwatched.ELSEWHERE
    if len(_followed(run_result)) > MOST_WATCHED:
        return Unwatched.TOO_MANY
    if known is not None:
        return known
    return unwatched_in(status_of(live))


def _followed(run_result: RunResult) -> Sequence[ApplyStep]:
    applies = run_result.plan.applies if run_result.plan is not None else ()
    return [step for step in applies if not step.is_unlisted]


def _seen_state(step: ApplyStep, run_result: RunResult, manager: str) -> SeenState:
    """Return how a run has left an object; an unknown mark if it was sent without a clear reply."""
    ref = step.desired.ref
    if (fingerprint := run_result.stored.get(ref)) is not None:
        return SeenState.applied(fingerprint)
    if ref in run_result.written:
        return SeenState()
    return ABSENT if step.live is None else SeenState.of(step.live, manager)


# The result of a reconcile, from the end of its run.


_SOONEST = 1.0


def ended_result(
    run_result: RunResult, revision: str, pending: PendingPlan | None
) -> ReconcileResult:
    """Return the result of a run that came to its end; ``pending`` is what waits for somebody."""
    total = run_result.total
    objects = f"{total} object{'' if total == 1 else 's'}"
    offered = run_result.offered
    offers = f"; {len(offered)} {offered[0].reason}" if offered else ""
    ended = ReconcileResult(
        ConditionStatus.READY,
        run_result.reason,
        f"{objects} applied{offers}",
        revision=revision,
        run_result=run_result,
    )
    if run_result.exit_code == 0:
        return ended
    ended = replace(ended, ready=ConditionStatus.NOT_READY, pending=pending, retries=True)
    if ended.reason is Reason.PRUNE_REFUSED and pending is not None:
        # It waits for somebody: another try before the interval would change nothing.
        # What would be deleted, why and how is in PruneBlocked, if anything would be.
        short = pending.summary if pending.deletes else pending.message
        message = pending.message if pending.deletes else ""
        return replace(ended, reason=pending.reason, message=short, details=message, retries=False)
    failed = run_result.failed
    details = failed[0].message if failed else run_result.refusal_message
    return replace(ended, message=run_result.summary, details=details)


def failed_result(error: ApplypruneError, run_result: RunResult, revision: str) -> ReconcileResult:
    return ReconcileResult(
        ConditionStatus.NOT_READY,
        reason_of(error),
        error_message(problems_of(error), secret=run_result.secret),
        revision=revision,
        run_result=run_result,
        retries=True,
        observation=observation_in(error),
    )


def with_rights_named(result: ReconcileResult, bundle: BundleSpec) -> ReconcileResult:
    """Return a result that names the command for the roles, if the Bundle's account lacks a right.

    Not if another one does, such as that of the controller.
    """
    spec = bundle.spec
    found = result.run_result.failed if result.run_result is not None else ()
    texts = [one.message for one in found if one.kind is ProblemKind.FORBIDDEN]
    if result.reason is Reason.FORBIDDEN:
        texts.append(result.message)
    account = f"--account {bundle.namespace}/{spec.service_account_name}"
    # What the plan finds says "this account"; the server names it.
    if all(denied_account(text) not in {"", account} for text in texts):
        return result
    # The user of a kubeconfig is nobody's account here.
    whose = f" {account}" if spec.kube_config is None else ""
    command = bundle.target.roles_command
    return replace(result, message=f"{result.message}. The roles for this set: {command}{whose}")


def with_source_problem(result: ReconcileResult, state: SourceState | None) -> ReconcileResult:
    """Return a result that says so if the source has something new that cannot be used.

    The last good content was applied, or is kept: what is wrong with a source deletes nothing.
    """
    if state is None or result.ready is not ConditionStatus.READY:
        return result
    problems = state.unusable or ((state.problem,) if state.problem is not None else ())
    if not problems:
        return result
    message = error_message(
        problems, secret=result.run_result is not None and result.run_result.secret
    )
    return replace(
        result,
        ready=ConditionStatus.NOT_READY,
        reason=reason_of(error_of(problems[0])),
        message=f"{message}; {result.revision} stays applied",
        # Nobody else tries again to use what was fetched.
        retries=result.retries or bool(state.unusable),
        is_checked_again=True,
    )


def with_drift_reported(
    result: ReconcileResult,
    live: LiveObject,
    bundle: BundleSpec,
    *,
    is_part: bool,
    unwatched: str,
    is_new_source: bool = False,
) -> ReconcileResult:
    """Return the result of a reconcile with what it says about drift.

    A Bundle with an object that is left alone is not ready. With ``is_part``, the reconcile was
    about some of the objects only. ``unwatched`` says why drift is only seen at the interval, and
    ``is_new_source`` that more of the source is new than its revision shows.
    """
    counts = counts_before(live, result.revision, is_new_source=is_new_source)
    status = status_of(live)
    run = result.run_result
    report = drift_report(bundle, counts, status, run, _now(), is_part=is_part, unwatched=unwatched)
    result = replace(result, drift=report)
    if result.ready is not ConditionStatus.READY or not report.contended:
        return result
    message = f"left alone: {report.contended}; see the condition Drifted"
    return replace(
        result, ready=ConditionStatus.NOT_READY, reason=Reason.CONTENDED, message=message
    )


def _fallback(bundle: BundleSpec) -> float | None:
    """Return the seconds until another look at what only a change ends; None if suspended.

    The change is seen at once. The look is for one that was missed.
    """
    return None if bundle.spec.suspend else with_jitter(bundle.spec.interval)


def delay_with_contention(seconds: float, result: ReconcileResult) -> float:
    """Return the seconds until the next reconcile: at the latest when a contended object is quiet.

    ``seconds`` is without contention.
    """
    due = result.drift.due if result.drift is not None else None
    if due is None:
        return seconds
    return min(seconds, max(_SOONEST, (due - _now()).total_seconds()))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
