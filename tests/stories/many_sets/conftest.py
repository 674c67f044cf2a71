"""Folders of sets, straight to a server or through the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from applyprune.localplane import Plane
from tests.support.api import Api, temporary_namespace
from tests.support.fault_proxy import FaultProxy
from tests.support.set_folders import SetFolders


@pytest.fixture
def sets(plane: Plane, namespace: str, tmp_path: Path) -> SetFolders:
    """No set yet, on the run's plane."""
    return SetFolders(tmp_path / "sets", plane.kubeconfig, namespace)


@pytest.fixture
def proxied(sets: SetFolders, proxy: FaultProxy, tmp_path: Path) -> SetFolders:
    """The same folder; the requests go through the proxy."""
    return SetFolders(sets.folder, proxy.kubeconfig(tmp_path), sets.namespace)


@pytest.fixture
def fresh_name(api: Api, namespace: str) -> Iterator[str]:
    """The name of a Namespace that a set is to make, and that is gone after the test."""
    name = f"{namespace}-made"
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def crd_sets(running: Plane, crds: Api, tmp_path: Path) -> Iterator[SetFolders]:
    """No set yet, on the plane of the tests with CRDs."""
    with temporary_namespace(crds) as name:
        yield SetFolders(tmp_path / "sets", running.kubeconfig, name)
