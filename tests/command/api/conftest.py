"""A connection and a set on the run's plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune import ApplySet, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune import ClusterConnection
    from applyprune.localplane import Plane


@pytest.fixture
def cluster(plane: Plane, namespace: str) -> Iterator[ClusterConnection]:
    """A connection to the run's plane, in a namespace of the test's own."""
    with connect(kubeconfig=plane.kubeconfig, namespace=namespace, cache=False) as connection:
        yield connection


@pytest.fixture
def web(cluster: ClusterConnection) -> ApplySet:
    """The set ``web``, which does not exist yet."""
    return ApplySet("web", cluster=cluster)
