"""A transport through the fault proxy to the real API server, and requests to send over it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.transport import Transport
from tests.support.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.plane import OpenTransport


@pytest.fixture
def proxy(plane: Plane) -> Iterator[FaultProxy]:
    """The fault proxy in front of the run's plane, with no fault set."""
    with FaultProxy(plane) as running:
        yield running


@pytest.fixture
def open_transport(proxy: FaultProxy, tmp_path: Path) -> Iterator[OpenTransport]:
    """A factory of transports."""
    with ExitStack() as transports:

        def open_one(kubeconfig: Path | None = None, **settings: Any) -> Transport:
            path = kubeconfig or proxy.kubeconfig(tmp_path)
            access = cluster_access(kubeconfig=str(path), environ={})
            transport = Transport(access, **{"retry_budget": 5.0, **settings})
            transports.callback(transport.close)
            return transport

        yield open_one
