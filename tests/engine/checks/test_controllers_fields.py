"""Fields that controllers set: what the set leaves to them, by which rule, and what it does not."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from applyprune.errors import UsageError
from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, config_map, crd, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

RBAC = "rbac.authorization.k8s.io/v1"
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


NO_KIND = {
    "apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"],
}  # fmt: skip


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
                "matchConstraints": {"resourceRules": [NO_KIND]},
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


def _hooks(name: str, bundle: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    webhook = {
        "name": "one.example.com",
        "clientConfig": {"service": {"namespace": "none", "name": "none"}, **bundle},
        "rules": [],
        "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    api = "admissionregistration.k8s.io/v1"
    return of_kind(KIND.partition(".")[0], name, metadata, api=api, webhooks=[webhook])


def _injected(name: str, bundle: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return webhooks, a CRD with a conversion and an APIService, all with a caBundle."""
    service = {"namespace": "none", "name": "none"}
    kind, group = f"K{name.replace('-', '')}", f"{name}.example.com"
    definition = crd(kind, group="left.example.com", conversion={
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service, **bundle},
                    "conversionReviewVersions": ["v1"]},
    })  # fmt: skip
    definition["metadata"]["name"] = f"{kind.lower()}s.left.example.com"
    of_group = {"group": group, "version": "v1", "service": service, **bundle}
    priorities = {"groupPriorityMinimum": 100, "versionPriority": 100}
    spec = {**of_group, **priorities}
    api = "apiregistration.k8s.io/v1"
    return (
        _hooks(name, bundle),
        definition,
        of_kind("APIService", f"v1.{group}", api=api, spec=spec),
    )


HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
KIND = "ValidatingWebhookConfiguration.admissionregistration.k8s.io"
ADD = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle"}


def test_empty_ca_bundle_is_left_to_the_injector(stage: Stage, api: Api, bundle: str) -> None:
    """Of webhooks, a CRD's conversion and an APIService; the next runs write nothing."""
    empties: tuple[dict[str, Any], ...] = (
        {"caBundle": "Cg=="}, {"caBundle": ""}, {"caBundle": None}, {},
    )  # fmt: skip
    given = [_injected(f"{stage.namespace}-{n}", empty) for n, empty in enumerate(empties)]
    bodies = [body for three in given for body in three]
    paths = [
        f"{root}/{body['metadata']['name']}"
        for three in given
        for root, body in zip((HOOKS, CRDS, SERVICES), three, strict=True)
    ]
    try:
        story = stage.run(*bodies, wait=False)
        assert story.exit_code == 0
        told = "an empty caBundle is left to its injector (default rule ca-bundle)"
        assert _reasons(story) == [told] * 9
        config = {"webhook": {"clientConfig": {"caBundle": bundle}}}
        for path in paths:
            change: Any = {"spec": {"caBundle": bundle}}
            if path.startswith(HOOKS):
                change = [{**ADD, "value": bundle}]
            elif path.startswith(CRDS):
                change = {"spec": {"conversion": config}}
            api.patch(path, change, by="injector")
        for options in AGAIN:
            again = stage.run(*bodies, wait=False, **options)
            assert set(again.outcomes.values()) == {Outcome.UNCHANGED}, (options, again.outcomes)
        for hooks, _, _ in given:
            hooks["webhooks"][0]["timeoutSeconds"] = 5
        assert stage.run(*bodies, wait=False).exit_code == 0
        for path in paths[::3]:
            (hook,) = api.get(path)["webhooks"]
            assert (hook["clientConfig"]["caBundle"], hook["timeoutSeconds"]) == (bundle, 5)
    finally:
        for path in paths:
            api("DELETE", path)


def test_ca_bundle_that_is_set_or_whose_rule_is_off_conflicts(
    stage: Stage, api: Api, bundle: str
) -> None:
    """The error names the line that resolves it."""
    name = stage.namespace
    off = {"no_default_ignore": frozenset({"ca-bundle"})}
    field = '/webhooks[name="one.example.com"]/clientConfig/caBundle'
    try:
        assert stage.run(_hooks(name, {"caBundle": "Cg=="}), **off).exit_code == 0
        api.patch(f"{HOOKS}/{name}", [{**ADD, "value": bundle}], by="injector")
        for value, options in (("Cg==", off), ("QUJD", {})):
            body = _hooks(name, {"caBundle": value}, labels={"new": value.strip("=")})
            story = stage.run(body, **options)
            assert story.exit_code == 4
            told = story.problem(f"{KIND.lower()}/{name}")
            assert f"applyprune.dev/ignore-fields: {field}" in told
    finally:
        api("DELETE", f"{HOOKS}/{name}")


NAME = "deployment.apps/web"


def _deployment(image: str = "web:1", replicas: int = 3) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["replicas"] = replicas
    body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body


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


def test_replicas_that_are_left_are_never_written(stage: Stage, api: Api) -> None:
    """They keep their value where only the set owns them; later runs change and show nothing."""
    path = stage.path("web", "deployments", "/apis/apps/v1")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"minReplicas": 2, "maxReplicas": 9, "scaleTargetRef": target}
    assert stage.run(_deployment()).exit_code == 0
    scalers = stage.path("", "horizontalpodautoscalers", "/apis/autoscaling/v2")
    api.create(scalers, of_kind("HorizontalPodAutoscaler", "web", spec=spec))
    changed = _deployment("web:2", 4)
    assert stage.run(changed, dry_run=DryRun.SERVER, diff=True).exit_code == 0
    assert stage.run(changed).outcomes == {NAME: Outcome.UPDATED}
    assert api.get(path)["spec"]["replicas"] == 3
    api.patch(f"{path}/scale", {"spec": {"replicas": 6}}, by="kube-controller-manager")
    assert stage.run(_deployment("web:3", 4)).outcomes == {NAME: Outcome.UPDATED}
    eventually(lambda: _is_at_rest(api, path), lambda: "its controllers are done")
    generation = api.get(path)["metadata"]["generation"]
    for options in AGAIN:
        assert stage.run(_deployment("web:3", 4), **options).outcomes == {NAME: Outcome.UNCHANGED}
    assert api.get(path)["metadata"]["generation"] == generation
    assert api.get(path)["spec"]["replicas"] == 6


def test_rule_of_the_user_holds_for_apply_as_for_diff(stage: Stage, api: Api) -> None:
    """One rule for all objects of a kind; without it, the manifest counts again."""
    path = stage.path("web", "deployments", "/apis/apps/v1")
    rule = {"ignore": ("deployment.apps:/spec/replicas",)}
    assert stage.run(_deployment(), **rule).exit_code == 0
    # The first apply of a changed manifest gives the replicas away, and the plan counts that.
    for replicas, outcome in ((4, Outcome.UPDATED), (5, Outcome.UNCHANGED)):
        for dry_run in (DryRun.SERVER, DryRun.OFF):
            story = stage.run(_deployment(replicas=replicas), **rule, dry_run=dry_run)
            assert story.outcomes == {NAME: outcome}
    stage.run(_deployment("web:2", replicas=5), **rule)
    assert api.get(path)["spec"]["replicas"] == 3
    assert stage.run(_deployment("web:2", replicas=5)).exit_code == 0
    assert api.get(path)["spec"]["replicas"] == 5
    with pytest.raises(UsageError, match=r"invalid rule '\*:/metadata/name' in ignore"):
        stage.run(_deployment(), ignore=("*:/metadata/name",))
