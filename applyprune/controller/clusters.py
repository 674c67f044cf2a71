"""The cluster that has a Bundle's objects: this one, or that of its kubeconfig."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from applyprune.cluster.access import self_contained
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.controller.clients import ServiceAccountClient, status_of
from applyprune.controller.reasons import FINALIZER, RETRY_BUDGET
from applyprune.engine.check import namespace_exists
from applyprune.errors import (
    AccessError,
    ApplypruneError,
    Forbidden,
    InvalidKubeConfig,
    NotFound,
    Unauthorized,
)
from applyprune.http import AddressRules
from applyprune.model.identity import Ref
from applyprune.model.live import NAMESPACES, SECRETS, namespace_ref, text
from applyprune.model.problem import ProblemKind
from applyprune.planning.marks import ACCEPT_CLUSTER
from applyprune.values import dataclass, field, pattern, replace

if TYPE_CHECKING:
    from applyprune.cluster.access import ClusterAccess
    from applyprune.controller.spec import Bundle
    from applyprune.controller.task import Past
    from applyprune.engine.ports import Cluster
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


# Read the kubeconfig of a Bundle from its Secret, as the Bundle's ServiceAccount.


_KEYS = ("value", "value.yaml")
"""The keys that are tried if the spec names none, as in Flux."""


def kubeconfig_ref(bundle: Bundle) -> Ref | None:
    """Return the Secret with a Bundle's kubeconfig; None if it is applied in this cluster."""
    if bundle.spec.kube_config is None:
        return None
    name = bundle.spec.kube_config.secret_ref.name
    return Ref(SECRETS.group, SECRETS.kind, bundle.namespace, name)


def read_kubeconfig(bundle: Bundle, cluster: Cluster, uses: dict[Ref, str]) -> bytes:
    """Return the kubeconfig of a Bundle; empty if it is applied in this cluster.

    The Secret's resourceVersion goes into ``uses``; it is empty if the Secret does not exist.
    Raises KubeConfigMissing, InvalidKubeConfig and AccessError.
    """
    ref = kubeconfig_ref(bundle)
    if ref is None or bundle.spec.kube_config is None:
        return b""
    try:
        live = cluster.get(SECRETS, ref, full=True)
    except NotFound:
        uses[ref] = ""
        raise KubeConfigMissing(
            "the kubeconfig is missing", reason=f"{ref.short} does not exist"
        ) from None
    uses[ref] = live.resource_version
    key = bundle.spec.kube_config.secret_ref.key
    keys = (key,) if key else _KEYS
    values = (live.body or {}).get("data") or {}
    value = next((values[one] for one in keys if one in values), None)
    if value is None:
        told = " nor ".join(map(repr, keys))
        raise KubeConfigMissing(
            "the kubeconfig is missing", reason=f"{ref.short} has no key {told}"
        )
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidKubeConfig(f"the kubeconfig of {ref.short} is not base64") from None


# Recognize a cluster by the UID of a Namespace: an address proves nothing.
#
# A cluster that was wiped and created again under its address is another cluster.


SYSTEM = "kube-system"
_UID = pattern(r"[0-9A-Za-z][-0-9A-Za-z]{0,62}")


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Which cluster it is."""

    uid: str
    namespace: str
    """The Namespace whose UID it is: kube-system, or the inventory's if that may not be read."""

    @property
    def status(self) -> dict[str, str]:
        """Return it as ``status.cluster``."""
        return {"uid": self.uid, "namespace": self.namespace}


def recorded_cluster(status: Mapping[str, Any]) -> ClusterIdentity | None:
    """Return the other cluster that has a Bundle's objects; None if none is recorded."""
    uid = text(status, "cluster", "uid")
    return ClusterIdentity(uid, text(status, "cluster", "namespace")) if uid else None


def identify(cluster: Cluster, namespace: str, known: ClusterIdentity | None) -> ClusterIdentity:
    """Return which cluster it is that answers; ``namespace`` is that of the inventory.

    The Namespace of a ``known`` cluster is asked first: another one has another UID. Raises
    NamespaceMissing, ClusterUnreached, and Forbidden if the account may read none of the two.
    """
    first = known.namespace if known is not None else SYSTEM
    failure: ApplypruneError = ClusterUnreached("the other cluster cannot be recognized")
    for name in sorted({SYSTEM, namespace}, key=lambda one: (one != first, one != SYSTEM)):
        try:
            live = cluster.get(NAMESPACES, namespace_ref(name))
        except Forbidden as error:
            failure = error
        except NotFound:
            failure = missing_namespace(name)
        except Unauthorized:
            message = "the other cluster refuses the credentials of the kubeconfig"
            raise ClusterUnreached(message) from None
        except AccessError as error:
            raise ClusterUnreached(error.message) from None
        else:
            if _UID.fullmatch(live.uid):
                return ClusterIdentity(live.uid, name)
            raise ClusterUnreached("the other cluster has an invalid UID")
    raise failure


def missing_namespace(name: str) -> NamespaceMissing:
    """Return the error for a namespace that the other cluster lacks."""
    return NamespaceMissing(
        f"the namespace {name} does not exist in the other cluster",
        reason="the inventory of the set belongs there: create it",
    )


def home_uid(cluster: Cluster) -> str:
    """Return the UID of the cluster that the controller runs for."""
    return cluster.get(NAMESPACES, namespace_ref(SYSTEM)).uid


def left_cluster(live: LiveObject, now: str, home: str) -> str:
    """Return the UID of the cluster that a Bundle leaves for ``now``; empty if it stays.

    Raises ClusterChanged unless somebody has accepted ``now``. ``home`` is the controller's own
    cluster: a Bundle with its finalizer may have objects there if it names no other cluster.
    """
    recorded = recorded_cluster(status_of(live))
    before = home if FINALIZER in live.finalizers else ""
    before = recorded.uid if recorded is not None else before
    if before in {"", now}:
        return ""
    if live.annotations.get(ACCEPT_CLUSTER) != now:  # guard: other-cluster
        place = f"{live.ref.name} -n {live.ref.namespace}"
        raise ClusterChanged(
            f"another cluster answers ({now}) than has its objects ({before}): nothing is applied "
            "or deleted",
            reason="to leave those there and go on here: kubectl annotate bundle "
            f"{place} --overwrite {ACCEPT_CLUSTER}={now}",
        )
    return before


# Errors about the other cluster of a Bundle.


class ClusterUnreached(ApplypruneError):
    """The other cluster of a Bundle does not answer, or refuses the credentials."""

    kind = ProblemKind.UNREACHABLE


class ClusterChanged(ApplypruneError):
    """A Bundle leads to another cluster than the one that has its objects."""

    kind = ProblemKind.INVALID_SPEC


class NamespaceMissing(ApplypruneError):
    """The other cluster of a Bundle lacks the namespace of the inventory."""

    kind = ProblemKind.SOURCE_MISSING


class KubeConfigMissing(ApplypruneError):
    """The Secret with the kubeconfig does not exist, or lacks its key."""

    kind = ProblemKind.SOURCE_MISSING
