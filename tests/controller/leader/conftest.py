"""A proxy between a replica and the API server."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from tests.support.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane


@pytest.fixture
def proxy(site: Plane) -> Iterator[FaultProxy]:
    """A proxy in front of the site's API server."""
    with FaultProxy(site) as running:
        yield running


@pytest.fixture
def through(proxy: FaultProxy, tmp_path: Path) -> Iterator[KubernetesClient]:
    """A client whose requests pass the proxy."""
    access = cluster_access(kubeconfig=str(proxy.kubeconfig(tmp_path)), environ={})
    with closing(Transport(access)) as transport:
        yield KubernetesClient(transport, access.server)
