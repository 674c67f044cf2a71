"""Helm 3 and 4, kapp, kapply and kubectl themselves make a set of 40 objects: what becomes of it.

Each is built from its published module, which takes minutes.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.engine.tool_records import recorded_members
from applyprune.localplane import FULL, progress_on, start
from applyprune.model.identity import GVK
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.planning.marks import owner_marks, pure_marks
from applyprune.planning.tool_records import parsed_record
from applyprune.sources.documents import stored_documents
from tests.components import PEERS, ensure_peer
from tests.support.api import Api
from tests.support.canaries import untold
from tests.support.command import applyprune
from tests.support.helpdesk import Helpdesk, selected_labels, template_labels
from tests.support.other_tools import LAST_APPLIED, TOOLS, ToolSet
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.live import Body

pytestmark = pytest.mark.sweep

BY_CONTROLLERS = {"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"}
NOT_PURE = {LAST_APPLIED, PART_OF}
"""What every adoption removes or sets, whichever tool has written it."""
DEPLOYMENTS = {"deployment/api", "deployment/web", "deployment/worker"}
RECORDED = [name for name in TOOLS if TOOLS[name].record]
each_tool = pytest.mark.parametrize("made", TOOLS, indirect=True)
each_recorded = pytest.mark.parametrize("made", RECORDED, indirect=True)


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own: each set has objects of the cluster."""
    with start(binaries, FULL, tmp_path_factory.mktemp("planes") / "tools") as running:
        yield running


@pytest.fixture
def api(plane: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    own = Api(plane)
    yield own
    own.close()


@pytest.fixture
def made(
    request: pytest.FixtureRequest,
    binaries: Binaries,
    plane: Plane,
    namespace: str,
    tmp_path: Path,
) -> ToolSet:
    """The set that a tool has just made."""
    tool = TOOLS[request.param]
    program = (
        ensure_peer(tool.program, progress_on(sys.stderr))
        if tool.program in PEERS
        else binaries.kubectl
    )
    manifests = Helpdesk.write(tmp_path / "manifests", namespace)
    made = ToolSet(tool, program, binaries.kubectl, plane.kubeconfig, tmp_path / "home", manifests)
    made.make()
    return made


def uids(made: ToolSet, api: Api) -> dict[str, str]:
    """Return the UIDs of the set's objects that are not being deleted."""
    live = {name: one["metadata"] for name, one in made.manifests.live(api).items()}
    return {name: one["uid"] for name, one in live.items() if "deletionTimestamp" not in one}


def added(live: Body, given: Body, part: str) -> set[str]:
    """Return the keys that a live object has besides those of its manifest."""
    keys = live["metadata"].get(part, {}).keys() - given["metadata"].get(part, {}).keys()
    return set(keys - BY_CONTROLLERS)


@each_tool
def test_objects_of_tools_have_the_marks_that_are_known(api: Api, made: ToolSet) -> None:
    tool, given, live = made.tool, made.manifests.bodies, made.manifests.live(api)
    assert len(live) == len(given) == 40
    assert len({one["kind"] for one in given.values()}) >= 12
    assert len(made.records()) == bool(tool.record)
    for name, one in live.items():
        metadata = one["metadata"]
        labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
        assert added(one, given[name], "labels") == set(tool.labels), name
        assert added(one, given[name], "annotations") == set(tool.annotations), name
        assert writers(one) == {tool.manager}, name
        kind = GVK.parse(one["apiVersion"], one["kind"]).group_kind
        pure = {key for _, key in pure_marks(kind, labels, annotations)}
        assert pure == {*tool.labels, *tool.annotations} - NOT_PURE, name
        owners = {mark.tool for mark, _ in owner_marks(labels, annotations)}
        assert owners == ({tool.owner} if tool.owner else set()), name
    selected = {key for one in live.values() for key in selected_labels(one)}
    assert selected == {"app.kubernetes.io/name", *tool.selects}
    in_templates = {key for one in live.values() for key in template_labels(one)}
    assert in_templates == {
        "app.kubernetes.io/name", "app.kubernetes.io/part-of", *tool.in_templates
    }  # fmt: skip


def writers(live: Body) -> set[tuple[str, str]]:
    """Return the field managers of an object with their operations, without those of its status."""
    entries = live["metadata"]["managedFields"]
    return {(one["manager"], one["operation"]) for one in entries if not one.get("subresource")}


@each_recorded
def test_record_of_a_tool_names_its_objects(plane: Plane, api: Api, made: ToolSet) -> None:
    """And of kapp, the volume claim that has the label by a template: kapp asks for more marks."""
    namespace = made.manifests.namespace
    claim = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data-db-0"
    eventually(lambda: api.exists(claim), lambda: "the claim of the StatefulSet")
    record = parsed_record(made.tool.set_name.format(name=made.name))
    with Stage(plane.kubeconfig, namespace).connection() as cluster:
        client = cluster.client
        members = recorded_members(
            client, client.resource_map(), record, namespace, stored_documents
        )
        listed = [
            live
            for resource in members.resources
            for live in client.list(resource, selector=members.selector)
        ]
    found = {f"{live.ref.kind.lower()}/{live.ref.name}" for live in listed if members.has(live)}
    assert found == made.manifests.bodies.keys()
    assert members.warnings == ()


@each_tool
def test_objects_of_tools_are_adopted_only_on_request(
    plane: Plane, api: Api, made: ToolSet
) -> None:
    """What has the mark of a tool is refused, and nothing is written."""
    before = made.manifests.live(api)
    arguments = ("helpdesk", "-n", made.manifests.namespace, "-f", made.manifests.folder)
    planned = applyprune("plan", *arguments, kubeconfig=plane.kubeconfig)
    untold(planned.out + planned.err)
    if not (refusal := made.tool.refusal):
        assert planned.code == 0, planned.err
        assert "helpdesk: 40 to adopt" in planned.out
        return
    assert planned.code == 3, planned.err
    assert refusal.format(name=made.name, namespace=made.manifests.namespace) in planned.err
    assert "helpdesk: 40 failed" in planned.out
    applied = applyprune("apply", *arguments, "--yes", kubeconfig=plane.kubeconfig)
    untold(applied.out + applied.err)
    assert applied.code == 3, applied.err
    assert "nothing was changed: 40 objects cannot be applied" in applied.err
    assert versions(made.manifests.live(api)) == versions(before)


def versions(live: Mapping[str, Body]) -> dict[str, object]:
    """Return all that is declared of each object; what controllers write may change any time."""
    return {
        name: {part: value for part, value in one.items() if part not in {"metadata", "status"}}
        | {"labels": one["metadata"].get("labels"), "writers": writers(one)}
        for name, one in live.items()
    }


# The way over: an import, an adoption, a prune; then the tool itself, and the way back.


@each_tool
def test_set_comes_over_whole_and_goes_back(
    plane: Plane, api: Api, made: ToolSet, tmp_path: Path
) -> None:
    """No UID moves, no Pod is replaced, and the tool deletes nothing that it has given away."""
    folder = tmp_path / "imported"
    files = import_set(made, plane, folder)
    assert len(files) == 40
    before, old = uids(made, api), generations(made, api)
    replicas = replica_sets(made, api)
    input_ = ("helpdesk", "-n", made.manifests.namespace, "-f", folder, "--adopt=all")
    planned = applyprune("plan", *input_, kubeconfig=plane.kubeconfig)
    assert planned.code == 0, planned.err
    assert "helpdesk: 40 to adopt, 0 changed" in planned.out
    words = (*input_, "--record-as", "owned", "--yes")
    adopted = applyprune("apply", *words, kubeconfig=plane.kubeconfig)
    untold(planned.out + planned.err + adopted.out + adopted.err)
    assert adopted.code == 0, adopted.err
    assert uids(made, api) == before
    moved = {name for name, one in generations(made, api).items() if one != old[name]}
    # Of a Deployment, the server counts each change of an annotation, and of nothing else here.
    assert moved == DEPLOYMENTS
    assert replica_sets(made, api) == replicas
    again = applyprune("plan", *input_, "--exit-code", kubeconfig=plane.kubeconfig)
    assert again.code == 0, again.out
    for name, one in made.manifests.live(api).items():
        given = made.manifests.bodies[name]
        assert added(one, given, "labels") == {PART_OF}, name
        assert added(one, given, "annotations") == {OWNED_BY}, name
    next(one for one in files if one.name == "networkpolicy-db.yaml").unlink()
    pruned = applyprune("apply", *input_, "--yes", kubeconfig=plane.kubeconfig)
    assert pruned.code == 0, pruned.err
    del before["networkpolicy/db"]
    assert uids(made, api) == before
    delete_by_the_tool(made, planned.out)
    assert uids(made, api) == before
    go_back(made, plane)
    assert before.items() <= uids(made, api).items()
    live = made.manifests.live(api)
    assert not any(OWNED_BY in one["metadata"].get("annotations", {}) for one in live.values())
    assert not any(PART_OF in one["metadata"].get("labels", {}) for one in live.values()) or (
        made.tool.labels == (PART_OF,)
    )


def import_set(made: ToolSet, plane: Plane, folder: Path) -> list[Path]:
    """Import the set by the record of its tool; without one, what lives in the namespace."""
    where = ("-n", made.manifests.namespace, "--secrets", "--out", folder)
    calls: list[tuple[str, ...]] = [("--from", made.tool.set_name.format(name=made.name))]
    if not made.tool.set_name:
        clustered = made.manifests.bodies.keys() - {
            name for name in made.manifests.bodies if not name.startswith("cluster")
        }
        calls = [(), tuple(sorted(clustered))]
    for words in calls:
        done = applyprune("import", *words, *where, kubeconfig=plane.kubeconfig)
        untold(done.out + done.err)
        assert done.code == 0, done.err
    return sorted(folder.rglob("*.yaml"))


def replica_sets(made: ToolSet, api: Api) -> set[str]:
    found = api.get(f"/apis/apps/v1/namespaces/{made.manifests.namespace}/replicasets")
    return {one["metadata"]["uid"] for one in found["items"]}


def delete_by_the_tool(made: ToolSet, plan: str) -> None:
    """Delete the set by its tool; if that looks at names only, after the command of the plan."""
    commands = re.findall(r"to end that record: (.*)$", plan, re.MULTILINE)
    assert len(commands) == bool(made.tool.record)
    if made.tool.delete_heeds_marks:
        made.delete()
    elif commands:
        made.kubectl_says(commands[0].removeprefix("kubectl "))
        assert made.records() == []
        assert made.delete().code != 0


def go_back(made: ToolSet, plane: Plane) -> None:
    """Release all objects, and let the tool make its set again, of what is there."""
    words = ("helpdesk", "-n", made.manifests.namespace, "--all", "--yes")
    done = applyprune("inventory", "orphan", *words, kubeconfig=plane.kubeconfig)
    assert done.code == 0, done.err
    done = made.run(f"{made.tool.takes_back or made.tool.makes}")
    assert done.code == made.tool.code, done


# What the tool itself does to objects that are no longer its own.


@each_tool
def test_deletion_by_its_tool_removes_the_whole_set(api: Api, made: ToolSet) -> None:
    """So the deletions below would remove everything."""
    made.delete()
    eventually(lambda: not made.manifests.live(api), lambda: f"{uids(made, api)} to be gone")


@each_tool
def test_deletion_by_its_tool_heeds_marks_or_names(api: Api, made: ToolSet) -> None:
    """The server gives a Deployment another generation with other annotations, and no kind else."""
    before, old = uids(made, api), generations(made, api)
    made.remove_marks(api)
    moved = {name for name, one in generations(made, api).items() if one != old[name]}
    assert moved == (DEPLOYMENTS if made.tool.annotations else set())
    made.delete()
    if made.tool.delete_heeds_marks:
        assert uids(made, api) == before
    else:
        eventually(lambda: not made.manifests.live(api), lambda: f"{uids(made, api)} to be gone")


def generations(made: ToolSet, api: Api) -> dict[str, object]:
    """Return the generation of each object of the set."""
    return {
        name: one["metadata"].get("generation") for name, one in made.manifests.live(api).items()
    }


@each_tool
def test_update_by_its_tool_heeds_marks_or_its_record(api: Api, made: ToolSet) -> None:
    """Two objects have left the files: Helm deletes them by its record, with marks or without."""
    before = uids(made, api)
    made.remove_marks(api)
    (made.files / "cache.yaml").unlink()
    made.update()
    left = {"statefulset/cache", "service/cache"}
    gone = set() if made.tool.update_heeds_marks else left
    assert left < before.keys()
    eventually(lambda: not gone & uids(made, api).keys(), lambda: f"{gone} to be gone")
    assert uids(made, api) == {name: uid for name, uid in before.items() if name not in gone}
    labels, annotations = made.tool.labels, made.tool.annotations
    returned = {*labels, *annotations} if made.tool.update_returns_marks else set()
    for name, one in made.manifests.live(api).items():
        given = made.manifests.bodies[name]
        marks = added(one, given, "labels") | added(one, given, "annotations")
        assert marks == (set() if name in left else returned), name


@each_recorded
def test_deletion_by_its_tool_removes_nothing_without_its_record(api: Api, made: ToolSet) -> None:
    before = uids(made, api)
    made.end_record()
    assert made.records() == []
    made.delete()
    assert uids(made, api) == before
