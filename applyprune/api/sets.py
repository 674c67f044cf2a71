"""The Python API of sets: connect, load, and the `ApplySet`, which applies, prunes and reports.

Here a cluster, an inventory and an input are put together with the engine. Nothing here prints,
asks, or touches signal handlers.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import BinaryIO, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, field

from applyprune.cluster.access import ClusterAccess, cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.discovery import cache_folder
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.shared_reads import SharedReads
from applyprune.cluster.transport import Transport
from applyprune.engine.context import RunRequest
from applyprune.engine.plan_stage import explain
from applyprune.engine.ports import Cancellation
from applyprune.engine.run import cluster_identity, run
from applyprune.errors import UsageError
from applyprune.model.events import (
    Event,
    Explanation,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    RetryReported,
    SetEvent,
)
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Inventory
from applyprune.model.options import (
    Actor,
    ApplyOptions,
    DiffOptions,
    DryRun,
    Mode,
    Options,
    PruneOptions,
    StatusOptions,
    WaitMode,
    WaitOptions,
)
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem
from applyprune.model.text import Selector, visible
from applyprune.output.report import RunReport, report_of
from applyprune.planning.applyset import ApplySetIdentity, applyset_identity
from applyprune.planning.approval import PlanFile, plan_file_of, refuse_validity
from applyprune.planning.digests import plan_digest
from applyprune.planning.world import CommandSets
from applyprune.sources import Input, Objects, Overlay, read, read_objects
from applyprune.sources.inputs import options_for
from applyprune.sources.load import with_excerpt
from applyprune.values import as_declared, replace


class ApplySet:
    """One set of objects: its name, the namespace of its inventory, and its cluster.

    The methods ``iter_…`` yield the events of a run as it goes, and start it when the first event
    is asked for. The others return the result. All of them raise what ends a run as a whole:
    InputError, AccessError, InventoryError, InventoryLocked, and Interrupted after
    ``cancellation.request()``. What fails a single object does not end the run: it is in the
    report, and ``RunReport.raise_for_failures`` raises it.

    ``manifests`` are what ``load`` returns, dicts of plain JSON data, or one such dict.
    """

    def __init__(
        self, name: str, namespace: str = "", *, cluster: ClusterConnection, actor: str = ""
    ) -> None:
        """Name a set, which need not exist; raise UsageError for an invalid name or actor."""
        self.identity = applyset_identity(name, namespace or cluster.namespace)
        """The name and the namespace, and the labels and field manager that follow from them."""
        self.cluster = cluster
        self.actor = actor_of(os.environ, actor)
        """Who to record as the author of the runs; by default a pipeline's user."""

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
        manifests: Objects,
        *,
        wait: bool | WaitOptions | None = None,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun | bool = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Apply the manifests, then prune what has left the set.

        What live Pods use is not pruned, and by default it waits only for what may still need an
        object that is pruned. ``wait=True`` waits until every object is ready, and prunes only
        then; ``wait=False`` prunes at once, also what is in use. WaitOptions say more. Waves and
        depends-on are always waited for. ``timeout`` limits each wait, in seconds: for readiness,
        CRDs and deletions. ``lock_timeout`` limits the wait for another run on the same set.
        The server checks in a dry run what would be sent, before the first write; ``iter_run`` with
        ``Options(check=False)`` leaves that out.
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
        manifests: Objects,
        *,
        wait: bool | WaitOptions | None = None,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun | bool = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``apply`` does, and yield the events."""
        decided = Options(
            Mode.APPLY,
            _dry(dry_run),
            apply=options,
            prune=prune,
            wait=wait_options(timeout, wait),
            lock_timeout=lock_timeout,
        )
        return self.iter_run(manifests, decided, cancellation=cancellation)

    def plan(
        self,
        manifests: Objects,
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
        and at most a year. Reads the UIDs that identify the cluster. Raises UsageError if there are
        none, and for other options.
        """
        refuse_validity(expires_in)
        decided = _valid(Options(Mode.APPLY, apply=options, prune=prune))
        # guard: options-of-the-plan never
        if plan.digest != plan_digest(plan, self.identity, decided):
            raise UsageError("the plan was made with other options, or for another set")
        return plan_file_of(
            plan,
            self.identity,
            decided,
            cluster=cluster_identity(self.cluster.client, self.namespace),
            now=datetime.now(UTC),
            valid_for=timedelta(seconds=expires_in),
        )

    def apply_plan(
        self,
        manifests: Objects,
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
            check=False,  # it was checked when it was made
            apply=options,
            prune=prune,
            wait=wait_options(timeout, wait),
            lock_timeout=lock_timeout,
        )
        return report_of(self.iter_run(manifests, decided, plan=plan, cancellation=cancellation))

    def diff(
        self,
        manifests: Objects,
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
        manifests: Objects,
        *,
        timeout: float | None = None,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        dry_run: DryRun | bool = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Delete what the set created and the manifests no longer contain; apply nothing."""
        decided = Options(
            Mode.PRUNE,
            _dry(dry_run),
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
        dry_run: DryRun | bool = DryRun.OFF,
        lock_timeout: float = 60.0,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Delete everything that the set created, then its inventory. It does not ask.

        Adopted objects, and objects with a keep annotation, are orphaned: they stay in the cluster.
        ``only`` names the objects to delete, each as KIND/NAME, and ``selector`` has the labels of
        the live objects to delete: then the rest of the set and its inventory stay.
        """
        part = Options(Mode.DELETE, _dry(dry_run), select=frozenset(only), select_labels=selector)
        decided = replace(part, prune=prune, wait=wait_options(timeout), lock_timeout=lock_timeout)
        return report_of(self.iter_run((), decided, cancellation=cancellation))

    def iter_run(
        self,
        manifests: Objects,
        options: Options,
        *,
        plan: PlanFile | None = None,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Run once with all options in one value, and yield the events.

        With ``plan``, the run does exactly what that file says, or nothing.
        """
        given, options = _given(manifests), _valid(options)
        stop = given_or_new(cancellation)
        events = self._run(given, options, stop, CommandSets(), plan=plan)
        return with_excerpt(with_retries(events, self.cluster.unanswered, stop), given)

    def iter_run_among(
        self,
        given: Input,
        options: Options,
        command: CommandSets,
        cancellation: Cancellation,
        *,
        plan: PlanFile | None = None,
        reads: SharedReads | None = None,
    ) -> Iterator[Event]:
        """Do what ``iter_run`` does as one of several sets, which exchange objects.

        ``reads`` is what their runs read together. What does not answer is not reported: it is the
        same for all of them.
        """
        events = self._run(given, _valid(options), cancellation, command, plan=plan, reads=reads)
        return with_excerpt(events, given)

    def _run(
        self,
        given: Input,
        options: Options,
        stop: Cancellation,
        command: CommandSets,
        *,
        plan: PlanFile | None,
        reads: SharedReads | None = None,
    ) -> Iterator[Event]:
        if options.actor == Actor():
            options = replace(options, actor=self.actor)
        request = RunRequest(
            self.identity,
            given,
            self.namespace,
            options,
            empty_inputs=given.empty,
            ignored=given.ignored,
            plan_file=plan,
            command=command,
            source=given.source,
        )
        return run(request, *self.cluster.new_run(self.identity, reads), stop)

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
        from applyprune.engine.status import status  # noqa: PLC0415 - no other verb

        events = status(self.identity, _valid(options), *self.cluster.new_run(self.identity), stop)
        return with_retries(events, self.cluster.unanswered, stop)

    def inventory(self) -> Inventory:
        """Return what the set records; ``exists`` is False if there is no such set."""
        return self.store().read()

    def explain(
        self,
        name: str,
        manifests: Objects | None = None,
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
        manifests: Objects | None = None,
        *,
        options: ApplyOptions = ApplyOptions(),
        prune: PruneOptions = PruneOptions(),
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``explain`` does, and yield the events, warnings included."""
        given = _given(() if manifests is None else manifests)
        mode = Mode.PRUNE if manifests is None else Mode.APPLY
        request = RunRequest(
            self.identity,
            given,
            self.namespace,
            _valid(Options(mode, apply=options, prune=prune)),
            empty_inputs=given.empty,
            ignored=given.ignored,
        )
        stop = given_or_new(cancellation)
        events = explain(request, *self.cluster.new_run(self.identity), stop, name)
        return with_excerpt(events, given)


_O = TypeVar("_O", Options, StatusOptions)


def _dry(dry_run: DryRun | bool) -> DryRun:
    """Return a kind of dry run; True is the one that most people mean, by the server."""
    if isinstance(dry_run, bool):
        return DryRun.SERVER if dry_run else DryRun.OFF
    return dry_run


def _valid(options: _O) -> _O:
    """Return options whose values have their types: ``"fail"`` is that member of its enum.

    A value that is none of them would be taken for another one, and overwrite what it should not.
    """
    try:
        return as_declared(options)  # guard: options-of-a-program -> options
    except TypeError as error:
        raise UsageError(f"an option is invalid: {error}") from None


def _given(objects: Objects) -> Input:
    return objects if isinstance(objects, Input) else Input(read_objects(objects))


Path: TypeAlias = str | os.PathLike[str]


def load(
    *paths: Path | Overlay,
    kustomize: Path | Sequence[Path] = (),
    objects: Objects = (),
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] | None = None,
    ignore_paths: Sequence[str] = (),
    at: str = "",
) -> Input:
    """Return the manifests of files, folders, patterns, URLs, kustomizations and objects.

    A URL is that of a document, or the address of an OCI artifact, as ``-f`` of the command line
    takes it. ``-`` is ``stdin``, by default the process's
    own. ``kustomize`` names folders to build. ``objects`` are plain JSON data, and are copied; each
    method that takes manifests takes these as well.
    ``warn`` gets redirects of URLs, what a build writes to standard error, and which manifests are
    ignored. ``ignore_paths`` are lines as in a ``.sourceignore`` at the root of each source. ``at``
    is a revision of Git: the files are then those of that commit of their work tree.

    Raises InputError, with every error of the input, and UsageError for a path that is invalid.
    """
    builds = [kustomize] if isinstance(kustomize, str | os.PathLike) else kustomize
    given = [one if isinstance(one, Overlay) else os.fspath(one) for one in paths]
    # A process may have been started without standard input.
    source = stdin or getattr(sys.stdin, "buffer", None)
    overlays = [Overlay(os.fspath(folder)) for folder in builds]
    found = read(
        [*given, *overlays],
        stdin=source,
        warn=warn or (lambda _: None),
        ignore_paths=ignore_paths,
        at=at,
    )
    more = read_objects(objects)
    named = "" if more else options_for([*given, *overlays])
    return replace(found, manifests=(*found.manifests, *more), named=named)


def connect(
    context: str = "",
    *,
    kubeconfig: str | os.PathLike[str] = "",
    namespace: str = "",
    access: ClusterAccess | None = None,
    retry_budget: float = 30.0,
    cache: bool = True,
    trace: Callable[[str], None] | None = None,
) -> ClusterConnection:
    """Return a connection to a cluster, chosen by the rules of kubectl.

    Without arguments it is the current context of ``KUBECONFIG`` or ``~/.kube/config``, or in a Pod
    the Pod's service account. ``namespace`` replaces the context's. ``access`` replaces all of
    these rules. A failed request is retried for ``retry_budget`` seconds. With ``cache``, the list
    of served kinds is kept in the user's cache folder. ``trace`` gets one line for each request.

    Nothing is sent yet. Raises AccessError, and UsageError for a combination that makes no sense.
    """
    if access is None:
        access = cluster_access(
            kubeconfig=os.fspath(kubeconfig), context=context, environ=os.environ
        )
    elif context or kubeconfig:
        raise UsageError("connect() takes either an access, or a context and a kubeconfig")
    transport = Transport(access, retry_budget=retry_budget, trace=trace)
    return ClusterConnection(access, transport, namespace=namespace, cache=cache)


class ClusterConnection:
    """A connection to one cluster. It can be shared by threads, and is a context manager."""

    def __init__(
        self, access: ClusterAccess, transport: Transport, *, namespace: str, cache: bool
    ) -> None:
        """Keep the parts; ``connect`` makes them."""
        self.namespace = namespace or access.namespace
        """The namespace of sets and manifests that name none."""
        self.context = access.context
        """The name of the context; ``in-cluster`` in a Pod."""
        self.server = access.server
        """The URL of the API server."""
        self._transport = transport
        self.client = KubernetesClient(
            transport,
            access.server,
            context=access.context,
            cache=cache_folder() if cache else None,
        )
        """The client that all requests go through."""

    def __repr__(self) -> str:
        """Return the context and the server."""
        return f"<ClusterConnection {self.context} {self.server}>"

    def __enter__(self) -> Self:
        """Return the connection itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def remember_kinds(self) -> None:
        """Ask the server once what it serves, for many runs; raise AccessError."""
        self.client = self.client.remembering()
        self.client.resource_map()

    def new_run(
        self, applyset: ApplySetIdentity, reads: SharedReads | None = None
    ) -> tuple[KubernetesClient, ConfigMapStore]:
        """Return a client and a store for one run, whose ID is in each of their requests."""
        client = self.client.for_run()
        if reads is not None:
            client = client.sharing(reads)
        return client, ConfigMapStore(client, applyset)

    def iter_belonging(self, name: str) -> Iterator[Event]:
        """Yield what the object of a name belongs to, and who sets its fields, as ObjectBelongs.

        ``name`` is ``deployment/web``, or ``shop/deployment/web`` for another namespace.
        """
        from applyprune.engine.belonging import object_belongs  # noqa: PLC0415 - no other verb

        client, store = self.new_run(applyset_identity("applyprune", self.namespace))
        yield from object_belongs(client, store, name, self.namespace)

    def unanswered(self) -> Sequence[RetryReported]:
        """Return which webhooks or server do not answer now, though they are asked repeatedly."""
        return self._transport.unanswered()

    def close(self) -> None:
        """Close all connections to the server."""
        self._transport.close()


def wait_options(timeout: float | None, wait: bool | WaitOptions | None = None) -> WaitOptions:
    """Return what a run waits for; ``wait`` is as ``--wait`` or ``--no-wait``, None for neither.

    Raises UsageError for anything else: a text such as "no" would count as true.
    """
    if not (wait is None or isinstance(wait, bool | WaitOptions)):
        raise UsageError(
            f"an option is invalid: wait: {wait!r} is not True, False, None or WaitOptions"
        )
    options = wait if isinstance(wait, WaitOptions) else WaitOptions(WaitMode.asked(wait))
    return options if timeout is None else replace(options, timeout=timeout)


def given_or_new(cancellation: Cancellation | None) -> Cancellation:
    """Return the cancellation of the caller, or one that nobody requests."""
    return Cancellation() if cancellation is None else cancellation


# Requests without an answer are reported while a run goes on: a run yields nothing meanwhile.


Unanswered: TypeAlias = Callable[[], Sequence[RetryReported]]
_TICK = 0.5


def with_retries(
    events: Iterator[Event], unanswered: Unanswered, cancellation: Cancellation
) -> Iterator[Event]:
    """Yield the events of a run, and in between what is not answered: once for each new try.

    The run gets a thread of its own. It goes on only when the consumer asks for the next event, as
    it would without this; only after an unchanged object, or a status, does it not wait, because a
    handover for each of 100,000 objects takes seconds.
    """
    run, reports = _Run(events), _Reports(unanswered)
    run.thread.start()
    try:
        while True:
            try:
                item = run.next(_TICK)
            except BaseException:
                cancellation.request()  # Ctrl-C of a program that does not handle it
                raise
            yield from reports.due()
            if item is None:
                continue
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
            if not _is_bulk(item):
                run.go_on()
    finally:
        run.end()


class _Run:
    """A run on a thread of its own."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events = events
        self.closing = False
        self.thread = Thread(target=self._work, name="applyprune-run", daemon=True)
        self._resume: SimpleQueue[None] = SimpleQueue()
        self._queue: SimpleQueue[Event | _End] = SimpleQueue()

    def next(self, seconds: float) -> Event | _End | None:
        """Return the next event or the end; None if there is none yet."""
        try:
            return self._queue.get(timeout=seconds)
        except Empty:
            return None

    def go_on(self) -> None:
        """Let the run produce its next event."""
        self._resume.put(None)

    def end(self) -> None:
        """End the run at its next event, if it has not ended."""
        self.closing = True
        self.go_on()
        self.thread.join()

    def _work(self) -> None:
        try:
            for event in self.events:
                self._queue.put(event)
                if not _is_bulk(event):
                    self._resume.get()
                if self.closing:
                    break
            if (close := getattr(self.events, "close", None)) is not None:
                close()
        except BaseException as error:  # noqa: BLE001 -- the consumer gets it
            self._queue.put(_End(error))
        else:
            self._queue.put(_End())


class _Reports(Struct):
    """What was reported of requests that are not answered."""

    unanswered: Unanswered
    _reported: dict[str, int] = field(default_factory=dict)
    _asked_at: float = field(default_factory=time.monotonic)

    def due(self) -> Iterator[Event]:
        """Yield each report whose number of tries has risen since the last time."""
        now = time.monotonic()
        if now - self._asked_at < _TICK:
            return
        self._asked_at = now
        found = {report.what: report for report in self.unanswered()}
        self._reported = {what: tries for what, tries in self._reported.items() if what in found}
        for what, report in found.items():
            if report.tries > self._reported.get(what, 0):
                self._reported[what] = report.tries
                yield report


def _is_bulk(event: Event) -> bool:
    """Return whether this is one of many events on which no consumer acts.

    The runs of many sets do not wait for who reads their events.
    """
    if isinstance(event, ObjectDone):
        return event.outcome is Outcome.UNCHANGED
    return isinstance(event, ObjectStatus | SetEvent)


class _End(Struct, frozen=True):
    error: BaseException | None = None


# Who is recorded as the author of a run: the user's own text, or the variables of a pipeline. These
# are bounded and made safe to print; an odd one is left out, because no run may fail for it.


LONGEST_NAME = 200
_LONGEST_COMMIT = 64


def actor_of(environ: Mapping[str, str], name: str = "") -> Actor:
    """Return for whom a run works; ``name`` replaces the pipeline's user.

    Raises UsageError for a name that is too long, or has characters that are not printable.
    """
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(
            f"invalid actor {visible(name[:LONGEST_NAME])!r}",
            reason=f"it must have at most {LONGEST_NAME} printable characters",
        )
    user, commit, url = _job(environ)
    return Actor(
        name.strip() or visible(user)[:LONGEST_NAME],
        commit if commit.isalnum() and len(commit) <= _LONGEST_COMMIT else "",
        url if _is_safe(url) else "",
    )


def _job(environ: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the user, the commit and the URL of a pipeline's job; empty texts outside of one."""
    if environ.get("GITHUB_ACTIONS"):
        parts = [environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
        url = "{}/{}/actions/runs/{}".format(*parts) if all(parts) else ""
        return environ.get("GITHUB_ACTOR", ""), environ.get("GITHUB_SHA", ""), url
    if environ.get("GITLAB_CI"):
        keys = ("GITLAB_USER_LOGIN", "CI_COMMIT_SHA", "CI_JOB_URL")
        user, commit, url = (environ.get(key, "") for key in keys)
        return user, commit, url
    return "", "", ""


_LONGEST_URL = 500


def _is_safe(url: str) -> bool:
    """Return whether a URL can be recorded: it has no credentials, and no odd characters."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and "@" not in parts.netloc
