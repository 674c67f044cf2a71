"""An APIService without a backend: its kinds are unknown, everything else works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from applyprune.errors import InventoryError
from applyprune.localplane import API_SERVER_ONLY, Binaries, Plane, start
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from tests.support.api import DISCOVERY, Api, temporary_namespace
from tests.support.objects import DEPLOYMENT, SERVICE, api_service, config_map, crd, custom_resource
from tests.support.stage import Stage
from tests.support.waiting import eventually

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def running(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own: it will not delete a namespace any more."""
    with start(binaries, API_SERVER_ONLY, tmp_path_factory.mktemp("planes") / "broken") as plane:
        yield plane


@pytest.fixture(scope="module")
def poisoned(running: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    api = Api(running)
    yield api
    api.close()


@pytest.fixture
def stage(running: Plane, poisoned: Api) -> Iterator[Stage]:
    """A set on it; what does not answer is asked for two seconds."""
    with temporary_namespace(poisoned) as name:
        yield Stage(running.kubeconfig, name, budget=2.0)


@dataclass(frozen=True, slots=True)
class Names:
    """What no other test of the module uses, by the namespace of the test."""

    namespace: str

    @property
    def group(self) -> str:
        """Return the API group of the kind."""
        return f"x.{self.namespace}.example.com"

    @property
    def broken(self) -> str:
        """Return the API group without a backend."""
        return f"broken.{self.namespace}.example.com"

    @property
    def home(self) -> dict[str, Any]:
        metadata = {"name": f"{self.namespace}-shop"}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    @property
    def shop(self) -> str:
        """Return how stories name that Namespace."""
        return f"namespace/{self.namespace}-shop"

    @property
    def foos(self) -> str:
        return f"/apis/{self.group}/v1/namespaces/{self.namespace}/foos"

    @property
    def crd_name(self) -> str:
        """Return how stories name the CRD."""
        return f"customresourcedefinition.apiextensions.k8s.io/foos.{self.group}"

    def crd(self) -> dict[str, Any]:
        body = crd(group=self.group)
        return {**body, "metadata": {"name": f"foos.{self.group}"}}

    def foo(self, name: str) -> dict[str, Any]:
        return {**custom_resource(name), "apiVersion": f"{self.group}/v1"}


@pytest.fixture
def names(stage: Stage, poisoned: Api) -> Iterator[Names]:
    """The names of the test; its APIService goes with it, or no Namespace could be counted."""
    made = Names(stage.namespace)
    yield made
    poisoned("DELETE", f"{SERVICES}/v1.{made.broken}")
    _await(poisoned, made.broken, "gone")


def _break(api: Api, group: str) -> None:
    """Put an APIService without a backend before a group, and wait until the server sees it."""
    body = api_service(group)
    path = f"{SERVICES}/v1.{group}"
    if api.exists(path):
        # Without the label by which the server keeps the APIService of a CRD as it should be.
        body["metadata"]["resourceVersion"] = api.get(path)["metadata"]["resourceVersion"]
        status, reply = api("PUT", path, body)
    else:
        status, reply = api("POST", SERVICES, body)
    assert status in {200, 201}, reply
    _await(api, group, "Stale")


def _mend(api: Api, group: str) -> None:
    """Delete the APIService; the server re-creates that of a CRD."""
    assert api("DELETE", f"{SERVICES}/v1.{group}")[0] == 200


def _await(api: Api, group: str, freshness: str) -> None:
    # A group that the server has found broken is looked at again once a minute.
    eventually(lambda: _freshness(api, group) == freshness, lambda: f"{group} {freshness}")


def _freshness(api: Api, group: str) -> str:
    status, reply = api("GET", "/apis", headers={"Accept": DISCOVERY})
    assert status == 200, reply
    found = [one for one in reply["items"] if one["metadata"]["name"] == group]
    return str(found[0]["versions"][0].get("freshness")) if found else "gone"


def test_api_service_is_broken_before_the_first_run(
    stage: Stage, poisoned: Api, names: Names
) -> None:
    """An unrelated set is applied, pruned and deleted as if the APIService did not exist.

    Only the contents of a Namespace cannot be counted any more. Slow: a server looks at a new
    APIService after seconds.
    """
    _break(poisoned, names.broken)
    bodies = (config_map("a"), SERVICE, DEPLOYMENT, names.crd(), names.foo("f"), names.home)
    first = stage.run(*bodies, config_map("go"))
    assert (first.exit_code, set(first.outcomes.values())) == (0, {Outcome.CREATED})
    # There are no nodes, so the Deployment is never ready.
    second = stage.run(*bodies, wait=False)
    assert second.exit_code == 0
    assert second.outcomes["configmap/go"] is Outcome.PRUNED
    third = stage.run(*bodies)
    assert (third.exit_code, set(third.outcomes.values())) == (0, {Outcome.UNCHANGED})
    refused = stage.run(*bodies[:-1], allow_kinds=frozenset({"namespace"}))
    assert refused.exit_code == 6
    assert f"the API group {names.broken} does not answer" in refused.problem(names.shop)
    kept = stage.run(*bodies[:-1], orphan=frozenset({names.shop}))
    assert kept.outcomes[names.shop] is Outcome.ORPHANED
    gone = stage.run(mode=Mode.DELETE)
    assert (gone.exit_code, set(gone.outcomes.values())) == (0, {Outcome.DELETED})


@pytest.mark.holds("prune-after-unknown")
def test_object_of_a_broken_group_holds_later_waves_and_the_prune(
    stage: Stage, poisoned: Api, names: Names
) -> None:
    """A dry run says so too: what is not applied may replace what has left the set."""
    assert stage.run(config_map("a"), config_map("go")).exit_code == 0
    _break(poisoned, names.broken)
    lost = {"apiVersion": f"{names.broken}/v1", "kind": "Vanished", "metadata": {"name": "f"}}
    later = config_map("later", annotations={"applyprune.dev/wave": "1"})
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = stage.run(config_map("a"), later, lost, dry_run=dry_run)
        assert story.exit_code == 3
        assert story.outcomes == {
            f"vanished.{names.broken}/f": Outcome.FAILED,
            "configmap/a": Outcome.UNCHANGED,
            "configmap/later": Outcome.SKIPPED,
            "configmap/go": Outcome.NOT_PRUNED,
        }, story.events


def test_api_service_breaks_a_kind_of_the_set_between_runs(
    stage: Stage, poisoned: Api, names: Names
) -> None:
    """Its objects are unknown, not gone: they fail, stay listed, and hold up nothing but a prune.

    Mended, the next run finds them as they were.
    """
    stage.run(names.crd(), names.foo("f"), names.foo("g"), config_map("a"), config_map("go"))
    before = poisoned.get(f"{names.foos}/f")["metadata"]
    _break(poisoned, names.group)
    story = stage.run(names.crd(), names.foo("f"), names.foo("g"), config_map("a", "new"))
    assert story.exit_code == 3
    assert story.outcomes == {
        names.crd_name: Outcome.UNCHANGED,
        "configmap/a": Outcome.UPDATED,
        "configmap/go": Outcome.NOT_PRUNED,
        f"foo.{names.group}/f": Outcome.FAILED,
        f"foo.{names.group}/g": Outcome.FAILED,
    }
    assert f"the API group {names.group} does not answer" in story.problem(f"foo.{names.group}/f")
    assert stage.listed() == story.outcomes.keys()
    _mend(poisoned, names.group)
    _await(poisoned, names.group, "Current")
    well = stage.run(names.crd(), names.foo("f"), names.foo("g"), config_map("a", "new"))
    assert well.exit_code == 0
    assert well.outcomes == {
        names.crd_name: Outcome.UNCHANGED,
        "configmap/a": Outcome.UNCHANGED,
        "configmap/go": Outcome.PRUNED,
        f"foo.{names.group}/f": Outcome.UNCHANGED,
        f"foo.{names.group}/g": Outcome.UNCHANGED,
    }
    assert poisoned.get(f"{names.foos}/f")["metadata"] == before


def test_api_service_breaks_a_kind_of_another_set(
    stage: Stage, poisoned: Api, names: Names
) -> None:
    """Its scope is unknown then: it fails, and a delete of the set deletes nothing beside it."""
    other = Stage(stage.kubeconfig, stage.namespace, name="other", budget=2.0)
    other.run(names.crd())
    stage.run(names.foo("f"), config_map("a"))
    _break(poisoned, names.group)
    held = stage.run(names.foo("f"), config_map("a", "new"))
    assert held.exit_code == 3
    assert held.outcomes["configmap/a"] is Outcome.UPDATED
    told = held.problem(f"foo.{names.group}/f")
    assert f"the kind {names.group}/v1 Foo is unknown" in told
    assert f"kubectl get apiservice v1.{names.group}" in told
    asked = stage.explain(f"foo.{names.group}/f", names.foo("f"), config_map("a", "new"))
    assert asked.explanation.verdict == "It would not be applied. The reasons below say why."
    assert asked.explanation.reasons[0] in told
    deleted = stage.run(mode=Mode.DELETE)
    assert deleted.exit_code == 3
    # It cannot be read, so it may name any ConfigMap of the set.
    assert deleted.outcomes == {
        "configmap/a": Outcome.SKIPPED,
        f"foo.{names.group}/f": Outcome.FAILED,
    }
    assert stage.listed() == {"configmap/a", f"foo.{names.group}/f"}
    _mend(poisoned, names.group)
    _await(poisoned, names.group, "Current")
    assert poisoned.exists(f"{names.foos}/f")
    gone = stage.run(mode=Mode.DELETE)
    assert (gone.exit_code, set(gone.outcomes.values())) == (0, {Outcome.DELETED})
    assert not poisoned.exists(f"{names.foos}/f")


def test_check_and_repair_do_not_lose_an_unavailable_group(
    stage: Stage, poisoned: Api, names: Names
) -> None:
    """Nobody can know which of its objects are the set's: a damaged inventory is not rebuilt."""
    stage.run(config_map("a"))
    _break(poisoned, names.broken)
    story = stage.check()
    # The set has no object of that group: that is no mismatch, and the exit code is 0.
    (warning,) = (one for one in story.warnings if names.broken in one)
    assert "not searched for unlisted objects" in warning
    assert f"the API group {names.broken} does not answer" in warning
    assert (story.exit_code, story.found) == (0, {})
    path = stage.path(stage.target.inventory.name)
    damaged = poisoned.patch(path, {"data": {"entries": "broken"}})
    with pytest.raises(InventoryError, match="was not rebuilt") as caught:
        stage.repair()
    assert names.broken in caught.value.reason
    assert poisoned.get(path) == damaged
    assert stage.repair(allow_partial=True).exit_code == 0
    assert stage.listed() == {"configmap/a"}
