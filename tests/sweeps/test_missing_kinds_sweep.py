"""Discovery that leaves out each subset of groups: nothing foreign goes, and nothing is lost."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import ApplypruneError
from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode
from applyprune.planning.applyset import PART_OF
from applyprune.values import replace
from tests.support.api import Api, temporary_namespace
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import CRON_JOB, DEPLOYMENT, config_map, crd, custom_resource
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.stage import Story

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {
    "": "/api/v1/{}configmaps",
    "apps": "/apis/apps/v1/{}deployments",
    "batch": "/apis/batch/v1/{}cronjobs",
    "x.example.com": "/apis/x.example.com/v1/{}foos",
}
"""The API groups that are left out, and the path of the kind of each that the sets contain."""
SUBSETS = [
    subset
    for size in range(1, len(KINDS) + 1)
    for subset in itertools.combinations(sorted(KINDS), size)
]
OBJECTS = (config_map("a"), DEPLOYMENT, CRON_JOB, custom_resource("f"))


def _home(stage: Stage) -> dict[str, Any]:
    name = f"{stage.namespace}-{stage.name}"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _prune_all_but_one(stage: Stage) -> Story:
    return stage.run(
        config_map("a"),
        allow_kinds=frozenset({"namespace"}),
        max_prune=stage.most(9),
        timeout=1.0,
        wait=False,
    )


ACTS: dict[str, Callable[[Stage], Story]] = {
    "prune": _prune_all_but_one,
    "delete": lambda stage: stage.run(mode=Mode.DELETE, timeout=1.0),
    "orphan": Stage.orphan,
    "check": Stage.check,
    "repair": lambda stage: stage.repair(ownership=Ownership.OWNED),
    "apply": lambda stage: stage.run(_home(stage), *OBJECTS),
}


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own, with a CRD."""
    with start(binaries, API_SERVER_ONLY, tmp_path_factory.mktemp("planes") / "cut") as running:
        api = Api(running)
        assert api("POST", DEFINITIONS, crd())[0] == 201
        eventually(lambda: "x.example.com" in str(api.get("/apis")), lambda: "the kind")
        eventually(
            lambda: api("GET", KINDS["x.example.com"].format(""))[0] == 200, lambda: "the kind"
        )
        api.close()
        yield running


@pytest.mark.sweep
@pytest.mark.parametrize("is_lost", [False, True], ids=["", "without its inventory"])
@pytest.mark.parametrize("act", ACTS)
def test_each_subset_of_groups_is_left_out(
    plane: Plane, tmp_path: Path, act: str, is_lost: bool
) -> None:
    """Another team's objects stay, and what has a set's label stays in an inventory."""
    api = Api(plane)
    with FaultProxy(plane) as proxy, temporary_namespace(api) as namespace:
        kubeconfig = proxy.kubeconfig(tmp_path)
        for number, subset in enumerate(SUBSETS):
            stage = Stage(plane.kubeconfig, namespace, name=f"set-{number}", budget=5.0)
            _prepare(stage, api)
            if is_lost:
                assert api("DELETE", _inventory(stage))[0] == 200
            proxy.rule = always(
                faults.without_groups(*subset), where=lambda seen: seen.path in {"/api", "/apis"}
            )
            before = _states(stage, api)
            with suppress(ApplypruneError):
                ACTS[act](replace(stage, kubeconfig=kubeconfig, budget=0.3))
            _check(stage, api, before, is_lost=is_lost, where=f"{act} without {subset}")
            _clear(stage, api)
    api.close()


def _prepare(stage: Stage, api: Api) -> None:
    """Apply a set, and put objects of another team into its Namespace."""
    home = _home(stage)
    assert stage.run(home, *OBJECTS).exit_code == 0
    name = home["metadata"]["name"]
    for body, path in zip(OBJECTS, KINDS.values(), strict=True):
        theirs = {**body, "metadata": {"name": "theirs", "namespace": name}}
        status, reply = api("POST", path.format(f"namespaces/{name}/"), theirs)
        assert status == 201, reply


def _inventory(stage: Stage) -> str:
    name = stage.target.inventory.name
    return f"/api/v1/namespaces/{stage.namespace}/configmaps/{name}"


def _theirs(stage: Stage, api: Api) -> list[bool]:
    name = _home(stage)["metadata"]["name"]
    return [api.exists(f"{path.format(f'namespaces/{name}/')}/theirs") for path in KINDS.values()]


def _states(stage: Stage, api: Api) -> dict[str, str]:
    """Return the label of each object of the set by its path; a missing object is left out."""
    home = _home(stage)["metadata"]["name"]
    paths = [
        f"{path.format(f'namespaces/{stage.namespace}/')}/{body['metadata']['name']}"
        for body, path in zip(OBJECTS, KINDS.values(), strict=True)
    ]
    found = {}
    for path in (f"/api/v1/namespaces/{home}", *paths):
        if api.exists(path):
            found[path] = str((api.get(path)["metadata"].get("labels") or {}).get(PART_OF))
    return found


def _check(stage: Stage, api: Api, before: dict[str, str], *, is_lost: bool, where: str) -> None:
    """Assert what must hold after any run; the next run, with all groups, sees every object."""
    assert all(_theirs(stage, api)), where
    home = f"/api/v1/namespaces/{_home(stage)['metadata']['name']}"
    after = _states(stage, api)
    assert not api.get(home)["metadata"].get("deletionTimestamp"), where
    if is_lost and not api.exists(_inventory(stage)):
        # Nothing was rebuilt, so nothing was deleted.
        assert after == before, where
        return
    other = replace(stage, name=f"{stage.name}-to")
    listed = {
        one.target.id: {ref.short for ref in one.inventory().entries} for one in (stage, other)
    }
    for path, label in after.items():
        if label != "None":
            name = path.rpartition("/")[2]
            assert any(ref.endswith(f"/{name}") for ref in listed[label]), (where, path)


def _clear(stage: Stage, api: Api) -> None:
    """Remove the objects and the inventories, so that the next set can have their names."""
    for path in _states(stage, api):
        if "/namespaces/" in path.removeprefix("/api/v1"):
            api("DELETE", path)
    for one in (stage, replace(stage, name=f"{stage.name}-to")):
        api("DELETE", _inventory(one))
