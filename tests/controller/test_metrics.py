"""The metrics and the health of a controller, and the address that it serves them on."""

from __future__ import annotations

import pickle
import socket
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
import urllib3
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from applyprune.controller.dispatcher import SourceDispatcher
from applyprune.controller.fetch import RemoteSource
from applyprune.controller.metrics import Health, Metrics, serving
from applyprune.controller.queue import WorkQueue
from applyprune.controller.reasons import Limit, Reason
from applyprune.controller.report import measured
from applyprune.controller.result import FailedObject, RunResult
from applyprune.controller.status import ConditionStatus, ReconcileResult
from applyprune.controller.task import (
    CheckResult,
    CheckTask,
    FetchResult,
    FetchTask,
    SourceContent,
    SourceRequest,
)
from applyprune.controller.watches import Watches
from applyprune.controller.worker import LimitExceeded, WorkerUnavailable
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.inventory import InventoryEntry
from applyprune.model.plan import ApplyStep, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.address import GitRef, GitSource
from applyprune.values import replace
from tests.support.clocks import ManualClock
from tests.support.no_server import client_of_no_server
from tests.support.planning import body, desired
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.controller.source_checker import Checker
    from applyprune.controller.worker import WorkerHandle

KEY, OTHER = ("shop", "web"), ("blog", "web")
FIRST, SECOND = (f"sha256:{digit * 64}" for digit in "12")
STATUS = {
    "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "Stalled", "status": "Unknown"},
        {"type": "Drifted", "status": "Made/Up"},
        {"type": "Made/Up", "status": "True"},
    ],
    "objects": {"total": 5, "failing": 2},
    "lastAppliedRevision": FIRST,
    "pendingPlan": {},
}
FAILED = ReconcileResult(ConditionStatus.NOT_READY, Reason.CONFLICTS, "m", "r", RunResult())
SUSPENDED = ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, "m")


def series(metrics: Metrics, bundle: tuple[str, str] = KEY) -> dict[str, float]:
    """Return the series of a Bundle, by name and the label beside those of every one."""
    found = {}
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    for sample in (sample for family in families for sample in family.samples):
        labels = dict(sample.labels)
        if (labels.pop("namespace", ""), labels.pop("bundle", "")) == bundle:
            more = ",".join(labels.values())
            found[f"{sample.name.removeprefix('applyprune_bundle_')} {more}".strip()] = sample.value
    return found


def total(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return one series that is about all Bundles."""
    return metrics.registry.get_sample_value(name, labels)


def test_bundle_has_a_series_for_each_fact() -> None:
    """Only conditions that the controller knows become labels, and of each the status it has."""
    metrics = Metrics()
    metrics.passed(KEY, measured(FAILED, 1.5, STATUS))
    assert series(metrics) == {
        "condition false,Ready": 1.0,
        "condition unknown,Stalled": 1.0,
        f"info {FIRST}": 1.0,
        "objects applied": 3.0,
        "objects failing": 2.0,
        "suspended": 0.0,
        "pending_approval": 1.0,
        "last_reconcile_seconds": 1.5,
        "reverted_fields_total": 0.0,
    }
    ready = [{"type": "Ready", "status": "True"}]
    later = {**STATUS, "lastAppliedRevision": SECOND, "conditions": ready}
    metrics.passed(KEY, measured(SUSPENDED, 0.5, later))
    after = series(metrics)
    assert (after["suspended"], after[f"info {SECOND}"]) == (1.0, 1.0)
    assert f"info {FIRST}" not in after
    assert [one for one in after if one.startswith("condition")] == ["condition true,Ready"]


@pytest.mark.holds("forged-revision")
def test_revision_that_is_not_a_digest_becomes_no_label() -> None:
    """Whoever may write the status may write a text of any length."""
    metrics = Metrics()
    for forged in ("x" * 10**6, f"{FIRST}\n", "sha256:1", 7):
        metrics.passed(KEY, measured(FAILED, 1, {**STATUS, "lastAppliedRevision": forged}))
        assert series(metrics).get("info") == 1.0


def test_gone_bundle_leaves_no_series() -> None:
    """And it is no longer counted."""
    metrics = Metrics()
    assert total(metrics, "applyprune_bundles", ready="False") == 0
    metrics.passed(KEY, measured(FAILED, 1, STATUS))
    metrics.passed(OTHER, measured(FAILED, 1, STATUS))
    assert total(metrics, "applyprune_bundles", ready="False") == 2
    assert total(metrics, "applyprune_objects", state="failing") == 4
    assert total(metrics, "applyprune_pending_approvals") == 2
    metrics.forget(KEY)
    assert series(metrics) == {}
    assert len(series(metrics, OTHER)) == 9
    assert total(metrics, "applyprune_bundles", ready="False") == 1
    assert total(metrics, "applyprune_objects", state="applied") == 3
    assert total(metrics, "applyprune_pending_approvals") == 1


def test_reverted_fields_are_counted_over_reconciles() -> None:
    """Those of objects that were written; a field of another applier is no drift."""
    metrics = Metrics()
    drift = Drift("/data/a", "1", "2", "kubectl-edit", "Update")
    found = (drift, replace(drift, path="/data/b"), replace(drift, operation="Apply"))
    first, second = (
        ApplyStep(one, Fate.CHANGE, InventoryEntry(one.ref, "p", "v1", None), drift=found)
        for one in (desired(body("ConfigMap", name)) for name in ("a", "b"))
    )
    failed = FailedObject(second.desired.ref, "m", ProblemKind.CONFLICT)
    run = RunResult(
        outcomes=Counter({Outcome.UPDATED: 1}),
        failing={second.desired.ref: failed},
        written={first.desired.ref},
        plan=Plan((first, second), ()),
    )
    result = ReconcileResult(ConditionStatus.READY, Reason.APPLIED, "m", "r", run)
    for _ in range(2):
        metrics.passed(KEY, measured(result, 1, STATUS))
    run.written.clear()
    metrics.passed(KEY, measured(result, 1, STATUS))
    assert series(metrics)["reverted_fields_total"] == 4


CHECK = "web"
REMOTE = pickle.dumps(RemoteSource(GitSource("https://git.example.com/web.git", GitRef("main"))))
BUNDLES = (("shop", "web"), ("shop", "api"), ("blog", "web"))
SOURCE = ("shop", CHECK)
FOUND = CheckResult(b"tip", is_new=True)
GOOD = SourceContent("tree", "artifact", "main@sha1:1")


def problem(kind: ProblemKind) -> Problem:
    """Return a problem of a source."""
    return Problem(kind, "the source cannot be read")


@dataclass(slots=True)
class Played:
    """The processes that check and fetch: they end as a test says."""

    check_ends: CheckResult | Exception = FOUND
    fetch_ends: FetchResult | Exception = field(default_factory=FetchResult)
    meanwhile: Callable[[], None] = lambda: None
    """What happens while they work."""

    def check(self, _task: CheckTask, _is_wanted: Callable[[], bool]) -> CheckResult:
        """End a check."""
        self.meanwhile()
        if isinstance(self.check_ends, Exception):
            raise self.check_ends
        return self.check_ends

    def fetch(self, _task: FetchTask) -> FetchResult:
        """End a fetch."""
        self.meanwhile()
        if isinstance(self.fetch_ends, Exception):
            raise self.fetch_ends
        return self.fetch_ends

    def end(self) -> None:
        """Nothing more begins."""

    def kill(self) -> None:
        """Nothing is under way that a test does not end."""


def sources_of(played: Played) -> SourceDispatcher:
    """Return a dispatcher of sources, without threads; three Bundles follow one of them."""
    checker, handle = cast("Checker", played), cast("WorkerHandle", played)
    sources = SourceDispatcher(WorkQueue(clock=ManualClock()), Metrics(), checker, (handle,))
    for key in BUNDLES:
        path = key[1]
        sources.follow(key, SourceRequest(REMOTE, CHECK, "place", path, 60.0, 60.0))
    return sources


def counted(sources: SourceDispatcher, what: str) -> dict[str, float]:
    """Return what was counted of checks or fetches, without what never happened."""
    (family,) = (
        one for one in sources.metrics.registry.collect() if one.name == f"applyprune_source_{what}"
    )
    return {one.labels["result"]: one.value for one in family.samples if one.value}


def check(sources: SourceDispatcher) -> None:
    """Have the source checked, as a thread of the checks does."""
    with sources._working(sources.checks, SOURCE):
        sources._check(SOURCE)


def fetch(sources: SourceDispatcher, played: Played) -> None:
    """Have fetched what a check has found, as a thread of the fetches does."""
    with sources._working(sources.fetches, SOURCE):
        sources._fetch(cast("WorkerHandle", played), SOURCE)


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        (FOUND, "Success"),
        (CheckResult(b"", problem=problem(ProblemKind.PATH_NOT_FOUND)), "PathNotFound"),
        (LimitExceeded(Limit.MEMORY, "too much"), "FetchFailed"),
        (WorkerUnavailable("no process"), "FetchFailed"),
        (ValueError("a bug"), "FetchFailed"),
    ],
)
def test_check_counts_once_for_all_bundles(ends: CheckResult | Exception, result: str) -> None:
    """Whatever namespaces they are in: the turn of the other one finds nothing to do."""
    sources = sources_of(Played(check_ends=ends))
    check(sources)
    sources._check(("blog", CHECK))
    assert counted(sources, "checks") == {result: 1}
    assert counted(sources, "fetches") == {}


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        (FetchResult({"web": GOOD, "api": GOOD}), "Success"),
        (
            FetchResult(problem=problem(ProblemKind.VERIFICATION_FAILED)),
            "VerificationFailed",
        ),
        (
            FetchResult(
                {
                    "api": problem(ProblemKind.PATH_NOT_FOUND),
                    "web": problem(ProblemKind.SOURCE_TOO_LARGE),
                }
            ),
            "PathNotFound",
        ),
        (FetchResult({"api": GOOD, "web": problem(ProblemKind.INPUT_ERROR)}), "InvalidSource"),
        (LimitExceeded(Limit.MEMORY, "too much"), "SourceTooLarge"),
        (LimitExceeded(Limit.TIME, "too long"), "FetchFailed"),
        (LimitExceeded(Limit.CRASH, "ended with SIGKILL"), "FetchFailed"),
    ],
)
def test_fetch_counts_once_for_all_paths(ends: FetchResult | Exception, result: str) -> None:
    """By its first problem, though the other paths are good."""
    played = Played(fetch_ends=ends)
    sources = sources_of(played)
    check(sources)
    fetch(sources, played)
    assert counted(sources, "fetches") == {result: 1}
    assert counted(sources, "checks") == {"Success": 1}


@pytest.mark.parametrize("what", ["checks", "fetches"])
@pytest.mark.parametrize("end", ["no Bundle follows it", "the controller ends"])
def test_work_that_is_cut_off_does_not_count(end: str, what: str) -> None:
    """Nobody awaits it: its source has not failed."""
    played = Played()
    sources = sources_of(played)

    def cut_off() -> None:
        if end == "the controller ends":
            sources.end()
        else:
            for key in BUNDLES:
                sources.drop(key)
        raise WorkerUnavailable("ended")

    if what == "fetches":
        check(sources)
    played.meanwhile = cut_off
    check(sources) if what == "checks" else fetch(sources, played)
    assert counted(sources, what) == {}


A, B = ("shop", "a"), ("shop", "b")
ALIVE = (threading.main_thread(),)


@pytest.fixture
def clock() -> ManualClock:
    """The clock of all."""
    return ManualClock()


@pytest.fixture
def unwatched(tmp_path: Path, clock: ManualClock) -> Iterator[Watches]:
    """Watches of a server at whose port nobody listens."""
    with client_of_no_server(tmp_path) as (access, client):
        watches = Watches(WorkQueue(min_gap=0, clock=clock), client, access, "test")
        yield watches
        watches.close()


@pytest.mark.holds("unserved-bundles")
def test_due_bundles_that_nobody_serves_are_not_healthy(
    unwatched: Watches, clock: ManualClock
) -> None:
    """A worker that ends, or an empty queue, is health; work that only goes on is not."""
    queue = unwatched.queue
    health = Health(queue, unwatched)
    queue.add(A)
    clock.advance(61)
    assert health.unserved() == ""  # it has no share yet
    health.threads = ALIVE
    assert health.unserved().endswith("for 61 s; Bundles due: 1, being reconciled: 0")
    assert queue.get() == A
    assert health.unserved() == ""  # none is due
    queue.add(B)
    clock.advance(60)
    assert health.unserved() == ""
    clock.advance(1)
    assert health.unserved() == (
        "no reconcile has ended for 122 s; Bundles due: 1, being reconciled: 1"
    )
    queue.done(A)
    assert health.unserved() == ""
    clock.advance(61)
    assert health.unserved().endswith("for 61 s; Bundles due: 1, being reconciled: 0")
    assert queue.get() == B
    assert (health.unserved(), health.broken()) == ("", "")


@pytest.mark.holds("dead-thread")
def test_dead_thread_and_endless_work_are_broken(unwatched: Watches, clock: ManualClock) -> None:
    """Only a restart helps."""
    health = Health(unwatched.queue, unwatched)
    dead = threading.Thread(name="applyprune-news")
    health.threads = (*ALIVE, dead)
    assert health.broken() == health.unserved() == "a thread has ended: applyprune-news"
    health.threads, health.busy_since["worker-1"] = ALIVE, clock.now()
    clock.advance(3600)
    assert health.broken() == ""
    clock.advance(1)
    assert health.broken() == "a worker has been busy with one Bundle for 3601 s"


@pytest.mark.holds("unreached-lease")
def test_replica_that_does_not_reach_the_lease_is_not_healthy(unwatched: Watches) -> None:
    """Nothing is due then, which must not look like nothing to do."""
    health = Health(unwatched.queue, unwatched, threads=ALIVE)
    health.unreached = lambda patience: f"no Lease for {patience:.0f} s"
    assert (health.broken(), health.unserved()) == ("", "no Lease for 60 s")
    assert not health.can_serve()  # the Bundles are not listed


@pytest.mark.holds("unseen-bundles")
def test_bundles_that_cannot_be_listed_are_not_healthy(
    unwatched: Watches, clock: ManualClock
) -> None:
    """The queue is empty then, which must not look like nothing to do."""
    health = Health(unwatched.queue, unwatched, threads=ALIVE)
    over = threading.Event()
    unwatched.open()
    clock.advance(60)
    assert health.unserved() == ""
    clock.advance(1)
    assert health.unserved() == "the Bundles have not been listed after 61 s"

    def said() -> str:
        clock.advance(61)
        return health.unserved() if "cannot" in health.unserved() else ""

    attend = threading.Thread(target=unwatched.process_events, args=(over.is_set,))
    attend.start()
    try:
        reason = eventually(said, health.unserved)
    finally:
        over.set()
        attend.join()
    assert "the Bundles cannot be listed or watched for" in reason
    assert "127.0.0.1" in reason
    assert health.broken() == ""


@pytest.mark.holds("unchecked-sources")
def test_sources_that_nobody_reads_are_not_healthy(unwatched: Watches, clock: ManualClock) -> None:
    """Neither the checks nor the fetches; what waits for its share of a silent host is well."""
    checks, fetches = (WorkQueue(4, min_gap=0, clock=clock) for _ in "12")
    health = Health(unwatched.queue, unwatched, threads=ALIVE, checks=(checks, fetches))
    for number in range(3):
        checks.add(("shop", f"silent-{number}"))
        checks.set_cluster(("shop", f"silent-{number}"), "192.0.2.1")
    assert checks.get() == ("shop", "silent-0")
    clock.advance(61)
    assert (health.unserved(), checks.oldest) == ("", 61)
    fetches.add(A)
    clock.advance(60)
    assert health.unserved() == ""
    clock.advance(1)
    assert health.unserved() == "no source has been read for 122 s; sources due: 1"


IPV6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("listen", "asked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("", "127.0.0.1"),
        pytest.param("", "[::1]", marks=IPV6),
        pytest.param("::1", "[::1]", marks=IPV6),
    ],
)
def test_health_endpoint_answers(listen: str, asked: str) -> None:
    """A probe comes by the address that the cluster gives to its Pods."""
    wrong = {"healthz": "", "livez": "", "readyz": "not yet"}
    probes = {f"/{name}": lambda reason=reason: reason for name, reason in wrong.items()}
    with serving((listen, 0), Metrics(), probes) as (host, port):
        assert port > 0
        assert host in {listen, f"[{listen}]", "[::]", "0.0.0.0"}  # noqa: S104 - what it said
        found = {
            path: urllib3.request("GET", f"http://{asked}:{port}/{path}", retries=False)
            for path in wrong
        }
    assert {path: one.status for path, one in found.items()} == {
        "healthz": 200,
        "livez": 200,
        "readyz": 503,
    }
    assert found["readyz"].data == b"not yet\n"


@pytest.mark.parametrize(
    ("method", "path", "code", "word"),
    [
        ("GET", "/healthz", 200, "ok"),
        ("GET", "/healthz?verbose", 200, "ok"),
        ("GET", "/metrics", 200, "# TYPE applyprune_leader gauge"),
        ("GET", "/metrics?name[]=applyprune_leader", 200, "applyprune_leader 0.0"),
        ("GET", "/", 404, "not found"),
        ("GET", "/metrics/more", 404, "not found"),
        ("POST", "/readyz", 405, "use GET"),
        ("POST", "/metrics", 405, "GET"),
    ],
)
def test_health_endpoint_answers_each_path(method: str, path: str, code: int, word: str) -> None:
    """Only the metrics are the library's business."""
    with serving(("127.0.0.1", 0), Metrics(), {"/healthz": str, "/readyz": str}) as (host, port):
        answer = urllib3.request(method, f"http://{host}:{port}{path}", retries=False)
    assert answer.status == code
    assert word in answer.data.decode()


def test_health_endpoint_is_closed_at_the_end() -> None:
    """The port is free again, so that another process can have it."""
    with serving(("127.0.0.1", 0), Metrics(), {}) as (host, port):
        pass
    with serving((host, port), Metrics(), {}) as again:
        assert again == (host, port)
