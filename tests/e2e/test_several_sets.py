"""``status`` of several sets, the wait for a deletion, and a move that may come too late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import Finished, Waiting
from tests.support.accounts import kubeconfig_as, rule
from tests.support.command import Ended, applyprune, start
from tests.support.objects import DEPLOYMENT, config_map
from tests.support.processes import is_connected
from tests.support.stage import Stage
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from applyprune.model.events import Event
    from tests.support.api import Api


@pytest.fixture
def stage(plane: Plane, namespace: str) -> Stage:
    """The sets ``web`` and ``shop`` of one namespace, with an object each."""
    Stage(plane.kubeconfig, namespace, name="shop").run(config_map("s"))
    made = Stage(plane.kubeconfig, namespace)
    made.run(config_map("w"))
    return made


def _call(stage: Stage, *arguments: str) -> Ended:
    return applyprune(*arguments, "-n", stage.namespace, kubeconfig=stage.kubeconfig)


def test_status_shows_several_sets(stage: Stage, api: Api) -> None:
    """Each with its own table; one that cannot be read hides no other, and all count."""
    both = _call(stage, "status", "web", "shop")
    assert (both.code, both.err) == (0, "")
    first, second = both.out.split("\n\n")
    assert "configmap/w" in first
    assert f"web -n {stage.namespace}: 1 object, 1 ready" in first
    assert f"shop -n {stage.namespace}: 1 object, 1 ready" in second
    every = _call(stage, "status", "-A", "-o", "json")
    told = json.loads(every.out)
    mine = [one for one in told["objects"] if one["ref"]["namespace"] == stage.namespace]
    assert {
        (one["ref"]["name"], one["objectStatus"]["name"], one["objectStatus"]["namespace"])
        for one in mine
    } == {("s", "shop", stage.namespace), ("w", "web", stage.namespace)}
    api("DELETE", stage.path("w"))
    late = _call(stage, "status", "web", "shop")
    assert late.code == 5
    assert f"1 of the 2 sets failed: web -n {stage.namespace}" in late.err
    wrong = _call(stage, "status", "nothing", "shop")
    assert wrong.code == 3
    assert "configmap/s" in wrong.out
    assert "there is no set nothing" in wrong.err
    api.patch(stage.path("s"), {"data": {"key": "x"}})
    assert _call(stage, "status", "shop", "shop", "--exit-code").code == 1
    stage.run(config_map("w"))
    assert _call(stage, "status", "web", "shop", "--exit-code").code == 1


def test_wait_for_the_end_of_a_set(stage: Stage, api: Api) -> None:
    """Until the last object is gone, whoever deletes it; what was orphaned does not count."""
    held = config_map("held", finalizers=["example.com/hold"])
    api.create(stage.path(), config_map("adopted"))
    stage.run(config_map("w"), held, config_map("adopted"))
    late = _call(stage, "status", "web", "--wait=deleted", "--timeout", "1s")
    assert late.code == 5
    assert "the set web is not gone" in late.err
    waits = start(
        *("status", "web", "--wait=deleted", "--timeout", "1h", "-n", stage.namespace),
        kubeconfig=stage.kubeconfig,
    )
    with waits:
        # It has begun when it is connected; the deletion takes a second at least.
        eventually(lambda: is_connected(waits.pid), lambda: "the connection")
        assert _call(stage, "delete", "web", "--yes", "--timeout", "1s").code == 5
        assert waits.poll() is None
        api.patch(stage.path("held"), {"metadata": {"finalizers": None}})
        assert _call(stage, "delete", "web", "--yes").code == 0
        out, err = waits.communicate(timeout=HANG)
    assert (waits.returncode, out) == (0, "")
    # On a pipe, a long wait says now and then what it waits for.
    assert all(line.startswith("waiting until ") for line in err.splitlines()), err
    assert api.exists(f"/api/v1/namespaces/{stage.namespace}/configmaps/adopted")
    again = _call(stage, "status", "web", "--wait=deleted")
    assert again.code == 0
    assert "there is no set web" in again.err


@pytest.mark.holds("unknown-is-not-gone")
def test_end_of_a_set_that_cannot_be_read_is_unknown(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Whoever may not read an object does not know that it is gone."""
    stage.run(config_map("w"), DEPLOYMENT)
    config = kubeconfig_as(
        "poor", plane, api, stage.namespace, tmp_path, rule("", ["configmaps"], ["get", "list"])
    )
    removed: list[Event] = []

    def remove(event: Event) -> None:
        if isinstance(event, Waiting) and not removed:
            removed.append(event)
            for name in ("applyprune-web", "w"):
                api("DELETE", stage.path(name))

    story = Stage(config, stage.namespace, seen=remove).status(deleted=True, timeout=3600.0)
    (end,) = (one for one in story.events if isinstance(one, Finished))
    assert end.exit_code == 3
    assert "it is unknown whether deployment.apps/web still exists" in str(end.problem)
