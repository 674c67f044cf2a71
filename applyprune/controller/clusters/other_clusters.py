"""Connect to the cluster that has a Bundle's objects: this one, or that of its kubeconfig."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune.cluster.access import self_contained
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.bundle_client import status_of
from applyprune.controller.clusters.cluster_identity import (
    ClusterIdentity,
    home_uid,
    identify,
    left_cluster,
    missing_namespace,
    recorded_cluster,
)
from applyprune.controller.clusters.kubeconfig_secret import kubeconfig_ref
from applyprune.controller.constants import RETRY_BUDGET
from applyprune.controller.runtime.impersonation import ServiceAccountClient
from applyprune.engine.preflight import namespace_exists
from applyprune.http import AddressRules
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.task import Past
    from applyprune.model.live import LiveObject

_POOL = 8


class AwaitsTurn(Exception):
    """The reconcile goes on when the queue lets it use a worker for this cluster."""

    def __init__(self, cluster: str) -> None:
        """Keep the cluster's host and port."""
        super().__init__("it waits for its turn")
        self.cluster = cluster


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that has the objects of a Bundle."""

    client: ServiceAccountClient
    identity: ClusterIdentity | None = None
    """None for this cluster."""
    left: str = ""
    """The UID of the cluster that had them before, if somebody has accepted that it is left."""

    def needs_namespace(self, bundle: Bundle) -> None:
        """Raise NamespaceMissing if another cluster lacks the namespace of the inventory."""
        if self.identity is not None and not namespace_exists(self.client.cluster, bundle.target):
            raise missing_namespace(bundle.namespace)


@dataclass(slots=True)
class OtherClusters:
    """The clusters that kubeconfigs of Bundles lead to."""

    own: KubernetesClient
    addresses: AddressRules
    trace: Callable[[str], None] | None = None
    agent: str = ""
    _home: str = field(default="", init=False)

    def owning(self, bundle: Bundle) -> Bundle:
        """Return a Bundle as the owner of its inventory: it names this cluster in another one.

        There may be a Bundle of the same name there.
        """
        # guard: owner-of-another-cluster
        return bundle if bundle.spec.kube_config is None else replace(bundle, home=self._own_uid())

    @contextmanager
    def target(
        self,
        live: LiveObject,
        bundle: Bundle,
        account_client: ServiceAccountClient,
        kubeconfig: bytes,
        past: Past,
    ) -> Iterator[Target]:
        """Yield the cluster that has the objects of a Bundle, and close the connections to it.

        Nothing is sent to another cluster before it is this Bundle's turn. Raises AwaitsTurn,
        InvalidKubeConfig, ClusterUnreached, ClusterChanged and AccessError.
        """
        known = recorded_cluster(status_of(live))
        ref = kubeconfig_ref(bundle)
        if ref is None:
            left = left_cluster(live, home := self._own_uid(), home) if known is not None else ""
            yield Target(account_client, left=left)
            return
        access = self_contained(kubeconfig, ref.short, self.addresses)
        place = urlsplit(access.server).netloc
        if past.cluster != place:  # guard: turn-of-a-cluster
            raise AwaitsTurn(place)
        with closing(self._connect(access)) as transport:
            # No cache of discovery: whoever has written the kubeconfig could write into it.
            client = ServiceAccountClient(KubernetesClient(transport, access.shown))
            identity = identify(client.cluster, bundle.namespace, known)
            left = left_cluster(live, identity.uid, self._own_uid())
            yield Target(client, identity, left)

    def _own_uid(self) -> str:
        if not self._home:
            self._home = home_uid(self.own)
        return self._home

    def _connect(self, access: ClusterAccess) -> Transport:
        return Transport(
            access, pool_size=_POOL, retry_budget=RETRY_BUDGET, trace=self.trace, agent=self.agent
        )
