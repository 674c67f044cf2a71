"""Kubernetes Events about Bundles: what a person should see, said once and then counted."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any

from applyprune.controller.logs import LOG, fields
from applyprune.controller.names import COMPONENT
from applyprune.errors import AlreadyExists, ApplypruneError
from applyprune.model.builtin import BUNDLES, EVENTS, NAMESPACES
from applyprune.model.refs import Ref
from applyprune.planning.digests import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.cluster.api_server import KubernetesClient
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
    """Writes Events; a failure to do so is logged, and nobody's failure.

    The same words about the same Bundle are said once an hour at most, and counted in one Event.
    """

    client: KubernetesClient
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
        ref = Ref("", EVENTS.kind, namespace, name)
        try:
            self.client.create(EVENTS, ref, body)
        except AlreadyExists:
            self._count(ref, now)
        except ApplypruneError as error:
            _log_unsaid(namespace, name, error)

    def _count(self, ref: Ref, now: str) -> None:
        try:
            event = self.client.get(EVENTS, ref, full=True)
            count = int((event.body or {}).get("count") or 1)
            self.client.merge_patch(EVENTS, ref, {"count": count + 1, "lastTimestamp": now})
        except ApplypruneError as error:
            _log_unsaid(ref.namespace, ref.name, error)
        except (TypeError, ValueError):
            return


def _log_unsaid(namespace: str, name: str, error: ApplypruneError) -> None:
    LOG.warning(
        "an event could not be written",
        extra=fields(namespace=namespace, name=name, error=error.what),
    )
