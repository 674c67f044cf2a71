"""Replies that get lost, requests and lists that fail: nothing leaks, nothing foreign goes.

A fault that looks like an empty cluster proves nothing: no set is new, empty or gone by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from applyprune.errors import ApplypruneError, Unavailable
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, Rule, always, faults, first
from tests.support.objects import SERVICE, config_map, of_kind
from tests.support.stage import Stage


def _applies(name: str) -> Callable[[Exchange], bool]:
    def where(seen: Exchange) -> bool:
        return seen.method == "PATCH" and seen.path.endswith(f"/configmaps/{name}")

    return where


def _writes_inventory(seen: Exchange) -> bool:
    is_post = seen.method == "POST" and seen.path.endswith("/configmaps")
    return is_post or (seen.method == "PUT" and "applyprune-" in seen.path)


def test_create_with_a_lost_reply_is_recognised_as_ours(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """failures §1.6: the retry answers 409; it must not look adopted, or it is never pruned."""
    proxy.rule = first(1, faults.lose_reply(), where=_applies("b"))
    story = spoiled.run(config_map("a"), config_map("b"))
    assert story.outcomes["configmap/b"] is Outcome.CREATED
    assert {entry.ownership for entry in spoiled.inventory().entries.values()} == {Ownership.OWNED}
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(spoiled.path("b"))


def _deletes(seen: Exchange) -> bool:
    return seen.method == "DELETE"


@pytest.mark.holds("asked-to-delete")
def test_delete_without_an_answer_stays_recorded(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """It may still be on its way, so the next apply of the object makes it fail."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.5
    proxy.rule = always(faults.reset(), where=_deletes)
    story = spoiled.run(config_map("a"))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (3, Outcome.FAILED)
    marked = {ref.name for ref, entry in stage.inventory().entries.items() if entry.deleting}
    assert marked == {"b"}
    story = stage.run(config_map("a"), config_map("b"))
    assert story.outcomes["configmap/b"] is Outcome.UPDATED
    assert not any(entry.deleting for entry in stage.inventory().entries.values())


def test_delete_with_all_replies_lost_succeeds(spoiled: Stage, proxy: FaultProxy) -> None:
    """A read shows what happened to it."""
    spoiled.budget = 0.3
    spoiled.run(config_map("a"), config_map("b"))
    proxy.rule = always(faults.lose_reply(), where=_deletes)
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert spoiled.listed() == {"configmap/a"}


def test_inventory_write_with_a_lost_reply_is_recognised(spoiled: Stage, proxy: FaultProxy) -> None:
    """For the create and every replacement: the id in the header identifies our own write."""
    proxy.rule = first(3, faults.lose_reply(), where=_writes_inventory)
    story = spoiled.run(config_map("a"), config_map("b"))
    assert story.exit_code == 0
    assert spoiled.listed() == {"configmap/a", "configmap/b"}


def test_kind_in_outdated_discovery_is_counted_again(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Discovery follows the delete of a CRD by seconds: its lists answer a text 404 till then.

    Met with kube-prometheus: the Namespace, counted right after its CRDs went, was refused. Slow:
    the controllers of the plane empty the Namespace.

    Slow: discovery is read again until it has the kind.
    """
    room = f"{spoiled.namespace}-room"
    deleted: list[int] = []

    def after_a_delete(seen: Exchange) -> bool:
        if seen.method == "DELETE" and seen.path.endswith("/configmaps/a"):
            deleted.append(seen.number)
        listed = seen.method == "GET" and seen.path == f"/api/v1/namespaces/{room}/podtemplates"
        return bool(deleted) and listed

    body = of_kind("Namespace", room)
    spoiled.run(body, config_map("a", namespace=room))
    proxy.rule = first(2, faults.text(404, "404 page not found"), where=after_a_delete)
    story = spoiled.run(mode=Mode.DELETE)
    assert story.outcomes == {f"namespace/{room}": Outcome.DELETED, "configmap/a": Outcome.DELETED}
    assert story.exit_code == 0
    assert not api.exists(f"/api/v1/namespaces/{room}")


A = config_map("a")
BROKEN = faults.status(500, message="conversion webhook failed")


def _lose_inventory(stage: Stage, api: Api) -> str:
    """Delete the inventory of a set; return its path."""
    name = stage.target.inventory.name
    path = stage.path(name)
    assert api("DELETE", path)[0] == 200
    return path


def _lists(plural: str, fault: Fault) -> Rule:
    """Return the rule that each search for objects of a kind by their label fails."""

    def is_search(seen: Exchange) -> bool:
        return seen.path.endswith(f"/{plural}") and "part-of" in seen.query.get("labelSelector", "")

    return always(fault, where=is_search)


@pytest.mark.holds("failed-search", row="apply-configmaps")
@pytest.mark.parametrize(
    ("mode", "plural"), [(Mode.APPLY, "configmaps"), (Mode.DELETE, "services")]
)
def test_lost_inventory_is_not_taken_for_a_new_set(
    spoiled: Stage, proxy: FaultProxy, api: Api, plural: str, mode: Mode
) -> None:
    """Neither by the kind of the input that cannot be listed, nor by another one."""
    spoiled.run(A, SERVICE)
    path = _lose_inventory(spoiled, api)
    spoiled.budget = 0.3
    proxy.rule = _lists(plural, BROKEN)
    with pytest.raises(Unavailable, match="the set web has no inventory") as caught:
        spoiled.run(*([A] if mode is Mode.APPLY else []), mode=mode)
    assert f"{plural}: conversion webhook failed" in caught.value.reason
    assert not api.exists(path)
    proxy.rule = lambda _seen: None
    story = spoiled.run(A)
    assert story.exit_code == 0
    assert spoiled.listed() == {"configmap/a", "service/web"}


def test_delete_of_a_set_that_does_not_exist_names_what_ends_it(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Of no kind that can be listed is there an object; the warning names what was not searched."""
    spoiled.budget = 0.3
    proxy.rule = _lists("roles", BROKEN)
    with pytest.raises(Unavailable, match="the set web has no inventory") as caught:
        spoiled.run(mode=Mode.DELETE)
    ends = f"applyprune delete web -n {spoiled.namespace} --allow-partial"
    assert caught.value.hint.endswith(ends)
    story = spoiled.run(mode=Mode.DELETE, allow_partial=True)
    assert (story.exit_code, story.outcomes) == (0, {})
    (warning,) = story.warnings
    assert "there is no set web" in warning
    assert "not searched: roles" in warning
    assert "conversion webhook failed" in warning


def test_partial_search_deletes_no_lost_set(spoiled: Stage, proxy: FaultProxy, api: Api) -> None:
    """One of its objects is found: then the inventory is rebuilt first."""
    spoiled.run(A, SERVICE)
    _lose_inventory(spoiled, api)
    spoiled.budget = 0.3
    proxy.rule = _lists("services", BROKEN)
    with pytest.raises(Unavailable, match="the set web has no inventory") as caught:
        spoiled.run(mode=Mode.DELETE, allow_partial=True)
    assert "inventory repair web" in caught.value.hint
    assert "delete web" not in caught.value.hint
    assert api.exists(spoiled.path("a"))


def _there(api: Api, stage: Stage) -> set[str]:
    items = api.get(stage.path())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt", "applyprune-web"}


LISTS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    # What may not be listed is looked at object by object.
    "403": (faults.status(403, reason="Forbidden"), ()),
    "404 text": (faults.text(404, "404 page not found"), ("/configmaps",)),
    "an empty object": (faults.answer(200, b"{}"), ("/configmaps",)),
}


@pytest.mark.parametrize("name", LISTS)
def test_list_error_read_as_none(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """Whichever list or look fails, discovery's too: no delete in that run."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.2
    fault, lists = LISTS[name]
    places = (*lists, "/api", "/apis", "/configmaps/applyprune-web")
    for place in places:

        def is_there(seen: Exchange, end: str = place) -> bool:
            return seen.method == "GET" and seen.path.endswith(end)

        proxy.rule = always(fault, where=is_there)
        try:
            code = spoiled.run(config_map("a")).exit_code
        except ApplypruneError as error:
            code = error.exit_code
        assert code, place
        assert not [seen for seen in proxy.exchanges if seen.method == "DELETE"], place
    assert _there(api, stage) == {"a", "b"}
    assert stage.listed() == {"configmap/a", "configmap/b"}
