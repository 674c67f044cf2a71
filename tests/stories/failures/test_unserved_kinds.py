"""A kind of the inventory that the server does not serve now: its objects stay listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import API_SERVER_ONLY, Binaries, Plane
from applyprune.model.fate import Outcome
from applyprune.model.inventory import MismatchType
from applyprune.model.options import Mode
from applyprune.values import replace
from tests.support.api import DISCOVERY, Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map, crd, crd_name, custom_resource, of_kind
from tests.support.plane import FreshPlane
from tests.support.second_server import SecondServer
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
BACKEND: dict[str, Any] = of_kind(
    "Service", "backend", spec={"type": "ExternalName", "externalName": "localhost"}
)


def _assert_unknown(story: Story, stage: Stage, name: str) -> None:
    """Assert that a run has failed because of an object, which is still listed."""
    assert story.exit_code == 3, story.events
    assert name in stage.listed()
    assert "serve" in story.problem(name), story.problem(name)


def test_aggregated_api_goes_comes_back_and_is_deleted(
    fresh_plane: FreshPlane, binaries: Binaries
) -> None:
    """Its APIService is missing for a while, as in an operator's upgrade; then the set is deleted.

    Its APIService and that one's Service are of the set, and stay as long as one object does. Slow:
    it starts a control plane, and another API server as the backend.

    Slow: the server looks at an aggregated API every few seconds.
    """
    plane = fresh_plane(API_SERVER_ONLY)
    api, stage = Api(plane), Stage(plane.kubeconfig, "default")
    foo = "/apis/x.example.com/v1/namespaces/default/foos/f"
    with SecondServer(plane, binaries, "--etcd-prefix=/aggregated") as backend:
        behind = Api(backend.plane)
        behind.create(DEFINITIONS, crd())
        service = _api_service(backend)
        first, bodies = (BACKEND, service), (BACKEND, service, custom_resource("f"))
        assert stage.run(*first).exit_code == 0
        eventually(lambda: _serves(api), lambda: "the aggregated API")
        assert stage.run(*bodies).exit_code == 0

        assert api("DELETE", f"{SERVICES}/v1.x.example.com")[0] == 200
        eventually(lambda: not _serves(api), lambda: "the end of the APIService")
        _assert_unknown(stage.run(BACKEND), stage, "foo.x.example.com/f")
        assert stage.check().found["foo.x.example.com/f"] is MismatchType.UNKNOWN
        assert behind.exists(foo)

        assert stage.run(*first).exit_code == 3
        eventually(lambda: _serves(api), lambda: "the aggregated API")
        assert stage.run(*bodies).exit_code == 0
        behind.patch(foo, {"metadata": {"finalizers": ["example.com/hold"]}})
        stuck = stage.run(mode=Mode.DELETE, timeout=1.0)
        name = "apiservice.apiregistration.k8s.io/v1.x.example.com"
        assert stuck.outcomes == {
            "foo.x.example.com/f": Outcome.FAILED,
            name: Outcome.SKIPPED,
            "service/backend": Outcome.SKIPPED,
        }
        assert "foo.x.example.com/f is of its kind" in stuck.problem(name)
        behind.patch(foo, {"metadata": {"finalizers": None}})
        gone = stage.run(mode=Mode.DELETE)
        assert (gone.exit_code, gone.outcomes[name]) == (0, Outcome.DELETED)
        assert not behind.exists(foo)
        behind.close()
    api.close()


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


@pytest.mark.holds("recorded-plural", row="Secret")
@pytest.mark.parametrize("kind", ["Secret", "ConfigMapp"])
def test_kind_of_an_entry_is_edited(stage: Stage, api: Api, kind: str) -> None:
    """It names no kind, or not that of the recorded plural: nobody can tell what it was."""
    stage.run(config_map("a"), config_map("b"))
    listed = stage.inventory().entries
    (old,) = (ref for ref in listed if ref.name == "b")
    new = replace(listed[old], ref=replace(old, kind=kind))
    kept = {ref: entry for ref, entry in listed.items() if ref != old}
    stage.rewrite(entries={**kept, new.ref: new})
    _assert_unknown(stage.run(config_map("a")), stage, new.ref.short)
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


@pytest.mark.parametrize("repairs", [False, True], ids=["run", "repair"])
def test_crd_of_a_kind_was_deleted(crd_stage: Stage, crds: Api, repairs: bool) -> None:
    """It was recorded, and GETs prove that it is gone: so are its objects, and the reason says so.

    With a neighbour, another CRD still defines a kind of the same group version.
    """
    other = replace(crd_stage, name="other")
    other.run(crd("Goner"), *([] if repairs else [crd("Neighbour")]))
    crd_stage.run(config_map("a"), custom_resource("f", "Goner"))
    (entry,) = (one for one in crd_stage.inventory().entries.values() if one.ref.name == "f")
    assert entry.crd == "goners.x.example.com"
    _delete_crd(crds, "Goner")
    assert crd_stage.check().found == {"goner.x.example.com/f": MismatchType.KIND_GONE}
    if repairs:
        assert crd_stage.repair().exit_code == 0
    else:
        story = crd_stage.run(config_map("a"))
        assert story.exit_code == 0, story.events
        assert story.outcomes["goner.x.example.com/f"] is Outcome.REMOVED_FROM_INVENTORY
        assert story.reasons["goner.x.example.com/f"] == "its CRD was deleted"
        assert other.run(mode=Mode.DELETE).exit_code == 0
    assert crd_stage.listed() == {"configmap/a"}


def _forget_crds(stage: Stage) -> None:
    """Write the inventory as an older version did: without the CRDs of the kinds."""
    listed = stage.inventory().entries
    stage.rewrite(entries={ref: replace(entry, crd="") for ref, entry in listed.items()})


@pytest.mark.holds("kind-deleted")
def test_crd_that_was_not_recorded_or_not_proved_keeps_its_objects_listed(
    running: Plane, crd_stage: Stage, crds: Api, tmp_path: Path
) -> None:
    """An older inventory does not say that a CRD defined the kind; the next write records it.

    Without the right to list APIServices nobody knows whether another server has the kind.
    """
    name, other = "elder.x.example.com/f", replace(crd_stage, name="other")
    other.run(crd("Elder"))
    crd_stage.run(config_map("a"), custom_resource("f", "Elder"))
    _forget_crds(crd_stage)
    crd_stage.run(config_map("a", "new"), custom_resource("f", "Elder"))
    (entry,) = (one for one in crd_stage.inventory().entries.values() if one.ref.name == "f")
    assert entry.crd == "elders.x.example.com"
    _delete_crd(crds, "Elder")
    with FaultProxy(running) as proxy:
        stage = replace(crd_stage, kubeconfig=proxy.kubeconfig(tmp_path), budget=0.5)
        forbidden = faults.status(403, reason="Forbidden", message="no")
        proxy.rule = always(forbidden, where=lambda seen: seen.path == SERVICES)
        story = stage.run(config_map("a"))
        _assert_unknown(story, stage, name)
        assert "the list of kinds is not proved" in story.problem(name)
    _forget_crds(crd_stage)
    _assert_unknown(crd_stage.run(config_map("a")), crd_stage, name)


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
