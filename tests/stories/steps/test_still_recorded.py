"""What other tools still have of adopted objects: who says so, and what the commands do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, DryRun
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map, crd
from tests.support.plane import Kubectl
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

KAPP = "1600468671765235154"
ALL: dict[str, Any] = {"adopt": Adopt.ALL, "check": True}


def _record(name: str, labels: dict[str, str], **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, **parts}


def _commands(story: Story) -> dict[str, str]:
    return {record.tool: record.command for record in story.plan.records}


def _run(kubectl: Callable[..., str], command: str) -> None:
    """Run the commands of a line, as a shell would."""
    for one in command.split(" && "):
        program, *arguments = shlex.split(one)
        assert program == "kubectl"
        kubectl(*arguments)


def test_commands_end_the_records(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """The objects stay, and the next plan has nothing to say; a record that is gone is not told."""
    home, inventory = stage.namespace, f"inventory-{stage.namespace}"
    marks: dict[str, dict[str, Any]] = {
        "helm": {
            "annotations": {
                "meta.helm.sh/release-name": "legacy",
                "meta.helm.sh/release-namespace": home,
            }
        },
        "kapp": {"labels": {"kapp.k14s.io/app": KAPP}},
        "cli-utils": {"annotations": {"config.k8s.io/owning-inventory": inventory}},
        "gone": {"labels": {"kapp.k14s.io/app": "1"}},
    }
    for name, metadata in marks.items():
        body = config_map(name)
        api.create(stage.path(), {**body, "metadata": {"name": name, **metadata}}, by="tool")
    for version in ("v1", "v2"):
        labels = {"owner": "helm", "name": "legacy"}
        name = f"sh.helm.release.v1.legacy.{version}"
        api.create(stage.path("", "secrets"), _record(name, labels))
    spec = json.dumps({"labelKey": "kapp.k14s.io/app", "labelValue": KAPP})
    app = _record("web.apps.k14s.io", {"kapp.k14s.io/is-app": ""}, data={"spec": spec})
    api.create(stage.path(), app)
    label = {"cli-utils.sigs.k8s.io/inventory-id": inventory}
    api.create(stage.path(), _record("inventory-1", label))
    kubectl(
        "apply", "--prune", f"--applyset={home}", "-n", home, "-f", "-",
        stdin=json.dumps(config_map("set")), env={"KUBECTL_APPLYSET": "true"},
    )  # fmt: skip
    given = [config_map(name) for name in (*marks, "set")]
    commands = _commands(stage.run(*given, **ALL, dry_run=DryRun.SERVER))
    assert commands.keys() == {"Helm", "kapp", "cli-utils", "kubectl"}
    for command in commands.values():
        _run(kubectl, command)
    story = stage.run(*given, **ALL)
    assert _commands(story) == {}
    assert {*story.outcomes.values()} == {Outcome.UPDATED}
    left = {one["metadata"]["name"] for one in api.get(stage.path())["items"]}
    assert left >= {*marks, "set"}
    assert left.isdisjoint({"web.apps.k14s.io", "inventory-1"})
    assert not api.get(stage.path("", "secrets"))["items"]
    now = [api.get(stage.path(name))["metadata"]["labels"] for name in ("kapp", "set")]
    assert now == [{PART_OF: stage.target.id}] * 2


def test_marks_name_a_record_that_may_not_be_listed(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """By the marks alone, and so it is without a check."""
    annotations = {
        "meta.helm.sh/release-name": "legacy",
        "meta.helm.sh/release-namespace": stage.namespace,
    }
    api.create(stage.path(), config_map("a", annotations=annotations), by="helm")
    api.create(stage.path(), config_map("b", labels={"kapp.k14s.io/app": KAPP}), by="kapp")
    given, plan = [config_map("a"), config_map("b")], {**ALL, "dry_run": DryRun.SERVER}
    told = {
        "Helm": f"kubectl delete secret -n {stage.namespace} -l owner=helm,name=legacy",
        "kapp": "",
    }
    refusal = faults.status(403, "Forbidden", "no right to list")
    searched = ("owner=helm,name=legacy", "kapp.k14s.io/is-app")
    proxy.rule = always(refusal, where=lambda seen: seen.query.get("labelSelector") in searched)
    assert _commands(spoiled.run(*given, **plan)) == told
    assert _commands(stage.run(*given, **{**plan, "check": False})) == told
    assert _commands(stage.run(*given, **plan)) == {}


def _definition(kind: str, group: str) -> dict[str, Any]:
    """Return the CRD of a kind of another tool."""
    body = crd(kind)
    name = f"{kind.lower()}s.{group}"
    return {**body, "metadata": {"name": name}, "spec": {**body["spec"], "group": group}}


def test_commands_end_what_runs_in_the_cluster(
    crd_stage: Stage, crds: Api, running: Plane, kubectl: Kubectl
) -> None:
    """Without the finalizer, and suspended, its controller deletes nothing."""
    stage, home = crd_stage, crd_stage.namespace
    tools = {
        "Kustomization": ("kustomize.toolkit.fluxcd.io", "fluxcd.io/finalizer"),
        "HelmRelease": ("helm.toolkit.fluxcd.io", "fluxcd.io/finalizer"),
        "Application": ("argoproj.io", "resources-finalizer.argocd.argoproj.io"),
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    paths = {}
    for kind, (group, finalizer) in tools.items():
        # The stories of records leave CRDs of these names, with schemas of their own.
        place = f"{definitions}/{kind.lower()}s.{group}"
        crds("DELETE", place)
        eventually(lambda place=place: crds("GET", place)[0] == 404)  # type: ignore[misc]
        crds.create(definitions, _definition(kind, group))
        path = f"/apis/{group}/v1/namespaces/{home}/{kind.lower()}s"
        eventually(lambda path=path: crds("GET", path)[0] == 200)  # type: ignore[misc]
        metadata = {"name": "web", "finalizers": [finalizer]}
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata}
        crds.create(path, {**body, "spec": {"prune": True, "syncPolicy": {"automated": {}}}})
        paths[kind] = f"{path}/web"
    marks = {
        "a": {
            "kustomize.toolkit.fluxcd.io/name": "web",
            "kustomize.toolkit.fluxcd.io/namespace": home,
        },
        "b": {"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": home},
        "c": {"argocd.argoproj.io/instance": "web"},
    }
    for name, labels in marks.items():
        crds.create(stage.path(), config_map(name, labels=labels), by="tool")
    given = [*map(config_map, marks)]
    records = stage.run(*given, **ALL, dry_run=DryRun.SERVER).plan.records
    assert [(one.tool, one.runs) for one in records] == [
        ("Argo CD", True), ("Flux", True), ("Flux", True),
    ]  # fmt: skip
    for record in records:
        suspends, deletes = record.command.split(" && ")
        _run(partial(kubectl, plane=running), suspends)
        _run(partial(kubectl, plane=running), f"{deletes} --wait=false")
    left = {kind: crds.find(path) for kind, path in paths.items()}
    assert left["Application"] is None
    assert left["Kustomization"]["spec"]["suspend"] is True
    assert left["Kustomization"]["spec"]["prune"] is False
    assert left["HelmRelease"]["spec"]["suspend"] is True
    for kind in ("Kustomization", "HelmRelease"):  # as their controllers do
        crds.patch(paths[kind], {"metadata": {"finalizers": None}})
    assert stage.run(*given, **ALL).plan.records == ()
