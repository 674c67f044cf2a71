"""A kind of the inventory that the server does not serve now: its objects stay listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import API_SERVER_ONLY, Binaries, Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType
from applyprune.model.options import Mode
from applyprune.values import replace
from tests.support.api import DISCOVERY, Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import CRON_JOB, config_map, crd, crd_name, custom_resource, of_kind
from tests.support.plane import FreshPlane
from tests.support.second_server import SecondServer
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
BACKEND: dict[str, Any] = of_kind(
    "Service", "backend", spec={"type": "ExternalName", "externalName": "localhost"}
)


def _reason(story: Story, name: str) -> str:
    (done,) = (one for one in story.of(ObjectDone) if one.ref.short == name)
    return done.reason


def _assert_unknown(story: Story, stage: Stage, name: str) -> None:
    """Assert that a run has failed because of an object, which is still listed."""
    assert story.exit_code == 3, story.events
    assert name in stage.listed()
    assert "serve" in story.problem(name), story.problem(name)


def test_kind_is_switched_off(running: Plane, crd_stage: Stage, binaries: Binaries) -> None:
    """``batch/v1`` by --runtime-config: the objects are still in the storage."""
    crd_stage.run(config_map("a"), CRON_JOB)
    with SecondServer(running, binaries, "--runtime-config=batch/v1=false") as without:
        stage = replace(crd_stage, kubeconfig=without.plane.kubeconfig)
        _assert_unknown(stage.run(config_map("a")), stage, "cronjob.batch/c")
        assert stage.check().found == {"cronjob.batch/c": MismatchType.UNKNOWN}
        other = replace(stage, name="other")
        moved = stage.move(other, "CronJob.batch/c")
        assert (moved.exit_code, other.listed()) == (3, set())
        assert stage.listed() == {"configmap/a", "cronjob.batch/c"}
    story = crd_stage.run(config_map("a"))
    assert (story.exit_code, story.outcomes["cronjob.batch/c"]) == (0, Outcome.PRUNED)


def test_aggregated_api_is_replaced(fresh_plane: FreshPlane, binaries: Binaries) -> None:
    """Its APIService is missing for a while, as in an operator's upgrade."""
    plane = fresh_plane(API_SERVER_ONLY)
    api, stage = Api(plane), Stage(plane.kubeconfig, "default")
    with SecondServer(plane, binaries, "--etcd-prefix=/aggregated") as backend:
        behind = Api(backend.plane)
        behind.create(DEFINITIONS, crd())
        _serve_by(api, backend)
        stage.run(config_map("a"), custom_resource("f"))
        assert stage.listed() == {"configmap/a", "foo.x.example.com/f"}
        assert api("DELETE", f"{SERVICES}/v1.x.example.com")[0] == 200
        eventually(lambda: not _serves(api), lambda: "the end of the APIService")
        _assert_unknown(stage.run(config_map("a")), stage, "foo.x.example.com/f")
        assert stage.check().found == {"foo.x.example.com/f": MismatchType.UNKNOWN}
        assert behind.exists("/apis/x.example.com/v1/namespaces/default/foos/f")
        _serve_by(api, backend)
        story = stage.run(config_map("a"))
        assert (story.exit_code, story.outcomes["foo.x.example.com/f"]) == (0, Outcome.PRUNED)
        assert not behind.exists("/apis/x.example.com/v1/namespaces/default/foos/f")
        behind.close()
    api.close()


def test_objects_of_an_aggregated_api_are_deleted_before_it(
    fresh_plane: FreshPlane, binaries: Binaries
) -> None:
    """All in one set: its APIService and that one's Service stay as long as one object does."""
    plane = fresh_plane(API_SERVER_ONLY)
    api, stage = Api(plane), Stage(plane.kubeconfig, "default")
    with SecondServer(plane, binaries, "--etcd-prefix=/aggregated") as backend:
        behind = Api(backend.plane)
        behind.create(DEFINITIONS, crd())
        bodies = (BACKEND, _api_service(backend), custom_resource("f"))
        assert stage.run(*bodies[:2]).exit_code == 0
        eventually(lambda: _serves(api), lambda: "the APIService")
        assert stage.run(*bodies).exit_code == 0
        foo = "/apis/x.example.com/v1/namespaces/default/foos/f"
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        behind.patch(foo, hold)
        stuck = stage.run(mode=Mode.DELETE, timeout=1.0)
        name = "apiservice.apiregistration.k8s.io/v1.x.example.com"
        assert stuck.outcomes == {
            "foo.x.example.com/f": Outcome.FAILED,
            name: Outcome.SKIPPED,
            "service/backend": Outcome.SKIPPED,
        }
        assert "foo.x.example.com/f is of its kind" in stuck.problem(name)
        free = {"metadata": {"finalizers": None}}
        behind.patch(foo, free)
        gone = stage.run(mode=Mode.DELETE)
        assert (gone.exit_code, gone.outcomes[name]) == (0, Outcome.DELETED)
        assert not behind.exists(foo)
        behind.close()
    api.close()


def _serve_by(api: Api, backend: SecondServer) -> None:
    """Let a second API server serve the group ``x.example.com``, as an aggregated API."""
    api("POST", "/api/v1/namespaces/default/services", BACKEND)
    api.create(SERVICES, _api_service(backend))
    eventually(lambda: _serves(api), lambda: "the aggregated API")


def _api_service(backend: SecondServer) -> dict[str, Any]:
    return of_kind(
        "APIService",
        "v1.x.example.com",
        api="apiregistration.k8s.io/v1",
        spec={
            "group": "x.example.com",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "backend", "port": backend.port},
        },
    )


def _serves(api: Api) -> bool:
    """Return whether discovery lists the kind, and its endpoint answers."""
    listed = api("GET", "/apis", headers={"Accept": DISCOVERY})[1]["items"]
    groups = [one for one in listed if one["metadata"]["name"] == "x.example.com"]
    kinds = groups[0]["versions"][0].get("resources") if groups else ()
    return bool(kinds) and api("GET", "/apis/x.example.com/v1/foos")[0] == 200


EDITS = {
    "a kind that does not exist": {"kind": "ConfigMapp"},
    "a group that does not exist": {"group": "gone.example.com"},
    "another kind": {"kind": "Secret"},
}


@pytest.mark.holds("recorded-plural", row="another kind")
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_kind_of_an_entry_is_edited(stage: Stage, api: Api, edit: dict[str, str]) -> None:
    """It names no kind, or not that of the recorded plural: nobody can tell what it was."""
    stage.run(config_map("a"), config_map("b"))
    entries = {
        ref: replace(entry, ref=replace(ref, **edit)) if ref.name == "b" else entry
        for ref, entry in stage.inventory().entries.items()
    }
    edited = {entry.ref: entry for entry in entries.values()}
    stage.rewrite(entries=edited)
    (name,) = (ref.short for ref in edited if ref.name == "b")
    story = stage.run(config_map("a"))
    _assert_unknown(story, stage, name)
    assert api.exists(stage.path("b"))


def _delete_crd(api: Api, kind: str) -> None:
    """Delete a CRD and wait until its kind is not served any more."""
    plural = f"{kind.lower()}s"
    assert api("DELETE", f"{DEFINITIONS}/{plural}.x.example.com")[0] == 200
    path = f"/apis/x.example.com/v1/{plural}"
    eventually(lambda: not api.exists(f"{DEFINITIONS}/{plural}.x.example.com"), lambda: "no CRD")
    eventually(lambda: api("GET", path)[0] == 404, lambda: "the end of the kind")
    groups = "/apis/x.example.com/v1"
    eventually(
        lambda: plural not in str(api("GET", groups)[1]), lambda: "the end of the kind in discovery"
    )


@pytest.mark.parametrize("has_neighbour", [False, True])
def test_crd_of_a_kind_was_deleted(crd_stage: Stage, crds: Api, has_neighbour: bool) -> None:
    """It was recorded, and GETs prove that it is gone: so are its objects, and the reason says so.

    Another CRD may still define kinds of the same group version.
    """
    other = replace(crd_stage, name="other")
    other.run(crd("Goner"), *([crd("Neighbour")] if has_neighbour else []))
    crd_stage.run(config_map("a"), custom_resource("f", "Goner"))
    (entry,) = (one for one in crd_stage.inventory().entries.values() if one.ref.name == "f")
    assert entry.crd == "goners.x.example.com"
    _delete_crd(crds, "Goner")
    assert crd_stage.check().found == {"goner.x.example.com/f": MismatchType.KIND_GONE}
    story = crd_stage.run(config_map("a"))
    assert story.exit_code == 0, story.events
    assert story.outcomes["goner.x.example.com/f"] is Outcome.REMOVED_FROM_INVENTORY
    assert _reason(story, "goner.x.example.com/f") == "its CRD was deleted"
    assert crd_stage.listed() == {"configmap/a"}
    if has_neighbour:
        assert other.run(mode=Mode.DELETE).exit_code == 0


def _forget_crds(stage: Stage) -> None:
    """Write the inventory as an older version did: without the CRDs of the kinds."""
    listed = stage.inventory().entries
    stage.rewrite(entries={ref: replace(entry, crd="") for ref, entry in listed.items()})


@pytest.mark.holds("kind-deleted")
def test_crd_that_was_not_recorded_keeps_its_objects_listed(crd_stage: Stage, crds: Api) -> None:
    """An older inventory does not say that a CRD defined the kind; nor does an edited one."""
    replace(crd_stage, name="other").run(crd("Elder"))
    crd_stage.run(config_map("a"), custom_resource("f", "Elder"))
    _forget_crds(crd_stage)
    _delete_crd(crds, "Elder")
    _assert_unknown(crd_stage.run(config_map("a")), crd_stage, "elder.x.example.com/f")


def test_run_without_a_change_records_the_crd(crd_stage: Stage) -> None:
    """The next write of an older inventory has it."""
    crd_stage.run(crd("Returned"), custom_resource("f", "Returned"))
    _forget_crds(crd_stage)
    crd_stage.run(crd("Returned"), custom_resource("f", "Returned"), config_map("a"))
    (entry,) = (one for one in crd_stage.inventory().entries.values() if one.ref.name == "f")
    assert entry.crd == "returneds.x.example.com"


def test_crd_is_gone_but_the_list_of_kinds_is_not_proved(
    running: Plane, crd_stage: Stage, crds: Api, tmp_path: Path
) -> None:
    """Without the right to list APIServices, or while another group is missing, it stays listed."""
    replace(crd_stage, name="other").run(crd("Unsure"))
    crd_stage.run(config_map("a"), custom_resource("f", "Unsure"))
    _delete_crd(crds, "Unsure")
    with FaultProxy(running) as proxy:
        stage = replace(crd_stage, kubeconfig=proxy.kubeconfig(tmp_path), budget=0.5)
        proxy.rule = always(
            faults.status(403, reason="Forbidden", message="no"),
            where=lambda seen: seen.path == SERVICES,
        )
        story = stage.run(config_map("a"))
        _assert_unknown(story, stage, "unsure.x.example.com/f")
        assert "the list of kinds is not proved" in story.problem("unsure.x.example.com/f")


def test_crd_that_comes_back_creates_its_objects_again(crd_stage: Stage, crds: Api) -> None:
    """The input has the CRD and its object: both are created, and nothing is unknown."""
    bodies = (crd("Phoenix"), custom_resource("f", "Phoenix"))
    crd_stage.run(*bodies)
    _delete_crd(crds, "Phoenix")
    story = crd_stage.run(*bodies)
    assert story.exit_code == 0, story.events
    assert story.outcomes == {
        crd_name("Phoenix"): Outcome.CREATED,
        "phoenix.x.example.com/f": Outcome.CREATED,
    }
