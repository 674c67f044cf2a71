"""A Deployment gets another name: the old one goes when the new one is ready, and stays so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.node.waits import READY, container, pods, waiting
from tests.support.api import temporary_namespace
from tests.support.waiting import eventually
from tests.support.workloads import MERGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.node.waits import Run
    from tests.support.api import Api
    from tests.support.workloads import Body

OLD = pods(container("serve", **READY), name="old")
CRASHES = {
    "at once": container("exit", "1"),
    "after a second": container("exit", "1", "1"),
    "after five seconds": container("exit", "1", "5"),
    "out of memory": container("eat", "200", resources={"limits": {"memory": "50Mi"}}),
}
EACH = 2
"""How often each of them is tried."""
STATE: Body = {"emptyDir": {}, "name": "state"}


def rename(
    api: Api, plane: Plane, folder: Path, new: Body, act: Callable[[Api, Run], None]
) -> tuple[int, bool, Run]:
    """Apply the old Deployment, then the new one in its place, and do something during the wait.

    Return the exit code of the second run, and whether the old Deployment is there.
    """
    with ExitStack() as stack:
        namespace = stack.enter_context(temporary_namespace(api))
        first = stack.enter_context(waiting(plane, namespace, folder / "old", OLD, options=WAIT))
        assert first.end() == 0
        run = stack.enter_context(waiting(plane, namespace, folder / "new", new))
        act(api, run)
        code = run.end()
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/old"
        return code, api.exists(path), run


WAIT = ("--wait",)


def until_third_restart(api: Api, run: Run) -> None:
    """Wait until the kubelet has restarted the container three times; end the run."""
    place = f"/api/v1/namespaces/{run.namespace}/pods?labelSelector=app%3Dnew"

    def restarts() -> int:
        assert run.process.poll() is None, run.told[-3:]
        return sum(
            status["restartCount"]
            for pod in api.get(place)["items"]
            for status in pod["status"].get("containerStatuses", ())
        )

    eventually(lambda: restarts() >= 3, lambda: f"three restarts of {restarts()}")
    old = api.get(f"/apis/apps/v1/namespaces/{run.namespace}/deployments/old")
    assert old["status"]["availableReplicas"] == 1
    run.interrupt()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """What waits at the same time."""
    with ThreadPoolExecutor(16) as executor:
        yield executor


def test_working_deployment_is_not_pruned_for_one_that_crashes(
    plane: Plane, api: Api, tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    """Without a probe, it counts as available between its start and its crash."""
    tries = {
        f"{name} {number}": threads.submit(
            rename,
            api,
            plane,
            tmp_path / f"{name} {number}",
            pods(crashing, name="new"),
            until_third_restart,
        )
        for name, crashing in CRASHES.items()
        for number in range(EACH)
    }
    ended = {name: future.result() for name, future in tries.items()}
    assert {name: exists for name, (_, exists, _) in ended.items()} == dict.fromkeys(tries, True)
    assert all(code != 0 for code, _, _ in ended.values())


def scaled(api: Api, run: Run) -> None:
    """Do what an autoscaler does, as soon as there is a Pod."""
    first_pod(api, run)
    path = f"/apis/apps/v1/namespaces/{run.namespace}/deployments/new/scale"
    assert api("PATCH", path, {"spec": {"replicas": 3}}, content_type=MERGE)[0] == 200


def evicted(api: Api, run: Run) -> None:
    """Evict the first Pod."""
    name = first_pod(api, run)
    path = f"/api/v1/namespaces/{run.namespace}/pods/{name}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    assert api("POST", path, body)[0] == 201


def untouched(api: Api, run: Run) -> None:
    """Do nothing: the container fails once by itself."""


def first_pod(api: Api, run: Run) -> str:
    place = f"/api/v1/namespaces/{run.namespace}/pods?labelSelector=app%3Dnew"
    (pod, *_) = eventually(lambda: api.get(place)["items"], lambda: "a Pod")
    return str(pod["metadata"]["name"])


def failing_once() -> Body:
    mounted = [{"name": "state", "mountPath": "/state"}]
    body = pods(container("serve", "-fail-once=/state/failed", volumeMounts=mounted), name="new")
    body["spec"]["template"]["spec"]["volumes"] = [STATE]
    return body


SURVIVED: dict[str, tuple[Body, Callable[[Api, Run], None]]] = {
    "one restart": (failing_once(), untouched),
    "an autoscaler": (pods(container("serve", "-ready=5", **READY), name="new"), scaled),
    "an eviction": (pods(container("serve", "-ready=5", **READY), name="new"), evicted),
    "a slow start": (pods(container("serve", "-ready=6", **READY), name="new"), untouched),
}


def test_old_deployment_goes_when_the_new_one_is_ready(
    plane: Plane, api: Api, tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    """A restart, an autoscaler, an eviction and a slow start are no failures."""
    tries = {
        f"{name} {number}": threads.submit(
            rename, api, plane, tmp_path / f"{name} {number}", new, act
        )
        for name, (new, act) in SURVIVED.items()
        for number in range(EACH)
    }
    ended = {name: future.result() for name, future in tries.items()}
    assert {name: (code, exists) for name, (code, exists, _) in ended.items()} == dict.fromkeys(
        tries, (0, False)
    )
    for _, _, run in ended.values():
        ready = run.tells('"event": "readiness".*"name": "new".*"Current"')
        pruned = run.tells('"event": "object".*"outcome": "pruned"')
        assert run.told.index(ready) < run.told.index(pruned)
