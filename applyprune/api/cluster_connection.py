"""Connect to a cluster: the access, the transport and the client in one value."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from applyprune.cluster.access import ClusterAccess
from applyprune.cluster.access import connect as choose_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.discovery import cache_folder
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.transport import Transport
from applyprune.errors import UsageError
from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    from applyprune.model.events import RetryReported


def connect(
    context: str = "",
    *,
    kubeconfig: str | os.PathLike[str] = "",
    namespace: str = "",
    access: ClusterAccess | None = None,
    retry_budget: float = 30.0,
    cache: bool = True,
    trace: Callable[[str], None] | None = None,
) -> ClusterConnection:
    """Return a connection to a cluster, chosen by the rules of kubectl.

    Without arguments it is the current context of ``KUBECONFIG`` or ``~/.kube/config``, or in a Pod
    the Pod's service account. ``namespace`` replaces the context's. ``access`` replaces all of
    these rules. A failed request is retried for ``retry_budget`` seconds. With ``cache``, the list
    of served kinds is kept in the user's cache folder. ``trace`` gets one line for each request.

    Nothing is sent yet. Raises AccessError, and UsageError for a combination that makes no sense.
    """
    if access is None:
        access = choose_access(
            kubeconfig=os.fspath(kubeconfig), context=context, environ=os.environ
        )
    elif context or kubeconfig:
        raise UsageError("connect() takes either an access, or a context and a kubeconfig")
    transport = Transport(access, retry_budget=retry_budget, trace=trace)
    return ClusterConnection(access, transport, namespace=namespace, cache=cache)


class ClusterConnection:
    """A connection to one cluster. It can be shared by threads, and is a context manager."""

    def __init__(
        self, access: ClusterAccess, transport: Transport, *, namespace: str, cache: bool
    ) -> None:
        """Keep the parts; ``connect`` makes them."""
        self.namespace = namespace or access.namespace
        """The namespace of sets and manifests that name none."""
        self.context = access.context
        """The name of the context; ``in-cluster`` in a Pod."""
        self.server = access.server
        """The URL of the API server."""
        self._transport = transport
        self.client = KubernetesClient(
            transport,
            access.server,
            context=access.context,
            cache=cache_folder() if cache else None,
        )
        """The client that all requests go through."""

    def __repr__(self) -> str:
        """Return the context and the server."""
        return f"<ClusterConnection {self.context} {self.server}>"

    def __enter__(self) -> Self:
        """Return the connection itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def new_run(self, applyset: ApplySetIdentity) -> tuple[KubernetesClient, ConfigMapStore]:
        """Return a client and a store for one run, whose ID is in each of their requests."""
        client = self.client.for_run()
        return client, ConfigMapStore(client, applyset)

    def unanswered(self) -> Sequence[RetryReported]:
        """Return which webhooks or server do not answer now, though they are asked repeatedly."""
        return self._transport.unanswered()

    def close(self) -> None:
        """Close all connections to the server."""
        self._transport.close()
