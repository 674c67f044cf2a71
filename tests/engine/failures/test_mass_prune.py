"""failures §1.3: a fault that looks like an empty cluster or input prunes nothing."""

from __future__ import annotations

import itertools

import pytest

from applyprune.errors import ApplypruneError
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage


def _there(api: Api, stage: Stage) -> set[str]:
    items = api.get(stage.path())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt", "applyprune-web"}


LISTS: dict[str, Fault] = {
    "500": faults.status(500, reason="InternalError"),
    "403": faults.status(403, reason="Forbidden"),
    "503 text": faults.text(503, "service unavailable"),
    "404 text": faults.text(404, "404 page not found"),
    "cut off": faults.truncate(),
    "a web page": faults.web_page(),
    "an empty object": faults.answer(200, b"{}"),
}


@pytest.mark.parametrize("name", LISTS)
def test_list_error_read_as_none(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """Whichever list or look fails, discovery's too: no delete in that run."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.2
    # What may not be listed is looked at object by object.
    places = ["/configmaps"] if name != "403" else []
    if name in {"404 text", "an empty object", "403"}:
        places += ["/api", "/apis", "/configmaps/applyprune-web"]
    for place in places:

        def is_there(seen: Exchange, end: str = place) -> bool:
            return seen.method == "GET" and seen.path.endswith(end)

        proxy.rule = always(LISTS[name], where=is_there)
        try:
            code = spoiled.run(config_map("a")).exit_code
        except ApplypruneError as error:
            code = error.exit_code
        assert code, place
        assert not [seen for seen in proxy.exchanges if seen.method == "DELETE"], place
    assert _there(api, stage) == {"a", "b"}
    assert stage.listed() == {"configmap/a", "configmap/b"}


def test_link_loss(spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api) -> None:
    """The connection is lost, before the run and during it: nothing is deleted."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.2
    proxy.rule = always(faults.reset())
    with pytest.raises(ApplypruneError):
        spoiled.run(config_map("a"))
    seen_by_now = itertools.count()

    def after_a_few(seen: Exchange) -> Fault | None:
        return faults.reset() if next(seen_by_now) >= 4 else None

    proxy.rule = after_a_few
    with pytest.raises(ApplypruneError):
        spoiled.run(config_map("a", "changed"))
    assert _there(api, stage) == {"a", "b"}
    proxy.rule = always(faults.reset(), where=lambda _: False)
    assert spoiled.run(config_map("a", "changed")).outcomes["configmap/b"] is Outcome.PRUNED


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_prune_after_partial_apply_failure(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, failing: int
) -> None:
    """Whichever of the applies fails: no delete in that run, and the next one prunes."""
    stage.run(*(config_map(name) for name in "abcx"))
    spoiled.budget = 0.2
    proxy.rule = always(
        faults.status(500, reason="InternalError"),
        where=lambda seen: seen.method == "PATCH" and seen.path.endswith("abc"[failing]),
    )
    story = spoiled.run(*(config_map(name, "changed") for name in "abc"))
    assert story.exit_code == 3
    assert story.outcomes["configmap/x"] is Outcome.NOT_PRUNED
    assert _there(api, stage) == {"a", "b", "c", "x"}
    assert stage.run(*(config_map(name, "changed") for name in "abc")).exit_code == 0
    assert _there(api, stage) == {"a", "b", "c"}


def test_last_object_in_a_namespace_or_kind_never_pruned(stage: Stage, api: Api) -> None:
    """The opposite failure, a leak: the inventory knows the kinds and namespaces of before."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    elsewhere = config_map("last", namespace="default")
    stage.run(config_map("a"), config_map("b"), secret, elsewhere)
    story = stage.run(config_map("a"), config_map("b"))
    assert story.outcomes["secret/s"] is Outcome.PRUNED
    assert story.outcomes["configmap/last"] is Outcome.PRUNED
    assert not api.exists("/api/v1/namespaces/default/configmaps/last")
    assert stage.run(allow_empty=True).outcomes == {
        "configmap/a": Outcome.PRUNED,
        "configmap/b": Outcome.PRUNED,
    }
    assert not _there(api, stage)
