"""Recognize a cluster by the UID of a Namespace: an address proves nothing.

A cluster that was wiped and created again under its address is another cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from applyprune.controller.bundle_client import status_of
from applyprune.controller.clusters.cluster_errors import (
    ClusterChanged,
    ClusterUnreached,
    NamespaceMissing,
)
from applyprune.controller.constants import FINALIZER
from applyprune.errors import AccessError, ApplypruneError, Forbidden, NotFound, Unauthorized
from applyprune.model.json_access import text
from applyprune.model.resources import NAMESPACES, namespace_ref
from applyprune.planning.annotations import ACCEPT_CLUSTER
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject

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
