"""An input with errors: one run reports them and everything else that is wrong; it only reads."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from applyprune import ApplySet, Input
from applyprune.errors import ApplypruneError, InputErrors, Interrupted, problems_of
from applyprune.model.events import Explanation, ObjectDone, Planned, PruneBlocked, WarningRaised
from applyprune.model.options import DryRun, Mode
from applyprune.planning.desired import HOOK
from applyprune.planning.marks import READY_WHEN
from applyprune.planning.order import DEPENDS_ON
from tests.support.actors import ALICE
from tests.support.api import WRITES
from tests.support.command import applyprune
from tests.support.fault_proxy import always, faults
from tests.support.input_files import write_input
from tests.support.objects import config_map, manifest
from tests.support.stage import Stage
from tests.support.workloads import workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from applyprune.model.events import Event
    from tests.support.api import AuditTrail
    from tests.support.fault_proxy import FaultProxy
    from tests.support.plane import Kubectl

UNKNOWN: dict[str, Any] = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
TYPO = {**config_map("typo"), "datum": {}}
FAULTY = [
    config_map("hook", annotations={HOOK: "pre-install"}),
    UNKNOWN,
    TYPO,
    config_map("a", "mine"),
    config_map("theirs"),
    config_map("good"),
]
FAILED = {"configmap/typo": 3, "configmap/a": 4, "configmap/theirs": 5}
"""What is wrong beside the errors of the input, with its line."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that an error of its input has ended."""

    error: ApplypruneError
    events: list[Event] = field(default_factory=list)

    @property
    def errors(self) -> list[str]:
        """Return the errors of the run, as the user reads them."""
        return [str(problem) for problem in problems_of(self.error)]

    @property
    def failed(self) -> dict[str, str]:
        """Return the problem of each object, as the user reads it."""
        done = [event for event in self.events if isinstance(event, ObjectDone)]
        return {event.ref.short: str(event.problem) for event in done}


def _refusal(stage: Stage, call: Callable[[Stage], object]) -> Refusal:
    events: list[Event] = []
    with pytest.raises(ApplypruneError) as caught:
        call(replace(stage, seen=events.append))
    return Refusal(caught.value, events)


def _refused(stage: Stage, *bodies: dict[str, Any], **options: Any) -> Refusal:
    return _refusal(stage, lambda own: own.run(*bodies, **options))


def _sent(audit: AuditTrail) -> list[str]:
    """Return the requests of applyprune that change something or are dry runs."""
    return [
        event["requestURI"]
        for event in audit.events()
        if event["userAgent"].startswith("applyprune/") and event["verb"] in WRITES
    ]


@pytest.fixture
def crowded(stage: Stage, kubectl: Kubectl) -> Stage:
    """A set with a conflict, a foreign object in its input, and five objects that have left it."""
    replace(stage, name="other").run(config_map("theirs"))
    stage.run(config_map("a"), *(config_map(f"old-{number}") for number in range(5)))
    patch = ["-n", stage.namespace, "-p", '{"data":{"key":"hers"}}', f"--field-manager={ALICE}"]
    kubectl("patch", "configmap/a", *patch)
    return stage


@pytest.mark.parametrize(
    "options",
    [{}, {"check": True}, {"dry_run": DryRun.SERVER}, {"diff": True}, {"create_namespace": True}],
)
def test_one_run_reports_everything(
    crowded: Stage, audit: AuditTrail, options: dict[str, Any]
) -> None:
    """A hook, an unknown kind, a typo in a field, a conflict, and an object of another set."""
    audit.restart()
    refused = _refused(crowded, *FAULTY, **options)
    assert refused.error.exit_code == 2
    unknown, hook = refused.errors
    assert "set.yaml:2" in unknown
    assert "no matches for kind Foo" in unknown
    assert "set.yaml:1" in hook
    assert "configmap/hook is an install or upgrade hook" in hook
    assert refused.failed.keys() == FAILED.keys()
    assert all(f"set.yaml:{line}" in refused.failed[name] for name, line in FAILED.items())
    assert "datum" in refused.failed["configmap/typo"]
    assert ALICE in refused.failed["configmap/a"]
    assert "belongs to another set" in refused.failed["configmap/theirs"]
    assert not any(isinstance(event, Planned | PruneBlocked) for event in refused.events)
    assert _sent(audit) == []


def test_prune_reports_the_errors_of_its_input_alone(crowded: Stage) -> None:
    """It applies nothing, so the valid objects do not matter to it."""
    refused = _refused(crowded, *FAULTY, mode=Mode.PRUNE)
    assert (len(refused.errors), refused.failed) == (2, {})


def test_explain_reports_everything(crowded: Stage, audit: AuditTrail) -> None:
    """What it explains is a run that cannot be planned."""
    audit.restart()
    refused = _refusal(crowded, lambda own: own.explain("configmap/good", *FAULTY))
    assert len(refused.errors) == 2
    assert refused.failed.keys() == FAILED.keys()
    assert not any(isinstance(event, Explanation) for event in refused.events)
    assert _sent(audit) == []


def test_object_with_an_error_does_not_look_pruned(stage: Stage) -> None:
    """Neither it nor what has really left the set is shown or counted."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    labelled = config_map("b", labels={"applyset.kubernetes.io/part-of": "x"})
    refused = _refused(stage, config_map("a", "new"), labelled)
    assert (len(refused.errors), refused.failed) == (1, {})
    assert {type(event).__name__ for event in refused.events} == {"Started"}
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}


def test_object_in_the_wrong_order_is_checked_too(stage: Stage) -> None:
    """A missing dependency, and an invalid rule: their objects have other faults besides."""
    needy = {**TYPO, "metadata": {"name": "needy", "annotations": {DEPENDS_ON: "/Secret/nowhere"}}}
    ruled = {**TYPO, "metadata": {"name": "ruled", "annotations": {READY_WHEN: "self.("}}}
    refused = _refused(stage, needy, ruled)
    assert ["set.yaml:1" in refused.errors[0], "set.yaml:2" in refused.errors[1]] == [True, True]
    assert refused.failed.keys() == {"configmap/needy", "configmap/ruled"}


def test_rules_of_the_command_line_are_among_the_errors(stage: Stage) -> None:
    """All of them."""
    rules = (("cm", "self.("), ("Service", "self.("))
    refused = _refused(stage, UNKNOWN, TYPO, ready_when=rules)
    assert ["Foo" in refused.errors[0], *("--ready-when" in one for one in refused.errors[2:])]
    assert len(refused.errors) == 3
    assert refused.failed.keys() == {"configmap/typo"}


def test_missing_key_is_a_warning_beside_the_errors(stage: Stage) -> None:
    """What a workload refers to in the set itself; objects outside are not looked up."""
    names = {"configMapKeyRef": {"name": "a", "key": "nowhere"}}
    pods = {
        "containers": [{"name": "c", "image": "x", "env": [{"name": "E", "valueFrom": names}]}],
        "serviceAccountName": "nobody",
    }
    refused = _refused(stage, UNKNOWN, config_map("a"), workload("Deployment", pods=pods))
    (warning,) = (one.problem for one in refused.events if isinstance(one, WarningRaised))
    assert "nowhere" in str(warning)


def test_input_without_a_valid_object_costs_no_reads(spoiled: Stage, proxy: FaultProxy) -> None:
    """But discovery and the inventory."""
    spoiled.run(config_map("a"))
    before = len(proxy.exchanges)
    assert len(_refused(spoiled, UNKNOWN).errors) == 1
    sent = [one.path for one in proxy.exchanges[before:] if one.path not in {"/api", "/apis"}]
    assert [path.rpartition("/")[2] for path in sent] == ["applyprune-web"]


def test_object_that_cannot_be_read_is_reported_with_the_errors(
    stage: Stage, spoiled: Stage, proxy: FaultProxy
) -> None:
    """No rights: it fails alone, and the others are checked."""
    proxy.rule = always(
        faults.status(403, reason="Forbidden", message="no"),
        where=lambda seen: seen.path.endswith("/configmaps/a"),
    )
    refused = _refused(spoiled, UNKNOWN, config_map("a"), TYPO)
    assert len(refused.errors) == 1
    assert refused.failed.keys() == {"configmap/a", "configmap/typo"}
    assert "cannot be read" in refused.failed["configmap/a"]


def test_cancelled_run_says_that_it_was_cancelled(stage: Stage) -> None:
    """And not that the input has errors: it has not checked all of it."""
    left_out = config_map("clean", annotations={HOOK: "pre-delete"})

    def stop(event: Event) -> None:
        if isinstance(event, WarningRaised):
            stage.stop.request(2)

    with pytest.raises(Interrupted):
        replace(stage, seen=stop).run(left_out, UNKNOWN, config_map("a"))


def test_errors_of_the_input_are_told_if_the_run_is_refused_too(stage: Stage) -> None:
    """Its namespace is missing; the set belongs to a Bundle; nothing is selected."""
    missing = _refused(Stage(stage.kubeconfig, f"{stage.namespace}-new"), UNKNOWN, TYPO)
    assert "Foo" in missing.errors[0]
    assert missing.errors[1].startswith(f"the namespace {stage.namespace}-new does not exist")
    stage.run(config_map("a"))
    other = _refused(replace(stage, owner="Bundle shop/web"), UNKNOWN, TYPO)
    assert "Foo" in other.errors[0]
    assert "does not belong to Bundle shop/web" in other.errors[1]
    for refused in (missing, other):
        assert len(refused.errors) == 2
        assert (refused.error.exit_code, refused.failed) == (2, {})


def test_python_caller_sees_everything_in_one_error(crowded: Stage) -> None:
    """The other faults are notes of the error."""
    manifests = Input(tuple(manifest(raw, line) for line, raw in enumerate(FAULTY, 1)))
    with crowded.connection() as cluster:
        applyset: ApplySet = crowded.applyset(cluster)
        for call in (
            lambda: applyset.apply(manifests),
            lambda: applyset.plan(manifests),
            lambda: applyset.explain("configmap/good", manifests),
        ):
            with pytest.raises(InputErrors) as caught:
                call()
            assert len(caught.value.errors) == 2
            notes = caught.value.__notes__
            assert [f"set.yaml:{line}" in note for line, note in zip((4, 5, 3), notes, strict=True)]


def test_command_line_reports_everything(
    plane: Plane, crowded: Stage, audit: AuditTrail, tmp_path: Path
) -> None:
    """In every verb, with file, line and column, and exit code 2."""
    source = write_input(tmp_path / "set.yaml", FAULTY)
    plan = tmp_path / "web.plan"
    audit.restart()
    for verb in (
        ("apply", "web"),
        ("apply", "web", "--check"),
        ("apply", "web", "--dry-run"),
        ("plan", "web", "--out", plan),
        ("diff", "web"),
        ("explain", "web", "configmap/good"),
    ):
        ended = applyprune(
            *verb, "-f", source, "-n", crowded.namespace, kubeconfig=plane.kubeconfig
        )
        assert ended.code == 2, ended.err
        places = re.findall(rf"^error: {re.escape(str(source))}:(\d)\b", ended.err, re.MULTILINE)
        assert sorted(places) == ["1", "2", "3", "4", "5"], ended.err
        assert "old-" not in ended.out + ended.err
        assert ended.lines.keys() <= FAILED.keys()
        assert not re.search("^: ", ended.out, re.MULTILINE)  # an explanation has no summary
    assert not plan.exists()
    assert _sent(audit) == []


def test_json_has_everything(plane: Plane, crowded: Stage, tmp_path: Path) -> None:
    """The errors of the input, and the objects with a problem."""
    source = write_input(tmp_path / "set.yaml", FAULTY)
    arguments = ("apply", "web", "-f", source, "-n", crowded.namespace, "-o", "json")
    ended = applyprune(*arguments, kubeconfig=plane.kubeconfig)
    told = json.loads(ended.out)
    assert (ended.code, told["exitCode"], told["plan"]) == (2, 2, None)
    assert [one["origin"]["line"] for one in told["errors"]] == [2, 1]
    found = {one["ref"]["name"]: one["problem"]["origin"]["line"] for one in told["objects"]}
    assert found == {name.partition("/")[2]: line for name, line in FAILED.items()}
    assert told["counts"]["failed"] == len(FAILED)
