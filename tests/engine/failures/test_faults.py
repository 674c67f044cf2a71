"""Replies that get lost, requests that fail: nothing leaks, nothing foreign goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from applyprune.errors import AccessError
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults, first
from tests.support.objects import config_map, of_kind
from tests.support.plane import Kubectl
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


@pytest.mark.parametrize("smaller", [False, True])
def test_apply_with_all_replies_lost_leaks_nothing(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, smaller: bool
) -> None:
    """The object is there, unconfirmed; the next run knows it, with the same input or less."""
    spoiled.budget = 0.5
    proxy.rule = always(faults.lose_reply(), where=_applies("b"))
    story = spoiled.run(config_map("a"), config_map("b"))
    assert story.outcomes["configmap/b"] is Outcome.FAILED
    assert story.exit_code == 3
    path = stage.path("b")
    assert api.exists(path)
    assert "configmap/b" in stage.listed()
    after = stage.run(config_map("a")) if smaller else stage.run(config_map("a"), config_map("b"))
    assert after.exit_code == 0
    assert api.exists(path) is not smaller
    if not smaller:
        assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_foreign_object_under_an_unconfirmed_name_survives(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """failures §1.1: the write-ahead entry has no UID, and somebody takes the name meanwhile."""
    spoiled.budget = 0.5
    proxy.rule = always(faults.reset(), where=_applies("b"))
    assert spoiled.run(config_map("a"), config_map("b")).outcomes["configmap/b"] is Outcome.FAILED
    kubectl("create", "configmap", "b", "-n", stage.namespace, "--from-literal=mine=1")
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    assert api.exists(stage.path("b"))


@pytest.mark.holds("create-only", "found-from-controller")
def test_object_created_between_read_and_apply_is_not_taken(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """Create-only: the first one keeps the object, and the run reports it."""

    def before(seen: Exchange) -> None:
        if seen.method == "PATCH" and seen.path.endswith("/configmaps/b"):
            kubectl("create", "configmap", "b", "-n", spoiled.namespace, "--from-literal=mine=1")

    proxy.before_forward = before
    story = spoiled.run(config_map("b"))
    assert story.outcomes == {"configmap/b": Outcome.FAILED}
    assert "created by somebody else" in story.problem("configmap/b")
    path = spoiled.path("b")
    assert api.get(path)["data"] == {"mine": "1"}
    assert api.get(path)["metadata"].get("labels") is None


def _deletes(seen: Exchange) -> bool:
    return seen.method == "DELETE"


def test_object_recreated_between_read_and_delete_survives(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """failures §1.2: without the UID precondition this kills the wrong object."""
    spoiled.run(config_map("a"), config_map("b"))

    def recreate() -> None:
        kubectl("delete", "configmap", "b", "-n", spoiled.namespace)
        kubectl("create", "configmap", "b", "-n", spoiled.namespace, "--from-literal=mine=1")

    done = proxy.before_first(_deletes, recreate)
    story = spoiled.run(config_map("a"))
    assert done, "the delete came by"
    assert story.outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    path = spoiled.path("b")
    assert api.get(path)["data"] == {"mine": "1"}


@pytest.mark.holds("delete-version")
def test_object_changed_between_read_and_delete_is_decided_again(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The resourceVersion precondition: somebody marks it to be kept at the last moment."""
    spoiled.run(config_map("a"), config_map("b"))

    def mark() -> None:
        kubectl(
            "annotate", "configmap", "b", "-n", spoiled.namespace, "applyprune.dev/prune=disabled"
        )

    proxy.before_first(_deletes, mark)
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(spoiled.path("b"))


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


def test_delete_with_a_lost_reply_succeeds(spoiled: Stage, proxy: FaultProxy) -> None:
    """The retry answers 404: gone is gone."""
    spoiled.run(config_map("a"), config_map("b"))
    proxy.rule = first(1, faults.lose_reply(), where=_deletes)
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert spoiled.listed() == {"configmap/a"}


def test_delete_with_all_replies_lost_succeeds(spoiled: Stage, proxy: FaultProxy) -> None:
    """A read shows what happened to it."""
    spoiled.budget = 0.3
    spoiled.run(config_map("a"), config_map("b"))
    proxy.rule = always(faults.lose_reply(), where=_deletes)
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert spoiled.listed() == {"configmap/a"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_inventory_write_with_a_lost_reply_is_recognised(
    spoiled: Stage, proxy: FaultProxy, count: int
) -> None:
    """For the create and every replacement: the id in the header identifies our own write."""
    spoiled.run(config_map("a"))
    spoiled.run(mode=Mode.DELETE)
    proxy.rule = first(count, faults.lose_reply(), where=_writes_inventory)
    story = spoiled.run(config_map("a"), config_map("b"))
    assert story.exit_code == 0
    assert spoiled.listed() == {"configmap/a", "configmap/b"}


@pytest.mark.parametrize(
    "fault",
    [
        faults.status(403, reason="Forbidden"),
        faults.text(503, "service unavailable"),
        faults.text(404, "404 page not found"),
        faults.web_page(),
        faults.garbage(),
        faults.truncate(),
    ],
    ids=["403", "503", "404 text", "a web page", "garbage", "truncated"],
)
def test_unreadable_object_is_not_taken_for_missing(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, fault: Fault
) -> None:
    """Safety rule 4: the entry stays, nothing is pruned, and the run reports it."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.3
    proxy.rule = always(
        fault,
        where=lambda seen: (
            seen.method == "GET" and seen.path.endswith(("/configmaps", "/configmaps/b"))
        ),
    )
    story = spoiled.run(config_map("a"))
    assert story.exit_code != 0
    assert story.outcomes["configmap/b"] is not Outcome.PRUNED
    assert api.exists(stage.path("b"))
    assert stage.listed() == {"configmap/a", "configmap/b"}
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_unreachable_server_ends_the_run_with_one_error(spoiled: Stage, proxy: FaultProxy) -> None:
    """Exit code 7, and what to look at."""
    spoiled.budget = 0.3
    proxy.refuse_connections()
    with pytest.raises(AccessError) as caught:
        spoiled.run(config_map("a"))
    assert caught.value.exit_code == 7
    assert caught.value.hint


def test_server_lost_in_mid_run_leaves_a_state_that_converges(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Whatever had been sent is recorded."""
    spoiled.budget = 0.3
    seen: list[int] = []

    def gone_after_three_applies(exchange: Exchange) -> Fault | None:
        if len(seen) == 3:
            return faults.reset()
        if exchange.method == "PATCH":
            seen.append(exchange.number)
        return None

    proxy.rule = gone_after_three_applies
    bodies = [config_map(f"c-{number}") for number in range(12)]
    with pytest.raises(AccessError):
        spoiled.run(*bodies, concurrency=1, lease=5.0)
    story = stage.run(config_map("last"), max_prune=stage.most(3))
    assert story.exit_code == 0
    path = stage.path()
    left = {item["metadata"]["name"] for item in api.get(path)["items"]}
    assert left == {"last", "applyprune-web", "kube-root-ca.crt"}


def test_kind_in_outdated_discovery_is_counted_again(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Discovery follows the delete of a CRD by seconds: its lists answer a text 404 till then.

    Met with kube-prometheus: the Namespace, counted right after its CRDs went, was refused.
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
