"""A client of a server at whose port nobody listens."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.cluster.access import ClusterAccess


@contextmanager
def client_of_no_server(folder: Path) -> Iterator[tuple[ClusterAccess, KubernetesClient]]:
    """Yield access to the server, and a client that gives up soon; ``folder`` is empty."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = folder / "kubeconfig"
    file.write_text(
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "users: [{name: u, user: {}}]\ncurrent-context: c\n"
    )
    access = cluster_access(kubeconfig=str(file), environ={})
    with closing(Transport(access, retry_budget=0.1)) as transport:
        yield access, KubernetesClient(transport, "test")
