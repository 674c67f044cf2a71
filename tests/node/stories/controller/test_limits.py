"""Limits of the container: a small CPU, and a memory that one reconcile exceeds."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.node.installed import DEPLOYMENT
from tests.node.isolation import CGROUPS
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE
from tests.support.objects import config_map
from tests.support.waiting import eventually
from tests.support.workloads import MERGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.node.installed import Installed
    from tests.support.controller import Tenant

AS_INSTALLED = "cpu=2,memory=2560Mi"
SMALL_CPU = "cpu=100m"
SMALL_MEMORY = "cpu=2,memory=256Mi"
"""More than idle workers take, and less than they and one at its limit."""
MEGABYTE = 900_000


@pytest.fixture(scope="module")
def limited(installed: Installed) -> Iterator[Callable[[str], None]]:
    """Sets limits of the container, and waits for the Pods that have them; back at the end."""
    plane = installed.plane
    target = (f"deployment/{CONTROLLER}", "-n", SYSTEM_NAMESPACE, "-c", "controller")
    command = (plane.kubectl, "--kubeconfig", plane.kubeconfig, "set", "resources", *target)

    def limit(limits: str) -> None:
        subprocess.run([*command, f"--limits={limits}"], check=True)
        installed.rolled_out()

    yield limit
    limit(AS_INSTALLED)


def doubling(text: str) -> str:
    """Return a rule in CEL that doubles a text of the object again and again."""
    return f"[{text}]{'.map(a, a + a)' * 13}.exists(a, a == '')"


def killed_by_the_kernel(process: int) -> int:
    """Return how many processes of the container of a process were killed at its memory limit."""
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, hierarchy, path = line.split(":", 2)
        if hierarchy == "memory":
            told = (CGROUPS / "memory" / path[1:] / "memory.oom_control").read_text()
            return int(dict(one.split() for one in told.splitlines())["oom_kill"])
    return 0


def test_start_is_slow_and_not_ended(
    installed: Installed, limited: Callable[[str], None], tenant: Tenant
) -> None:
    """With a tenth of a CPU, the startup probe waits; Bundles are served afterwards."""
    limited(SMALL_CPU)
    assert [*installed.restarts().values()] == [0, 0]
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    assert tenant.exists("a") == [True]
    assert [*installed.restarts().values()] == [0, 0]


def test_update_keeps_what_an_administrator_has_set(
    installed: Installed, limited: Callable[[str], None]
) -> None:
    """By ``kubectl scale`` and ``kubectl set resources``: no conflict, and no other Pods."""
    limited(SMALL_CPU)
    api = installed.api
    scale = f"{DEPLOYMENT}/scale"
    assert api("PATCH", scale, {"spec": {"replicas": 3}}, content_type=MERGE)[0] == 200
    installed.rolled_out()
    pods = set(installed.pods())
    installed.install()
    assert set(installed.pods()) == pods
    assert len(pods) == 3
    (container,) = api.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["cpu"] == "100m"
    assert api("PATCH", scale, {"spec": {"replicas": 2}}, content_type=MERGE)[0] == 200
    installed.rolled_out()


def test_worker_is_killed_when_the_memory_is_used_up(
    installed: Installed, limited: Callable[[str], None], new_tenant: Callable[[], Tenant]
) -> None:
    """Its Bundle says so, and others are served.

    With cgroup v2, the kernel ends the whole container, as the guide says.
    """
    limited(SMALL_MEMORY)
    leader = installed.await_leader()
    first, *_ = installed.processes(leader)
    costly, other = new_tenant(), new_tenant()
    costly.bundle("large", config_map("large", "x" * MEGABYTE))
    depends = [{"name": "large", "readyWhen": doubling("self.spec.source.inline")}]
    costly.bundle("costly", config_map("a"), dependsOn=depends)
    if (CGROUPS / "cgroup.controllers").exists():
        eventually(
            lambda: any(installed.restarts().values()), lambda: "the end of the whole container"
        )
        costly.patch("costly", suspend=True)
    else:
        message = costly.failed("costly", "ReconcileLimitExceeded")
        assert "SIGKILL: it may have run out of memory" in message
        assert killed_by_the_kernel(first) >= 1
        assert [*installed.restarts().values()] == [0, 0]
        assert installed.await_leader() == leader
        assert installed.processes(leader)[0] == first
    other.bundle("web", config_map("a"))
    other.ready("web")
    assert other.exists("a") == [True]
    costly.patch("costly", suspend=True)
