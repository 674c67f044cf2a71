"""Fields of others: explained, taken, skipped or left to them, on the real API server."""

from __future__ import annotations

import base64
import copy
import json
import re
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.model.events import ObjectDiff, ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun
from applyprune.output.json import event_data
from applyprune.planning.applyset import PART_OF
from applyprune.planning.marks import APPLY
from tests.support.actors import ALICE, ARGO
from tests.support.api import Api, AuditTrail
from tests.support.objects import config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage, Story

DEPLOYMENT: dict[str, Any] = of_kind(
    "Deployment",
    "web",
    spec={
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {"name": "c", "image": "web:1", "env": [{"name": "A", "value": "1"}]}
                ]
            },
        },
    },
)
IGNORE = "applyprune.dev/ignore-fields"
CONFLICTS = "applyprune.dev/conflicts"
SCALED = {IGNORE: "/spec/replicas"}
WRITES = {"create", "update", "patch", "delete"}


def deployment(
    annotations: dict[str, str] | None = None, *, image: str = "web:1", **spec: Any
) -> dict[str, Any]:
    """Return the Deployment with parts of its spec changed."""
    one = copy.deepcopy(DEPLOYMENT)
    one["metadata"]["annotations"] = annotations or {}
    one["spec"]["template"]["spec"]["containers"][0]["image"] = image
    one["spec"].update(spec)
    return one


def _path(stage: Stage, name: str = "web", kind: str = "deployments") -> str:
    group = "/apis/apps/v1" if kind == "deployments" else "/api/v1"
    return f"{group}/namespaces/{stage.namespace}/{kind}/{name}"


def _scale(api: Api, stage: Stage, replicas: int) -> None:
    """Scale as the HPA's controller does: an Update of the scale subresource."""
    api.patch(
        f"{_path(stage)}/scale", {"spec": {"replicas": replicas}}, by="kube-controller-manager"
    )


def _hpa(api: Api, stage: Stage) -> None:
    body = of_kind(
        "HorizontalPodAutoscaler",
        "web-hpa",
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 10,
        },
    )
    path = f"/apis/autoscaling/v2/namespaces/{stage.namespace}/horizontalpodautoscalers"
    api.create(path, body)


def _replicas(api: Api, stage: Stage) -> int:
    found: int = api.get(_path(stage))["spec"]["replicas"]
    return found


def _managers(found: dict[str, Any]) -> set[str]:
    return {
        entry["manager"]
        for entry in found["metadata"]["managedFields"]
        if not entry.get("subresource")
    }


def _owners(found: dict[str, Any], *path: str) -> set[str]:
    """Return who owns a field, by its FieldsV1 names."""
    owners = set()
    for entry in found["metadata"]["managedFields"]:
        fields = entry["fieldsV1"]
        for name in path:
            fields = fields.get(name) if fields is not None else None
        if fields is not None:
            owners.add(entry["manager"])
    return owners


def _writes(audit: AuditTrail, namespace: str) -> list[str]:
    """Return the requests of our runs that may have changed something."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in audit.ours()
        if event["verb"] in WRITES and f"/namespaces/{namespace}/" in event["requestURI"]
    ]


def _conflicts(story: Story) -> dict[str, Any]:
    """Return the conflicts of the one object that has any, as programs read them, by manager."""
    found = [
        one["problem"]["conflicts"]
        for one in map(event_data, story.events)
        if one["event"] == "object" and one["problem"] is not None
    ]
    (conflicts,) = found
    return {one["manager"]: one for one in conflicts}


def test_autoscaled_deployment_fails_with_an_explanation_and_applies_with_the_annotation(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Without the default rule; the replicas are the autoscaler's from then on."""
    stage.run(deployment())
    _hpa(api, stage)
    _scale(api, stage, 5)
    off = frozenset({"autoscaled-replicas"})
    refused = stage.run(deployment(image="web:2"), config_map("a"), no_default_ignore=off)
    assert refused.outcomes == {"deployment.apps/web": Outcome.FAILED}
    assert refused.exit_code == 4
    told = refused.problem("deployment.apps/web")
    assert ".spec.replicas: theirs 5 → ours 3, owned by kube-controller-manager (Update of" in told
    assert f"{IGNORE}: /spec/replicas" in told

    applied = stage.run(deployment(SCALED, image="web:2"), config_map("a"))
    assert applied.exit_code == 0
    assert applied.outcomes["deployment.apps/web"] is Outcome.UPDATED
    found = api.get(_path(stage))
    assert found["spec"]["replicas"] == 5
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert stage.target.yielded not in _managers(found)

    audit.restart()
    again = stage.run(deployment(SCALED, image="web:2"), config_map("a"))
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert _writes(audit, stage.namespace) == []
    _scale(api, stage, 7)
    again = stage.run(deployment(SCALED, image="web:2"), config_map("a"), reapply_all=True)
    assert again.outcomes["deployment.apps/web"] is Outcome.UNCHANGED
    assert _replicas(api, stage) == 7


@pytest.mark.holds("second-owner")
def test_ignored_field_that_only_we_own_keeps_its_value(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Left out at once it would fall back to 1; wanted back, it is ours again."""
    stage.run(deployment(replicas=5))
    seen: list[int] = []
    stage.seen = lambda _: seen.append(_replicas(api, stage))
    dry = stage.run(deployment(SCALED, replicas=3), dry_run=DryRun.SERVER)
    assert dry.exit_code == 0
    story = stage.run(deployment(SCALED, replicas=3))
    assert story.outcomes == {"deployment.apps/web": Outcome.UPDATED}
    assert set(seen) == {5}
    found = api.get(_path(stage))
    assert found["spec"]["replicas"] == 5
    assert _owners(found, "f:spec", "f:replicas") == {stage.target.yielded}

    audit.restart()
    assert stage.run(deployment(SCALED, replicas=3)).outcomes == {
        "deployment.apps/web": Outcome.UNCHANGED
    }
    assert _writes(audit, stage.namespace) == []

    both = {IGNORE: '/spec/replicas /spec/template/spec/containers[name="c"]/image'}
    stage.run(deployment(both, replicas=3, image="web:2"))
    found = api.get(_path(stage))
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
    assert found["spec"]["replicas"] == 5

    stage.seen = lambda _: None
    dry = stage.run(deployment(replicas=3, image="web:2"), dry_run=DryRun.SERVER)
    assert dry.exit_code == 0, dry.problem("deployment.apps/web")
    back = stage.run(deployment(replicas=3, image="web:2"))
    assert back.exit_code == 0
    found = api.get(_path(stage))
    assert found["spec"]["replicas"] == 3
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert stage.target.yielded not in _managers(found)


def test_ignored_field_is_sent_at_creation_only(stage: Stage, api: Api) -> None:
    """An annotation that somebody changes, then removes, then a key of data."""
    marks = {IGNORE: "/metadata/annotations/x.io~1note, /data/free", "x.io/note": "ours"}

    def one(value: str = "v") -> dict[str, Any]:
        body = config_map("a", value, annotations=marks)
        return {**body, "data": {**body["data"], "free": "ours"}}

    stage.run(one())
    path = _path(stage, "a", "configmaps")
    assert api.get(path)["metadata"]["annotations"]["x.io/note"] == "ours"
    assert api.get(path)["data"]["free"] == "ours"
    assert stage.run(one()).outcomes == {"configmap/a": Outcome.UNCHANGED}
    theirs = {"metadata": {"annotations": {"x.io/note": None}}, "data": {"free": "theirs"}}
    api.patch(path, theirs, by=ALICE)
    for value in ("v", "v", "w"):
        assert stage.run(one(value)).exit_code == 0
        found = api.get(path)
        assert "x.io/note" not in found["metadata"]["annotations"]
        assert found["data"] == {"key": value, "free": "theirs"}
    assert _owners(found, "f:data", "f:free") == {ALICE}


def test_ignored_field_that_the_object_lacks_is_sent_without_the_rule_only(
    stage: Stage, api: Api
) -> None:
    """Others may have removed it; once it was sent, the rule keeps its value."""
    left = {IGNORE: "/spec/minReadySeconds"}
    for given, there in (
        (deployment(left), None),
        (deployment(left, minReadySeconds=5), None),
        (deployment(minReadySeconds=5), 5),
        (deployment(left, minReadySeconds=7), 5),
    ):
        assert stage.run(given).exit_code == 0
        assert api.get(_path(stage))["spec"].get("minReadySeconds") == there


def test_ignored_field_co_owned_by_another_manager_is_released(stage: Stage, api: Api) -> None:
    """The second manager goes with the next apply, and the value stays."""
    stage.run(deployment(replicas=5))
    stage.run(deployment(SCALED))
    assert stage.target.yielded in _managers(api.get(_path(stage)))
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    api.apply(_path(stage), {**body, "spec": {"replicas": 5}}, by=ARGO)
    stage.run(deployment(SCALED, image="web:2"))
    found = api.get(_path(stage))
    assert _owners(found, "f:spec", "f:replicas") == {ARGO}
    assert found["spec"]["replicas"] == 5


def test_ignored_field_of_an_adopted_object_keeps_its_value(stage: Stage, api: Api) -> None:
    """Its fields become ours by the take-over first, and are released anyway."""
    path = _path(stage, "", "deployments").rstrip("/")
    api.create(path, deployment(replicas=5, paused=True), by="kubectl-client-side-apply")
    story = stage.run(deployment(SCALED))
    assert story.outcomes == {"deployment.apps/web": Outcome.UPDATED}
    found = api.get(_path(stage))
    assert found["spec"]["replicas"] == 5
    assert "paused" not in found["spec"], "what only kubectl's manifest held goes"
    assert _owners(found, "f:spec", "f:replicas") == {stage.target.yielded}


def test_ignored_part_of_an_atomic_mapping_is_refused(stage: Stage, api: Api) -> None:
    """Leaving it out would change the whole field; the whole field may be ignored."""
    service: dict[str, Any] = of_kind(
        "Service",
        "web",
        {"annotations": {IGNORE: "/spec/selector/app"}},
        spec={"selector": {"app": "web", "tier": "front"}, "ports": [{"port": 80}]},
    )
    assert stage.run(service).exit_code == 0
    service["spec"]["ports"] = [{"port": 81}]
    story = stage.run(service)
    assert story.exit_code == 3
    assert "Ignore the whole value: /spec/selector" in story.problem("service/web")
    service["metadata"]["annotations"] = {IGNORE: "/spec/selector"}
    assert stage.run(service).exit_code == 0
    assert api.get(_path(stage, "web", "services"))["spec"]["selector"] == {
        "app": "web",
        "tier": "front",
    }


def test_contended_object_is_skipped_on_request(stage: Stage, api: Api) -> None:
    """Exit code 0; the others are applied and pruned; its managers do not change either."""
    skip = {CONFLICTS: "skip", IGNORE: "/data/free"}

    def one(value: str, other: str = "w", **marks: str) -> dict[str, Any]:
        body = config_map("a", value, annotations={**skip, **marks})
        return {**body, "data": {"key": value, "other": other, "free": "f"}}

    stage.run(one("v"), config_map("go"))
    path = _path(stage, "a", "configmaps")
    api.patch(path, {"data": {"key": "theirs"}}, by=ALICE)
    before = api.get(path)
    story = stage.run(one("ours", "new"), config_map("b"), conflicts=Conflicts.FORCE)
    assert story.outcomes == {
        "configmap/a": Outcome.SKIPPED,
        "configmap/b": Outcome.CREATED,
        "configmap/go": Outcome.PRUNED,
    }
    assert story.exit_code == 0
    assert api.get(path) == before
    assert stage.listed() == {"configmap/a", "configmap/b"}
    dry = stage.run(one("ours", "new"), config_map("b"), dry_run=DryRun.SERVER)
    assert dry.outcomes["configmap/a"] is Outcome.SKIPPED
    api.patch(path, {"data": {"key": "ours"}}, by=stage.target.manager)
    api.patch(path, {"data": {"key": "ours"}}, by=ALICE)
    assert stage.run(one("ours", "new"), config_map("b")).exit_code == 0
    assert api.get(path)["data"]["other"] == "new"


@pytest.mark.holds("dry-run-before-skip")
def test_object_skipped_at_adoption_is_not_listed(stage: Stage, api: Api) -> None:
    """It was never touched, so nothing must be released; the next run adopts it."""
    path = stage.path()
    before = api.create(path, config_map("a", "theirs"), by=ALICE)
    skipped = config_map("a", "ours", annotations={CONFLICTS: "skip"})
    story = stage.run(skipped, config_map("b"))
    assert (story.outcomes["configmap/a"], story.exit_code) == (Outcome.SKIPPED, 0)
    assert api.get(f"{path}/a") == before
    assert stage.listed() == {"configmap/b"}
    api.patch(f"{path}/a", {"data": {"key": None}}, by=ALICE)
    assert stage.run(skipped, config_map("b")).outcomes["configmap/a"] is Outcome.UPDATED
    assert stage.listed() == {"configmap/a", "configmap/b"}


def test_force_annotation_takes_the_fields_of_that_object_alone(stage: Stage, api: Api) -> None:
    """The other one fails as ever, and stops the run before it writes anything."""
    stage.run(config_map("a"), config_map("b"))
    for name in ("a", "b"):
        api.patch(_path(stage, name, "configmaps"), {"data": {"key": "theirs"}}, by=ALICE)
    forced = config_map("a", "ours", annotations={CONFLICTS: "force"})
    story = stage.run(forced, config_map("b", "ours"))
    assert story.outcomes == {"configmap/b": Outcome.FAILED}
    assert story.exit_code == 4
    story = stage.run(forced, config_map("b", "theirs"))
    assert story.exit_code == 0
    reasons = {done.ref.name: done.reason for done in story.of(ObjectDone)}
    assert reasons == {"a": "took fields from alice", "b": ""}
    assert api.get(_path(stage, "a", "configmaps"))["data"] == {"key": "ours"}
    assert api.get(_path(stage, "b", "configmaps"))["data"] == {"key": "theirs"}


MARKED: dict[str, tuple[Conflicts, dict[str, str], int]] = {
    "revert": (Conflicts.FAIL, {"drifted": "ours", "taken": "theirs"}, 4),
    "force": (Conflicts.FAIL, {"drifted": "ours", "taken": "ours"}, 0),
    "fail": (Conflicts.FORCE, {"drifted": "theirs", "taken": "theirs"}, 4),
}
"""What the options say, what an object with an annotation becomes, and how the run ends."""


@pytest.mark.holds("own-conflicts", row="fail")
@pytest.mark.parametrize("mark", MARKED)
def test_annotation_decides_for_its_object(stage: Stage, api: Api, mark: str) -> None:
    """About drift, and about a field that another manager applies; the options do not."""
    conflicts, expected, code = MARKED[mark]
    found = {}
    for name in ("drifted", "taken"):
        body = config_map(name, "ours", annotations={CONFLICTS: mark})
        own = Stage(stage.kubeconfig, stage.namespace, name=name)
        own.run(body)
        path = _path(stage, name, "configmaps")
        if name == "drifted":
            api.patch(path, {"data": {"key": "theirs"}}, by=ALICE)
        else:
            api.apply(path, config_map(name, "theirs"), by=ARGO, force=True)
        story = own.run(body, conflicts=conflicts)
        found[name] = api.get(path)["data"]["key"]
    assert found == expected
    assert story.exit_code == code
    if mark == "fail":
        told = story.problem("configmap/taken")
        assert f"--take-over {ARGO}" in told
        assert "--conflicts" not in told
        report = own.run(body, dry_run=DryRun.SERVER, diff=True, drift_only=True)
        (diff,) = report.of(ObjectDiff)
        assert [one.found for one in diff.drift] == ['"theirs"']
        assert report.outcomes.get("configmap/taken") is not Outcome.FAILED


@pytest.mark.parametrize(
    "by_annotation", [pytest.param(True, marks=pytest.mark.holds("other-set")), False]
)
def test_force_leaves_an_object_of_another_set_alone(
    stage: Stage, api: Api, by_annotation: bool
) -> None:
    """Neither one with its label, nor one whose label somebody has removed."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    other.run(config_map("a", "theirs"))
    path = _path(stage, "a", "configmaps")
    marks = {CONFLICTS: "force"} if by_annotation else {}
    ours = config_map("a", "ours", annotations=marks)
    options = {} if by_annotation else {"conflicts": Conflicts.FORCE}
    before = api.get(path)
    refused = stage.run(ours, config_map("b"), **options)
    assert "belongs to another set" in refused.problem("configmap/a")
    assert api.get(path) == before
    before = api.patch(path, {"metadata": {"labels": {PART_OF: None}}}, by=ALICE)
    refused = stage.run(ours, config_map("b"), **options)
    assert refused.outcomes["configmap/a"] is Outcome.FAILED
    assert "--adopt=all" in refused.problem("configmap/a")
    assert api.get(path) == before
    assert stage.run(ours, config_map("b"), adopt=Adopt.ALL, **options).exit_code == 0
    assert api.get(path)["data"] == {"key": "ours"}


@pytest.mark.parametrize("way", ["adopt", "adopt and force", "kubectl", "annotation"])
def test_each_way_out_of_a_label_of_nobody_works(
    stage: Stage, api: Api, kubectl: Kubectl, way: str
) -> None:
    """Somebody has set it by hand, with the id of no set: no command can name that set."""
    path = _path(stage, "a", "configmaps")
    value = "theirs" if way == "adopt and force" else "ours"
    labels = {"labels": {PART_OF: "applyset-nobody-v1"}}
    api.create(path.rpartition("/")[0], config_map("a", value, **labels), by="kubectl-create")
    refused = stage.run(config_map("a", "ours"))
    told = refused.problem("configmap/a")
    assert "which does not list it" in told
    assert "there is no inventory with this id" in told
    assert "inventory move" not in told
    assert "To find that set" not in told
    options: dict[str, Any] = {"adopt": Adopt.ALL} if way.startswith("adopt") else {}
    marks = {}
    if way == "adopt and force":
        assert "--adopt=all" in told
        conflict = stage.run(config_map("a", "ours"), **options)
        assert "--conflicts force" in conflict.problem("configmap/a")
        assert PART_OF not in conflict.problem("configmap/a")
        options["conflicts"] = Conflicts.FORCE
    elif way == "kubectl":
        (command,) = re.findall(r"kubectl (label .*-)$", told, re.MULTILINE)
        kubectl(*command.split())
    elif way == "annotation":
        assert f"{APPLY}: exists" in told
        marks = {"annotations": {APPLY: "exists"}}
    assert stage.run(config_map("a", "ours", **marks), **options).exit_code == 0
    is_ours = api.get(path)["metadata"].get("labels") == {PART_OF: stage.target.id}
    assert is_ours is (way != "annotation")


@pytest.mark.holds("secret-in-conflict")
def test_secret_conflict_shows_neither_value(stage: Stage, api: Api) -> None:
    """Neither raw nor in base64, wherever the run speaks."""
    values = ("ours-hunter2", "theirs-swordfish")
    encoded = [base64.b64encode(value.encode()).decode() for value in values]

    def secret(value: str) -> dict[str, Any]:
        metadata = {"name": "a"}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"k": value}}

    stage.run(secret(base64.b64encode(b"first").decode()))
    api.patch(_path(stage, "a", "secrets"), {"data": {"k": encoded[1]}}, by=ALICE)
    story = stage.run(secret(encoded[0]))
    told = story.problem("secret/a")
    assert f".data.k: theirs (secret) → ours (secret), owned by {ALICE} (Update, " in told
    ((_, conflict),) = _conflicts(story).items()
    assert conflict["fields"] == [
        {"field": ".data.k", "path": "/data/k", "ours": "(secret)", "theirs": "(secret)"}
    ]
    said = told + repr(story.events) + json.dumps([event_data(one) for one in story.events])
    assert not [value for value in (*values, *encoded) if value in said]


def test_conflicts_of_an_object_are_one_problem(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Two fields, two managers, a line each; the same as data, with the run's exit code."""
    stage.run(deployment())
    _scale(api, stage, 5)
    kubectl("set", "image", "deployment/web", "c=web:9", "-n", stage.namespace)
    story = stage.run(deployment(image="web:2", minReadySeconds=1))
    lines = story.problem("deployment.apps/web").splitlines()
    assert lines[0].endswith("other field managers own 2 of its fields")
    assert ".spec.replicas: theirs 5 → ours 3, owned by kube-controller-manager" in lines[1]
    assert (
        '.spec.template.spec.containers[name="c"].image: theirs "web:9" → ours "web:2", owned by '
        "kubectl-set (Update, "
    ) in lines[2]
    assert '/spec/replicas,/spec/template/spec/containers[name="c"]/image' in lines[4]
    found = _conflicts(story)
    assert [(name, one["operation"], one["subresource"]) for name, one in found.items()] == [
        ("kube-controller-manager", "Update", "scale"),
        ("kubectl-set", "Update", ""),
    ]
    assert found["kube-controller-manager"]["fields"] == [
        {"field": ".spec.replicas", "path": "/spec/replicas", "ours": "3", "theirs": "5"}
    ]
    (image,) = found["kubectl-set"]["fields"]
    assert (image["ours"], image["theirs"]) == ('"web:2"', '"web:9"')
    assert found["kubectl-set"]["time"].endswith("Z")
    (done,) = (one for one in map(event_data, story.events) if one["event"] == "object")
    assert (done["problem"]["exitCode"], story.exit_code) == (4, 4)
    ignored = {IGNORE: '/spec/replicas,/spec/template/spec/containers[name="c"]/image'}
    assert stage.run(deployment(ignored, image="web:2", minReadySeconds=1)).exit_code == 0
    spec = api.get(_path(stage))["spec"]
    assert (spec["replicas"], spec["minReadySeconds"]) == (5, 1)
    assert spec["template"]["spec"]["containers"][0]["image"] == "web:9"


def test_both_managers_follow_an_orphaned_or_moved_object(stage: Stage, api: Api) -> None:
    """Nothing of the set is left on it; what was yielded stays as it was."""
    stage.run(deployment(replicas=5))
    stage.run(deployment(SCALED))
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.move(other)
    found = api.get(_path(stage))
    ours = {one for one in _managers(found) if one.startswith("applyprune/")}
    assert ours == {other.target.manager, other.target.yielded}
    assert stage.run(config_map("x")).exit_code == 0
    assert other.check().found == {}
    assert other.run(deployment(SCALED, image="web:2")).exit_code == 0
    assert _replicas(api, stage) == 5
    other.orphan("deployment/web")
    found = api.get(_path(stage))
    assert not [one for one in _managers(found) if one.startswith("applyprune/")]
    assert found["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("marks", "what"),
    [({CONFLICTS: "yes"}, "dev/conflicts: 'yes'"), ({IGNORE: "/data/0x,spec"}, "begin with /")],
)
def test_invalid_annotation_ends_the_run_before_any_write(
    stage: Stage, marks: dict[str, str], what: str
) -> None:
    """With file and line."""
    with pytest.raises(InputError, match=rf"set\.yaml:2: .*{what}"):
        stage.run(config_map("a"), config_map("b", annotations=marks))
    assert not stage.inventory().exists
