"""A list that fails proves nothing: no set is new, empty or gone because of it."""

from __future__ import annotations

import pytest

from applyprune.errors import Unavailable
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, Rule, always, faults
from tests.support.objects import SERVICE, config_map
from tests.support.stage import Stage

A = config_map("a")
BROKEN = faults.status(500, message="conversion webhook failed")
FORBIDDEN = faults.status(403, reason="Forbidden", message="no")


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
@pytest.mark.parametrize("plural", ["configmaps", "services"])
@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_lost_inventory_is_not_taken_for_a_new_set(
    spoiled: Stage, proxy: FaultProxy, api: Api, plural: str, mode: Mode
) -> None:
    """Neither by the kind of the input that cannot be listed, nor by another one."""
    spoiled.run(A, SERVICE)
    path = _lose_inventory(spoiled, api)
    proxy.rule = _lists(plural, BROKEN)
    with pytest.raises(Unavailable, match="the set web has no inventory") as caught:
        spoiled.run(*([A] if mode is Mode.APPLY else []), mode=mode)
    assert f"{plural}: conversion webhook failed" in caught.value.reason
    assert not api.exists(path)
    proxy.rule = lambda _seen: None
    story = spoiled.run(A)
    assert story.exit_code == 0
    assert spoiled.listed() == {"configmap/a", "service/web"}


@pytest.mark.parametrize("plural", ["configmaps", "services", "roles"])
def test_delete_of_a_set_that_does_not_exist_names_what_ends_it(
    spoiled: Stage, proxy: FaultProxy, plural: str
) -> None:
    """Of no kind that can be listed is there an object; the warning names what was not searched."""
    proxy.rule = _lists(plural, BROKEN)
    with pytest.raises(Unavailable, match="the set web has no inventory") as caught:
        spoiled.run(mode=Mode.DELETE)
    ends = f"applyprune delete web -n {spoiled.namespace} --allow-partial"
    assert caught.value.hint.endswith(ends)
    story = spoiled.run(mode=Mode.DELETE, allow_partial=True)
    assert (story.exit_code, story.outcomes) == (0, {})
    (warning,) = story.warnings
    assert "there is no set web" in warning
    assert f"not searched: {plural}" in warning
    assert "conversion webhook failed" in warning


def test_partial_search_deletes_no_lost_set(spoiled: Stage, proxy: FaultProxy, api: Api) -> None:
    """One of its objects is found: then the inventory is rebuilt first."""
    spoiled.run(A, SERVICE)
    _lose_inventory(spoiled, api)
    proxy.rule = _lists("services", BROKEN)
    with pytest.raises(Unavailable, match="the set web has no inventory") as caught:
        spoiled.run(mode=Mode.DELETE, allow_partial=True)
    assert "inventory repair web" in caught.value.hint
    assert "delete web" not in caught.value.hint
    assert api.exists(spoiled.path("a"))


def test_lost_inventory_is_seen_on_the_objects_where_lists_are_forbidden(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The objects of the input are read one by one; the rest is searched as far as allowed."""
    spoiled.run(A, SERVICE)
    _lose_inventory(spoiled, api)
    proxy.rule = _lists("configmaps", FORBIDDEN)
    story = spoiled.run(A)
    assert story.exit_code == 0
    assert "configmaps: no" in "".join(story.warnings)
    assert spoiled.listed() == {"configmap/a", "service/web"}


def test_new_set_is_applied_where_lists_are_forbidden(spoiled: Stage, proxy: FaultProxy) -> None:
    """Nothing on the server has its label."""
    proxy.rule = _lists("configmaps", FORBIDDEN)
    story = spoiled.run(A)
    assert (story.exit_code, story.outcomes["configmap/a"]) == (0, Outcome.CREATED)
