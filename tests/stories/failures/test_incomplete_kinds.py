"""A list of kinds that is not complete: nothing is counted, searched or rebuilt by it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import Interrupted, Unavailable
from applyprune.localplane import API_SERVER_ONLY, Binaries, Plane, start
from applyprune.model.events import MismatchFound
from applyprune.model.fate import Outcome
from applyprune.values import replace
from tests.support.api import DISCOVERY, Api
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults, first
from tests.support.objects import config_map, crd, custom_resource, of_kind
from tests.support.second_server import SecondServer
from tests.support.stage import Stage, Story
from tests.support.waiting import HANG, eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
CUT = faults.without_groups("x.example.com")


def _kinds(api: Api) -> str:
    return json.dumps(api("GET", "/apis", headers={"Accept": DISCOVERY})[1])


def _is_discovery(seen: Exchange) -> bool:
    return seen.path == "/apis"


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own, with a CRD that belongs to nobody."""
    with start(binaries, API_SERVER_ONLY, tmp_path_factory.mktemp("planes") / "cut") as running:
        api = Api(running)
        api.create(DEFINITIONS, crd())
        eventually(lambda: "x.example.com" in str(api.get("/apis")), lambda: "the kind")
        eventually(lambda: api("GET", "/apis/x.example.com/v1/foos")[0] == 200, lambda: "the kind")
        api.close()
        yield running


@pytest.fixture
def api(plane: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    requests = Api(plane)
    yield requests
    requests.close()


@pytest.fixture
def cut(proxy: FaultProxy, stage: Stage, tmp_path: Path) -> Stage:
    """The same set through the proxy, which leaves the custom resources out of discovery."""
    proxy.rule = always(CUT, where=_is_discovery)
    return replace(stage, kubeconfig=proxy.kubeconfig(tmp_path), budget=0.6)


NOT_SERVED = "the kind of the CRD foos.x.example.com is not served"


def _prune(stage: Stage, *bodies: dict[str, Any]) -> Story:
    kinds = frozenset({"namespace"})
    return stage.run(*bodies, allow_kinds=kinds, max_prune=stage.most(9), timeout=2.0)


def _home(stage: Stage) -> dict[str, Any]:
    name = f"{stage.namespace}-home"
    return of_kind("Namespace", name)


def _inventory(stage: Stage) -> str:
    return stage.path(stage.target.inventory.name)


def _with_theirs(stage: Stage, api: Api) -> tuple[str, str]:
    """Apply a set with a Namespace, and let another team put a custom resource into it.

    Return the Namespace, as stories name it, and the path of the resource.
    """
    home = _home(stage)
    assert stage.run(home, config_map("a")).exit_code == 0
    name = home["metadata"]["name"]
    path = f"/apis/x.example.com/v1/namespaces/{name}/foos"
    api.create(path, custom_resource("theirs", namespace=name))
    return f"namespace/{name}", f"{path}/theirs"


@pytest.mark.holds("count-needs-kinds")
def test_namespace_is_not_counted_by_an_incomplete_list(stage: Stage, cut: Stage, api: Api) -> None:
    """The refusal names what is missing; with the whole list, it names what is inside."""
    home, theirs = _with_theirs(stage, api)
    refused = _prune(cut, config_map("a"))
    assert (refused.exit_code, refused.outcomes[home]) == (6, Outcome.FAILED)
    assert NOT_SERVED in refused.problem(home)
    # What passes by itself is no reason to allow anything.
    assert "Run again: somebody adds or removes kinds" in refused.refusal
    assert "--allow-cascade" not in refused.refusal + refused.problem(home)
    assert api.exists(theirs)
    counted = _prune(stage, config_map("a"))
    assert counted.exit_code == 6
    assert "foo.x.example.com/theirs" in counted.problem(home)


def test_kind_whose_crd_somebody_has_just_deleted_has_no_objects(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """The list of kinds still names it, and its own list says 404: the CRD is gone, by a GET."""
    plural = "laters"
    api.create(DEFINITIONS, crd("Later"))
    eventually(lambda: f'"{plural}"' in _kinds(api), lambda: plural)
    home = _home(stage)
    assert stage.run(home, config_map("a")).exit_code == 0
    seen_before: list[str] = []

    def goes(seen: Exchange) -> bool:
        if seen.path.endswith(f"/{plural}") and seen.method == "GET":
            seen_before.append(seen.path)
            return len(seen_before) == 2
        return False

    def delete() -> None:
        path = f"{DEFINITIONS}/{plural}.x.example.com"
        api("DELETE", path)
        eventually(lambda: not api.exists(path), lambda: path)

    lagging = faults.answer(404, b"404 page not found\n", (("Content-Type", "text/plain"),))
    proxy.rule = always(faults.calling(delete, lagging), where=goes)
    reached = replace(stage, kubeconfig=proxy.kubeconfig(tmp_path), budget=HANG)
    story = _prune(reached, config_map("a"))
    assert seen_before
    # Nothing on this plane empties a Namespace.
    left = api.get(f"/api/v1/namespaces/{home['metadata']['name']}")["metadata"]
    assert "deletionTimestamp" in left, story.events


@pytest.mark.holds("counted-kind-deleted")
def test_kind_that_cannot_be_listed_is_not_taken_for_deleted(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Its list says 404 as well, but its CRD is there: it is looked at again, and then refused."""
    home, theirs = _with_theirs(stage, api)
    lagging = faults.answer(404, b"404 page not found\n", (("Content-Type", "text/plain"),))

    def is_list(seen: Exchange) -> bool:
        return seen.method == "GET" and seen.path.endswith("/foos")

    proxy.rule = first(2, lagging, where=is_list)
    reached = replace(stage, kubeconfig=proxy.kubeconfig(tmp_path), budget=HANG)
    again = _prune(reached, config_map("a"))
    assert "foo.x.example.com/theirs" in again.problem(home)
    proxy.rule = always(lagging, where=is_list)
    refused = _prune(replace(reached, budget=0.6), config_map("a"))
    assert "foos.x.example.com: 404" in refused.problem(home)
    assert "Run again" in refused.refusal
    assert api.exists(theirs)


NEEDS: dict[str, Callable[[Stage], Any]] = {
    "a check": Stage.check,
    "an apply that rebuilds it": lambda stage: stage.run(config_map("a")),
}


@pytest.mark.holds("search-needs-kinds", row="a check")
@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
def test_lost_inventory_is_not_rebuilt_by_an_incomplete_list(
    stage: Stage, cut: Stage, api: Api, needs: Callable[[Stage], Any]
) -> None:
    """It would be rebuilt without the custom resources; nothing is written before it is proved."""
    stage.run(config_map("a"), custom_resource("mine"))
    assert api("DELETE", _inventory(stage))[0] == 200
    with pytest.raises(Unavailable, match=f"cannot count yet: {NOT_SERVED}"):
        needs(cut)
    assert not api.exists(_inventory(stage))
    stage.run(config_map("a"))
    assert stage.listed() == {"configmap/a", "foo.x.example.com/mine"}


def test_check_needs_the_kinds_of_the_inventory(stage: Stage, cut: Stage) -> None:
    """Those of its entries; about other kinds it only warns, and says what it could not see."""
    stage.run(config_map("a"), custom_resource("mine"))
    with pytest.raises(Unavailable, match=f"cannot count yet: {NOT_SERVED}"):
        cut.check()
    other, cut = replace(stage, name="other"), replace(cut, name="other")
    other.run(config_map("b"))
    story = cut.check()
    assert not story.found
    assert any("x.example.com" in warning for warning in story.warnings), story.warnings
    assert not other.check().found


@pytest.mark.parametrize("is_listed", [True, False], ids=["in the inventory", "in the input"])
def test_kind_that_the_list_lacks_for_a_moment_is_waited_for(
    stage: Stage, cut: Stage, proxy: FaultProxy, is_listed: bool
) -> None:
    """It lags behind a CRD that another run has just created: neither an error nor a failure."""
    bodies = (config_map("a"), custom_resource("mine"))
    stage.run(*bodies[: 1 + is_listed])
    proxy.rule = first(2, CUT, where=_is_discovery)
    slow = replace(cut, budget=HANG)
    if is_listed:
        pruned = slow.run(config_map("a"))
        assert pruned.outcomes["foo.x.example.com/mine"] is Outcome.PRUNED
        stage.run(*bodies)
        proxy.rule = first(2, CUT, where=_is_discovery)
    story = slow.run(*bodies)
    assert story.exit_code == 0, story.events
    done = Outcome.UNCHANGED if is_listed else Outcome.CREATED
    assert story.outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "foo.x.example.com/mine": done,
    }
    assert set(slow.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}


def test_signal_ends_the_wait_for_a_kind(stage: Stage, cut: Stage, proxy: FaultProxy) -> None:
    """The run says so, and not that no kind matches."""
    slow = replace(cut, budget=HANG)

    def stopped(seen: Exchange) -> bool:
        if seen.path == DEFINITIONS:
            slow.stop.request()
        return _is_discovery(seen)

    proxy.rule = always(CUT, where=stopped)
    with pytest.raises(Interrupted):
        slow.run(custom_resource("mine"))


def _forbidden(seen: Exchange) -> Fault | None:
    """Forbid the lists of CRDs and APIServices."""
    is_proof = seen.path in {DEFINITIONS, SERVICES}
    return faults.status(403, reason="Forbidden", message="no") if is_proof else None


def test_search_without_the_proof_says_so(stage: Stage, cut: Stage, proxy: FaultProxy) -> None:
    """Without the right to list CRDs, two lists that agree and a ready server are enough.

    A Namespace is not counted then.
    """
    home = f"namespace/{stage.namespace}-home"
    stage.run(_home(stage), config_map("a"), custom_resource("mine"))
    proxy.rule = _forbidden
    story = cut.check()
    messages = [one.mismatch.message for one in story.of(MismatchFound)]
    assert "could not be read: the list of kinds is not proved: no" in messages
    paths = [seen.path for seen in proxy.exchanges]
    assert (paths.count("/apis"), paths.count("/readyz")) == (2, 1)
    refused = _prune(cut, config_map("a"), custom_resource("mine"))
    assert (refused.exit_code, refused.outcomes[home]) == (6, Outcome.FAILED)
    assert "the list of kinds is not proved: no" in refused.problem(home)


@pytest.mark.holds("lists-agree")
def test_search_without_the_proof_needs_lists_that_agree(
    stage: Stage, cut: Stage, proxy: FaultProxy
) -> None:
    """Two servers behind one address may differ."""
    stage.run(config_map("a"), custom_resource("mine"))
    turns = itertools.count()

    def rule(seen: Exchange) -> Fault | None:
        return CUT if _is_discovery(seen) and next(turns) % 2 else _forbidden(seen)

    proxy.rule = rule
    with pytest.raises(Unavailable, match="cannot count yet: two lists of its kinds differ"):
        cut.check()


@pytest.mark.holds("server-ready")
def test_search_without_the_proof_needs_a_ready_server(
    stage: Stage, cut: Stage, proxy: FaultProxy
) -> None:
    """A server that has just started gives the same incomplete list twice."""
    stage.run(config_map("a"), custom_resource("mine"))

    def rule(seen: Exchange) -> Fault | None:
        if seen.path == "/readyz":
            return faults.text(500, "[-]poststarthook/crd-informer-synced failed")
        return CUT if _is_discovery(seen) else _forbidden(seen)

    proxy.rule = rule
    with pytest.raises(Unavailable, match="cannot count yet: the server is not ready"):
        cut.check()


def test_namespace_is_pruned_just_after_a_start(
    plane: Plane, stage: Stage, api: Api, binaries: Binaries, tmp_path: Path
) -> None:
    """A real server answers discovery with the built-in groups only, before it is ready.

    Slow: another API server starts again until a run begins before its list of kinds is complete.
    """
    home, theirs = _with_theirs(stage, api)
    with SecondServer(plane, binaries) as second, FaultProxy(second.plane) as proxy:
        fresh = replace(stage, kubeconfig=proxy.kubeconfig(tmp_path), budget=HANG)
        proxy.before_forward = second.await_answer
        # Which of the two is first, the run or the whole list, is up to the machine.
        for _ in itertools.count():
            second.restart()
            before = len(proxy.exchanges)
            story = _prune(fresh, config_map("a"))
            assert (story.exit_code, story.outcomes[home]) == (6, Outcome.FAILED)
            # The plan itself has counted it; nothing was left to the moment before the delete.
            assert "it would cascade-delete 1 object" in story.problem(home)
            assert api.exists(theirs)
            if _was_incomplete(proxy.exchanges[before:]):
                return


def _was_incomplete(exchanges: Sequence[Exchange]) -> bool:
    """Return whether a list of kinds lacked the custom resources."""
    lists = [seen.reply for seen in exchanges if _is_discovery(seen) and seen.status == 200]
    return any(b"x.example.com" not in one for one in lists)
