"""Kubernetes Events about Bundles: what a person should see, said once and then counted."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any

from applyprune.cluster.paths import collection_path, object_path
from applyprune.cluster.request import Request
from applyprune.controller.names import COMPONENT
from applyprune.errors import AlreadyExists, ApplypruneError
from applyprune.model.builtin import BUNDLES, EVENTS, NAMESPACES
from applyprune.model.refs import Ref
from applyprune.planning.digests import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.cluster.transport import Transport
    from applyprune.controller.names import Reason
    from applyprune.model.live import Live

_AGAIN_AFTER = 3600.0
_MESSAGE = 1000
_NAME = 230


class Weight(StrEnum):
    """The two types of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


def utc_now() -> str:
    """Return the time as the API writes it: RFC 3339, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class Notices:
    """Writes Events; a failure to do so is nobody's failure.

    The same words about the same Bundle are said once an hour at most, and counted in one Event.
    """

    transport: Transport
    _said: dict[str, tuple[tuple[str, str], float]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def about(self, live: Live, weight: Weight, reason: Reason, message: str) -> None:
        """Say something about a Bundle, unless it was the last thing said of it."""
        with self._lock:
            now = time.monotonic()
            last, since = self._said.get(live.uid, (("", ""), now))
            if last == (reason, message) and now - since < _AGAIN_AFTER:
                return
            self._said[live.uid] = ((str(reason), message), now)
        involved = {
            "apiVersion": BUNDLES.gvk.api_version,
            "kind": BUNDLES.kind,
            "namespace": live.ref.namespace,
            "name": live.ref.name,
            "uid": live.uid,
            "resourceVersion": live.resource_version,
        }
        self._send(live.ref.namespace, involved, weight, reason, message)

    def about_namespace(self, name: str, reason: Reason, message: str) -> None:
        """Say something about a namespace that is going: in it no Event can be made any more."""
        involved = {"apiVersion": "v1", "kind": NAMESPACES.kind, "name": name}
        self._send("default", involved, Weight.WARNING, reason, message)

    def forget(self, uid: str) -> None:
        """Forget what was said of a Bundle that is gone."""
        with self._lock:
            self._said.pop(uid, None)

    def _send(
        self,
        namespace: str,
        involved: Mapping[str, str],
        weight: Weight,
        reason: Reason,
        message: str,
    ) -> None:
        message = message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"
        now = utc_now()
        # Who says it again, this process or the next leader, finds the one that was made first.
        mark = digest([involved.get("uid", ""), str(reason), message])[:16]
        name = f"{involved['name'][:_NAME]}.{mark}"
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": dict(involved),
            "type": str(weight),
            "reason": str(reason),
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }
        try:
            self.transport.send(
                Request("POST", collection_path(EVENTS, namespace), body=json.dumps(body).encode())
            )
        except AlreadyExists:
            self._count(Ref("", EVENTS.kind, namespace, name), now)
        except ApplypruneError:
            return

    def _count(self, ref: Ref, now: str) -> None:
        path = object_path(EVENTS, ref)
        try:
            count = int(self.transport.send(Request("GET", path)).body.get("count") or 1)
            patch = {"count": count + 1, "lastTimestamp": now}
            self.transport.send(
                Request(
                    "PATCH",
                    path,
                    body=json.dumps(patch).encode(),
                    content_type="application/merge-patch+json",
                )
            )
        except (ApplypruneError, TypeError, ValueError):
            return
