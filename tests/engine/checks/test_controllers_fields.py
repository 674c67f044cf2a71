"""Fields that controllers set: what the set leaves to them, by which rule, and what it does not."""

from __future__ import annotations

import base64
import copy
from functools import partial
from typing import Any

import pytest

from applyprune.errors import UsageError
from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

RBAC = "rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
AGAIN: tuple[dict[str, Any], ...] = (
    {},
    {"reapply_all": True},
    {"dry_run": DryRun.SERVER, "diff": True},
    {"dry_run": DryRun.SERVER, "diff": True, "reapply_all": True},
)


@pytest.fixture
def bundle(plane: Plane) -> str:
    """What an injector sets: the server accepts only a certificate."""
    return base64.b64encode(plane.ca_file.read_bytes()).decode()


def _reasons(story: Story) -> list[str]:
    return [one.reason for one in story.of(ObjectDone) if one.reason]


def _aggregated(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an aggregated ClusterRole as Knative ships it, and a part of it."""
    return (
        of_kind(
            "ClusterRole",
            f"{name}-all",
            api=RBAC,
            aggregationRule={"clusterRoleSelectors": [{"matchLabels": {name: "yes"}}]},
            rules=[],
        ),
        of_kind(
            "ClusterRole",
            f"{name}-part",
            {"labels": {name: "yes"}},
            api=RBAC,
            rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        ),
    )


def _generated(name: str) -> tuple[dict[str, Any], ...]:
    """Return what generators write: an empty status, empty data, null where nothing is known."""
    template = copy.deepcopy(DEPLOYMENT)
    template["metadata"]["creationTimestamp"] = None
    template["spec"]["template"]["metadata"]["creationTimestamp"] = None
    return (
        of_kind("Secret", "s", {"annotations": {}}, data={}),
        {**config_map("c"), "data": {}},
        of_kind(
            "PersistentVolumeClaim",
            "p",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            status={"phase": "Pending"},
        ),
        of_kind(
            "ValidatingAdmissionPolicy",
            name,
            api="admissionregistration.k8s.io/v1",
            spec={
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["none"],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["none"],
                        }
                    ]
                },
                "validations": [{"expression": "true"}],
            },
            status={},
        ),
        of_kind(
            "NetworkPolicy",
            "n",
            spec={"podSelector": {}, "ingress": [], "policyTypes": ["Ingress"]},
        ),
        {**template, "status": {}},
    )


def test_generated_manifests_are_written_once(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """Whatever a controller does with them, later runs write nothing and show nothing."""
    roles, others = _aggregated(stage.namespace), _generated(stage.namespace)
    path = f"/apis/{RBAC}/clusterroles/{stage.namespace}-all"
    try:
        assert stage.run(*roles, *others, wait=False).exit_code == 0
        eventually(lambda: bool(api.get(path).get("rules")))
        secret = f"/api/v1/namespaces/{stage.namespace}/secrets/s"
        api.patch(secret, {"data": {"token": "MQ=="}}, by="issuer")
        other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        filled = {**other, "data": {"k": "v"}}
        configs = stage.path("c")
        # An empty map of ours would make this a conflict for the other applier.
        api.apply(configs, filled, by="applier")
        audit.restart()
        assert set(stage.run(*roles, *others, wait=False).outcomes.values()) == {Outcome.UNCHANGED}
        assert writes(audit) == []
        # The server itself tidies up a new claim with the first repeated apply.
        stage.run(*roles, *others, reapply_all=True, wait=False)
        for options in AGAIN:
            story = stage.run(*roles, *others, wait=False, **options)
            assert set(story.outcomes.values()) == {Outcome.UNCHANGED}, options
        assert api.get(path)["rules"]
        assert api.get(secret)["data"] == {"token": "MQ=="}
    finally:
        for role in roles:
            api("DELETE", f"/apis/{RBAC}/clusterroles/{role['metadata']['name']}")
        base = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        api("DELETE", f"{base}/{stage.namespace}")


RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
ROLE_NAME, POLICY_NAME = "role.rbac.authorization.k8s.io/r", "networkpolicy.networking.k8s.io/n"


def _empty(stage: Stage) -> tuple[dict[str, Any], dict[str, Any], str, str]:
    """Return a Role without rules, a NetworkPolicy that closes everything, and their paths."""
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "r"}, "rules": []}
    where = f"namespaces/{stage.namespace}"
    return (
        role,
        _generated("")[4],
        f"/apis/{RBAC}/{where}/roles/r",
        f"/apis/networking.k8s.io/v1/{where}/networkpolicies/n",
    )


@pytest.mark.holds("edited-empty-value")
def test_empty_value_is_left_to_a_controller_and_not_to_a_person(stage: Stage, api: Api) -> None:
    """Of an object that the set takes in; what somebody has opened by hand is a conflict."""
    role, policy, role_path, policy_path = _empty(stage)
    opened = {**policy, "spec": {**policy["spec"], "ingress": [{}]}}
    for path, body, manager in (
        (role_path, {**role, "rules": RULES}, "role-controller"),
        (policy_path, opened, "kubectl-edit"),
    ):
        api.create(path.rpartition("/")[0], body, by=manager)
    story = stage.run(role, policy)
    assert story.outcomes == {ROLE_NAME: Outcome.UPDATED, POLICY_NAME: Outcome.FAILED}
    assert ".spec.ingress" in story.problem(POLICY_NAME)
    (told,) = [reason for reason in _reasons(story) if "rules" in reason]
    assert "/rules is left to role-controller" in told
    assert api.get(role_path)["rules"] == RULES
    assert stage.run(role).outcomes[ROLE_NAME] is Outcome.UNCHANGED


def test_empty_value_that_the_set_has_applied_stays_its_own(stage: Stage, api: Api) -> None:
    """Whatever anybody puts there is drift or a conflict, and never unchanged."""
    role, policy, role_path, policy_path = _empty(stage)
    assert stage.run(role, policy).exit_code == 0
    api.patch(policy_path, {"spec": {"ingress": [{}]}}, by="some-bot")
    forced = {**role, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    api.apply(role_path, forced, by="evil-applier", force=True)
    for options in ({}, {"conflicts": Conflicts.REVERT, "check": True}):
        assert stage.status(fail_on_drift=True).exit_code == 1
        story = stage.run(role, policy, dry_run=DryRun.SERVER, **options)
        assert story.outcomes[ROLE_NAME] is Outcome.FAILED
        assert ".rules" in story.problem(ROLE_NAME)
    assert ".spec.ingress" in stage.run(role, policy).problem(POLICY_NAME)
    assert stage.run(policy, prune=False, conflicts=Conflicts.REVERT).exit_code == 0
    assert not api.get(policy_path)["spec"].get("ingress")
    assert stage.run(role, policy, conflicts=Conflicts.FORCE, check=True).exit_code == 0
    assert not api.get(role_path)["rules"]
    assert stage.status(fail_on_drift=True).exit_code == 0


def _hooks(name: str, bundle: dict[str, Any]) -> dict[str, Any]:
    return of_kind(
        "ValidatingWebhookConfiguration",
        name,
        api="admissionregistration.k8s.io/v1",
        webhooks=[
            {
                "name": "one.example.com",
                "clientConfig": {"service": {"namespace": "none", "name": "none"}, **bundle},
                "rules": [],
                "failurePolicy": "Ignore",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
        ],
    )


def _crd(name: str, bundle: dict[str, Any]) -> dict[str, Any]:
    kind = f"K{name.replace('-', '')}"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    config = {"service": {"namespace": "none", "name": "none"}, **bundle}
    return of_kind("CustomResourceDefinition", f"{kind.lower()}s.left.example.com", spec={
            "group": "left.example.com",
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": schema}}
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
            },
        })  # fmt: skip


@pytest.mark.parametrize("given", [{"caBundle": "Cg=="}, {"caBundle": ""}, {"caBundle": None}, {}])
def test_empty_ca_bundle_is_left_to_the_injector(
    stage: Stage, api: Api, bundle: str, given: dict[str, Any]
) -> None:
    """Of webhooks, a CRD's conversion and an APIService; the next runs write nothing."""
    name = stage.namespace
    hooks, definition = _hooks(name, given), _crd(name, given)
    plural = definition["spec"]["names"]["plural"]
    service = of_kind(
        "APIService",
        f"v1.{name}.example.com",
        api="apiregistration.k8s.io/v1",
        spec={
            "group": f"{name}.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": name, "name": "none"},
            **given,
        },
    )
    crd_path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.left.example.com"
    service_path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{name}.example.com"
    try:
        story = stage.run(hooks, definition, service, wait=False)
        assert story.exit_code == 0
        told = "an empty caBundle is left to its injector (default rule ca-bundle)"
        assert _reasons(story) == ([told] * 3 if given else [])
        add = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        api.patch(f"{HOOKS}/{name}", add, by="injector")
        config = {"webhook": {"clientConfig": {"caBundle": bundle}}}
        api.patch(crd_path, {"spec": {"conversion": config}}, by="injector")
        api.patch(service_path, {"spec": {"caBundle": bundle}}, by="injector")
        for options in AGAIN:
            again = stage.run(hooks, definition, service, wait=False, **options)
            assert set(again.outcomes.values()) == {Outcome.UNCHANGED}, (options, again.outcomes)
        changed = copy.deepcopy(hooks)
        changed["webhooks"][0]["timeoutSeconds"] = 5
        assert stage.run(changed, definition, service, wait=False).exit_code == 0
        (hook,) = api.get(f"{HOOKS}/{name}")["webhooks"]
        assert (hook["clientConfig"]["caBundle"], hook["timeoutSeconds"]) == (bundle, 5)
    finally:
        api("DELETE", f"{HOOKS}/{name}")
        api("DELETE", crd_path)
        api("DELETE", service_path)


def test_ca_bundle_that_is_set_or_whose_rule_is_off_conflicts(
    stage: Stage, api: Api, bundle: str
) -> None:
    """The error names the line that resolves it."""
    name = stage.namespace
    off = {"no_default_ignore": frozenset({"ca-bundle"})}
    try:
        assert stage.run(_hooks(name, {"caBundle": "Cg=="}), **off).exit_code == 0
        add = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        api.patch(f"{HOOKS}/{name}", add, by="injector")
        resolving = (
            'applyprune.dev/ignore-fields: /webhooks[name="one.example.com"]/clientConfig/caBundle'
        )
        for value, options in (("Cg==", off), ("QUJD", {})):
            body = _hooks(name, {"caBundle": value})
            body["metadata"]["labels"] = {"new": value.strip("=")}
            story = stage.run(body, **options)
            assert story.exit_code == 4
            key = "validatingwebhookconfiguration.admissionregistration.k8s.io"
            assert resolving in story.problem(f"{key}/{name}")
    finally:
        api("DELETE", f"{HOOKS}/{name}")


def _deployment(image: str = "web:1", replicas: int = 3) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["replicas"] = replicas
    body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body


SCALER: dict[str, Any] = of_kind("HorizontalPodAutoscaler", "web", spec={
        "minReplicas": 2,
        "maxReplicas": 9,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [
            {"type": "Resource",
             "resource": {"name": "cpu", "target": {"type": "Utilization",
                                                    "averageUtilization": 50}}}
        ],
    })  # fmt: skip
LEFT = "/spec/replicas is left to HorizontalPodAutoscaler web (default rule autoscaled-replicas)"


def _is_at_rest(api: Api, path: str) -> bool:
    """Return whether a rollout has ended: a write of its controller during a run changes it."""
    live = api.get(path)
    status, replicas = live["status"], live["spec"]["replicas"]
    counts = (status.get(f"{of}eplicas") for of in ("r", "updatedR", "availableR"))
    reasons = {one["reason"] for one in status["conditions"]}
    return (
        status["observedGeneration"] == live["metadata"]["generation"]
        and set(counts) == {replicas}
        and "NewReplicaSetAvailable" in reasons
    )


@pytest.mark.parametrize("is_in_input", [True, False])
def test_replicas_are_left_to_an_autoscaler(stage: Stage, api: Api, is_in_input: bool) -> None:
    """They keep their value where only the set owns them, and never fall back to 1."""
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    assert stage.run(_deployment()).exit_code == 0
    others = (SCALER,) if is_in_input else ()
    if not is_in_input:
        scalers = f"/apis/autoscaling/v2/namespaces/{stage.namespace}/horizontalpodautoscalers"
        api.create(scalers, SCALER)
    name = "deployment.apps/web"
    dry = stage.run(_deployment("web:2", 4), *others, dry_run=DryRun.SERVER, diff=True)
    assert dry.exit_code == 0
    story = stage.run(_deployment("web:2", 4), *others)
    assert (story.outcomes[name], LEFT in _reasons(story)) == (Outcome.UPDATED, True)
    assert api.get(path)["spec"]["replicas"] == 3
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
    api.patch(f"{path}/scale", {**scale, "spec": {"replicas": 6}}, by="kube-controller-manager")
    assert stage.run(_deployment("web:3", 4), *others).outcomes[name] is Outcome.UPDATED
    eventually(lambda: _is_at_rest(api, path), lambda: "its controllers are done")
    generation = api.get(path)["metadata"]["generation"]

    def is_unchanged(**options: Any) -> bool:
        again = stage.run(_deployment("web:3", 4), *others, **options)
        return set(again.outcomes.values()) == {Outcome.UNCHANGED}

    for options in AGAIN:
        # The autoscaler's controller may write a status at any time, also during a run.
        eventually(partial(is_unchanged, **options), lambda: "a run that nobody disturbs")
    assert api.get(path)["metadata"]["generation"] == generation
    assert api.get(path)["spec"]["replicas"] == 6
    # A rule that is switched off counts as a changed manifest.
    off = frozenset({"autoscaled-replicas"})
    refused = stage.run(_deployment("web:3", 4), *others, no_default_ignore=off)
    assert refused.exit_code == 4
    assert ".spec.replicas" in refused.problem(name)


def test_rule_of_the_user_holds_for_apply_as_for_diff(stage: Stage, api: Api) -> None:
    """One rule for all objects of a kind; without it, the manifest counts again."""
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    rule = {"ignore": ("deployment.apps:/spec/replicas",)}
    assert stage.run(_deployment(), **rule).exit_code == 0
    # The first apply of a changed manifest gives the replicas away, and the plan counts that.
    for replicas, outcome in ((4, Outcome.UPDATED), (5, Outcome.UNCHANGED)):
        given = _deployment(replicas=replicas)
        story = stage.run(given, **rule, dry_run=DryRun.SERVER, diff=True)
        assert story.outcomes == {"deployment.apps/web": outcome}
        assert stage.run(given, **rule).outcomes == story.outcomes
    stage.run(_deployment("web:2", replicas=5), **rule)
    assert api.get(path)["spec"]["replicas"] == 3
    assert stage.run(_deployment("web:2", replicas=5)).exit_code == 0
    assert api.get(path)["spec"]["replicas"] == 5
    with pytest.raises(UsageError, match=r"invalid --ignore rule '\*:/metadata/name'"):
        stage.run(_deployment(), ignore=("*:/metadata/name",))
