"""A second cluster, and a controller that may connect to this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.api import Api
from tests.support.controller import Controller, controller
from tests.support.other_cluster import OtherCluster
from tests.support.second_server import SecondServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Binaries, Plane

HERE = ("--allow-network", "127.0.0.0/8")
"""All API servers of tests are on this machine."""
OTHER = "--etcd-prefix=/other"


@pytest.fixture(scope="module")
def running(site: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller that may connect to this machine."""
    log = tmp_path_factory.mktemp("controller") / "log"
    with controller(site.kubeconfig, log, "lease=4", *HERE) as one:
        yield one


@pytest.fixture(scope="module")
def other(site: Plane, binaries: Binaries) -> Iterator[OtherCluster]:
    """A second cluster for a module: its namespaces are those of the tenants."""
    with SecondServer(site, binaries, OTHER) as second:
        api = Api(second.plane)
        cluster = OtherCluster(second, api)
        cluster.uid()
        yield cluster
        api.close()


@pytest.fixture
def lost(other: OtherCluster) -> Iterator[OtherCluster]:
    """The same cluster, for a test that stops it, or puts another one in its place."""
    yield other
    other.second.replace(OTHER)
