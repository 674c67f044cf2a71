"""An APIService without a backend: its kinds are unknown, everything else works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.localplane import API_SERVER_ONLY
from applyprune.model.events import ObjectDone, Outcome
from applyprune.model.options import DryRun, Mode, PruneLimit
from tests.support.api import Api
from tests.support.objects import DEPLOYMENT, SERVICE, api_service, config_map, crd, custom_resource
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane
    from tests.support.plane import FreshPlane

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CRD = "customresourcedefinition.apiextensions.k8s.io/foos.x.example.com"
FOO = "/apis/x.example.com/v1/namespaces/default/foos"


@pytest.fixture
def running(fresh_plane: FreshPlane) -> Plane:
    """A plane of the test's own: it will not delete a namespace any more."""
    return fresh_plane(API_SERVER_ONLY)


@pytest.fixture
def stage(running: Plane) -> Stage:
    """A set on it; what does not answer is asked for two seconds."""
    return Stage(running.kubeconfig, "default", budget=2.0)


@pytest.fixture
def poisoned(running: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    api = Api(running)
    yield api
    api.close()


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
    deadline = time.monotonic() + 150
    while _freshness(api, group) != freshness:
        assert time.monotonic() < deadline, f"{group} never became {freshness}"
        time.sleep(0.1)


def _freshness(api: Api, group: str) -> str:
    status, reply = api("GET", "/apis", headers={"Accept": DISCOVERY})
    assert status == 200, reply
    found = [one for one in reply["items"] if one["metadata"]["name"] == group]
    return str(found[0]["versions"][0].get("freshness")) if found else "gone"


def test_api_service_is_broken_before_the_first_run(stage: Stage, poisoned: Api) -> None:
    """An unrelated set is applied, pruned and deleted as if the APIService did not exist.

    Only the contents of a Namespace cannot be counted any more.
    """
    _break(poisoned, "broken.example.com")
    home: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    bodies = (config_map("a"), SERVICE, DEPLOYMENT, crd(), custom_resource("f"), home)
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
    assert "the API group broken.example.com does not answer" in refused.problem("namespace/shop")
    kept = stage.run(*bodies[:-1], orphan=frozenset({"namespace/shop"}))
    assert kept.outcomes["namespace/shop"] is Outcome.ORPHANED
    gone = stage.run(mode=Mode.DELETE)
    assert (gone.exit_code, set(gone.outcomes.values())) == (0, {Outcome.DELETED})


def test_api_service_breaks_a_kind_of_the_set_between_runs(stage: Stage, poisoned: Api) -> None:
    """Its objects are unknown, not gone: they fail, stay listed, and hold up nothing but a prune.

    Mended, the next run finds them as they were.
    """
    stage.run(crd(), custom_resource("f"), custom_resource("g"), config_map("a"), config_map("go"))
    before = poisoned.get(f"{FOO}/f")["metadata"]
    _break(poisoned, "x.example.com")
    story = stage.run(crd(), custom_resource("f"), custom_resource("g"), config_map("a", "new"))
    assert story.exit_code == 3
    assert story.outcomes == {
        CRD: Outcome.UNCHANGED,
        "configmap/a": Outcome.CONFIGURED,
        "configmap/go": Outcome.NOT_PRUNED,
        "foo.x.example.com/f": Outcome.FAILED,
        "foo.x.example.com/g": Outcome.FAILED,
    }
    assert "the API group x.example.com does not answer" in story.problem("foo.x.example.com/f")
    left = stage.run(crd(), custom_resource("f"), config_map("a", "new"))
    assert left.exit_code == 3
    assert left.outcomes == {
        CRD: Outcome.UNCHANGED,
        "configmap/a": Outcome.UNCHANGED,
        "configmap/go": Outcome.NOT_PRUNED,
        "foo.x.example.com/f": Outcome.FAILED,
        "foo.x.example.com/g": Outcome.FAILED,
    }
    assert stage.listed() == {
        CRD, "configmap/a", "configmap/go", "foo.x.example.com/f", "foo.x.example.com/g",
    }  # fmt: skip
    _mend(poisoned, "x.example.com")
    _await(poisoned, "x.example.com", "Current")
    well = stage.run(crd(), custom_resource("f"), custom_resource("g"), config_map("a", "new"))
    assert well.exit_code == 0
    assert well.outcomes == {
        CRD: Outcome.UNCHANGED,
        "configmap/a": Outcome.UNCHANGED,
        "configmap/go": Outcome.PRUNED,
        "foo.x.example.com/f": Outcome.UNCHANGED,
        "foo.x.example.com/g": Outcome.UNCHANGED,
    }
    assert poisoned.get(f"{FOO}/f")["metadata"] == before


def test_api_service_breaks_a_kind_of_another_set(stage: Stage, poisoned: Api) -> None:
    """Its scope is unknown then: that object fails, nothing is pruned, the others are applied."""
    other = Stage(stage.kubeconfig, "default", name="other", budget=2.0)
    other.run(crd())
    stage.run(custom_resource("f"), config_map("a"))
    _break(poisoned, "x.example.com")
    held = stage.run(custom_resource("f"), config_map("a", "newer"))
    assert held.exit_code == 3
    assert held.outcomes == {
        "configmap/a": Outcome.CONFIGURED,
        "foo.x.example.com/f": Outcome.FAILED,
    }
    (told,) = {
        str(one.problem) for one in held.events if isinstance(one, ObjectDone) and one.problem
    }
    assert "the kind x.example.com/v1 Foo is unknown" in told
    assert "kubectl get apiservice v1.x.example.com" in told
    asked = stage.explain("foo.x.example.com/f", custom_resource("f"), config_map("a", "newer"))
    assert asked.explanation.verdict == "It would not be applied. The reasons above say why."
    assert asked.explanation.reasons[-1] in told
    story = stage.run(config_map("a", "new"), config_map("b"))
    assert story.outcomes == {
        "configmap/a": Outcome.CONFIGURED,
        "configmap/b": Outcome.CREATED,
        "foo.x.example.com/f": Outcome.FAILED,
    }
    assert story.exit_code == 3
    deleted = stage.run(mode=Mode.DELETE)
    assert deleted.exit_code == 3
    # It cannot be read, so it may name any ConfigMap of the set.
    assert deleted.outcomes == {
        "configmap/a": Outcome.SKIPPED,
        "configmap/b": Outcome.SKIPPED,
        "foo.x.example.com/f": Outcome.FAILED,
    }
    assert stage.listed() == {"configmap/a", "configmap/b", "foo.x.example.com/f"}
    _mend(poisoned, "x.example.com")
    _await(poisoned, "x.example.com", "Current")
    assert poisoned.exists(f"{FOO}/f")
    gone = stage.run(mode=Mode.DELETE)
    assert (gone.exit_code, set(gone.outcomes.values())) == (0, {Outcome.DELETED})
    assert not poisoned.exists(f"{FOO}/f")


def test_api_service_is_in_the_set_itself(stage: Stage, poisoned: Api) -> None:
    """It is applied like anything else, and pruned; the objects around it do not notice."""
    name = "apiservice.apiregistration.k8s.io/v1.broken.example.com"
    bodies = (api_service("broken.example.com"), config_map("a"), crd(), custom_resource("f"))
    first = stage.run(*bodies, config_map("go"))
    assert (first.exit_code, set(first.outcomes.values())) == (0, {Outcome.CREATED})
    assert list(first.outcomes)[-1] == name, "what routes requests comes last"
    _await(poisoned, "broken.example.com", "Stale")
    second = stage.run(*bodies)
    assert second.exit_code == 0
    outcomes = second.outcomes
    assert outcomes.pop("configmap/go") is Outcome.PRUNED
    assert set(outcomes.values()) == {Outcome.UNCHANGED}
    third = stage.run(*bodies[1:])
    assert third.exit_code == 0
    outcomes = third.outcomes
    assert outcomes.pop(name) is Outcome.PRUNED
    assert set(outcomes.values()) == {Outcome.UNCHANGED}
    _await(poisoned, "broken.example.com", "gone")
    stage.run(*bodies)
    gone = stage.run(mode=Mode.DELETE)
    assert (gone.exit_code, set(gone.outcomes.values())) == (0, {Outcome.DELETED})


def test_api_service_that_stays_must_answer(stage: Stage, poisoned: Api) -> None:
    """It has left the set with a Namespace, but it was adopted: only a deleted one is let off."""
    _break(poisoned, "broken.example.com")
    home: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    bodies = (config_map("a"), home, api_service("broken.example.com"))
    assert stage.run(*bodies, force_conflicts=True).exit_code == 0
    kinds = frozenset({"namespace"})
    limit = PruneLimit(9, 0.0)
    refused = stage.run(config_map("a"), allow_kinds=kinds, max_prune=limit)
    assert refused.exit_code == 6
    assert "the API group broken.example.com does not answer" in refused.problem("namespace/shop")
    # Nothing on this plane would end the deletion of the Namespace.
    deletes = stage.run(
        config_map("a"),
        allow_kinds=kinds,
        max_prune=limit,
        prune_adopted=True,
        dry_run=DryRun.SERVER,
    )
    assert deletes.exit_code == 0
    assert deletes.outcomes["namespace/shop"] is Outcome.PRUNED
