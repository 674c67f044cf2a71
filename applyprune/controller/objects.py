"""What the controller writes as itself: a Bundle's status and finalizer, and Events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from applyprune.cluster.paths import collection_path, object_path
from applyprune.cluster.request import Request
from applyprune.controller.names import FINALIZER
from applyprune.errors import Conflict, NotFound
from applyprune.model.builtin import BUNDLES
from applyprune.model.refs import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.cluster.api_server import ApiServer
    from applyprune.cluster.transport import Transport
    from applyprune.controller.queue import Key
    from applyprune.model.live import Live

_TRIES = 5


def bundle_ref(key: Key) -> Ref:
    """Return the ref of a Bundle."""
    return Ref(BUNDLES.group, BUNDLES.kind, *key)


def status_of(live: Live) -> Mapping[str, Any]:
    """Return a Bundle's status as it is stored."""
    return (live.body or {}).get("status") or {}


def deleted_at(live: Live) -> datetime | None:
    """Return when somebody has deleted an object, by the server's clock; None when nobody has."""
    try:
        return datetime.fromisoformat(str(live.metadata["deletionTimestamp"]))
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class BundleObjects:
    """Bundles, read in full and by consistent reads, and written by compare-and-swap."""

    transport: Transport
    server: ApiServer

    def get(self, key: Key) -> Live | None:
        """Return a Bundle; None when there is none."""
        try:
            return self.server.get(BUNDLES, bundle_ref(key), full=True)
        except NotFound:
            return None

    def put_status(self, live: Live, status: Mapping[str, Any]) -> Live | None:
        """Store a Bundle's status and return it as it is then; None when it is gone meanwhile.

        Nothing is sent when the status is what it was. The status is the controller's alone, so a
        change of anything else in between only means to send it again.
        """
        current: Live | None = live
        for _ in range(_TRIES):
            if current is None or current.uid != live.uid:
                return None
            if status_of(current) == status:
                return current
            body = {**(current.body or {}), "status": status}
            try:
                self._send("PUT", live.ref, body, subresource="/status")
            except Conflict:
                pass
            except NotFound:
                return None
            current = self.get((live.ref.namespace, live.ref.name))
        raise Conflict(f"{live.ref} changes faster than its status can be written", code=409)

    def hold(self, live: Live) -> Live | None:
        """Put the finalizer on a Bundle, unless it is there; return it as it is then.

        Raises Conflict when the Bundle has changed since it was read.
        """
        if FINALIZER in live.finalizers:
            return live
        return self._finalizers(live, [*live.finalizers, FINALIZER])

    def let_go(self, live: Live) -> None:
        """Take the finalizer off: what the Bundle has applied is dealt with."""
        for _ in range(_TRIES):
            current = self.get((live.ref.namespace, live.ref.name))
            if current is None or current.uid != live.uid or FINALIZER not in current.finalizers:
                return
            try:
                self._finalizers(current, [one for one in current.finalizers if one != FINALIZER])
            except Conflict:
                continue
            except NotFound:
                return
            return
        raise Conflict(f"{live.ref} changes faster than it can be let go of", code=409)

    def _finalizers(self, live: Live, finalizers: list[str]) -> Live | None:
        metadata = {"finalizers": finalizers, "resourceVersion": live.resource_version}
        self._send("PATCH", live.ref, {"metadata": metadata})
        return self.get((live.ref.namespace, live.ref.name))

    def _send(
        self, method: str, ref: Ref, body: Mapping[str, Any], *, subresource: str = ""
    ) -> None:
        json_type = "application/json"
        self.transport.send(
            Request(
                method,
                object_path(BUNDLES, ref) + subresource,
                body=json.dumps(body, ensure_ascii=False).encode(),
                content_type="application/merge-patch+json" if method == "PATCH" else json_type,
                about=(BUNDLES.group, BUNDLES.plural, ref.name),
            )
        )


def bundles_path(namespace: str = "") -> str:
    """Return the path of the Bundles, of one namespace or of all."""
    return collection_path(BUNDLES, namespace)
