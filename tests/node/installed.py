"""The controller as installed on the nodes: its Pods, their processes and what they log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3
from msgspec import Struct

from tests.node import waits
from tests.node.images import PRODUCT
from tests.support.command import applyprune
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Tenant

SYSTEM = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments/{CONTROLLER}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER}"
COMPONENT = "app.kubernetes.io%2Fcomponent%3Dcontroller"
PORT = 8080


class Installed(Struct, frozen=True):
    """The installed controller."""

    plane: Plane
    api: Api

    def install(self, image: str = PRODUCT) -> None:
        """Install it, or update it, as the guide says; return when all of it is ready."""
        given = ("install", "--image", image, "--wait")
        reply = applyprune(*given, kubeconfig=self.plane.kubeconfig)
        assert reply.code == 0, reply

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return its Pods by their names, without those that end."""
        listed = self.api.get(f"{SYSTEM}/pods?labelSelector={COMPONENT}")["items"]
        return {
            one["metadata"]["name"]: one
            for one in listed
            if "deletionTimestamp" not in one["metadata"]
        }

    def rolled_out(self) -> None:
        """Wait until its Deployment has what it wants, and no other Pod is left."""

        def settled() -> bool:
            found = self.api.get(DEPLOYMENT)
            wanted, status = found["spec"]["replicas"], found.get("status", {})
            counts = [status.get(key) for key in ("replicas", "updatedReplicas", "readyReplicas")]
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            pods = self.api.get(f"{SYSTEM}/pods?labelSelector={COMPONENT}")["items"]
            return is_seen and counts == [wanted] * 3 and len(pods) == wanted

        eventually(settled, lambda: f"the rollout: {self.api.get(DEPLOYMENT)['status']}")

    def holder(self) -> str:
        """Return who holds the Lease; empty if nobody does."""
        return str(self.api.get(LEASE)["spec"].get("holderIdentity") or "")

    def await_leader(self, *others: str) -> str:
        """Wait until a Pod leads that is none of the others, and return its name."""

        def another() -> str:
            holder = self.holder()
            found = next((name for name in self.pods() if holder.startswith(name)), "")
            return "" if found in others else found

        return str(eventually(another, lambda: f"a leader that is not {others}: {self.holder()}"))

    def processes(self, pod: str) -> Sequence[int]:
        """Return the IDs of the processes of a Pod's container, the first one first."""
        (container,) = self.pods()[pod]["status"]["containerStatuses"]
        mark = container["containerID"].rpartition("/")[2]
        found = []
        for path in Path("/proc").glob("[0-9]*/cgroup"):
            try:
                if mark in path.read_text():
                    found.append(int(path.parent.name))
            except OSError:
                continue  # It has ended.
        # The IDs of a namespace go up, but for a wrap that a test run does not reach.
        return sorted(found)

    def restarts(self) -> Mapping[str, int]:
        """Return how often each Pod's container was started again."""
        return {
            name: one["restartCount"]
            for name, pod in self.pods().items()
            for one in pod["status"].get("containerStatuses", ())
        }

    def log(self, pod: str) -> list[dict[str, Any]]:
        """Return the lines of a Pod's log, each of which is JSON."""
        code, text = self.api("GET", f"{SYSTEM}/pods/{pod}/log")
        assert code == 200, text
        return [json.loads(line) for line in str(text).splitlines()]

    def ask(self, pod: str, path: str) -> tuple[int, str]:
        """Return the status and text of a Pod's reply at a path."""
        address = self.pods()[pod]["status"]["podIP"]
        reply = urllib3.request(
            "GET", f"http://{address}:{PORT}{path}", timeout=HANG, retries=False
        )
        return reply.status, reply.data.decode()

    def check_logs(self) -> None:
        """Fail if a Pod has logged a traceback, or that it lacks a right."""
        for pod in self.pods():
            lines = self.log(pod)
            wrong = [
                line for line in lines if "traceback" in line or "orbidden" in json.dumps(line)
            ]
            assert wrong == [], pod


def deployment(name: str, *arguments: str, replicas: int = 1, **container: Any) -> dict[str, Any]:
    """Return a Deployment whose Pods run the workload of the stories.

    By default it serves, and a probe asks whether it is ready; ``container`` replaces fields.
    """
    main = {**waits.container(*(arguments or ("serve",)), **waits.READY), **container}
    found = {key: value for key, value in main.items() if value is not None}
    body = waits.pods(found, name=name, replicas=replicas)
    body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    return body


def pods_of(tenant: Tenant, app: str) -> list[dict[str, Any]]:
    """Return the Pods of a Deployment, whatever they do."""
    listed = tenant.api.get(f"{tenant.path('pods')}?labelSelector=app%3D{app}")
    return list(listed["items"])
