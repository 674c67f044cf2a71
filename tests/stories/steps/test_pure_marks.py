"""The marks of other tools go when a set takes their objects in, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, DryRun
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import pod, workload

Body = dict[str, Any]

HELM = {"meta.helm.sh/release-name": "legacy", "meta.helm.sh/release-namespace": "legacy"}
KAPP = {"kapp.k14s.io/app": "1600468671765235154", "kapp.k14s.io/association": "v1.d8db2993"}
IDENTITY = {"kapp.k14s.io/identity": "v1;x//Pod/a;v1", "kapp.k14s.io/original-diff-md5": "c6e9"}
FLUX = {"kustomize.toolkit.fluxcd.io/name": "a", "kustomize.toolkit.fluxcd.io/namespace": "flux"}
OWNED_SET = {PART_OF: "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"}
BY_HELM = "app.kubernetes.io/managed-by"
TOOLS: dict[str, tuple[Body, Body]] = {
    "helm": (
        {"labels": {BY_HELM: "Helm"}, "annotations": HELM},
        {
            "labels": {"app.kubernetes.io/instance": "legacy"},
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
    ),
    "kapp": (
        {"labels": KAPP, "annotations": IDENTITY},
        {"annotations": {"kapp.k14s.io/delete-strategy": "orphan"}},
    ),
    "kustomize-controller": (
        {"labels": FLUX},
        {"labels": {"kustomize.toolkit.fluxcd.io/prune": "disabled"}},
    ),
    "argocd-controller": (
        {"annotations": {"argocd.argoproj.io/tracking-id": "a:/ConfigMap:x/argocd"}},
        {"labels": {"app.kubernetes.io/instance": "a"}},
    ),
    "cli-utils": (
        {"annotations": {"config.k8s.io/owning-inventory": "x"}},
        {"annotations": {"cli-utils.sigs.k8s.io/on-remove": "keep"}},
    ),
    "kubectl-applyset": ({"labels": OWNED_SET}, {"labels": {BY_HELM: "kubectl"}}),
}
"""By field manager: what goes, and what stays. A tool may apply, or write otherwise."""
ALL: Body = {"adopt": Adopt.ALL}


def _metadata(name: str, *parts: Body) -> Body:
    found: Body = {"name": name}
    for one in parts:
        for part, texts in one.items():
            found[part] = {**found.get(part, {}), **texts}
    return found


def _marks(stage: Stage, found: Body) -> Body:
    """Return the labels and annotations of an object, without those of the set itself."""
    metadata = found["metadata"]
    labels = {**metadata.get("labels", {})}
    assert labels.pop(PART_OF) == stage.target.id
    return {"labels": labels, "annotations": metadata.get("annotations", {})}


@pytest.mark.holds("only-marks", "wish-of-a-user", "label-others-select-by")
def test_marks_go_and_policies_stay(stage: Stage, api: Api) -> None:
    """UID and values stay; the next run writes nothing. Without --adopt=all, nothing is taken."""
    for tool, both in TOOLS.items():
        marked = {**config_map(tool), "metadata": _metadata(tool, *both)}
        if tool in {"helm", "kapp"}:
            api.create(stage.path(), marked, by=tool)
        else:
            api.apply(stage.path(tool), marked, by=tool)
    before = {tool: api.get(stage.path(tool)) for tool in TOOLS}
    given = [config_map(tool) for tool in TOOLS]
    refused = stage.run(*given)
    assert set(refused.outcomes.values()) == {Outcome.FAILED}
    assert {tool: api.get(stage.path(tool)) for tool in TOOLS} == before
    assert stage.run(*given, **ALL).exit_code == 0
    after = {tool: api.get(stage.path(tool)) for tool in TOOLS}
    for tool, (_, stays) in TOOLS.items():
        assert after[tool]["metadata"]["uid"] == before[tool]["metadata"]["uid"]
        assert after[tool]["data"] == before[tool]["data"]
        assert _marks(stage, after[tool]) == {"labels": {}, "annotations": {}, **stays}
    assert set(stage.run(*given).outcomes.values()) == {Outcome.UNCHANGED}
    assert {tool: api.get(stage.path(tool)) for tool in TOOLS} == after


def _with_kapp(body: Body) -> Body:
    """Return an object as kapp writes it: with its label in selectors and in templates."""
    spec = body["spec"]
    selected = {"app": "web", "kapp.k14s.io/app": KAPP["kapp.k14s.io/app"]}
    if body["kind"] == "Service":
        return {**body, "spec": {**spec, "selector": selected}}
    metadata = {"labels": {**selected, **KAPP}}
    template = {**spec["template"], "metadata": metadata}
    return {**body, "spec": {**spec, "selector": {"matchLabels": selected}, "template": template}}


@pytest.mark.holds("mark-in-a-template")
def test_adopted_workload_keeps_its_pods(stage: Stage, api: Api) -> None:
    """Selectors, templates and the labels of a Pod stay, and no ReplicaSet is added.

    A Deployment counts a change of its annotations as a generation; nothing else does.
    """
    deployments, replica_sets = ("deployments", "/apis/apps/v1"), ("replicasets", "/apis/apps/v1")
    paths = {
        "web": deployments,
        "plain": deployments,
        "svc": ("services", "/api/v1"),
        "one": ("pods", "/api/v1"),
    }
    service = of_kind("Service", "svc", spec={"ports": [{"port": 80}]})
    bodies = [
        _with_kapp(workload("Deployment", "web")),
        _with_kapp(workload("Deployment", "plain")),
        _with_kapp(service),
        pod("one"),
    ]
    marks = {"labels": KAPP, "annotations": IDENTITY}
    for body in bodies:
        name = body["metadata"]["name"]
        marked = _metadata(name, {"labels": KAPP} if name == "plain" else marks)
        api.create(stage.path("", *paths[name]), {**body, "metadata": marked}, by="kapp")

    def made() -> list[str]:
        found = api.get(stage.path("", *replica_sets))["items"]
        return sorted(one["metadata"]["name"] for one in found)

    eventually(lambda: len(made()) == 2)
    before = {name: api.get(stage.path(name, *path)) for name, path in paths.items()}
    planned = stage.run(*bodies, **ALL, dry_run=DryRun.SERVER, diff=True)
    assert {step.fate for step in planned.plan.applies} == {Fate.ADOPT}
    shown = {one.ref.name: one for one in planned.of(ObjectDiff)}
    assert stage.run(*bodies, **ALL).exit_code == 0
    after = {name: api.get(stage.path(name, *path)) for name, path in paths.items()}
    for name, now in after.items():
        assert now["spec"] == before[name]["spec"]
        assert now["metadata"]["uid"] == before[name]["metadata"]["uid"]
        assert IDENTITY.keys().isdisjoint(now["metadata"].get("annotations", {}))
        left = _marks(stage, now)["labels"]
        assert left == (KAPP if name == "one" else {})
        text = shown[name].unified()
        assert ("-    kapp.k14s.io/identity" in text) is (name != "plain")
        assert ("-    kapp.k14s.io/app" in text) is (name != "one")
    counted = {
        name: now["metadata"].get("generation", 0) - before[name]["metadata"].get("generation", 0)
        for name, now in after.items()
    }
    assert counted == {"web": 1, "plain": 0, "svc": 0, "one": 0}
    assert len(made()) == 2


CANARY = "c2VjcmV0LWNhbmFyeQ=="


def test_mark_of_a_secret_goes_unseen(stage: Stage, api: Api) -> None:
    """kapp writes the whole manifest into one."""
    original = json.dumps({"data": {"key": CANARY}})
    metadata = {"labels": KAPP, "annotations": {"kapp.k14s.io/original": original}}
    secret = of_kind("Secret", "s", data={"key": CANARY})
    path = stage.path("s", "secrets")
    api.create(
        stage.path("", "secrets"), {**secret, "metadata": _metadata("s", metadata)}, by="kapp"
    )
    told = []
    for options in ({"dry_run": DryRun.SERVER}, {"dry_run": DryRun.CLIENT}, {}):
        story = stage.run(secret, **ALL, diff=True, **options)
        assert story.exit_code == 0
        told += [str(story.events), *(one.unified() for one in story.of(ObjectDiff))]
    assert "kapp.k14s.io/original" in "".join(told)
    assert not any(CANARY in text or "canary" in text for text in told)
    now = api.get(path)
    assert _marks(stage, now) == {"labels": {}, "annotations": {}}
    assert now["data"] == {"key": CANARY}


def test_ignored_mark_stays(stage: Stage, api: Api) -> None:
    """The manifest leaves it to others."""
    ignored = {"applyprune.dev/ignore-fields": "/metadata/labels/kapp.k14s.io~1app"}
    marked = {**config_map("a"), "metadata": _metadata("a", {"labels": KAPP})}
    api.create(stage.path(), marked, by="kapp")
    given = config_map("a", annotations=ignored)
    assert stage.run(given, **ALL).exit_code == 0
    left = {"kapp.k14s.io/app": KAPP["kapp.k14s.io/app"]}
    assert _marks(stage, api.get(stage.path("a"))) == {"labels": left, "annotations": ignored}
    assert stage.run(given).outcomes == {"configmap/a": Outcome.UNCHANGED}
