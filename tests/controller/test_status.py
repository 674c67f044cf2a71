"""Status and conditions: idempotent, bounded, and what tools read of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.controller.pending_plan import PendingPlan, Scope
from applyprune.controller.reasons import STALLED_REASONS, ConditionType, Reason
from applyprune.controller.result import (
    FailedObject,
    RunResult,
    collect,
    error_message,
    problem_message,
)
from applyprune.controller.status import (
    FAILING_SHOWN,
    ConditionStatus,
    ReconcileResult,
    event_state,
    is_bundle_ready,
    observes_generation,
    progressing_status,
    status_after,
)
from applyprune.errors import (
    Forbidden,
)
from applyprune.model.events import Event, Finished, ObjectDone, ReadinessReported, Status, failed
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.plan import Plan
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.planning.readiness import assess
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
GOOD = ReconcileResult(ConditionStatus.READY, Reason.APPLIED, "2 objects applied", "sha256:a")
BAD = ReconcileResult(
    ConditionStatus.NOT_READY, Reason.APPLY_FAILED, "no", "sha256:b", retries=True
)


def ref(name: str) -> Ref:
    """Return the ref of a ConfigMap."""
    return Ref("", "ConfigMap", "shop", name)


def done(before: dict[str, Any], one: ReconcileResult, now: str, **more: Any) -> dict[str, Any]:
    """Return the status after a pass over generation 3."""
    return status_after(before, one, generation=3, now=now, **more)


def words(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return status and reason of each condition."""
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


@pytest.mark.holds("replica-alone")
def test_unchanged_reconcile_writes_no_status() -> None:
    """The same value to the last character, whatever the time."""
    followed = RunResult(plan=Plan((), ()), outcomes=Counter({Outcome.UNCHANGED: 2}))
    one = ReconcileResult(ConditionStatus.READY, Reason.APPLIED, "2 objects", "sha256:a", followed)
    more: dict[str, Any] = {"requested": "now", "inventory": ("applyprune-web", "id")}
    first = done({}, one, EARLY, replica="one", **more)
    assert done(first, one, LATE, replica="one", **more) == first
    assert done(first, one, LATE, replica="after-a-restart", **more) == first
    assert done(first, BAD, LATE, replica="two", **more)["replica"] == "two"


def test_transition_has_its_time() -> None:
    """Only that of the condition whose status moved."""
    bad = done(done({}, GOOD, EARLY), BAD, LATE)
    times = {one["type"]: one["lastTransitionTime"] for one in bad["conditions"]}
    assert times == {
        "Ready": LATE,
        "Reconciling": LATE,
        "Stalled": EARLY,
        "PruneBlocked": EARLY,
        "Drifted": EARLY,
    }


CONDITIONS = {
    "good": (GOOD, ("True", "Applied"), "False", "False"),
    "retried": (BAD, ("False", "ApplyFailed"), "True", "False"),
    "stalled": (
        ReconcileResult(ConditionStatus.NOT_READY, Reason.INVALID_SOURCE, "x", retries=True),
        ("False", "InvalidSource"),
        "False",
        "True",
    ),
    "suspended": (
        ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, "x"),
        ("True", "Applied"),
        "False",
        "False",
    ),
}


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_conditions_follow_the_result(name: str) -> None:
    """Of a Bundle that was ready."""
    one, ready, reconciling, stalled = CONDITIONS[name]
    found = words(done(done({}, GOOD, EARLY), one, LATE))
    assert set(found) == {str(each) for each in ConditionType}
    assert found["Ready"] == ready
    assert (found["Reconciling"][0], found["Stalled"][0]) == (reconciling, stalled)


def test_revisions_follow_the_result() -> None:
    """What was attempted is not yet applied."""
    status = done(done({}, GOOD, EARLY), BAD, LATE)
    assert status["lastAppliedRevision"] == "sha256:a"
    assert status["lastAttemptedRevision"] == "sha256:b"


@pytest.mark.holds("tried-generation")
def test_new_generation_is_not_ready() -> None:
    """Until it is reconciled; kstatus reads it from observedGeneration."""
    status = done({}, GOOD, EARLY)
    assert is_bundle_ready(status, 3)
    assert not is_bundle_ready(status, 4)
    begun = progressing_status(status, 4, LATE)
    assert words(begun)["Ready"] == ("Unknown", "Progressing")
    assert begun["observedGeneration"] == 3
    assert not is_bundle_ready(begun, 3)
    assert not is_bundle_ready({}, None)
    assert (observes_generation(status, 3), observes_generation(begun, 4)) == (True, False)


SUSPENDED = ReconcileResult(ConditionStatus.SAME, Reason.SUSPENDED, "spec.suspend is true")


@pytest.mark.holds("suspended-generation")
def test_suspended_change_is_not_observed() -> None:
    """Changed and suspended in one edit: neither kubectl wait nor a dependent takes it as ready."""
    applied = done({}, GOOD, EARLY)
    status = status_after(applied, SUSPENDED, generation=4, now=LATE, requested="1")
    assert status["observedGeneration"] == 3
    assert status["lastHandledReconcileAt"] == "1"
    assert not is_bundle_ready(status, 4)
    ready, reconciling = status["conditions"][:2]
    # kubectl wait compares the generation of the condition with that of the object.
    assert (ready["status"], ready["observedGeneration"]) == ("True", 3)
    assert (reconciling["reason"], reconciling["observedGeneration"]) == ("Suspended", 4)
    assert reconciling["message"] == "spec.suspend is true"
    # A status that an earlier version has written.
    assert not is_bundle_ready({**status, "observedGeneration": 4}, 4)


@pytest.mark.parametrize("before", [{}, {"observedGeneration": -1}])
def test_bundle_that_was_never_applied_is_not_observed(before: dict[str, Any]) -> None:
    """Also where the CRD of an earlier version gives the status no default."""
    for status in (
        status_after(before, SUSPENDED, generation=1, now=EARLY),
        progressing_status(before, 1, EARLY),
    ):
        assert status["observedGeneration"] == -1
        assert words(status)["Ready"] == ("Unknown", "Progressing")
        assert not is_bundle_ready(status, 1)


def message(status: dict[str, Any], kind: str) -> str:
    """Return the message of a condition."""
    return str(next(one["message"] for one in status["conditions"] if one["type"] == kind))


LONG = "x" * 300


@pytest.mark.parametrize("reason", sorted(Reason))
def test_condition_says_what_is_wrong_once(reason: Reason) -> None:
    """What is wrong is in Ready, and the conditions beside it are short."""
    one = replace(BAD, reason=reason, message=LONG)
    status = done({}, one, EARLY)
    assert message(status, "Ready") == LONG
    others = [message(status, kind) for kind in ("Reconciling", "Stalled", "PruneBlocked")]
    assert all(len(other) < 80 for other in others), others
    stalls = reason in STALLED_REASONS
    assert words(status)["Reconciling"][0] == str(not stalls)
    assert words(status)["Stalled"][0] == str(stalls)
    assert f"it is retried after {reason}" == others[0] or stalls


def test_objects_that_fail_are_explained_once() -> None:
    """Ready counts and names them, and their messages are in the list of those that fail."""
    failing = {
        ref(name): FailedObject(ref(name), f"{name} {LONG}", ProblemKind.RUN_FAILED)
        for name in "abcde"
    }
    run = RunResult(failing=failing)
    assert run.summary == ("5 objects failed: configmap/a, configmap/b, configmap/c and 2 more")
    assert [one.ref.name for one in run.failed] == list("abcde")
    assert RunResult(failing={ref("a"): failing[ref("a")]}).summary == (
        "1 object failed: configmap/a"
    )
    waits = FailedObject(ref("a"), "m", ProblemKind.NOT_READY)
    later = FailedObject(ref("b"), "m", ProblemKind.RUN_FAILED, skipped=True)
    ended = FailedObject(ref("b"), "m", ProblemKind.NOT_READY, hopeless=True)
    assert RunResult(failing={ref("a"): waits}).summary == "1 object is not ready: configmap/a"
    assert RunResult(failing={ref("a"): waits, ref("b"): later}).summary == (
        "2 objects are not ready: configmap/a, configmap/b"
    )
    assert RunResult(failing={ref("a"): waits, ref("b"): ended}).summary == (
        "2 objects failed: configmap/a, configmap/b"
    )
    refusal = Problem(ProblemKind.PRUNE_REFUSED, "the prune was refused", reason=LONG)
    assert RunResult(refusal=refusal).summary == "the prune is refused"
    assert RunResult().summary == ""


PENDING = PendingPlan(
    "sha256:d",
    Scope.DELETIONS,
    {"prune": 1},
    ((Fate.PRUNE, ref("a")),),
    Reason.PENDING_APPROVAL,
    "waiting, and why",
    "waiting",
)


def ended(pending: PendingPlan | None, refusal: Problem | None = None) -> ReconcileResult:
    """Return the result of a run of which something may wait."""
    followed = RunResult(plan=Plan((), ()), refusal=refusal)
    ready = ConditionStatus.READY if pending is None else ConditionStatus.NOT_READY
    reason = Reason.APPLIED if pending is None else pending.reason
    return ReconcileResult(ready, reason, "m", "sha256:a", followed, pending)


NEWS: dict[str, ReconcileResult] = {
    "another reason": replace(BAD, reason=Reason.FORBIDDEN),
    "another revision": replace(BAD, revision="sha256:c"),
    "it is ready": GOOD,
    "another object fails": replace(
        BAD,
        run_result=RunResult(
            failing={ref("b"): FailedObject(ref("b"), "no", ProblemKind.RUN_FAILED)}
        ),
    ),
    "a plan waits": ended(PENDING),
}


@pytest.mark.parametrize("name", sorted(NEWS))
def test_event_is_about_a_change_of_state(name: str) -> None:
    """Not about a retry, nor about other words for the same."""
    failing = {ref("a"): FailedObject(ref("a"), "no", ProblemKind.RUN_FAILED)}
    bad = replace(BAD, run_result=RunResult(failing=failing))
    before = done({}, bad, EARLY)
    retried = done(before, replace(bad, message="other words"), LATE)
    assert event_state(before) == event_state(retried)
    assert event_state(before) != event_state(done(before, NEWS[name], LATE))


def test_lists_are_bounded() -> None:
    """Whatever the number of objects, and the length of the messages."""
    failing = {
        ref(f"f{n}"): FailedObject(ref(f"f{n}"), "m", ProblemKind.RUN_FAILED) for n in range(100)
    }
    refusal = Problem(ProblemKind.PRUNE_REFUSED, "refused", reason="y" * 5000)
    followed = RunResult(plan=Plan((), ()), refusal=refusal, failing=failing, exit_code=6)
    one = ReconcileResult(ConditionStatus.NOT_READY, Reason.PRUNE_REFUSED, "m" * 5000, "", followed)
    status = done({}, one, EARLY)
    assert len(status["failing"]) == FAILING_SHOWN
    assert status["objects"] == {"total": 0, "failing": 100, "elsewhere": 0}
    assert all(len(each["message"]) <= 1024 for each in status["conditions"])
    assert words(status)["PruneBlocked"] == ("True", "PruneRefused")
    assert "failing" not in done(status, ended(None), LATE)


def test_pending_plan_is_shown_until_nothing_waits() -> None:
    """Ready is false and nothing retries; the same plan writes the same status."""
    first = done({}, ended(PENDING), EARLY)
    assert first["pendingPlan"] == {
        "digest": "sha256:d",
        "scope": "Deletions",
        "revision": "sha256:a",
        "since": EARLY,
        "counts": {"prune": 1},
        "objects": [{"object": "configmap/a", "namespace": "shop", "fate": "prune"}],
    }
    assert words(first) == {
        "Ready": ("False", "PendingApproval"),
        "Reconciling": ("False", "PendingApproval"),
        "Stalled": ("False", "PendingApproval"),
        "PruneBlocked": ("True", "PendingApproval"),
        "Drifted": ("Unknown", "Progressing"),
    }
    assert done(first, ended(PENDING), LATE) == first
    mended = done(first, ended(None), LATE)
    assert "pendingPlan" not in mended
    assert words(mended)["PruneBlocked"] == ("False", "NothingToDo")


def test_pending_plan_without_deletions_blocks_no_prune() -> None:
    """PruneBlocked is about deletions only."""
    creates = replace(PENDING, scope=Scope.PLAN, counts={"create": 1})
    refusal = Problem(ProblemKind.NOT_APPROVED, "the plan is not approved")
    status = done({}, ended(creates, refusal), EARLY)
    assert words(status)["Ready"] == ("False", "PendingApproval")
    assert words(status)["PruneBlocked"] == ("False", "NothingToDo")


def test_reconcile_without_a_plan_reports_no_prune() -> None:
    """A blocked prune stays reported until a plan shows that it is no longer blocked."""
    status = done(done({}, ended(PENDING), EARLY), BAD, LATE)
    assert words(status)["PruneBlocked"][0] == "True"
    assert status["pendingPlan"]["digest"] == "sha256:d"


def test_events_become_counts_and_failures() -> None:
    """The last status stays when the run is interrupted."""
    problem = Forbidden("no", code=403).problem
    events: list[Event] = [
        ObjectDone(ref("a"), Outcome.CREATED),
        ObjectDone(ref("b"), Outcome.FAILED, problem=problem),
        ObjectDone(ref("c"), Outcome.SKIPPED, problem=problem),
        ObjectDone(ref("d"), Outcome.PRUNED),
        ReadinessReported(ref("a"), failed("x"), 1.0, problem),
        Finished({}, 3, 1.5),
    ]
    seen: list[object] = []
    found = collect(events, RunResult(), seen.append)
    assert seen == events
    assert (found.changed, found.deleted, found.exit_code, found.elapsed) == (True, 1, 3, 1.5)
    assert {one.ref.name: one.skipped for one in found.failing.values()} == {
        "a": False,
        "b": False,
        "c": True,
    }


def test_source_lines_are_never_in_the_status() -> None:
    """The source may be a Secret: neither the excerpt nor the hint goes into a status."""
    problem = Problem(
        ProblemKind.INPUT_ERROR,
        "wrong",
        location="secret/a[x]:3",
        hint="the hint",
        origin=Origin("secret/a[x]", 1, 3),
        excerpt="password: hunter2\n          ^",
    )
    assert problem_message(problem) == "secret/a[x]:3: wrong"
    aged = replace(problem, reason="by kubectl 3s ago", lasting_reason="by kubectl")
    assert problem_message(aged) == "secret/a[x]:3: wrong: by kubectl"
    assert len(problem_message(Problem(ProblemKind.RUN_FAILED, "a\n b" * 1000))) == 400
    lines = Problem(ProblemKind.PRUNE_REFUSED, "no", reason="2 must stay\n    a: b\n    c: d")
    assert problem_message(lines) == "no: 2 must stay; a: b; c: d"


def test_message_names_every_error_that_fits() -> None:
    """A condition holds about a thousand characters; the others are counted."""
    few = [Problem(ProblemKind.INPUT_ERROR, f"wrong {number}") for number in range(3)]
    assert error_message(few[:1]) == "wrong 0"
    assert error_message(few) == "wrong 0; wrong 1; wrong 2"
    many = error_message([Problem(ProblemKind.INPUT_ERROR, "x" * 300)] * 9)
    assert many.endswith("x; " + "x" * 300 + " (and 7 more)")
    assert len(many) < 1024


def test_objects_of_an_input_with_errors_are_told() -> None:
    """Such an input has no plan: the size of the set and the pending plan stay as they were."""
    before = {"objects": {"total": 7, "failing": 0}, "pendingPlan": {"digest": "sha256:a"}}
    found = FailedObject(ref("a"), "no", ProblemKind.CONFLICT)
    followed = RunResult(failing={found.ref: found})
    status = done(before, replace(BAD, run_result=followed), LATE)
    assert status["objects"] == {"total": 7, "failing": 1}
    assert [one["object"] for one in status["failing"]] == ["configmap/a"]
    assert status["pendingPlan"] == before["pendingPlan"]


NOW = "2026-01-01T00:00:00Z"
REF = Ref("", "ConfigMap", "shop", "a")
NEW = {"observedGeneration": -1}
"""The status that the CRD gives a new Bundle."""
OF_DELETIONS = PendingPlan(
    "sha256:d",
    Scope.DELETIONS,
    {"prune": 1},
    ((Fate.PRUNE, REF),),
    Reason.PENDING_APPROVAL,
    "m",
    "s",
)
REFUSAL = Problem(ProblemKind.PRUNE_REFUSED, "refused")
FAILING = {REF: FailedObject(REF, "no", ProblemKind.RUN_FAILED)}


def after(
    before: Mapping[str, Any], ready: ConditionStatus, reason: Reason, generation: int, **more: Any
) -> dict[str, Any]:
    """Return the status after a reconcile."""
    result = ReconcileResult(ready, reason, "m", **more)
    return status_after(before, result, generation=generation, now=NOW)


def broke(reason: Reason, generation: int = 1, **more: Any) -> dict[str, Any]:
    """Return the status after a failure."""
    return after(NEW, ConditionStatus.NOT_READY, reason, generation, retries=True, **more)


APPLIED = after(NEW, ConditionStatus.READY, Reason.APPLIED, 1)
HELD = after(APPLIED, ConditionStatus.SAME, Reason.SUSPENDED, 2)
WAITING = after(NEW, ConditionStatus.NOT_READY, Reason.PENDING_APPROVAL, 1,
    run_result=RunResult(plan=Plan((), ())), pending=OF_DELETIONS)  # fmt: skip
BLOCKED = broke(Reason.PRUNE_REFUSED, run_result=RunResult(plan=Plan((), ()), refusal=REFUSAL))
BROKEN = broke(Reason.APPLY_FAILED, run_result=RunResult(plan=Plan((), ()), failing=FAILING))
STALLED = broke(Reason.INVALID_SOURCE)
CURRENT, IN_PROGRESS, FAILED = Status.CURRENT, Status.IN_PROGRESS, Status.FAILED
CASES: dict[str, tuple[dict[str, Any], int, Status]] = {
    "no controller runs": (NEW, 1, IN_PROGRESS),
    "it is being applied": (progressing_status(NEW, 1, NOW), 1, IN_PROGRESS),
    "it is applied": (APPLIED, 1, CURRENT),
    "its spec has changed": (APPLIED, 2, IN_PROGRESS),
    "the change is being applied": (progressing_status(APPLIED, 2, NOW), 2, IN_PROGRESS),
    "that of a stalled one is": (progressing_status(STALLED, 2, NOW), 2, IN_PROGRESS),
    "an object fails": (BROKEN, 1, IN_PROGRESS),
    "it failed and is applied now": (
        after(broke(Reason.APPLY_FAILED), ConditionStatus.READY, Reason.APPLIED, 1), 1, CURRENT
    ),
    "it stalled and is applied now": (
        after(STALLED, ConditionStatus.READY, Reason.APPLIED, 1), 1, CURRENT
    ),
    "a plan waits": (WAITING, 1, IN_PROGRESS),
    "a guard refuses the prune": (BLOCKED, 1, FAILED),
    "it is created suspended": (
        after(NEW, ConditionStatus.SAME, Reason.SUSPENDED, 1), 1, IN_PROGRESS
    ),
    "it is changed and suspended in one edit": (HELD, 2, IN_PROGRESS),
    "it is resumed": (HELD, 3, IN_PROGRESS),
    "it is resumed and being applied": (progressing_status(HELD, 3, NOW), 3, IN_PROGRESS),
    "it is resumed and applied": (
        after(HELD, ConditionStatus.READY, Reason.APPLIED, 3), 3, CURRENT
    ),
    **{
        f"a failure: {reason}": (
            broke(reason), 1, FAILED if reason in STALLED_REASONS else IN_PROGRESS
        )
        for reason in Reason
    },
}  # fmt: skip


def kstatus(body: Mapping[str, Any]) -> Status:
    """Return what kstatus computes for a custom resource (cli-utils, pkg/kstatus/status)."""
    metadata, status = body["metadata"], body["status"]
    if metadata.get("deletionTimestamp"):
        return Status.TERMINATING
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return Status.IN_PROGRESS
    conditions = status.get("conditions", ())
    for condition in conditions:
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return Status.IN_PROGRESS
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return Status.FAILED
    for condition in conditions:
        if condition["type"] == "Ready":
            return Status.CURRENT if condition["status"] == "True" else Status.IN_PROGRESS
    return Status.CURRENT


def test_tools_read_the_state_of_a_bundle() -> None:
    """Ready only if the last generation is applied, however long nobody writes a status.

    `kubectl wait` reads the condition alone, and ignores one of an older generation.
    """
    for name, (status, generation, expected) in CASES.items():
        metadata = {"name": "web", "namespace": "shop", "generation": generation}
        body = {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Bundle", "metadata": metadata,
                "status": status}  # fmt: skip
        assert kstatus(body) is expected, name
        assert assess(body, waited=3600.0, has_status=True).status is expected, name
        met = any(
            (one["type"], one["status"]) == ("Ready", "True")
            and one["observedGeneration"] >= generation
            for one in status.get("conditions", ())
        )
        assert met is (expected is CURRENT), name
        metadata["deletionTimestamp"] = NOW
        assert kstatus(body) is assess(body).status is Status.TERMINATING, name
