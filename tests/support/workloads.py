"""Workloads whose status a test writes, custom resources, and how a run waited for them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from applyprune.engine.ports import Cancellation
from applyprune.model.events import ObjectStuck, Planned, ReadinessReported, Waiting
from tests.support.clocks import AGES, MOMENT, QuickClock
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.model.events import Event
    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange

Body = dict[str, Any]

PROBE: Body = {"readinessProbe": {"tcpSocket": {"port": 80}}}
"""Of a container: without it, a Pod must have been ready for a while."""
NOWHERE: Body = {"nodeSelector": {"no": "node"}}
PLAYED: Body = {"schedulerName": "the-test-itself"}
MERGE = "application/merge-patch+json"
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
WAIT = "applyprune.dev/wait"
READY_WHEN = "applyprune.dev/ready-when"
DEPENDS_ON = "config.kubernetes.io/depends-on"
WAVE = "applyprune.dev/wave"
UNREAD = "it has not been read yet"


def metadata(name: str, **annotations: str) -> Body:
    """Return metadata; the words of annotations are those that this file uses."""
    keys = {
        "wait": WAIT,
        "ready_when": READY_WHEN,
        "depends_on": DEPENDS_ON,
        "wave": WAVE,
    }
    found = {keys[key]: text for key, text in annotations.items()}
    return {"name": name, **({"annotations": found} if found else {})}


def pod(name: str, **annotations: str) -> Body:
    """Return a Pod whose status only the test writes."""
    spec = {"containers": [{"name": "main", "image": "main:1"}], **PLAYED}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, **annotations),
            "spec": spec}  # fmt: skip


def workload(
    kind: str,
    name: str = "web",
    *,
    pods: Body | None = None,
    spec: Body | None = None,
    **notes: str,
) -> Body:
    """Return a workload, such as a Deployment; ``pods`` goes into its Pods' spec."""
    labels = {"app": name}
    template: Body = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "main:1", **PROBE}], **(pods or {})},
    }
    body: Body = {"template": template, **(spec or {})}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    elif kind != "ReplicationController":
        body["selector"] = {"matchLabels": labels}
    if kind == "StatefulSet":
        body["serviceName"] = name
    versions = {"Job": "batch/v1", "ReplicationController": "v1"}
    return {
        "apiVersion": versions.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": metadata(name, **notes),
        "spec": body,
    }


def ready(*, value: str = "True") -> Body:
    """Return the status of a Pod that runs, ready or not."""
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": value}]}


def stuck(reason: str, phase: str = "Pending") -> Body:
    """Return the status of a Pod whose container waits."""
    container = {
        "name": "main",
        "image": "main:1",
        "imageID": "",
        "ready": False,
        "restartCount": 3,
        "state": {"waiting": {"reason": reason, "message": "so says the kubelet"}},
    }
    return {"phase": phase, "containerStatuses": [container]}


def definition(group: str) -> Body:
    """Return the CRD of the kind Widget, which has a status."""
    anything: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [version],
        },
    }


def widget(group: str, name: str = "w", **notes: str) -> Body:
    """Return a custom resource of that kind."""
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": metadata(name, **notes),
        "spec": {"size": 1},
    }


@dataclass(slots=True)
class Puppets:
    """Writes the status of objects of one namespace, as their controllers and kubelets would."""

    api: Api
    namespace: str
    # What each Pod was told last: in a rollout an old Pod ends as soon as the new one is ready.
    told: dict[str, Body] = field(default_factory=dict)

    def path(self, plural: str, name: str = "", api: str = "/api/v1") -> str:
        """Return the path of an object, or of a collection."""
        return f"{api}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def set(self, path: str, status: Body) -> None:
        """Write a status as soon as the object is there."""
        eventually(lambda: self.api.exists(path), lambda: path)
        code, reply = self.api("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
        assert code == 200, reply

    def pod(self, name: str, status: Body) -> None:
        """Write the status of a Pod."""
        self.set(self.path("pods", name), status)

    def pods_of(self, app: str, status: Body, *, label: str = "app") -> None:
        """Write the status of a workload's Pods as soon as there is one that does not have it."""

        def others() -> list[str]:
            listed = self.api.get(f"{self.path('pods')}?labelSelector={label}%3D{app}")
            names: list[str] = [item["metadata"]["name"] for item in listed["items"]]
            return [name for name in names if self.told.get(name) != status]

        for name in eventually(others, lambda: f"another Pod of {app}"):
            self.pod(name, status)
            self.told[name] = status

    def remove(self, path: str) -> None:
        """Delete an object at once."""
        code, reply = self.api("DELETE", path, {"gracePeriodSeconds": 0})
        assert code == 200, reply


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something in a thread of its own; what it raises is raised at the end."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(act)
        yield
        future.result()


def verdicts(story: Story) -> dict[str, ReadinessReported]:
    """Return how the wait for each object ended, by ``kind/name``."""
    return {one.ref.short: one for one in story.events if isinstance(one, ReadinessReported)}


def became_ready(story: Story) -> set[str]:
    """Return the objects that became ready."""
    return {name for name, one in verdicts(story).items() if one.problem is None}


def complaints(story: Story) -> dict[str, str]:
    """Return the objects that did not become ready, each with the message for the user."""
    return {name: str(one.problem) for name, one in verdicts(story).items() if one.problem}


def run_ahead(
    stage: Stage, see: Callable[[Event], object] = lambda _: None, *, last: float = math.inf
) -> QuickClock:
    """Let the stage's runs wait by a clock that runs ahead once they have planned.

    Before, a server may need real seconds until it shows the kinds that another test has changed.
    The clock then stands still after ``last`` seconds.
    """
    clock = QuickClock(moment=AGES)

    def hasten(event: Event) -> None:
        if isinstance(event, Planned):
            clock.moment, clock.last = MOMENT, clock.now() + last
        see(event)

    stage.stop, stage.seen = Cancellation(clock=clock), hasten
    return clock


def when_waiting(stage: Stage, act: Callable[[], object], reason: str = "") -> QuickClock:
    """Do something each time that a run of the stage says that it waits for this reason only.

    The stage's runs wait by the clock that is returned, as above.
    """

    def see(event: Event) -> None:
        if isinstance(event, Waiting):
            reasons = (event.reason, *(one.reason for one in event.others))
            if all(reason in one and one != UNREAD for one in reasons):
                act()

    return run_ahead(stage, see)


def out_of_time(stage: Stage, reason: str = "") -> None:
    """Let each wait of the stage's runs time out once it says that it waits for this reason only.

    Their timeout is below ``AGES``, and far above what a test takes.
    """
    clock = when_waiting(stage, lambda: clock.advance(AGES), reason)


def on_problem(stage: Stage, *acts: Callable[[], object]) -> QuickClock:
    """Do one thing after the other as a run of the stage reports problems; by a clock as above."""
    left = iter(acts)

    def see(event: Event) -> None:
        if isinstance(event, ObjectStuck) and (act := next(left, None)) is not None:
            act()

    return run_ahead(stage, see)


def is_watch(seen: Exchange) -> bool:
    """Return whether a request is a watch."""
    return "watch" in seen.query
