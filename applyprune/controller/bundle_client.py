"""Read Bundles, and write their status and finalizer, as the controller itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from applyprune.cluster.client import KubernetesClient
from applyprune.controller.constants import FINALIZER, Key
from applyprune.errors import Conflict, Interrupted, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.resources import BUNDLES
from applyprune.planning.replies import refuse_false_absence
from applyprune.values import dataclass

_TRIES = 5


def bundle_ref(key: Key) -> Ref:
    """Return the ref of a Bundle."""
    return Ref(BUNDLES.group, BUNDLES.kind, *key)


def status_of(live: LiveObject) -> Mapping[str, Any]:
    """Return a Bundle's status as it is stored."""
    return (live.body or {}).get("status") or {}


@dataclass(frozen=True, slots=True)
class BundleObjects:
    """Bundles, read in full and by consistent reads, and written by compare-and-swap.

    The response to a write is the Bundle as stored, so no write is followed by a read.
    """

    client: KubernetesClient

    def get(self, key: Key) -> LiveObject | None:
        """Return a Bundle; None when it does not exist."""
        try:
            return self.client.get(BUNDLES, bundle_ref(key), full=True)
        except NotFound:
            return None

    def write_status(self, live: LiveObject, status: Mapping[str, Any]) -> LiveObject | None:
        """Store a Bundle's status and return the Bundle as stored; None when it is gone.

        Nothing is sent when the status has not changed. After a conflict it is sent again on top of
        the other change. Raises Interrupted when that was a change of the status: then another
        replica has reconciled the Bundle meanwhile, and knows more.
        """
        current: LiveObject | None = live
        for _ in range(_TRIES):
            if current is None or current.uid != live.uid:
                return None
            if status_of(current) == status:
                return current
            if status_of(current) != status_of(live):  # guard: status-overtaken
                raise Interrupted(0)
            body = {**(current.body or {}), "status": status}
            try:
                return self.client.replace(BUNDLES, live.ref, body, subresource="status")
            except Conflict:
                current = self.get((live.ref.namespace, live.ref.name))
            except NotFound as error:
                self._refuse_false_absence(live, error)
                return None
        raise Conflict(f"{live.ref} changes faster than its status can be written", code=409)

    def add_finalizer(self, live: LiveObject) -> LiveObject:
        """Add the finalizer to a Bundle, if it is missing; return the Bundle as stored.

        Raises Conflict when the Bundle has changed since it was read, NotFound when it is gone.
        """
        if FINALIZER in live.finalizers:
            return live
        try:
            return self._set_finalizers(live, [*live.finalizers, FINALIZER])
        except NotFound as error:
            self._refuse_false_absence(live, error)
            raise

    def remove_finalizer(self, live: LiveObject) -> None:
        """Remove the finalizer: everything that the Bundle has applied is taken care of."""
        for _ in range(_TRIES):
            current = self.get((live.ref.namespace, live.ref.name))
            if current is None or current.uid != live.uid or FINALIZER not in current.finalizers:
                return
            others = [finalizer for finalizer in current.finalizers if finalizer != FINALIZER]
            try:
                self._set_finalizers(current, others)
            except Conflict:
                continue
            except NotFound as error:
                self._refuse_false_absence(live, error)
            return
        raise Conflict(f"{live.ref} changes faster than its finalizer can be removed", code=409)

    def _refuse_false_absence(self, live: LiveObject, error: NotFound) -> None:
        """Read a Bundle after a 404 to a write; raise RunFailed if it exists."""
        state = self.client.read(BUNDLES, live.ref)
        refuse_false_absence(live.uid, state, error)  # guard: bundle-absence

    def _set_finalizers(self, live: LiveObject, finalizers: list[str]) -> LiveObject:
        metadata = {"finalizers": finalizers, "resourceVersion": live.resource_version}
        return self.client.merge_patch(BUNDLES, live.ref, {"metadata": metadata})
