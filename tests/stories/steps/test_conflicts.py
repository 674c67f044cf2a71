"""Fields of others on the real API server: taken, skipped, left to them, and given back.

What is a conflict, and which drift is left, is decided in ``tests/decisions/test_conflicts.py``.
"""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.options import Conflicts, DryRun
from applyprune.output.json import event_data
from applyprune.planning.recovery import WholeSetNeeded
from tests.decisions.world import applied_by, changed, created, other_set, relabelled
from tests.support.actors import ALICE, ARGO
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.run_rows import RunRow
from tests.support.stage import Stage

NAME = "deployment.apps/web"
ASKED, IGNORE = "applyprune.dev/conflicts", "applyprune.dev/ignore-fields"
SKIP, SCALED = {ASKED: "skip"}, {IGNORE: "/spec/replicas"}
A, B, HAND = config_map("a"), config_map("b"), {"data": {"key": "hand"}}
DRIFTED = changed("configmap/b", HAND)
FIXED = changed("configmap/b", {**HAND, "immutable": True})
REVERT: dict[str, Any] = {"conflicts": Conflicts.REVERT}
FAILED = {"configmap/b": Outcome.FAILED}


def _service(**spec: Any) -> dict[str, Any]:
    return of_kind("Service", "b", spec={"selector": {"app": "b"}, "ports": [{"port": 80}], **spec})


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
    "a contended object is skipped": RunRow(
        applied=[config_map("b", annotations=SKIP), config_map("go")], others=[DRIFTED],
        given=[config_map("b", "new", annotations=SKIP), A],
        options={"conflicts": Conflicts.FORCE},
        outcomes={
            "configmap/a": Outcome.CREATED, "configmap/b": Outcome.SKIPPED,
            "configmap/go": Outcome.PRUNED,
        },
        live={"configmap/b": HAND}, listed=frozenset({"configmap/a", "configmap/b"}),
    ),
    # It was never touched, so nothing must be released.
    "an object is skipped at its adoption": RunRow(
        others=[created(config_map("b", "hand"))],
        given=[A, config_map("b", annotations=SKIP)],
        outcomes={"configmap/a": Outcome.CREATED, "configmap/b": Outcome.SKIPPED},
        live={"configmap/b": {**HAND, "metadata": {"labels": None}}},
        listed=frozenset({"configmap/a"}),
    ),
    **{
        f"drift alone recreates nothing: {check=}": RunRow(
            applied=[B], others=[FIXED], options={**REVERT, "recreate": True, "check": check},
            exit_code=3, outcomes=FAILED, live={"configmap/b": {**HAND, "immutable": True}},
            says={"configmap/b": "reverting drift deletes nothing"},
        )
        for check in (True, False)
    },
    "a field of others too is not recreated": RunRow(
        applied=[B], others=[FIXED], given=[config_map("b", "new")],
        options={**REVERT, "recreate": True}, exit_code=3, outcomes=FAILED,
        live={"configmap/b": HAND}, says={"configmap/b": "them owns the field too"},
    ),
    "the server keeps a value": RunRow(
        applied=[_service(clusterIP="None")], given=[_service()], options={"recreate": True},
        outcomes={"service/b": Outcome.UPDATED},
        live={"service/b": {"spec": {"clusterIP": "None"}}},
    ),
}  # fmt: skip


@pytest.mark.holds("dry-run-before-skip", row="an object is skipped at its adoption")
@pytest.mark.holds("drift-deletes-nothing", row="drift alone recreates nothing: check=True")
@pytest.mark.holds("own-immutable-field", row="a field of others too is not recreated")
@pytest.mark.parametrize("row", STORIES.values(), ids=STORIES)
def test_field_of_another_manager_is_taken_only_on_request(
    stage: Stage, api: Api, row: RunRow
) -> None:
    row.holds(api, stage)


def test_empty_cluster_ip_does_not_replace_none(stage: Stage) -> None:
    """A warning says so, of a plan too."""
    assert stage.run(_service(clusterIP="None")).exit_code == 0
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = stage.run(_service(clusterIP=""), recreate=True, dry_run=dry_run)
        assert story.outcomes == {"service/b": Outcome.UNCHANGED}
        (told,) = story.warnings
        assert "service/b at .spec.clusterIP: an empty value does not replace" in told


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


@pytest.mark.holds("second-owner")
def test_ignored_field_that_only_we_own_keeps_its_value(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Left out at once it would fall back to 1; wanted back, it is ours again.

    Slow: each case is three runs and a process of kubectl.
    """
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


# Drift that a run leaves, and the drift of single objects.


def test_kept_drift_is_left_until_the_manifest_changes(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Nothing is sent, not even for a deleted object; its entry stays, and nothing is pruned."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("a"), {"data": {"key": "2"}}, by="opponent")
    assert api("DELETE", stage.path("b"))[0] == 200
    before = stage.inventory().entries
    audit.restart()
    for _ in range(2):
        story = stage.run(*map(config_map, "abc"), keep_drift=True, wait=True)
        assert (story.exit_code, stage.inventory().entries) == (0, before)
        assert story.outcomes["configmap/b"] is Outcome.SKIPPED
    assert writes(audit) == []
    later = [config_map("a", "3"), config_map("b", "new"), config_map("c")]
    assert stage.run(*later, keep_drift=True).outcomes == {
        "configmap/a": Outcome.UPDATED,
        "configmap/b": Outcome.CREATED,
        "configmap/c": Outcome.UNCHANGED,
    }
    assert api.get(stage.path("a"))["data"] == {"key": "3"}


def test_order_of_a_list_is_drift_without_a_manager(stage: Stage, api: Api) -> None:
    """It leaves no trace in managedFields."""
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["paused"] = True
    body["spec"]["template"]["spec"]["containers"] = [{"name": n, "image": "x:1"} for n in "cd"]
    stage.run(body)
    where = stage.path("web", "deployments", "/apis/apps/v1")
    order = "/spec/template/spec/containers"
    flipped = list(reversed(api.get(where)["spec"]["template"]["spec"]["containers"]))
    api.patch(where, [{"op": "replace", "path": order, "value": flipped}])
    (step,) = stage.run(body, keep_drift=True).plan.applies
    assert [(one.path, one.manager) for one in step.drift] == [(order, "")]
    now = api.get(where)["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in now] == ["d", "c"]


SIZE = 20


def _edit(stage: Stage, api: Api, name: str, **body: Any) -> None:
    api.patch(stage.path(name), body or {"data": {"key": "2"}}, by="opponent")


def _only(stage: Stage, *names: str) -> dict[str, Any]:
    """Return the options of a run that corrects these ConfigMaps alone."""
    refs = frozenset(Ref("", "ConfigMap", stage.namespace, name) for name in names)
    return {**REVERT, "corrects": refs}


def test_drift_of_one_object_costs_requests_about_it_only(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Of all, and nothing is listed; what has left the input stays, and stays listed."""
    bodies = [config_map(f"n{number}") for number in range(SIZE)]
    stage.run(*bodies)
    _edit(stage, api, "n7")
    assert api("DELETE", stage.path("n8"))[0] == 200
    audit.restart()
    story = stage.run(*bodies[:-1], **_only(stage, "n7", "n8"))
    assert story.outcomes == {"configmap/n7": Outcome.UPDATED, "configmap/n8": Outcome.CREATED}
    assert api.get(stage.path("n7"))["data"] == {"key": "v"}
    ours = audit.ours()
    objects = [one for one in ours if (one.get("objectRef") or {}).get("resource") == "configmaps"]
    names = [one["objectRef"]["name"] for one in objects if "name" in one["objectRef"]]
    assert {one["verb"] for one in objects} == {"get", "patch", "update"}
    assert sorted(name for name in names if name.startswith("n")) == ["n7"] * 2 + ["n8"] * 2
    # An update is one of the inventory, by which a run also renews its lease.
    asked = [f"{one['verb']} {one['requestURI']}" for one in ours if one["verb"] != "update"]
    assert len(asked) <= 8, asked
    assert len(stage.listed()) == SIZE
    assert api.exists(stage.path(f"n{SIZE - 1}"))
    # The record is complete: the next run of all has nothing to do.
    audit.restart()
    assert stage.run(*bodies).exit_code == 0
    assert writes(audit) == []


@pytest.mark.holds("only-drift")
def test_more_than_drift_writes_nothing(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """The caller plans the whole set instead."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    _edit(stage, api, "a")
    assert api("DELETE", stage.path("b"))[0] == 200
    api.create(stage.path(""), config_map("b"))
    applied = {**config_map("c"), "data": {"key": "theirs"}}
    api.apply(stage.path("c"), applied, by="pipeline", force=True)
    audit.restart()
    given = (config_map("a"), config_map("b"), config_map("c"))
    refused: dict[str, tuple[tuple[dict[str, Any], ...], tuple[str, ...]]] = {
        "a changed manifest": ((config_map("a", "new"), *given[1:]), ("a",)),
        "an object that somebody has created again": (given, ("a", "b")),
        "a conflict": (given, ("a", "c")),
        "an object that has left the input": (given[1:], ("a",)),
        "an object that was never listed": ((*given, config_map("d")), ("d",)),
    }
    for what, (bodies, names) in refused.items():
        with pytest.raises(WholeSetNeeded):
            stage.run(*bodies, **_only(stage, *names))
        assert writes(audit) == [], what
    api("DELETE", stage.path(stage.target.inventory.name))
    with pytest.raises(WholeSetNeeded):
        stage.run(*given, **_only(stage, "a"))
