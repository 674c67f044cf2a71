"""Write Kubernetes Events about Bundles; one that comes again is counted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from applyprune.cluster.client import KubernetesClient
from applyprune.controller.constants import COMPONENT, RUN, Reason
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.errors import AlreadyExists, ApplypruneError
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.resources import BUNDLES, EVENTS, NAMESPACES
from applyprune.planning.fields.normalize import digest
from applyprune.values import dataclass

_MESSAGE = 1000
_NAME = 230


class EventType(StrEnum):
    """The two types of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


def utc_now() -> str:
    """Return the current time in the API's format: RFC 3339, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class EventRecorder:
    """Writes Events; a failed write is only logged.

    The same message about the same Bundle is one Event with a count. The caller knows whether
    anything has changed.
    """

    client: KubernetesClient

    def event(
        self,
        live: LiveObject,
        event_type: EventType,
        reason: Reason,
        message: str,
        run: str = "",
    ) -> None:
        """Write an Event about a Bundle.

        ``run`` is the ID of the run that it is about; an annotation of the Event has it.
        """
        involved = {
            "apiVersion": BUNDLES.gvk.api_version,
            "kind": BUNDLES.kind,
            "namespace": live.ref.namespace,
            "name": live.ref.name,
            "uid": live.uid,
            "resourceVersion": live.resource_version,
        }
        self._send(live.ref.namespace, involved, event_type, reason, message, run)

    def namespace_event(self, name: str, reason: Reason, message: str) -> None:
        """Write an Event about a terminating namespace to ``default``: it accepts none itself."""
        involved = {"apiVersion": "v1", "kind": NAMESPACES.kind, "name": name}
        self._send("default", involved, EventType.WARNING, reason, message)

    def _send(
        self,
        namespace: str,
        involved: Mapping[str, str],
        event_type: EventType,
        reason: Reason,
        message: str,
        run: str = "",
    ) -> None:
        message = message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"
        now = utc_now()
        # The same Event has the same name, so this process or the next replica finds the first one.
        mark = digest([involved.get("uid", ""), str(reason), message])[:16]
        name = f"{involved['name'][:_NAME]}.{mark}"
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace, **_annotated(run)},
            "involvedObject": dict(involved),
            "type": str(event_type),
            "reason": str(reason),
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }
        ref = Ref("", EVENTS.kind, namespace, name)
        try:
            self.client.create(EVENTS, ref, body)
        except AlreadyExists:
            self._count(ref, now, run)
        except ApplypruneError as error:
            _log_unwritten(namespace, name, error)

    def _count(self, ref: Ref, now: str, run: str) -> None:
        try:
            event = self.client.get(EVENTS, ref, full=True)
            count = int((event.body or {}).get("count") or 1)
            again: dict[str, Any] = {"count": count + 1, "lastTimestamp": now}
            if run:
                again["metadata"] = _annotated(run)
            self.client.merge_patch(EVENTS, ref, again)
        except ApplypruneError as error:
            _log_unwritten(ref.namespace, ref.name, error)
        except (TypeError, ValueError):
            return


def _annotated(run: str) -> dict[str, Any]:
    """Return the annotation that names the run; in the message, each Event would be a new one."""
    return {"annotations": {RUN: run}} if run else {}


def _log_unwritten(namespace: str, name: str, error: ApplypruneError) -> None:
    LOG.warning(
        "event could not be written",
        extra=fields(namespace=namespace, name=name, error=error.message),
    )
