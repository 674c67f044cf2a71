"""Fields that controllers set: what the set leaves to them, by which rule, and what it does not.

Which replicas are left to an autoscaler is decided in ``tests/decisions/test_conflicts.py``, which
empty values in ``tests/unit/planning/conflicts/test_empty_fields.py``.
"""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import CLAIM, DEPLOYMENT, config_map, crd, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually

Body = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
AGAIN: tuple[Body, ...] = (
    {},
    {"reapply_all": True},
    {"dry_run": DryRun.SERVER, "diff": True},
    {"dry_run": DryRun.SERVER, "diff": True, "reapply_all": True},
)
POLICY = of_kind("NetworkPolicy", "n", spec={
    "podSelector": {}, "ingress": [], "policyTypes": ["Ingress"],
})  # fmt: skip


def _roles(name: str) -> tuple[Body, Body]:
    """Return an aggregated ClusterRole as Knative ships it, and a part of it."""
    chosen = {"clusterRoleSelectors": [{"matchLabels": {name: "yes"}}]}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    return (
        of_kind("ClusterRole", f"{name}-all", aggregationRule=chosen, rules=[]),
        of_kind("ClusterRole", f"{name}-part", {"labels": {name: "yes"}}, rules=rules),
    )


def _generated() -> tuple[Body, ...]:
    """Return what generators write: an empty status, empty data, null where nothing is known."""
    deployment = copy.deepcopy(DEPLOYMENT)
    for metadata in (deployment["metadata"], deployment["spec"]["template"]["metadata"]):
        metadata["creationTimestamp"] = None
    return (
        of_kind("Secret", "s", {"annotations": {}}, data={}),
        {**config_map("c"), "data": {}},
        {**CLAIM, "status": {"phase": "Pending"}},
        POLICY,
        {**deployment, "status": {}},
    )


def test_generated_manifests_are_written_once(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """Whatever a controller does with them, later runs write nothing and show nothing."""
    bodies = (*_roles(stage.namespace), *_generated())
    path = f"/apis/{RBAC}/clusterroles/{stage.namespace}"
    try:
        assert stage.run(*bodies, wait=False).exit_code == 0
        eventually(lambda: bool(api.get(f"{path}-all").get("rules")))
        api.patch(stage.path("s", "secrets"), {"data": {"token": "MQ=="}}, by="issuer")
        # An empty map of ours would make this a conflict for the other applier.
        api.apply(stage.path("c"), {**config_map("c"), "data": {"k": "v"}}, by="applier")
        audit.restart()
        assert set(stage.run(*bodies, wait=False).outcomes.values()) == {Outcome.UNCHANGED}
        assert writes(audit) == []
        # The server itself tidies up a new claim with the first repeated apply.
        stage.run(*bodies, reapply_all=True, wait=False)
        for options in AGAIN:
            story = stage.run(*bodies, wait=False, **options)
            assert set(story.outcomes.values()) == {Outcome.UNCHANGED}, options
        assert api.get(f"{path}-all")["rules"]
        assert api.get(stage.path("s", "secrets"))["data"] == {"token": "MQ=="}
    finally:
        for name in ("all", "part"):
            api("DELETE", f"{path}-{name}")


def _injected(name: str, bundle: Body) -> dict[str, Body]:
    """Return webhooks, a CRD with a conversion and an APIService, all with a caBundle, by path."""
    service = {"namespace": "none", "name": "none"}
    client = {"service": service, **bundle}
    hook = {
        "name": "one.example.com", "clientConfig": client, "rules": [], "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"], "sideEffects": "None",
    }  # fmt: skip
    kind, group = f"K{name.replace('-', '')}", f"{name}.example.com"
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    definition = crd(kind, group="left.example.com", conversion=conversion)
    definition["metadata"]["name"] = f"{kind.lower()}s.left.example.com"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    admission, services = "admissionregistration.k8s.io/v1", "apiregistration.k8s.io/v1"
    bodies = {
        f"{admission}/validatingwebhookconfigurations": of_kind(
            "ValidatingWebhookConfiguration", name, api=admission, webhooks=[hook]
        ),
        "apiextensions.k8s.io/v1/customresourcedefinitions": definition,
        f"{services}/apiservices": of_kind(
            "APIService", f"v1.{group}", api=services, spec={**spec, **client}
        ),
    }
    return {f"/apis/{place}/{body['metadata']['name']}": body for place, body in bodies.items()}


def test_empty_ca_bundle_is_left_to_the_injector(stage: Stage, api: Api, plane: Plane) -> None:
    """Of webhooks, a CRD's conversion and an APIService; the next runs write nothing."""
    # The server accepts only a certificate.
    bundle = base64.b64encode(plane.ca_file.read_bytes()).decode()
    given = {
        path: body
        for number, empty in enumerate(({"caBundle": "Cg=="}, {}))
        for path, body in _injected(f"{stage.namespace}-{number}", empty).items()
    }
    hooks = [path for path, body in given.items() if "webhooks" in body]
    try:
        story = stage.run(*given.values(), wait=False)
        assert story.exit_code == 0
        told = "an empty caBundle is left to its injector (default rule ca-bundle)"
        assert [reason for reason in story.reasons.values() if reason] == [told] * 3
        add = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        config = {"webhook": {"clientConfig": {"caBundle": bundle}}}
        for path in given:
            change = {"spec": {"caBundle": bundle, "conversion": config}}
            del change["spec"]["conversion" if "apiservices" in path else "caBundle"]
            api.patch(path, add if path in hooks else change, by="injector")
        for options in AGAIN:
            again = stage.run(*given.values(), wait=False, **options)
            assert set(again.outcomes.values()) == {Outcome.UNCHANGED}, (options, again.outcomes)
        for path in hooks:
            given[path]["webhooks"][0]["timeoutSeconds"] = 5
        assert stage.run(*given.values(), wait=False).exit_code == 0
        for path in hooks:
            (hook,) = api.get(path)["webhooks"]
            assert (hook["clientConfig"]["caBundle"], hook["timeoutSeconds"]) == (bundle, 5)
    finally:
        for path in given:
            api("DELETE", path)


# Replicas.

NAME = "deployment.apps/web"


def _deployment(replicas: int | None, *labels: str) -> Body:
    body = copy.deepcopy(DEPLOYMENT)
    body["metadata"]["labels"] = dict.fromkeys(labels, "x")
    body["spec"] |= {"replicas": replicas, "paused": True}
    if replicas is None:
        del body["spec"]["replicas"]
    return body


def _path(stage: Stage) -> str:
    return stage.path("web", "deployments", "/apis/apps/v1")


def _replicas(stage: Stage, api: Api) -> int:
    return int(api.get(_path(stage))["spec"]["replicas"])


def _autoscale(stage: Stage, api: Api) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"minReplicas": 1, "maxReplicas": 9, "scaleTargetRef": target}
    scalers = stage.path("", "horizontalpodautoscalers", "/apis/autoscaling/v2")
    api.create(scalers, of_kind("HorizontalPodAutoscaler", "web", spec=spec))


def _scale(stage: Stage, api: Api, replicas: int, by: str = "kube-controller-manager") -> None:
    api.patch(f"{_path(stage)}/scale", {"spec": {"replicas": replicas}}, by=by)


def test_replicas_that_are_left_are_never_written(stage: Stage, api: Api) -> None:
    """They keep their value where only the set owns them; later runs change and show nothing."""
    assert stage.run(_deployment(3)).exit_code == 0
    _autoscale(stage, api)
    assert stage.run(_deployment(4, "one"), dry_run=DryRun.SERVER, diff=True).exit_code == 0
    assert stage.run(_deployment(4, "one")).outcomes == {NAME: Outcome.UPDATED}
    assert _replicas(stage, api) == 3
    _scale(stage, api, 6)
    assert stage.run(_deployment(4, "two")).outcomes == {NAME: Outcome.UPDATED}
    generation = api.get(_path(stage))["metadata"]["generation"]
    for given in (_deployment(4, "two"), _deployment(None, "two")):
        for options in AGAIN:
            assert stage.run(given, **options).outcomes == {NAME: Outcome.UNCHANGED}
    now = api.get(_path(stage))
    assert (now["metadata"]["generation"], now["spec"]["replicas"]) == (generation, 6)


@pytest.mark.holds("replicas-stay-unread", "unread-autoscalers")
def test_replicas_stay_where_no_autoscaler_can_be_read(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Neither set back nor removed: the line and a warning say so, no conflict promises more."""
    rules = (rule("", ["configmaps"], WRITE), rule("apps", ["deployments"], WRITE))
    account = kubeconfig_as("no-scalers", plane, api, stage.namespace, tmp_path, *rules)
    poor = Stage(account, stage.namespace)
    assert poor.run(_deployment(5)).exit_code == 0
    story = poor.run(_deployment(None))
    assert "left to an autoscaler, as none could be read" in story.plan.applies[0].reason
    assert any("HorizontalPodAutoscaler" in one for one in story.warnings)
    assert (story.exit_code, _replicas(poor, api)) == (0, 5)
    assert poor.run(_deployment(2), conflicts=Conflicts.FORCE).exit_code == 0
    _scale(poor, api, 5, by="kubectl-scale")
    story = poor.run(_deployment(2), conflicts=Conflicts.REVERT)
    assert (story.exit_code, _replicas(poor, api)) == (4, 5)
    (warning,) = [one for one in story.warnings if "HorizontalPodAutoscaler" in one]
    assert poor.namespace in warning
    assert "--conflicts revert" not in story.problem(NAME)
