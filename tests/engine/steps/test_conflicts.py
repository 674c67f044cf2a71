"""Fields of others on the real API server: taken, skipped, left to them, and given back.

What is a conflict is decided in ``tests/decisions/test_conflicts.py``.
"""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from applyprune.output.json import event_data
from tests.decisions.world import applied_by, changed, other_set, relabelled
from tests.support.actors import ALICE, ARGO
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, of_kind
from tests.support.run_rows import RunRow
from tests.support.stage import Stage

NAME = "deployment.apps/web"
ASKED, IGNORE = "applyprune.dev/conflicts", "applyprune.dev/ignore-fields"
SCALED = {IGNORE: "/spec/replicas"}
B, HAND = config_map("b"), {"data": {"key": "hand"}}
DRIFTED = changed("configmap/b", HAND)
STORIES = {
    "drift is a conflict": RunRow(
        applied=[B], others=[DRIFTED], exit_code=4, outcomes={"configmap/b": Outcome.FAILED},
        live={"configmap/b": HAND},
    ),
    "drift is reverted": RunRow(
        applied=[B], others=[DRIFTED], options={"conflicts": Conflicts.REVERT},
        outcomes={"configmap/b": Outcome.UPDATED}, live={"configmap/b": B},
    ),
    "a field of another applier is taken": RunRow(
        applied=[B], others=[applied_by(ARGO, config_map("b", "hand"), force=True)],
        given=[config_map("b", annotations={ASKED: "force"})],
        outcomes={"configmap/b": Outcome.UPDATED}, live={"configmap/b": B},
        says={"configmap/b": f"took fields from {ARGO}"},
    ),
    "an object of another set without its label": RunRow(
        others=[other_set(B), relabelled("configmap/b", None)],
        given=[config_map("b", "new", annotations={ASKED: "force"})], exit_code=4,
        outcomes={"configmap/b": Outcome.FAILED}, live={"configmap/b": B},
        says={"configmap/b": "--adopt=all"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", STORIES.values(), ids=STORIES)
def test_field_of_another_manager_is_taken_only_on_request(
    stage: Stage, api: Api, row: RunRow
) -> None:
    row.holds(api, stage)


def _deployment(
    annotations: dict[str, str] | None = None, *, image: str = "web:1", **spec: Any
) -> dict[str, Any]:
    """Return the Deployment with parts of its spec changed."""
    one = copy.deepcopy(DEPLOYMENT)
    one["metadata"]["annotations"] = annotations or {}
    one["spec"]["template"]["spec"]["containers"][0]["image"] = image
    one["spec"] |= {"replicas": 3, **spec}
    return one


def _path(stage: Stage) -> str:
    return stage.path("web", "deployments", "/apis/apps/v1")


def _owners(found: dict[str, Any], *path: str) -> set[str]:
    """Return who owns a field, by its FieldsV1 names; without a field, who owns anything."""
    owners = set()
    for entry in found["metadata"]["managedFields"]:
        fields = entry["fieldsV1"]
        for name in path:
            fields = fields.get(name) if fields is not None else None
        if fields is not None and not (not path and entry.get("subresource")):
            owners.add(entry["manager"])
    return owners


REPLICAS = ("f:spec", "f:replicas")


def test_scaled_deployment_is_applied_with_the_annotation(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """The replicas are the other manager's from then on."""
    path, again = _path(stage), _deployment(SCALED, image="web:2")
    stage.run(_deployment())
    for replicas in (5, 7):
        api.patch(f"{path}/scale", {"spec": {"replicas": replicas}}, by="kube-controller-manager")
        story = stage.run(again, reapply_all=True)
        assert story.outcomes == {NAME: Outcome.UPDATED if replicas == 5 else Outcome.UNCHANGED}
        found = api.get(path)
        assert found["spec"]["replicas"] == replicas
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
        assert stage.target.yielded not in _owners(found)
    audit.restart()
    assert stage.run(again).outcomes == {NAME: Outcome.UNCHANGED}
    assert writes(audit) == []


@pytest.mark.holds("second-owner")
def test_ignored_field_that_only_we_own_keeps_its_value(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Left out at once it would fall back to 1; wanted back, it is ours again."""
    path = _path(stage)
    stage.run(_deployment(replicas=5))
    seen: list[int] = []
    stage.seen = lambda _: seen.append(api.get(path)["spec"]["replicas"])
    assert stage.run(_deployment(SCALED), dry_run=DryRun.SERVER).exit_code == 0
    assert stage.run(_deployment(SCALED)).outcomes == {NAME: Outcome.UPDATED}
    assert set(seen) == {5}
    assert _owners(api.get(path), *REPLICAS) == {stage.target.yielded}
    stage.seen = lambda _: None
    audit.restart()
    assert stage.run(_deployment(SCALED)).outcomes == {NAME: Outcome.UNCHANGED}
    assert writes(audit) == []

    both = {IGNORE: '/spec/replicas /spec/template/spec/containers[name="web"]/image'}
    for marks, replicas, image in ((both, 5, "web:1"), ({}, 3, "web:2")):
        given = _deployment(marks, image="web:2")
        assert stage.run(given, dry_run=DryRun.SERVER).exit_code == 0
        assert stage.run(given).exit_code == 0
        found = api.get(path)
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == image
        assert found["spec"]["replicas"] == replicas
    assert stage.target.yielded not in _owners(found)


def test_ignored_field_is_sent_at_creation_only(stage: Stage, api: Api) -> None:
    """An annotation that somebody changes, then removes, then a key of data."""
    marks = {IGNORE: "/metadata/annotations/x.io~1note, /data/free", "x.io/note": "ours"}

    def one(value: str = "v") -> dict[str, Any]:
        body = config_map("a", value, annotations=marks)
        return {**body, "data": {**body["data"], "free": "ours"}}

    stage.run(one())
    found = api.get(stage.path("a"))
    assert found["metadata"]["annotations"]["x.io/note"] == found["data"]["free"] == "ours"
    assert stage.run(one()).outcomes == {"configmap/a": Outcome.UNCHANGED}
    theirs = {"metadata": {"annotations": {"x.io/note": None}}, "data": {"free": "theirs"}}
    api.patch(stage.path("a"), theirs, by=ALICE)
    for value in ("v", "v", "w"):
        assert stage.run(one(value)).exit_code == 0
        found = api.get(stage.path("a"))
        assert "x.io/note" not in found["metadata"]["annotations"]
        assert found["data"] == {"key": value, "free": "theirs"}
    assert _owners(found, "f:data", "f:free") == {ALICE}


def test_ignored_field_that_the_object_lacks_is_sent_without_the_rule_only(
    stage: Stage, api: Api
) -> None:
    """Others may have removed it; once it was sent, the rule keeps its value."""
    left = {IGNORE: "/spec/minReadySeconds"}
    for given, there in (
        (_deployment(left), None),
        (_deployment(left, minReadySeconds=5), None),
        (_deployment(minReadySeconds=5), 5),
        (_deployment(left, minReadySeconds=7), 5),
    ):
        assert stage.run(given).exit_code == 0
        assert api.get(_path(stage))["spec"].get("minReadySeconds") == there


def test_ignored_field_of_an_adopted_object_keeps_its_value(stage: Stage, api: Api) -> None:
    """Its fields become ours first; what another manager owns too is then released to it."""
    collection = stage.path("", "deployments", "/apis/apps/v1")
    body = _deployment(replicas=5, paused=True)
    api.create(collection, body, by="kubectl-client-side-apply")
    assert stage.run(_deployment(SCALED)).outcomes == {NAME: Outcome.UPDATED}
    found = api.get(_path(stage))
    assert found["spec"]["replicas"] == 5
    assert "paused" not in found["spec"], "what only kubectl's manifest held goes"
    assert _owners(found, *REPLICAS) == {stage.target.yielded}
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    api.apply(_path(stage), {**named, "spec": {"replicas": 5}}, by=ARGO)
    stage.run(_deployment(SCALED, image="web:2"))
    found = api.get(_path(stage))
    assert (found["spec"]["replicas"], _owners(found, *REPLICAS)) == (5, {ARGO})


def test_ignored_part_of_an_atomic_mapping_is_refused(stage: Stage, api: Api) -> None:
    """Leaving it out would change the whole field; the whole field may be ignored."""

    def service(left: str, port: int) -> dict[str, Any]:
        spec = {**SERVICE["spec"], "selector": {"app": "web", "tier": "front"}}
        spec["ports"] = [{"port": port}]
        return of_kind("Service", "web", {"annotations": {IGNORE: left}}, spec=spec)

    assert stage.run(service("/spec/selector/app", 80)).exit_code == 0
    assert stage.run(service("/spec/selector/app", 81)).exit_code == 3
    assert stage.run(service("/spec/selector", 81)).exit_code == 0
    spec = api.get(stage.path("web", "services"))["spec"]
    assert spec["selector"] == {"app": "web", "tier": "front"}


def test_contended_object_is_skipped_on_request(stage: Stage, api: Api) -> None:
    """Exit code 0; the others are applied and pruned; its managers do not change either."""

    def one(value: str, other: str = "new") -> dict[str, Any]:
        body = config_map("a", value, annotations={ASKED: "skip", IGNORE: "/data/free"})
        return {**body, "data": {"key": value, "other": other, "free": "f"}}

    stage.run(one("v", "w"), config_map("go"))
    path = stage.path("a")
    before = api.patch(path, {"data": {"key": "theirs"}}, by=ALICE)
    given = (one("ours"), config_map("b"))
    planned = stage.run(*given, dry_run=DryRun.SERVER)
    story = stage.run(*given, conflicts=Conflicts.FORCE)
    assert (
        planned.outcomes
        == story.outcomes
        == {
            "configmap/a": Outcome.SKIPPED,
            "configmap/b": Outcome.CREATED,
            "configmap/go": Outcome.PRUNED,
        }
    )
    assert (story.exit_code, api.get(path)) == (0, before)
    assert stage.listed() == {"configmap/a", "configmap/b"}
    for manager in (stage.target.manager, ALICE):
        api.patch(path, {"data": {"key": "ours"}}, by=manager)
    assert stage.run(*given).exit_code == 0
    assert api.get(path)["data"]["other"] == "new"


@pytest.mark.holds("dry-run-before-skip")
def test_object_skipped_at_adoption_is_not_listed(stage: Stage, api: Api) -> None:
    """It was never touched, so nothing must be released; the next run adopts it."""
    before = api.create(stage.path(), config_map("a", "theirs"), by=ALICE)
    given = config_map("a", "ours", annotations={ASKED: "skip"}), config_map("b")
    story = stage.run(*given)
    assert (story.outcomes["configmap/a"], story.exit_code) == (Outcome.SKIPPED, 0)
    assert api.get(stage.path("a")) == before
    assert stage.listed() == {"configmap/b"}
    api.patch(stage.path("a"), {"data": {"key": None}}, by=ALICE)
    assert stage.run(*given).outcomes["configmap/a"] is Outcome.UPDATED
    assert stage.listed() == {"configmap/a", "configmap/b"}


@pytest.mark.holds("secret-in-conflict")
def test_secret_conflict_shows_neither_value(stage: Stage, api: Api) -> None:
    """Neither raw nor in base64, wherever the run speaks."""
    values = ("ours-hunter2", "theirs-swordfish")
    ours, theirs = (base64.b64encode(value.encode()).decode() for value in values)
    stage.run(of_kind("Secret", "a", data={"k": "Zmlyc3Q="}))
    api.patch(stage.path("a", "secrets"), {"data": {"k": theirs}}, by=ALICE)
    story = stage.run(of_kind("Secret", "a", data={"k": ours}))
    told = story.problem("secret/a")
    assert f".data.k: theirs (secret) → ours (secret), owned by {ALICE} (Update, " in told
    data = [event_data(one) for one in story.events]
    ((conflict,),) = (one["problem"]["conflicts"] for one in data if one["event"] == "object")
    field = {"field": ".data.k", "path": "/data/k", "ours": "(secret)", "theirs": "(secret)"}
    assert conflict["fields"] == [field]
    said = told + repr(story.events) + json.dumps(data)
    assert not [value for value in (*values, ours, theirs) if value in said]


def test_conflicts_of_an_object_are_one_problem(stage: Stage, api: Api) -> None:
    """Two fields, two managers, a line each; the same as data."""
    stage.run(_deployment())
    api.patch(f"{_path(stage)}/scale", {"spec": {"replicas": 5}}, by="kube-controller-manager")
    image = "/spec/template/spec/containers/0/image"
    api.patch(_path(stage), [{"op": "replace", "path": image, "value": "web:9"}], by="kubectl-set")
    story = stage.run(_deployment(image="web:2", minReadySeconds=1))
    lines = story.problem(NAME).splitlines()
    assert ".spec.replicas: theirs 5 → ours 3, owned by kube-controller-manager" in lines[1]
    assert '.containers[name="web"].image: theirs "web:9" → ours "web:2", owned by' in lines[2]
    (done,) = (one for one in map(event_data, story.events) if one["event"] == "object")
    found = {one["manager"]: one for one in done["problem"]["conflicts"]}
    assert [(name, one["operation"], one["subresource"]) for name, one in found.items()] == [
        ("kube-controller-manager", "Update", "scale"),
        ("kubectl-set", "Update", ""),
    ]
    assert (done["problem"]["exitCode"], story.exit_code) == (4, 4)


def test_both_managers_follow_an_orphaned_or_moved_object(stage: Stage, api: Api) -> None:
    """Nothing of the set is left on it; what was yielded stays as it was."""
    stage.run(_deployment(replicas=5))
    stage.run(_deployment(SCALED))
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    stage.move(other)

    def ours() -> set[str]:
        managers = _owners(api.get(_path(stage)))
        return {one for one in managers if one.startswith("applyprune/")}

    assert ours() == {other.target.manager, other.target.yielded}
    assert stage.run(config_map("x")).exit_code == 0
    assert other.check().found == {}
    assert other.run(_deployment(SCALED, image="web:2")).exit_code == 0
    assert api.get(_path(stage))["spec"]["replicas"] == 5
    other.orphan("deployment/web")
    assert ours() == set()
    assert api.get(_path(stage))["spec"]["replicas"] == 5
