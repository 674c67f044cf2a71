"""Replicas that are killed, restarted and drained, while Bundles are served."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.node.installed import deployment
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.node.installed import Installed
    from tests.support.api import Api
    from tests.support.controller import Tenant
    from tests.support.plane import Kubectl

BUDGET = f"/apis/policy/v1/namespaces/{SYSTEM_NAMESPACE}/poddisruptionbudgets/{CONTROLLER}"
NAMES = {"deployments": "apps/v1", "configmaps": "", "pods": ""}


class Served:
    """A Bundle with a Deployment that runs, and a ConfigMap whose value changes."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self._value = 0
        self.change()
        self._uids = self.uids()

    def change(self) -> None:
        """Change the spec, and wait until the change is applied."""
        self._value += 1
        value = str(self._value)
        self.tenant.bundle("web", config_map("a", value), deployment("web"), wait=True)
        self.tenant.ready("web")
        assert self.tenant.value("a") == value

    def uids(self) -> Mapping[str, str]:
        """Return the UIDs of its objects and of their Pods."""
        return {
            f"{plural}/{one['metadata']['name']}": one["metadata"]["uid"]
            for plural, group in NAMES.items()
            for one in self.tenant.api.get(self.tenant.path(plural, group=group))["items"]
            if one["metadata"]["name"].startswith(("a", "web"))
            and not one["metadata"]["name"].startswith("applyprune-")
        }

    def check(self) -> None:
        """Fail if anything of it was deleted or created again, or was told to be wrong."""
        assert self.uids() == self._uids
        assert [one for one in self.tenant.events("web") if one[0] != "Normal"] == []


@pytest.fixture
def served(tenant: Tenant) -> Served:
    """A Bundle that is ready."""
    return Served(tenant)


def test_replica_takes_over_from_a_killed_one(installed: Installed, served: Served) -> None:
    """All processes of the leader are killed at once, and the kubelet starts it again.

    It stands by then like the other one: whose look comes first, leads.
    """
    leader, holder = installed.await_leader(), installed.holder()
    for process in installed.processes(leader):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    eventually(lambda: installed.holder() != holder, lambda: "another holder of the Lease")
    served.change()
    installed.rolled_out()
    eventually(lambda: installed.restarts().get(leader) == 1, lambda: "the killed one's restart")
    served.check()


@pytest.fixture
def uncordoned(api: Api) -> Iterator[Callable[[str], None]]:
    """Lets a node have Pods again after the test."""
    nodes: list[str] = []
    yield nodes.append
    for node in nodes:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


def test_node_of_the_leader_can_be_drained(
    installed: Installed, served: Served, kubectl: Kubectl, uncordoned: Callable[[str], None]
) -> None:
    """The budget lets it go, the other replica leads, and both run on the node that is left."""
    leader = installed.await_leader()
    node = installed.pods()[leader]["spec"]["nodeName"]
    uncordoned(node)
    kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
            "--pod-selector", "app.kubernetes.io/name=applyprune")  # fmt: skip
    assert leader not in installed.pods()
    assert installed.await_leader(leader)
    served.change()
    installed.rolled_out()
    assert {pod["spec"]["nodeName"] for pod in installed.pods().values()} == {
        *{"node-1", "node-2"} - {node}
    }
    served.check()
    eventually(
        lambda: installed.api.get(BUDGET)["status"]["currentHealthy"] == 2,
        lambda: f"the budget: {installed.api.get(BUDGET)['status']}",
    )


def test_bundles_are_served_during_a_restart(
    installed: Installed, served: Served, kubectl: Kubectl
) -> None:
    """By ``kubectl rollout restart``: changes are applied all the time, and nothing fails."""
    before = set(installed.pods())
    kubectl("rollout", "restart", "-n", SYSTEM_NAMESPACE, f"deployment/{CONTROLLER}")
    while before & set(installed.pods()):
        served.change()
    installed.rolled_out()
    served.change()
    served.check()
    assert installed.await_leader() not in before
    nodes = {pod["spec"]["nodeName"] for pod in installed.pods().values()}
    assert len(nodes) == 2, "one node more may fail"
