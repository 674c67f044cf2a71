"""A read-only command cannot change anything, whatever lies between us and the server.

A gateway may drop the body of a request (RFC 9110, section 9.3.5, allows it for a DELETE) or its
query, and an aggregated API may not know dry runs. A PUT says only in its query that it is a dry
run; it is sent only after an apply, which fails without its query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlencode

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.fault_proxy import Exchange, FaultProxy, faults
from tests.support.fault_proxy.exchange import Fault
from tests.support.objects import config_map, crd, custom_resource, of_kind
from tests.support.stage import Stage
from tests.support.waiting import HANG
from tests.support.workloads import workload

WRITES = frozenset({"DELETE", "PATCH", "POST", "PUT"})
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KIND = "Readonly"
OBJECTS = "readonlys"
KEPT = [config_map(name) for name in ("changed", "gone", "a", "b", "c", "d", "e", "f")]
READS = (
    ("plan", "web", "-f", ".", "--recreate"),
    ("apply", "web", "-f", ".", "--dry-run=server", "--conflicts=force", "--adopt=all"),
    ("explain", "web", "configmap/gone", "-f", "."),
    ("prune", "web", "-f", ".", "--dry-run=server"),
    ("delete", "web", "--dry-run=server"),
    ("inventory", "check", "web"),
)
"""Each way of a read-only command to ask a server; all of them: e2e/test_nothing_is_written.py."""


def without_body(seen: Exchange) -> None:
    seen.body = b""


def without_query(seen: Exchange) -> None:
    seen.target = seen.path


@pytest.fixture
def gateway(running: Plane) -> Iterator[FaultProxy]:
    """A proxy in front of the plane for CRDs."""
    with FaultProxy(running) as proxy:
        yield proxy


@pytest.fixture
def folder(running: Plane, crd_stage: Stage, crds: Api, tmp_path: Path) -> Path:
    """A set, and a folder with an input that would change, adopt, recreate, create and prune."""
    Stage(running.kubeconfig, "default", "readonly").run(crd(KIND))
    input_ = tmp_path / "input"
    input_.mkdir()
    service = of_kind("Service", "s", spec={"ports": [{"port": 80}], "clusterIP": "None"})
    frozen = {**config_map("frozen"), "immutable": True}
    custom, other = custom_resource("custom", KIND), custom_resource("other", KIND)
    before = (*KEPT, frozen, service, custom, other)
    assert crd_stage.run(*before).exit_code == 0
    path = crd_stage.path()
    for name in ("taken", "edited"):
        body = {**config_map(name), "data": {"key": "v", "stale": "1"}}
        crds.create(path, body, by="kubectl-client-side-apply")
    after = (
        {**config_map("changed"), "data": {"a": "2"}},
        {**frozen, "data": {"a": "2"}},
        {**service, "metadata": {"name": "s", "labels": {"a": "b"}}},
        {**custom, "note": "changed"},
        {**config_map("taken"), "data": {"key": "v"}},
        config_map("new"),
    )
    for number, body in enumerate(after):
        (input_ / f"{number}.yaml").write_text(json.dumps(body))
    return input_


def everything(api: Api, namespace: str) -> dict[str, Any]:
    """Return the metadata of all objects in the namespace, and of the CRD."""
    paths = (
        *(f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("configmaps", "services")),
        f"/apis/x.example.com/v1/namespaces/{namespace}/{OBJECTS}",
    )
    found = {
        f"{path}/{one['metadata']['name']}": one["metadata"]
        for path in paths
        for one in api.get(path)["items"]
    }
    return {**found, "crd": api.get(f"{DEFINITIONS}/{OBJECTS}.x.example.com")["metadata"]}


@pytest.mark.parametrize(
    ("methods", "drop"),
    [(WRITES, without_body), (WRITES, without_query), ({"PATCH"}, without_query)],
    ids=["the body", "the query", "the query of each PATCH"],
)
def test_nothing_changes_behind_a_gateway_that_drops_a_part(
    gateway: FaultProxy,
    crd_stage: Stage,
    crds: Api,
    folder: Path,
    methods: frozenset[str],
    drop: Callable[[Exchange], None],
) -> None:
    """Every request of a read-only command, without its body or without its query.

    Slow: each command is a process.
    """

    def spoil(seen: Exchange) -> None:
        if seen.method in methods:
            drop(seen)

    kubeconfig = gateway.kubeconfig(folder.parent, namespace=crd_stage.namespace)
    before = everything(crds, crd_stage.namespace)
    gateway.before_forward = spoil
    for command in READS:
        ended = applyprune(*command, kubeconfig=kubeconfig, cwd=folder)
        assert ended.code not in {2, 70}, (command, ended.err)
        assert everything(crds, crd_stage.namespace) == before, command
    assert {seen.method for seen in gateway.exchanges} & methods
    assert [seen.target for seen in gateway.exchanges if seen.method == "DELETE"] == []


def _json(body: dict[str, Any]) -> Fault:
    typed = (("Content-Type", "application/json"),)
    return faults.answer(200, json.dumps(body).encode(), typed)


class Aggregated:
    """A proxy that makes the kind look as if an aggregated API served it, which knows no dry run.

    ``lists`` are the parameters that its OpenAPI lists.
    """

    def __init__(self, gateway: FaultProxy, *lists: str, keeps: bool = False) -> None:
        """Set the proxy up; with ``keeps``, the server keeps to preconditions and dry runs."""
        self.path = f"/apis/x.example.com/v1/namespaces/{{namespace}}/{OBJECTS}/{{name}}"
        parameters = [{"name": name, "in": "query"} for name in lists]
        paths = {self.path: {"patch": {"parameters": parameters}}}
        self.document = {"info": {"title": "x"}, "paths": paths, "components": {}}
        self.keeps = keeps
        gateway.rule = self.rule
        gateway.before_forward = self.spoil

    def rule(self, seen: Exchange) -> Fault | None:
        """Answer what would say that a CRD defines the kind."""
        if seen.path.startswith("/openapi/v3/apis/x.example.com"):
            return _json(self.document)
        if seen.path.startswith(f"{DEFINITIONS}/"):
            return faults.status(403, "Forbidden", "no")
        return None

    def spoil(self, seen: Exchange) -> None:
        """Let the server ignore dry runs and preconditions."""
        if f"/{OBJECTS}" not in seen.path or self.keeps:
            return
        query = {key: value for key, value in seen.query.items() if key not in {"dryRun", "uid"}}
        seen.target = f"{seen.path}?{urlencode(query)}"
        if seen.method == "DELETE":
            seen.body = b""


@pytest.mark.holds("dry-run-understood")
def test_no_dry_run_reaches_an_aggregated_api_that_does_not_know_it(
    gateway: FaultProxy, crd_stage: Stage, crds: Api, folder: Path
) -> None:
    """Neither an apply nor a PUT nor a DELETE; the plan says that the object was not checked.

    Slow: each command is a process.
    """
    Aggregated(gateway)
    kubeconfig = gateway.kubeconfig(folder.parent, namespace=crd_stage.namespace)
    before = everything(crds, crd_stage.namespace)
    for command in READS:
        applyprune(*command, kubeconfig=kubeconfig, cwd=folder)
        assert everything(crds, crd_stage.namespace) == before, command
    sent = [one for one in gateway.exchanges if f"/{OBJECTS}/" in one.path and one.method in WRITES]
    assert sent == []
    ended = applyprune("plan", "web", "-f", ".", kubeconfig=kubeconfig, cwd=folder)
    assert "nothing says that the server of x.example.com/v1 supports dry runs" in ended.out


def test_apply_is_tried_where_openapi_lists_dry_run(
    gateway: FaultProxy, crd_stage: Stage, folder: Path, tmp_path: Path
) -> None:
    """By the word of the aggregated API."""
    Aggregated(gateway, "dryRun", keeps=True)
    stage = Stage(gateway.kubeconfig(tmp_path), crd_stage.namespace)
    custom = {**custom_resource("custom", KIND), "note": "changed"}
    story = stage.run(custom, dry_run=DryRun.SERVER)
    assert story.outcomes["readonly.x.example.com/custom"] is Outcome.UPDATED
    sent = [one for one in gateway.exchanges if f"/{OBJECTS}/" in one.path and one.method in WRITES]
    assert [(one.method, one.query["dryRun"]) for one in sent] == [("PATCH", "All")]


@pytest.mark.usefixtures("folder")
def test_worker_believes_nothing_that_another_one_is_still_asking(
    gateway: FaultProxy, crd_stage: Stage, tmp_path: Path
) -> None:
    """Whether a CRD defines the kind: two objects of it are tried at once."""
    asked, both = count(1), Event()

    def rule(seen: Exchange) -> Fault | None:
        if seen.path.startswith("/openapi/v3/apis/x.example.com"):
            return faults.status(404, "NotFound", "no")
        if seen.path.startswith(f"{DEFINITIONS}/"):
            if next(asked) > 1:
                both.set()
            both.wait(HANG)
        return None

    gateway.rule = rule
    stage = Stage(gateway.kubeconfig(tmp_path), crd_stage.namespace)
    changed = [{**custom_resource(name, KIND), "note": "changed"} for name in ("custom", "other")]
    stage.run(*changed, dry_run=DryRun.SERVER)
    sent = [one for one in gateway.exchanges if one.method == "PATCH"]
    assert [one.query["dryRun"] for one in sent] == ["All", "All"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "keeps", [True, pytest.param(False, marks=pytest.mark.holds("preconditions-proved"))]
)
def test_first_delete_of_a_group_proves_the_preconditions(
    gateway: FaultProxy, crd_stage: Stage, crds: Api, tmp_path: Path, keeps: bool
) -> None:
    """A server that would delete an object of another UID deletes nothing for us."""
    Aggregated(gateway, "dryRun", keeps=True)
    stage = Stage(gateway.kubeconfig(tmp_path), crd_stage.namespace)
    if not keeps:
        # It answers every DELETE as if it had done it, and looks at nothing.
        inner = gateway.rule

        def rule(seen: Exchange) -> Fault | None:
            if seen.method == "DELETE" and f"/{OBJECTS}/" in seen.path:
                return _json({"kind": "Status", "apiVersion": "v1", "status": "Success"})
            return inner(seen)

        gateway.rule = rule
    # Without the proof, it would wait for what the server has not done.
    story = stage.run(*KEPT, **({} if keeps else {"timeout": 1.0}))
    sent = [one for one in gateway.exchanges if one.method == "DELETE" and OBJECTS in one.path]
    dry = [one for one in sent if "dryRun" in one.query]
    names = ("readonly.x.example.com/custom", "readonly.x.example.com/other")
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/{OBJECTS}"
    if keeps:
        assert [story.outcomes[name] for name in names] == [Outcome.PRUNED] * 2
        assert ["uid" in one.query for one in dry] == [False]
        assert len(sent) == 3
        assert crds.get(path)["items"] == []
    else:
        assert [story.outcomes[name] for name in names] == [Outcome.FAILED] * 2
        assert sent == dry
        assert "to a dry run with a wrong UID it accepted" in story.problem(names[0])
        assert len(crds.get(path)["items"]) == 2


@pytest.mark.holds("put-after-apply")
def test_put_is_not_sent_where_the_query_is_lost(
    gateway: FaultProxy, crd_stage: Stage, crds: Api, tmp_path: Path
) -> None:
    """Not even for an object that no apply can change: its status has an unserved version."""
    definition = crd("Unserved")
    (version,) = definition["spec"]["versions"]
    version["subresources"] = {"status": {}}
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    older = {**version, "name": "v1alpha1", "storage": False}
    definition["spec"]["versions"] = [version, older]
    shared = Stage(crd_stage.kubeconfig, "default", "unserved")
    assert shared.run(definition).exit_code == 0
    custom = custom_resource("custom", "Unserved")
    assert crd_stage.run(custom).exit_code == 0
    path = f"/apis/x.example.com/{{}}/namespaces/{crd_stage.namespace}/unserveds/custom"
    crds.patch(path.format("v1alpha1") + "/status", {"status": {"a": 1}}, by="ctrl")
    definition["spec"]["versions"] = [version]
    assert shared.run(definition).exit_code == 0
    before = crds.get(path.format("v1"))
    gateway.before_forward = without_query
    stage = Stage(gateway.kubeconfig(tmp_path), crd_stage.namespace)
    stage.run({**custom, "note": "changed"}, dry_run=DryRun.SERVER)
    assert "PUT" not in {seen.method for seen in gateway.exchanges}
    assert crds.get(path.format("v1")) == before
    gateway.before_forward = lambda _: None
    stage.run({**custom, "note": "changed"}, dry_run=DryRun.SERVER)
    assert "PUT" in {seen.method for seen in gateway.exchanges}
    assert crds.get(path.format("v1")) == before


@pytest.mark.holds("put-after-refusal")
def test_put_without_excluding_fields_is_not_sent_where_the_query_is_lost(
    gateway: FaultProxy, crd_stage: Stage, crds: Api, tmp_path: Path
) -> None:
    """An apply just before it shows that; the query of the first apply may have arrived."""
    probe = {"httpGet": {"path": "/", "port": 80}}
    body = workload("Deployment", "probed")
    body["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = probe
    assert crd_stage.run(body).exit_code == 0
    path = f"/apis/apps/v1/namespaces/{crd_stage.namespace}/deployments/probed"
    place = "/spec/template/spec/containers/0/livenessProbe"
    change = [{"op": "replace", "path": place, "value": {"tcpSocket": {"port": 80}}}]
    crds.patch(path, change, by="ctrl")
    stage = Stage(gateway.kubeconfig(tmp_path), crd_stage.namespace)
    labelled = {**body, "metadata": {**body["metadata"], "labels": {"new": "label"}}}
    applies: list[str] = []

    def lose(seen: Exchange) -> None:
        if seen.method == "PATCH" and seen.path.endswith("/probed"):
            applies.append(seen.path)
            if len(applies) > 1:
                without_query(seen)

    gateway.before_forward = lose
    stage.run(labelled, dry_run=DryRun.SERVER)
    assert len(applies) > 1
    assert "PUT" not in {seen.method for seen in gateway.exchanges}
    gateway.before_forward = lambda _: None
    story = stage.run(labelled, dry_run=DryRun.SERVER)
    assert "PUT" in {seen.method for seen in gateway.exchanges}
    assert "--take-over ctrl" in story.problem("deployment.apps/probed")
    assert crds.get(path)["metadata"].get("labels", {}).get("new") is None
