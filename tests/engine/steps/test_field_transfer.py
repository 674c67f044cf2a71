"""Objects that others have managed until now: their fields become ours, so that they can go."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun, Mode
from applyprune.planning.applyset import LAST_APPLIED, OWNED_BY
from applyprune.planning.digests import planned_object
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.forged import forge
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _body(**data: str) -> dict[str, Any]:
    return {**config_map("old"), "data": data}


def _make(kubectl: Kubectl, stage: Stage, how: str) -> None:
    """Make a ConfigMap with the keys ``key`` and ``stale``, in one of the ways that people have."""
    where = ("-n", stage.namespace)
    text = json.dumps(_body(key="v", stale="1"))
    match how:
        case "kubectl apply":
            kubectl("apply", *where, "-f", "-", stdin=text)
        case "kubectl create":
            kubectl("create", *where, "-f", "-", stdin=text)
        case "kubectl apply --server-side":
            kubectl("apply", "--server-side", *where, "-f", "-", stdin=text)
        case "kubectl edit":
            kubectl("create", *where, "-f", "-", stdin=json.dumps(_body(key="v")))
            patch = '{"data":{"stale":"1"}}'
            kubectl(
                "patch", "configmap/old", *where, "--type=merge", "-p", patch,
                "--field-manager=kubectl-edit",
            )  # fmt: skip
        case _:
            kubectl("create", *where, "-f", "-", f"--field-manager={how}", stdin=text)


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ("kubectl apply", {}),
        ("kubectl apply --server-side", {}),
        ("helm", {"adopt": Adopt.ALL}),
        ("kubectl create", {"take_over": frozenset({"kubectl-create"})}),
        ("before-first-apply", {"take_over": frozenset({"before-first-apply"})}),
    ],
)
def test_fields_of_who_declared_it_are_removed_by_one_apply(
    stage: Stage, api: Api, kubectl: Kubectl, how: str, options: dict[str, Any]
) -> None:
    """And what it holds is ours alone; the second run writes nothing."""
    _make(kubectl, stage, how)
    assert stage.run(_body(key="v"), **options).outcomes == {"configmap/old": Outcome.UPDATED}
    now = api.get(stage.path("old"))
    assert now["data"] == {"key": "v"}
    assert LAST_APPLIED not in (now["metadata"].get("annotations") or {})
    assert [(one["manager"], one["operation"]) for one in now["metadata"]["managedFields"]] == [
        (stage.target.manager, "Apply")
    ]
    version = now["metadata"]["resourceVersion"]
    assert stage.run(_body(key="v")).outcomes == {"configmap/old": Outcome.UNCHANGED}
    assert api.get(stage.path("old"))["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("how", ["kubectl create", "kubectl edit", "helm", "before-first-apply"])
def test_adoption_keeps_fields_that_nobody_declared(
    stage: Stage, api: Api, kubectl: Kubectl, how: str
) -> None:
    """Over three applies, until its manager is named."""
    _make(kubectl, stage, how)
    for key in "vww":
        assert stage.run(_body(key=key), conflicts=Conflicts.FORCE).exit_code == 0
        assert api.get(stage.path("old"))["data"] == {"key": key, "stale": "1"}


def test_adoption_keeps_what_kubectl_has_added_since(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """A label, an annotation and a finalizer, of an object that kubectl has applied."""
    _make(kubectl, stage, "kubectl apply")
    where = ("configmap/old", "-n", stage.namespace)
    kubectl("label", *where, "pod-security.kubernetes.io/enforce=restricted")
    kubectl("annotate", *where, "note=theirs")
    kubectl("patch", *where, "--type=merge", "-p", '{"metadata":{"finalizers":["a.test/hold"]}}')
    for key in "vw":
        assert stage.run(_body(key=key)).exit_code == 0
    now = api.get(stage.path("old"))
    assert now["data"] == {"key": "w"}
    assert now["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert now["metadata"]["annotations"]["note"] == "theirs"
    assert now["metadata"]["finalizers"] == ["a.test/hold"]


def test_no_option_takes_finalizers(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """The next apply would remove them, and with them somebody's clean-up."""
    body = {**_body(key="v"), "metadata": {"name": "old", "finalizers": ["a.test/hold"]}}
    kubectl("apply", "-n", stage.namespace, "-f", "-", stdin=json.dumps(body))
    for key in "vw":
        story = stage.run(_body(key=key), take_over=frozenset({"kubectl-client-side-apply"}))
        assert story.exit_code == 0
    assert api.get(stage.path("old"))["metadata"]["finalizers"] == ["a.test/hold"]


def _clear(kubectl: Kubectl, stage: Stage, name: str) -> None:
    """Clear managedFields, as a restore from a backup does."""
    operation = '[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]'
    kubectl("patch", name, "-n", stage.namespace, "--type=json", "-p", operation)


ACCOUNT = of_kind("ServiceAccount", "default")


@pytest.mark.holds("untracked-object")
def test_second_apply_keeps_what_others_have_on_an_untracked_object(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """The first apply must not book everything to ``before-first-apply``."""
    path = f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/default"
    kubectl("wait", "sa/default", "-n", stage.namespace, "--for=create")
    theirs = {
        "imagePullSecrets": [{"name": "registry"}],
        "metadata": {"annotations": {"iam.test/role": "r"}, "finalizers": ["a.test/hold"]},
    }
    where = ("sa/default", "-n", stage.namespace)
    kubectl("patch", *where, "--type=merge", "-p", json.dumps(theirs))
    _clear(kubectl, stage, "sa/default")
    for value in (True, False, True):
        story = stage.run({**ACCOUNT, "automountServiceAccountToken": value})
        assert story.exit_code == 0
        now = api.get(path)
        assert now["automountServiceAccountToken"] is value
        assert now["imagePullSecrets"] == theirs["imagePullSecrets"]
        assert now["metadata"]["annotations"] == {"iam.test/role": "r"}
        assert now["metadata"]["finalizers"] == ["a.test/hold"]
        managers = {one["manager"] for one in now["metadata"]["managedFields"]}
        assert "before-first-apply" not in managers
    kubectl("patch", *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


@pytest.mark.holds("restored-fields")
def test_cleared_managed_fields_cost_nobody_a_field(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """What left the manifest is removed, and only that; what somebody has scaled stays."""
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    metadata = {"name": "web", "annotations": {"mine": "1", "leaves": "1"}}
    spec = {key: value for key, value in DEPLOYMENT["spec"].items() if key != "replicas"}
    body = {**DEPLOYMENT, "metadata": metadata, "spec": spec}
    stage.run(body)
    kubectl("scale", "deployment/web", "-n", stage.namespace, "--replicas=7")
    kubectl("annotate", "deployment/web", "-n", stage.namespace, "theirs=1")
    _clear(kubectl, stage, "deployment/web")
    less = {**body, "metadata": {"name": "web", "annotations": {"mine": "1"}}}
    for _ in range(2):
        assert stage.run(less).exit_code == 0
        now = api.get(path)
        assert now["spec"]["replicas"] == 7
        noted = now["metadata"]["annotations"]
        assert (noted.get("mine"), noted.get("theirs"), noted.get("leaves")) == ("1", "1", None)
        managers = {one["manager"] for one in now["metadata"]["managedFields"]}
        assert "before-first-apply" not in managers


def test_forged_fields_take_no_finalizer(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Whoever may edit the inventory can write any fields into it."""
    stage.run(_body(key="v"))
    where = ("configmap/old", "-n", stage.namespace, "--type=merge")
    theirs = '{"metadata":{"finalizers":["example.com/theirs"]}}'
    kubectl("patch", *where, "-p", theirs)
    fields: dict[str, Any] = {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"example.com/theirs"': {}}}
    }
    forge(stage, "old", owned_fields=json.dumps(fields))
    _clear(kubectl, stage, "configmap/old")
    assert stage.run(_body(key="w"), conflicts=Conflicts.FORCE).exit_code == 0
    assert api.get(stage.path("old"))["metadata"]["finalizers"] == ["example.com/theirs"]
    kubectl("patch", *where, "-p", '{"metadata":{"finalizers":null}}')


def test_diff_after_the_clearing_shows_what_the_apply_removes(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """A list item with what somebody has written into it, and the last entry of a map."""
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}
    body, less = copy.deepcopy(DEPLOYMENT), copy.deepcopy(DEPLOYMENT)
    body["spec"]["template"]["spec"]["volumes"] = [volume]
    body["spec"]["template"]["metadata"]["annotations"] = {"hint": "1"}
    less["spec"]["template"]["metadata"]["annotations"] = {}
    stage.run(body)
    theirs = {"volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]}
    patch = json.dumps({"spec": {"template": {"spec": theirs}}})
    kubectl("patch", "deployment/web", "-n", stage.namespace, "-p", patch)
    _clear(kubectl, stage, "deployment/web")
    forecast = stage.run(less, dry_run=DryRun.SERVER, diff=True)
    (diff,) = forecast.of(ObjectDiff)
    assert stage.run(less).exit_code == 0
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    template = api.get(path)["spec"]["template"]
    assert "volumes" not in template["spec"]
    assert "annotations" not in template["metadata"]
    assert diff.after is not None
    assert diff.after["spec"]["template"] == template


IGNORED = {"applyprune.dev/ignore-fields": "/data/left"}


@pytest.mark.parametrize("how", ["taken over", "no longer ignored", "ignored after the clearing"])
def test_diff_removes_nothing_that_the_second_manager_keeps(
    stage: Stage, api: Api, kubectl: Kubectl, how: str
) -> None:
    """What the set has left to others stays, while it takes over from somebody else."""
    plain, less = _body(key="v", left="1"), _body(key="v")
    ignoring = {**plain, "metadata": {**plain["metadata"], "annotations": IGNORED}}
    assert stage.run(plain).exit_code == 0
    if how == "ignored after the clearing":
        _clear(kubectl, stage, "configmap/old")
    else:
        assert stage.run(ignoring).exit_code == 0
        patch = '{"data":{"theirs":"1"}}'
        where = ("configmap/old", "-n", stage.namespace, "--field-manager=nightly")
        kubectl("patch", *where, "--type=merge", "-p", patch)
    wanted = less if how == "no longer ignored" else ignoring
    options: dict[str, Any] = {"take_over": frozenset({"nightly"})}
    (diff,) = stage.run(wanted, dry_run=DryRun.SERVER, diff=True, **options).of(ObjectDiff)
    assert stage.run(wanted, **options).exit_code == 0
    assert diff.after is not None
    assert diff.after["data"] == api.get(stage.path("old"))["data"] == plain["data"]


def test_another_apply_after_the_clearing_costs_nobody_a_field(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """The server has booked our fields, and others', to ``before-first-apply`` by then."""
    stage.run(_body(key="v", leaves="1"))
    where = ("configmap/old", "-n", stage.namespace)
    kubectl("patch", *where, "--type=merge", "-p", '{"data":{"theirs":"1"}}')
    _clear(kubectl, stage, "configmap/old")
    third = json.dumps(_body(third="1"))
    kubectl("apply", "--server-side", "-n", stage.namespace, "-f", "-", stdin=third)
    assert stage.run(_body(key="w")).exit_code == 0
    assert api.get(stage.path("old"))["data"] == {"key": "w", "theirs": "1", "third": "1"}


@pytest.mark.holds("parting-entry")
def test_next_applier_of_an_orphan_has_no_conflict(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """It would have one with ``before-first-apply`` if the orphan had no field manager."""
    stage.run(_body(key="v", other="1"))
    assert stage.orphan("configmap/old").exit_code == 0
    where = ("-n", stage.namespace)
    kubectl("patch", "configmap/old", *where, "--type=merge", "-p", '{"data":{"theirs":"1"}}')
    for value in ("w", "x"):
        text = json.dumps(_body(key=value))
        kubectl("apply", "--server-side", *where, "-f", "-", stdin=text)
        data = api.get(stage.path("old"))["data"]
        assert data == {"key": value, "other": "1", "theirs": "1"}


def test_other_manager_is_left_alone_until_named(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """``--take-over``, at any time: also of an object that was unchanged otherwise."""
    _make(kubectl, stage, "our-old-deployer")
    stage.run(_body(key="v"))
    assert api.get(stage.path("old"))["data"] == {"key": "v", "stale": "1"}
    assert stage.run(_body(key="v")).outcomes == {"configmap/old": Outcome.UNCHANGED}
    taken = stage.run(_body(key="v"), take_over=frozenset({"our-old-deployer"}))
    assert taken.outcomes == {"configmap/old": Outcome.UPDATED}
    assert api.get(stage.path("old"))["data"] == {"key": "v"}
    again = stage.run(_body(key="v"), take_over=frozenset({"our-old-deployer"}))
    assert again.outcomes == {"configmap/old": Outcome.UNCHANGED}


def test_kubectl_edit_of_our_object_is_no_adoption(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Somebody's hot fix beside our fields stays his, and stays."""
    stage.run(_body(key="v"))
    patch = '{"data":{"theirs":"1"}}'
    kubectl(
        "patch", "configmap/old", "-n", stage.namespace, "--type=merge", "-p", patch,
        "--field-manager=kubectl-edit",
    )  # fmt: skip
    stage.run(_body(key="w"))
    assert api.get(stage.path("old"))["data"] == {"key": "w", "theirs": "1"}


def test_workload_status_stays_with_its_controller(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Only the main resource's fields move; a subresource's entry is not touched."""
    kubectl("apply", "-n", stage.namespace, "-f", "-", stdin=json.dumps(DEPLOYMENT))
    kubectl("wait", "deployment/web", "-n", stage.namespace, "--for=condition=Available")
    assert stage.run(DEPLOYMENT).exit_code == 0
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    entries = api.get(path)["metadata"]["managedFields"]
    managers = {(one["manager"], one.get("subresource", "")) for one in entries}
    assert (stage.target.manager, "") in managers
    assert ("kube-controller-manager", "status") in managers
    assert not [one for one in managers if one[0].startswith("kubectl")]
    assert api.get(path)["status"]["availableReplicas"] == 1


def test_change_between_read_and_migration_is_no_obstacle(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The patch is guarded: it is built again from the current object."""
    _make(kubectl, spoiled, "kubectl apply")

    done = proxy.before_first(
        lambda seen: "json-patch" in seen.header("content-type"),
        lambda: kubectl("annotate", "configmap/old", "-n", spoiled.namespace, "some=note"),
    )
    assert spoiled.run(_body(key="v")).exit_code == 0
    assert done
    now = api.get(spoiled.path("old"))
    assert now["data"] == {"key": "v"}


def test_run_killed_between_migration_and_apply_recovers(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The next one ends what it began; the object is adopted still, and never deleted."""
    _make(kubectl, stage, "kubectl apply")
    spoiled.budget = 0.2

    def cut(seen: Exchange) -> bool:
        return "apply-patch" in seen.header("content-type")

    proxy.rule = always(faults.reset(), where=cut)
    assert spoiled.run(_body(key="v"), config_map("a")).exit_code == 3
    assert stage.run(_body(key="v"), config_map("a")).exit_code == 0
    assert api.get(stage.path("old"))["data"] == {"key": "v"}
    assert stage.run(mode=Mode.DELETE).outcomes["configmap/old"] is Outcome.ORPHANED


def test_manifest_with_last_applied_annotation_is_applied_without_it(
    stage: Stage, api: Api
) -> None:
    """It is copied along from live objects, and would hold the whole manifest, Secrets too."""
    stage.run(config_map("a", annotations={LAST_APPLIED: "{}", "mine": "1"}))
    noted = api.get(stage.path("a"))["metadata"]["annotations"]
    assert (noted.keys(), noted["mine"]) == ({"mine", OWNED_BY}, "1")


DUPLICATE = [{"name": "c", "image": "x", "env": [{"name": "E", "value": v} for v in "ab"]}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": DUPLICATE}, "duplicate entries for key"),
        ({"containers": [{"name": "c", "image": "x", "imagee": "y"}]}, "imagee"),
    ],
    ids=["a duplicate key in a list", "a field that is not declared"],
)
def test_schema_errors_are_permanent_and_named(
    spoiled: Stage, proxy: FaultProxy, spec: dict[str, Any], expected: str
) -> None:
    """They come as a 500 without a reason: sent once, never retried.

    The server finds them where its schemas may not be read.
    """
    proxy.rule = always(faults.answer(403), where=lambda seen: "/openapi/" in seen.path)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    story = spoiled.run(pod, config_map("a"))
    assert story.exit_code == 3
    assert expected in story.problem("pod/p")
    assert story.outcomes["configmap/a"] is Outcome.CREATED
    sent = [one for one in proxy.exchanges if one.path.endswith("/pods/p")]
    assert len([one for one in sent if one.method == "PATCH"]) == 1


def _taken_over(stage: Stage, api: Api) -> dict[str, Any]:
    """Another manager has the same value: only its entry goes."""
    stage.run(_body(key="v"))
    api.apply(stage.path("old"), _body(key="v"), by="our-old-deployer")
    return {"bodies": [_body(key="v")], "take_over": frozenset({"our-old-deployer"})}


def _handed_over(stage: Stage, api: Api) -> dict[str, Any]:
    """The second field manager gets what the first one gives up; no value changes."""
    stage.run({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 5}})
    scaler = of_kind("HorizontalPodAutoscaler", "web", api="autoscaling/v2")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler["spec"] = {"scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 9}
    spec = {name: value for name, value in DEPLOYMENT["spec"].items() if name != "replicas"}
    return {"bodies": [{**DEPLOYMENT, "spec": spec}, scaler]}


def _released(stage: Stage, api: Api) -> dict[str, Any]:
    """The second field manager goes with the next apply: the set has nothing to give up now."""
    bodies = _handed_over(stage, api)["bodies"]
    stage.run(*bodies)
    return {"bodies": bodies, "reapply_all": True}


def _fenced(stage: Stage, api: Api) -> dict[str, Any]:
    """A delete of an interrupted run may still arrive: the object changes, so that it fails."""
    stage.run(_body(key="v"))
    inventory = stage.inventory()
    stage.rewrite(
        entries={ref: replace(one, deleting=True) for ref, one in inventory.entries.items()}
    )
    return {"bodies": [_body(key="v")]}


@pytest.mark.parametrize(
    "make",
    [
        _taken_over,
        pytest.param(_handed_over, marks=pytest.mark.holds("written-before-the-apply")),
        _released,
        _fenced,
    ],
)
def test_request_before_an_apply_counts_in_its_plan(
    stage: Stage, api: Api, make: Callable[[Stage, Api], dict[str, Any]]
) -> None:
    """No value changes. The second plan and the second apply change nothing."""
    options = make(stage, api)
    bodies = options.pop("bodies")
    (name,) = {one for one in stage.listed() if not one.startswith("horizontal")}
    planned = stage.run(*bodies, dry_run=DryRun.SERVER, diff=True, **options)
    assert planned.outcomes[name] is Outcome.UPDATED
    local = stage.run(*bodies, dry_run=DryRun.CLIENT, diff=True, **options)
    for story in (planned, local):
        (shown,) = [one for one in story.of(ObjectDiff) if one.ref.short == name]
        assert shown.before == shown.after
    (step,) = [one for one in planned.plan.applies if one.desired.ref.short == name]
    assert planned_object(step).fate is Fate.CHANGE
    assert stage.run(*bodies, **options).outcomes[name] is Outcome.UPDATED
    for again in (DryRun.SERVER, DryRun.OFF):
        # The autoscaler has no generation: its controller may write its status meanwhile.
        story = stage.run(*bodies, dry_run=again, **options)
        assert (story.exit_code, story.outcomes[name]) == (0, Outcome.UNCHANGED)
        assert set(story.outcomes.values()) <= {Outcome.UNCHANGED, Outcome.UPDATED}
