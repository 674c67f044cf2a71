"""The stage of the run's stories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from applyprune.localplane import Binaries, Plane, start
from tests.support.api import Api, temporary_namespace
from tests.support.fault_proxy import FaultProxy
from tests.support.plane import NO_NODES
from tests.support.stage import Stage


@pytest.fixture
def stage(plane: Plane, namespace: str) -> Stage:
    """A set in a namespace of the test's own, straight to the API server."""
    return Stage(plane.kubeconfig, namespace)


@pytest.fixture
def home(stage: Stage, api: Api) -> Iterator[str]:
    """The name of a Namespace that the set is to make, and that is gone after the test."""
    name = f"{stage.namespace}-home"
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def proxy(plane: Plane) -> Iterator[FaultProxy]:
    """A proxy in front of the run's plane."""
    with FaultProxy(plane) as running:
        yield running


@pytest.fixture
def spoiled(proxy: FaultProxy, namespace: str, tmp_path: Path) -> Stage:
    """A set whose requests go through the proxy."""
    return Stage(proxy.kubeconfig(tmp_path), namespace)


@pytest.fixture(scope="package")
def running(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A second plane for the tests with CRDs, each of which has kinds and sets of its own."""
    with start(binaries, NO_NODES, tmp_path_factory.mktemp("planes") / "kinds") as plane:
        yield plane


@pytest.fixture
def crds(running: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    api = Api(running)
    yield api
    api.close()


@pytest.fixture
def crd_stage(running: Plane, crds: Api) -> Iterator[Stage]:
    """A set on it, in a namespace of the test's own."""
    with temporary_namespace(crds) as name:
        yield Stage(running.kubeconfig, name)
