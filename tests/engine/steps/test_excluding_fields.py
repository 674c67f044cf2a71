"""Fields of other managers that exclude ours: a conflict that names them, and no recreation."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api
from tests.support.objects import of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage

Body = dict[str, Any]
ALLOWED = {"applyprune.dev/recreate": "allowed"}
CONTAINER = "/spec/template/spec/containers/0"


def _deployment(image: str = "nginx", volumes: tuple[Body, ...] = (), **container: Any) -> Body:
    labels = {"app": "shop"}
    pod: Body = {"containers": [{"name": "c", "image": image, **container}]}
    if volumes:
        pod["volumes"] = list(volumes)
    return of_kind(
        "Deployment",
        "shop",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    )


def _service(port: int) -> Body:
    return of_kind(
        "Service",
        "shop",
        spec={"selector": {"app": "shop"}, "ports": [{"name": "http", "port": port}]},
    )


def _replace(path: str, value: Any) -> Body:
    return {"op": "replace", "path": path, "value": value}


PROBE = _deployment(livenessProbe={"httpGet": {"path": "/", "port": 80}})
CASES: Mapping[str, tuple[Body, str, list[Body], str]] = {
    "probe": (
        PROBE,
        "deployment.apps/shop",
        [_replace(f"{CONTAINER}/livenessProbe", {"tcpSocket": {"port": 80}})],
        "livenessProbe.tcpSocket",
    ),
    "limits": (
        _deployment(resources={"requests": {"cpu": "1"}}),
        "deployment.apps/shop",
        [
            _replace(
                f"{CONTAINER}/resources", {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
            )
        ],
        "resources.limits.cpu",
    ),
    "variable": (
        _deployment(env=[{"name": "A", "value": "1"}]),
        "deployment.apps/shop",
        [
            _replace(
                f"{CONTAINER}/env/0",
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            )
        ],
        "valueFrom",
    ),
    "volume": (
        _deployment(volumes=({"name": "v", "configMap": {"name": "c"}},)),
        "deployment.apps/shop",
        [_replace("/spec/template/spec/volumes/0", {"name": "v", "secret": {"secretName": "s"}})],
        "secret",
    ),
    "port": (_service(80), "service/shop", [_replace("/spec/ports/0/port", 81)], "[port=81"),
}


@pytest.mark.holds("excluded-by-others", row="probe-True")
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_field_that_excludes_ours_is_a_conflict_with_its_manager(
    stage: Stage, kubectl: Kubectl, name: str, check: bool
) -> None:
    """It names manager, field and way out, with the same manifest, another one, and in a check."""
    body, ref, patch, field = CASES[name]
    marked = copy.deepcopy(body)
    marked["metadata"]["annotations"] = ALLOWED
    assert stage.run(marked, wait=False).exit_code == 0
    uid = _uid(stage, ref)
    target = ref.replace(".apps", "")
    text = json.dumps(patch)
    kubectl("patch", target, "-n", stage.namespace, "--type=json", "-p", text)
    changed = copy.deepcopy(marked)
    changed["metadata"]["labels"] = {"new": "label"}
    ways: tuple[tuple[Body, dict[str, Any]], ...] = (
        (changed, {"recreate": True}),
        (changed, {"recreate": True, "check": True}),
        (changed, {"recreate": True, "dry_run": DryRun.SERVER}),
    )
    for manifest, options in ways:
        story = stage.run(manifest, wait=False, **options)
        told = story.problem(ref)
        assert story.outcomes == {ref: Outcome.FAILED}, (options, told)
        assert "kubectl-patch" in told, (options, told)
        if name == "limits":
            # The request too is the other manager's now: that conflict comes first.
            assert "To revert" in told or "To overwrite" in told, (options, told)
            continue
        assert "--conflicts revert" in told, (options, told)
        assert "--take-over kubectl-patch" in told, (options, told)
        assert field in told, (options, told)
        assert "in place" not in told, (options, told)
        assert _uid(stage, ref) == uid
    taken: dict[str, Any] = {"wait": False, "take_over": frozenset({"kubectl-patch"})}
    planned = stage.run(changed, dry_run=DryRun.SERVER, **taken)
    assert planned.outcomes == {ref: Outcome.UPDATED}, planned.events
    story = stage.run(changed, check=check, **taken)
    assert story.outcomes == {ref: Outcome.UPDATED}, story.events
    assert _uid(stage, ref) == uid
    kubectl("patch", target, "-n", stage.namespace, "--type=json", "-p", text)
    story = stage.run(changed, wait=False, recreate=True, conflicts=Conflicts.FORCE)
    assert story.outcomes == {ref: Outcome.UPDATED}, story.events
    assert _uid(stage, ref) == uid


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_drift_that_excludes_ours_is_set_back(
    stage: Stage, api: Api, kubectl: Kubectl, name: str, check: bool
) -> None:
    """With the part that somebody has put in its place; the plan names it."""
    body, ref, patch, field = CASES[name]
    assert stage.run(body, wait=False).exit_code == 0
    path = _path(stage, ref)
    before = api.get(path)
    target = ref.replace(".apps", "")
    kubectl("patch", target, "-n", stage.namespace, "--type=json", "-p", json.dumps(patch))
    drifted = api.get(path)["spec"]
    assert drifted != before["spec"]
    planned = stage.run(body, wait=False, conflicts=Conflicts.REVERT, dry_run=DryRun.SERVER)
    assert planned.outcomes == {ref: Outcome.UPDATED}, planned.problem(ref)
    (step,) = planned.plan.applies
    assert any(field.split("[")[-1].split(".")[0] in pointer for pointer, _ in step.reverts)
    assert {who for _, who in step.reverts} == {"kubectl-patch"}
    assert api.get(path)["spec"] == drifted
    story = stage.run(body, wait=False, conflicts=Conflicts.REVERT, check=check)
    assert story.outcomes == {ref: Outcome.UPDATED}, story.events
    (done,) = story.of(ObjectDone)
    assert "that kubectl-patch had changed" in done.reason
    after = api.get(path)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert stage.run(body, wait=False).outcomes == {ref: Outcome.UNCHANGED}


@pytest.mark.holds("excluded-by-drift")
def test_field_that_another_applier_has_put_there_is_not_set_back(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """That is no drift: two want the object, and a person must say who has it."""
    assert stage.run(PROBE, wait=False).exit_code == 0
    theirs = _deployment(livenessProbe={"tcpSocket": {"port": 80}})
    removal = json.dumps([{"op": "remove", "path": f"{CONTAINER}/livenessProbe"}])
    where = ("-n", stage.namespace)
    kubectl("patch", "deployment/shop", *where, "--type=json", "-p", removal)
    apply = ("apply", *where, "--server-side", "--field-manager=team", "-f", "-")
    kubectl(*apply, stdin=json.dumps(theirs))
    live = api.get(_path(stage, "deployment.apps/shop"))["spec"]
    for check in (True, False):
        story = stage.run(PROBE, wait=False, conflicts=Conflicts.REVERT, check=check)
        assert story.outcomes == {"deployment.apps/shop": Outcome.FAILED}
        assert "--take-over team" in story.problem("deployment.apps/shop")
    assert api.get(_path(stage, "deployment.apps/shop"))["spec"] == live


def _path(stage: Stage, ref: str) -> str:
    kind, _, name = ref.partition("/")
    root = "/apis/apps/v1" if kind.endswith(".apps") else "/api/v1"
    return f"{root}/namespaces/{stage.namespace}/{kind.partition('.')[0]}s/{name}"


def _uid(stage: Stage, ref: str) -> str:
    (uid,) = [one.uid for one in stage.inventory().entries.values() if one.ref.short == ref]
    return uid


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        (frozenset(), {}),
        (frozenset({"ca-bundle"}), {"conflicts": Conflicts.FORCE}),
        (frozenset({"ca-bundle"}), {"take_over": frozenset({"injector"})}),
    ],
    ids=["by the default rule", "by force", "by taking it over"],
)
def test_conversion_goes_with_what_an_injector_has_in_it(
    crd_stage: Stage,
    crds: Api,
    running: Plane,
    rules: frozenset[str],
    asked: dict[str, Any],
) -> None:
    """The CRD drops its conversion; the caBundle of another manager would stay, and excludes it."""
    group = f"{crd_stage.namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body: Body = of_kind(
        "CustomResourceDefinition",
        f"convs.{group}",
        spec={
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Conv", "plural": "convs"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    )
    service = {"namespace": "default", "name": "absent", "path": "/c"}
    before = copy.deepcopy(body)
    before["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}},
    }
    assert crd_stage.run(before, wait=False).exit_code == 0
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/convs.{group}"
    authority = base64.b64encode(running.ca_file.read_bytes()).decode()
    change = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": authority}}}}}
    crds.patch(path, change, by="injector")
    ref = f"customresourcedefinition.apiextensions.k8s.io/convs.{group}"
    off = frozenset({"ca-bundle"})
    for options in ({}, {"recreate": True}, {"dry_run": DryRun.SERVER}):
        told = crd_stage.run(body, wait=False, no_default_ignore=off, **options).problem(ref)
        assert "--conflicts force" in told, (options, told)  # nothing of the set has drifted
        assert "caBundle: owned by injector" in told, (options, told)
    story = crd_stage.run(body, wait=False, check=True, no_default_ignore=rules, **asked)
    assert story.reasons == {ref: "took fields from injector"}
    assert crds.get(path)["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.holds("fields-beside")
def test_recreation_needs_a_field_of_ours_alone(stage: Stage, kubectl: Kubectl) -> None:
    """An immutable field has changed too; what another manager has set would be lost unsaid."""
    ref, path = "deployment.apps/shop", f"{CONTAINER}/livenessProbe"
    assert stage.run(PROBE, wait=False).exit_code == 0
    uid = _uid(stage, ref)
    patch = json.dumps([_replace(path, {"tcpSocket": {"port": 80}})])
    kubectl("patch", "deployment/shop", "-n", stage.namespace, "--type=json", "-p", patch)
    other = copy.deepcopy(PROBE)
    other["spec"]["selector"]["matchLabels"] = {"app": "other"}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    story = stage.run(other, wait=False, recreate=True)
    assert story.outcomes == {ref: Outcome.FAILED}
    assert "kubectl-patch owns fields beside it" in story.problem(ref)
    assert _uid(stage, ref) == uid
    taken = frozenset({"kubectl-patch"})
    story = stage.run(other, wait=False, recreate=True, take_over=taken)
    assert story.outcomes == {ref: Outcome.RECREATED}, story.events
