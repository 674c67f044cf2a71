"""Work on one set: apply, plan, diff, prune, delete, status, explain.

Nothing here prints, asks, or touches signal handlers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from applyprune.api.actor import actor_of
from applyprune.api.retry_reports import with_retries
from applyprune.api.run_arguments import given_or_new, wait_options
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.engine.bound_run import cluster_identity
from applyprune.engine.cancellation import Cancellation
from applyprune.engine.plan_stage import RunRequest
from applyprune.engine.run import run
from applyprune.model.events import Event, Explanation, ObjectDiff, ObjectStatus
from applyprune.model.inventory import Inventory
from applyprune.model.manifest import Manifest
from applyprune.model.options import (
    Actor,
    ApplyOptions,
    DiffOptions,
    DryRun,
    Mode,
    Options,
    PruneOptions,
    StatusOptions,
    WaitOptions,
)
from applyprune.output.report import RunReport, report_of
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.approval.plan_binding import plan_file_of, refuse_validity
from applyprune.sources import Input
from applyprune.sources.load import with_excerpt
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.api.cluster_connection import ClusterConnection
    from applyprune.model.plan import Plan
    from applyprune.model.text.label_selector import Selector
    from applyprune.planning.approval.plan_file import PlanFile


class ApplySet:
    """One set of objects: its name, the namespace of its inventory, and its cluster.

    The methods ``iter_…`` yield the events of a run as it goes, and start it when the first event
    is asked for. The others return the result. All of them raise what ends a run as a whole:
    InputError, AccessError, InventoryError, InventoryLocked, and Interrupted after
    ``cancellation.request()``. What fails a single object does not end the run: it is in the
    report, and ``RunReport.raise_for_failures`` raises it.
    """

    def __init__(
        self, name: str, namespace: str = "", *, cluster: ClusterConnection, actor: str = ""
    ) -> None:
        """Name a set, which need not exist; raise UsageError for an invalid name or actor."""
        self.identity = applyset_identity(name, namespace or cluster.namespace)
        """The name and the namespace, and the labels and field manager that follow from them."""
        self.cluster = cluster
        self.actor = actor_of(os.environ, actor)
        """For whom the runs work, as the inventory records it; by default a pipeline's user."""

    def __repr__(self) -> str:
        """Return the name and the namespace."""
        return f"<ApplySet {self.name} -n {self.namespace}>"

    @property
    def name(self) -> str:
        """Return the name of the set."""
        return self.identity.name

    @property
    def namespace(self) -> str:
        """Return the namespace of the inventory, and of manifests that name none."""
        return self.identity.namespace

    def store(self) -> ConfigMapStore:
        """Return a store of the inventory, for one run or one read."""
        return ConfigMapStore(self.cluster.client, self.identity)

    def apply(
        self,
        manifests: Sequence[Manifest],
        *,
        wait: bool | WaitOptions | None = None,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Apply the manifests, then prune what has left the set.

        By default it waits for readiness only before the prune of a workload, a Service, or what
        Pods may use. ``wait=True`` waits until every object is ready, and prunes only then;
        ``wait=False`` prunes without waiting. WaitOptions say more. Waves and depends-on are always
        waited for. ``timeout`` limits each wait, in seconds: for readiness, CRDs and deletions.
        ``lock_timeout`` limits the wait for another run on the same set.
        """
        events = self.iter_apply(
            manifests,
            wait=wait,
            timeout=timeout,
            options=options,
            prune=prune,
            dry_run=dry_run,
            lock_timeout=lock_timeout,
            cancellation=cancellation,
        )
        return report_of(events)

    def iter_apply(
        self,
        manifests: Sequence[Manifest],
        *,
        wait: bool | WaitOptions | None = None,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``apply`` does, and yield the events."""
        decided = Options(
            Mode.APPLY,
            dry_run,
            apply=options,
            prune=prune,
            wait=wait_options(timeout, wait),
            lock_timeout=lock_timeout,
        )
        return self.iter_run(manifests, decided, cancellation=cancellation)

    def plan(
        self,
        manifests: Sequence[Manifest],
        *,
        check: bool = True,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Return what ``apply`` would do to each object; change nothing.

        ``RunReport.plan`` is the plan. With ``check`` the server checks in a dry run what would
        change; without it, the plan only reads.
        """
        dry_run = DryRun.SERVER if check else DryRun.CLIENT
        decided = Options(Mode.APPLY, dry_run, check=check, apply=options, prune=prune)
        return report_of(self.iter_run(manifests, decided, cancellation=cancellation))

    def plan_file(
        self,
        plan: Plan,
        *,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        expires_in: float = 7 * 24 * 3600,
    ) -> PlanFile:
        """Return the file that binds an ``apply`` to a plan; ``write_plan`` writes it.

        ``options`` and ``prune`` are those of the plan. ``expires_in`` is in seconds, at least one
        and at most a year. Reads the UIDs that identify the cluster; raises UsageError if there are
        none.
        """
        refuse_validity(expires_in)
        return plan_file_of(
            plan,
            self.identity,
            Options(Mode.APPLY, apply=options, prune=prune),
            cluster=cluster_identity(self.cluster.client, self.namespace),
            now=datetime.now(UTC),
            valid_for=timedelta(seconds=expires_in),
        )

    def apply_plan(
        self,
        manifests: Sequence[Manifest],
        plan: PlanFile,
        *,
        wait: bool | WaitOptions | None = None,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Do what ``apply`` does if that is exactly the plan; otherwise write nothing.

        The manifests and the options must be those of the plan. What no longer fits is in the
        report, with exit code 8. Raises PlanOutdated for an expired plan, and UsageError for the
        plan of another set, another cluster, or other options.
        """
        decided = Options(
            Mode.APPLY,
            apply=options,
            prune=prune,
            wait=wait_options(timeout, wait),
            lock_timeout=lock_timeout,
        )
        return report_of(self.iter_run(manifests, decided, plan=plan, cancellation=cancellation))

    def diff(
        self,
        manifests: Sequence[Manifest],
        *,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        cancellation: Cancellation | None = None,
    ) -> list[ObjectDiff]:
        """Return what ``apply`` would change, prunes included; change nothing.

        The server computes it in a dry run. Raises RunFailed or PruneRefused if the apply would
        fail.
        """
        checked = Options(Mode.APPLY, DryRun.SERVER, apply=options, prune=prune)
        decided = replace(checked, diff=DiffOptions(enabled=True))
        report = report_of(self.iter_run(manifests, decided, cancellation=cancellation))
        report.raise_for_failures()
        return [one.diff for one in report.objects if one.diff is not None]

    def prune(
        self,
        manifests: Sequence[Manifest],
        *,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Delete what the set created and the manifests no longer contain; apply nothing."""
        decided = Options(
            Mode.PRUNE,
            dry_run,
            apply=options,
            prune=prune,
            wait=wait_options(timeout),
            lock_timeout=lock_timeout,
        )
        return report_of(self.iter_run(manifests, decided, cancellation=cancellation))

    def delete(
        self,
        *,
        only: Collection[str] = (),
        selector: Selector | None = None,
        timeout: float | None = None,
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Delete everything that the set created, then its inventory. It does not ask.

        Adopted objects, and objects with a keep annotation, are orphaned: they stay in the cluster.
        ``only`` names the objects to delete, each as KIND/NAME, and ``selector`` has the labels of
        the live objects to delete: then the rest of the set and its inventory stay.
        """
        part = Options(Mode.DELETE, dry_run, select=frozenset(only), select_labels=selector)
        decided = replace(part, prune=prune, wait=wait_options(timeout), lock_timeout=lock_timeout)
        return report_of(self.iter_run((), decided, cancellation=cancellation))

    def iter_run(
        self,
        manifests: Sequence[Manifest],
        options: Options,
        *,
        plan: PlanFile | None = None,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Run once with all options in one value, and yield the events.

        With ``plan``, the run does exactly what that file says, or nothing.
        """
        given = manifests if isinstance(manifests, Input) else Input(tuple(manifests))
        if options.actor == Actor():
            options = replace(options, actor=self.actor)
        if given.commit:
            # What is applied is not the commit of the pipeline's own repository.
            options = replace(options, actor=replace(options.actor, commit=given.commit))
        request = RunRequest(
            self.identity,
            given,
            self.namespace,
            options,
            empty_inputs=given.empty,
            plan_file=plan,
        )
        stop = given_or_new(cancellation)
        events = run(request, *self.cluster.new_run(self.identity), stop)
        return with_excerpt(with_retries(events, self.cluster.unanswered, stop), given)

    def status(
        self,
        *,
        drift: bool = False,
        wait: bool = False,
        timeout: float = 300.0,
        fail_fast: bool = False,
        tree: bool = False,
        logs: bool = False,
        cancellation: Cancellation | None = None,
    ) -> list[ObjectStatus]:
        """Return the health of each object of the set.

        ``drift`` also names the fields that others have changed. ``wait`` waits until every object
        is ready or one can never become ready, at most ``timeout`` seconds; ``fail_fast`` ends that
        at the first problem. ``tree`` adds what each object owns, and ``logs`` the last log lines
        of failing containers. What is not ready is in the result, and is not raised.
        """
        stop = given_or_new(cancellation)
        options = StatusOptions(
            drift=drift, wait=wait, timeout=timeout, fail_fast=fail_fast, tree=tree, logs=logs
        )
        events = self.iter_status(options, cancellation=stop)
        # An object is reported again when it has changed.
        latest = {event.ref: event for event in events if isinstance(event, ObjectStatus)}
        stop.check()
        return list(latest.values())

    def iter_status(
        self,
        options: StatusOptions = StatusOptions(),
        *,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``status`` does, and yield the events."""
        stop = given_or_new(cancellation)
        from applyprune.engine.operations.status import status  # noqa: PLC0415 - no other verb

        events = status(self.identity, options, *self.cluster.new_run(self.identity), stop)
        return with_retries(events, self.cluster.unanswered, stop)

    def inventory(self) -> Inventory:
        """Return what the set records; ``exists`` is False if there is no such set."""
        return self.store().read()

    def explain(
        self,
        name: str,
        manifests: Sequence[Manifest] | None = None,
        *,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        cancellation: Cancellation | None = None,
    ) -> list[Explanation]:
        """Return what ``apply`` would do with the objects of one name, and why; change nothing.

        ``name`` is ``deployment/web``, ``deployment.apps/web`` or ``shop/deployment/web``. Without
        manifests, each object is judged as if it alone had left the set. ``options`` and
        ``prune`` are those of the ``apply``.
        """
        events = self.iter_explain(
            name, manifests, options=options, prune=prune, cancellation=cancellation
        )
        found = (one.explanation for one in report_of(events).objects)
        return [explanation for explanation in found if explanation is not None]

    def iter_explain(
        self,
        name: str,
        manifests: Sequence[Manifest] | None = None,
        *,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``explain`` does, and yield the events, warnings included."""
        given = manifests if isinstance(manifests, Input) else Input(tuple(manifests or ()))
        request = RunRequest(
            self.identity,
            given,
            self.namespace,
            Options(apply=options, prune=prune),
            empty_inputs=given.empty,
        )
        from applyprune.engine.operations.explain import explain  # noqa: PLC0415 - no other verb

        events = explain(
            request,
            name,
            *self.cluster.new_run(self.identity),
            given_or_new(cancellation),
            by_input=manifests is not None,
        )
        return with_excerpt(events, given)
