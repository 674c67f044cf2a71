"""What a Bundle says about the drift of a run: bounded facts, and never a value of a Secret."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.controller.drift import RevertCount, counts_before, drift_report, reverted_words
from applyprune.controller.reconcile import run_request, tries_rewritten
from applyprune.controller.result import RunResult
from applyprune.controller.sources import LoadedSource
from applyprune.controller.spec import SPEC, BundleSpec
from applyprune.controller.status import unwatched_in
from applyprune.controller.task import Unwatched
from applyprune.model.fate import Fate
from applyprune.model.fieldset import Drift, ObjectWriter
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Cause, Plan
from applyprune.values import replace
from tests.support.planning import body, desired, live, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2025-12-31T23:59:00Z"
INLINE: dict[str, Any] = {"inline": ""}
SECRET: dict[str, Any] = {"secretRefs": [{"name": "s"}]}
KEYED = '/spec/template/spec/containers[name="canary"]/image'


def bundle(policy: str = "Correct", source: dict[str, Any] = INLINE) -> BundleSpec:
    """Return the Bundle ``web`` of the namespace ``home``."""
    spec = SPEC.validate_python({"source": source, "drift": {"policy": policy}})
    return BundleSpec("home", "web", spec, 1.0)


def drift(
    path: str = "/data/key", found: str = '"canary-theirs"', manager: str = "kubectl"
) -> Drift:
    """Return a drifted field."""
    return Drift(path, '"canary-ours"', found, manager, "Update", TIME if manager else "")


def step(name: str, *found: Drift, cause: Cause = Cause.ORDINARY) -> ApplyStep:
    """Return a step with drift; one that is left, if something keeps it."""
    one = desired(body(name=name))
    made = ApplyStep(one, Fate.CHANGE, recorded(one, live(one.ref)), drift=found)
    if cause is Cause.ORDINARY:
        return made
    return replace(made, fate=Fate.LEAVE, cause=cause)


def run(*steps: ApplyStep, written: Sequence[ApplyStep] = ()) -> RunResult:
    """Return the result of a run of these steps."""
    return RunResult(plan=Plan(steps, ()), written={one.desired.ref for one in written})


def condition(
    found: RunResult, about: BundleSpec | None = None, **status: Any
) -> tuple[str, str, str]:
    """Return the condition Drifted after a run."""
    report = drift_report(about or bundle(), (), status, found, NOW)
    assert report.condition is not None
    status_, reason, message = report.condition
    return status_, str(reason), message


def test_first_ten_fields_are_named_with_who_and_when() -> None:
    """What was deleted or removed has nobody."""
    gone = step("z", Drift("", None, None), cause=Cause.DRIFT_KEPT)
    fields = [drift(f"/data/k{number}") for number in range(9)]
    removed = drift("/data/x", found="none", manager="")
    status, reason, message = condition(
        run(gone, step("a", *fields, removed, cause=Cause.DRIFT_KEPT))
    )
    assert (status, reason) == ("True", "DriftDetected")
    parts = message.split("; ")
    assert parts[0] == "configmap/z was deleted"
    assert parts[1] == f"configmap/a /data/k0 (kubectl {TIME})"
    assert parts[9] == f"configmap/a /data/k8 (kubectl {TIME}) and 1 more"
    assert "canary" not in message


def test_reverted_field_has_not_drifted() -> None:
    """An object that failed has."""
    done, failed = step("a", drift()), step("b", drift())
    assert condition(run(done, written=[done]))[:2] == ("False", "NoDrift")
    status, _, message = condition(run(done, failed, written=[done]))
    assert (status, message) == ("True", f"configmap/b /data/key (kubectl {TIME})")


@pytest.mark.parametrize("fate", [Fate.CREATE, Fate.ADOPT, Fate.REFUSE])
def test_set_of_which_nothing_was_applied_has_no_drift_yet(fate: Fate) -> None:
    """For example one whose plan waits for an approval."""
    new = replace(step("a"), fate=fate)
    wanted = ("Unknown", "Progressing", "nothing has been applied yet")
    assert condition(run(new)) == wanted
    assert condition(run(new, written=[new]))[:2] == ("False", "NoDrift")
    assert condition(run(new, replace(step("b"), fate=Fate.LEAVE)))[:2] == ("False", "NoDrift")
    assert condition(run())[:2] == ("False", "NoDrift")


def test_conflict_is_no_drift_that_could_be_set_back() -> None:
    """Where nothing is reverted, nothing else would name it."""
    applied = replace(drift(), operation="Apply")
    assert condition(run(step("a", applied)))[:2] == ("False", "NoDrift")
    assert condition(run(step("a", applied, cause=Cause.DRIFT_KEPT)), bundle("Report"))[0] == "True"


@pytest.mark.holds(
    "unwatched-is-unknown",
    row="this replica of the controller has no watch left for some of its objects",
)
@pytest.mark.parametrize("why", list(Unwatched))
def test_nothing_that_has_drifted_is_unknown_where_nobody_watches(why: Unwatched) -> None:
    """What a run has found is known; and the status keeps the reason across a restart."""
    for steps, expected in (
        ([step("a")], "Unknown"),
        ([step("a", drift(), cause=Cause.DRIFT_KEPT)], "True"),
        ([step("a", drift(), cause=Cause.CONTENDED)], "True"),
    ):
        report = drift_report(bundle(), (), {}, run(*steps), NOW, unwatched=why)
        assert report.condition is not None
        status, reason, message = report.condition
        assert status == expected
        told = {"type": "Drifted", "status": status, "reason": str(reason), "message": message}
        assert unwatched_in({"conditions": [told]}) == (why if status == "Unknown" else "")


def test_ignored_drift_is_unknown() -> None:
    """Whatever the run has seen."""
    found = condition(run(step("a", drift(), cause=Cause.DRIFT_KEPT)), bundle("Ignore"))
    assert found[:2] == ("Unknown", "DriftIgnored")


def test_contended_field_comes_with_values_and_what_resolves_it() -> None:
    """It is counted, and holds up the Bundle until its manager is quiet."""
    left = step("a", drift(), cause=Cause.CONTENDED)
    report = drift_report(bundle(), (), {}, run(left), NOW)
    assert report.condition is not None
    message = report.condition[2]
    assert message == (
        "configmap/a /data/key: kubectl has changed it again after 5 reverts (ours "
        '"canary-ours", theirs "canary-theirs"). To end this: ignoreFields: [{kind: ConfigMap, '
        "fields: ['/data/key']}], or the annotation applyprune.dev/conflicts: skip"
    )
    assert report.contended == "configmap/a"
    assert report.due == datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
    assert report.fields["contention"] == [
        {
            "object": "configmap/a",
            "namespace": "home",
            "manager": "kubectl",
            "reverts": 5,
            "last": TIME,
        }
    ]


@pytest.mark.holds("secret-source-keys")
def test_nothing_of_a_secret_source_is_shown_but_names() -> None:
    """Neither a value nor the key of a map or of a list's item."""
    about = bundle(source=SECRET)
    for cause in (Cause.CONTENDED, Cause.DRIFT_KEPT):
        found = run(step("a", drift(KEYED), cause=cause))
        fields = ('.spec.containers[name="canary"].image', ".data.canary")
        found.rewritten = {step("a").desired.ref: fields}
        report = drift_report(about, (), {}, found, NOW)
        assert "canary" not in str((report.condition, report.fields))
    assert report.condition is not None
    assert report.condition[2] == f"configmap/a /spec/template/spec/containers (kubectl {TIME})"
    whole = drift_report(bundle(), (), {}, found, NOW)
    assert KEYED in str(whole.condition)


def test_rewritten_fields_stay_reported_until_their_object_is_sent_again() -> None:
    """Or has left the source."""
    one, other = step("a"), step("b")
    first = run(one, other)
    first.rewritten = {one.desired.ref: (".data.key",), other.desired.ref: ()}
    report = drift_report(bundle(), (), {}, first, NOW)
    stored = {"rewritten": list(report.rewritten or ())}
    assert [each["object"] for each in stored["rewritten"]] == ["configmap/a"]
    assert condition(first)[1:] == (
        "ChangedByAdmission",
        "the server stores other values than were sent: configmap/a .data.key",
    )
    idle = run(one, other)
    assert drift_report(bundle(), (), stored, idle, NOW).fields["rewritten"] == stored["rewritten"]
    mended = run(one, other)
    mended.rewritten = {one.desired.ref: ()}
    for later in (mended, run(other)):
        assert drift_report(bundle(), (), stored, later, NOW).fields["rewritten"] == []


def test_part_of_the_objects_says_nothing_about_the_others() -> None:
    """Drift that it finds is reported; that it finds none proves nothing."""
    known = {"rewritten": [{"object": "configmap/b", "namespace": "home", "fields": [".data.x"]}]}
    quiet = drift_report(bundle(), (), known, run(step("a")), NOW, is_part=True)
    assert quiet.condition is None
    assert quiet.fields["rewritten"] == known["rewritten"]
    found = drift_report(bundle(), (), {}, run(step("a", drift())), NOW, is_part=True)
    assert found.condition is not None
    assert found.condition[0] == "True"


def test_rewritten_fields_are_bounded() -> None:
    """Ten objects, five fields each."""
    steps = [step(f"n{number:02}") for number in range(12)]
    found = run(*steps)
    fields = tuple(f".data.k{number}" for number in range(7))
    found.rewritten = {one.desired.ref: fields for one in steps}
    shown = drift_report(bundle(), (), {}, found, NOW).fields["rewritten"]
    assert (len(shown), {len(one["fields"]) for one in shown}) == (10, {5})


def test_run_without_a_plan_keeps_what_is_known() -> None:
    """Only the counts may begin again."""
    counts = (RevertCount(ObjectWriter("configmap/a", "shop", "kubectl"), 1, NOW),)
    report = drift_report(bundle(), counts, {}, RunResult(), NOW)
    assert (report.condition, report.counts, report.rewritten) == (None, counts, None)


COUNT = {"object": "configmap/a", "reverts": 1, "last": TIME}
STATUS = {
    "observedGeneration": 1,
    "lastHandledReconcileAt": "1",
    "lastAttemptedRevision": "sha256:a",
    "contention": [COUNT],
}
BEGINS = {
    "nothing has changed": (1, "1", "sha256:a", False),
    "the source was not read": (1, "1", "", False),
    "the spec has changed": (2, "1", "sha256:a", True),
    "a reconcile was requested": (1, "2", "sha256:a", True),
    "the source has changed": (1, "1", "sha256:b", True),
}


@pytest.mark.parametrize("name", BEGINS)
def test_counts_begin_again_with_each_change_of_the_bundle(name: str) -> None:
    """The status says for which of its states they were made."""
    generation, request, revision, again = BEGINS[name]
    metadata = {"generation": generation, "annotations": {"applyprune.dev/reconcile-now": request}}
    ref = desired(body(name="web")).ref
    one = LiveObject.of(ref, "u", "1", metadata, {"status": STATUS})
    assert len(counts_before(one, revision)) == (0 if again else 1)
    # Values of Secrets, which no revision shows.
    assert counts_before(one, revision, is_new_source=True) == ()


@pytest.mark.holds("rewritten-no-drift")
def test_value_that_admission_rewrites_again_does_not_count_as_drift() -> None:
    """The object was sent again and is as before; what somebody has changed is drift beside it."""
    one = step("a", drift(manager=""))
    found = run(one)
    found.rewritten[one.desired.ref] = (".data.key",)
    assert condition(found)[1] == "ChangedByAdmission"
    report = drift_report(bundle(), (), {}, found, NOW)
    assert report.counts == ()
    both = run(replace(one, drift=(drift(manager=""), drift("/data/other"))))
    both.rewritten[one.desired.ref] = (".data.key",)
    assert condition(both)[1] == "DriftDetected"


def test_field_that_another_applier_wins_is_contended_in_a_part_too() -> None:
    """Else the Bundle would not be ready because of what its condition does not say."""
    one = step("a", replace(drift(manager="applyprune/home/other"), operation="Apply"))
    left = replace(one, fate=Fate.LEAVE, cause=Cause.CONTENDED)
    report = drift_report(bundle(), (), {}, run(left), NOW, is_part=True)
    assert report.condition is not None
    assert report.condition[:2] == ("True", "Contended")
    assert report.contended == "configmap/a"


TRIES: dict[str, tuple[bool, dict[str, Any], dict[str, Any]]] = {
    "a request": (True, {}, {}),
    "nothing is rewritten": (False, {}, {"rewritten": []}),
    "no request": (False, {}, {"lastHandledReconcileAt": "2"}),
    "a policy that leaves drift": (False, {"drift": {"policy": "Report"}}, {}),
    "plans that need an approval": (False, {"approval": "Always"}, {}),
    "prunes that need an approval": (True, {"approval": "Prune"}, {}),
}


@pytest.mark.parametrize("name", TRIES)
def test_rewritten_objects_are_tried_again_for_a_reason(name: str) -> None:
    """Not where a write needs another reason too."""
    expected, spec, status = TRIES[name]
    metadata = {"generation": 1, "annotations": {"applyprune.dev/reconcile-now": "2"}}
    body_ = {"status": {**STATUS, "rewritten": [{"object": "configmap/a"}], **status}}
    one = LiveObject.of(desired(body(name="web")).ref, "u", "1", metadata, body_)
    parsed = SPEC.validate_python({"source": INLINE, **spec})
    assert tries_rewritten(one, BundleSpec("home", "web", parsed, 1.0), "sha256:a") is expected


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("name", ["a request", *list(TRIES)[3:]])
def test_jobs_run_again_only_for_a_request(name: str, is_asked: bool) -> None:
    """And only if the next reconcile would not plan it otherwise."""
    expected, spec, _ = TRIES[name]
    one = LiveObject.of(desired(body(name="web")).ref, "u", "1", {"generation": 1}, {})
    parsed = SPEC.validate_python({"source": INLINE, **spec})
    asked = BundleSpec("home", "web", parsed, 1.0)
    request = run_request(one, asked, LoadedSource((), "sha256:a"), None, is_asked=is_asked)
    assert request.options.reruns_jobs is (expected and is_asked)


def test_event_says_what_was_set_back() -> None:
    """Only of objects that were written."""
    one, failed = (
        replace(step(name), reverts=(("/data/key", "kubectl-edit"),)) for name in ("a", "b")
    )
    assert reverted_words(run(one, failed, written=[one])) == (
        "reverted 1 field that kubectl-edit had changed"
    )
    assert reverted_words(RunResult()) == ""
