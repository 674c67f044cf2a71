"""The Lease of this replica: it says to the others that this one lives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from applyprune.cluster.client import KubernetesClient
from applyprune.controller.replicas.rendezvous import Replica
from applyprune.controller.replicas.sightings import WATCHES_NAMESPACES
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.errors import AlreadyExists, ApplypruneError, Conflict, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.resources import LEASES
from applyprune.planning.requests import delete_request
from applyprune.values import dataclass

IDENTITY = "applyprune.dev/identity"
"""The label of the Leases of replicas."""
CONTROLLER = "controller"
"""Its value; as kube-apiserver labels the Leases that are the identities of its own replicas."""
_TRIES = 3


def list_leases(client: KubernetesClient, namespace: str, timeout: float) -> Sequence[LiveObject]:
    """Return the Leases of all replicas, of which only the metadata is read."""
    selector = f"{IDENTITY}={CONTROLLER}"
    return client.list(LEASES, namespace=namespace, selector=selector, timeout=timeout)


@dataclass(slots=True)
class OwnLease:
    """The Lease of one replica; ``duration`` is in seconds."""

    client: KubernetesClient
    replica: Replica
    namespace: str
    duration: float
    _acquired: str = ""
    _stored: LiveObject | None = None

    @property
    def _ref(self) -> Ref:
        return Ref(LEASES.group, LEASES.kind, self.namespace, self.replica.name)

    def renew(self, timeout: float) -> None:
        """Write the Lease as it should be, whatever others have made of it.

        Raises ApplypruneError when it cannot be written within ``timeout`` seconds for each try.
        """
        for _ in range(_TRIES - 1):
            try:
                self._stored = self._write(timeout)
            except (AlreadyExists, Conflict, NotFound):
                self._stored = self._read()
            else:
                return
        self._stored = self._write(timeout)

    def release(self, timeout: float) -> None:
        """Delete the Lease, so that the others need not wait."""
        for _ in range(_TRIES):
            if self._stored is None:
                return
            try:
                self.client.delete(delete_request(LEASES, self._stored), timeout=timeout)
            except Conflict:
                self._stored = self._read()
            except ApplypruneError as error:
                LOG.warning("the Lease cannot be deleted", extra=fields(error=error.message))
                return
            else:
                return

    def _write(self, timeout: float) -> LiveObject:
        if self._stored is None:
            self._acquired = ""
            return self.client.create(LEASES, self._ref, self._body({}), timeout=timeout)
        was = {"uid": self._stored.uid, "resourceVersion": self._stored.resource_version}
        return self.client.replace(LEASES, self._ref, self._body(was), timeout=timeout)

    def _read(self) -> LiveObject | None:
        """Return the Lease, also without its label; by a list, which is a right that it has."""
        found, _ = self.client.list_at(LEASES, namespace=self.namespace, name=self._ref.name)
        return found[0] if found else None

    def _body(self, was: dict[str, str]) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._acquired = self._acquired or now
        namespaces = ",".join(self.replica.namespaces)
        return {
            "apiVersion": LEASES.gvk.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._ref.name,
                "namespace": self._ref.namespace,
                "labels": {IDENTITY: CONTROLLER},
                **({"annotations": {WATCHES_NAMESPACES: namespaces}} if namespaces else {}),
                **was,
            },
            # People read the times; no replica does.
            "spec": {
                "holderIdentity": self.replica.name,
                # The server accepts whole seconds only, and at least one.
                "leaseDurationSeconds": max(1, round(self.duration)),
                "acquireTime": self._acquired,
                "renewTime": now,
            },
        }
