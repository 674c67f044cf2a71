"""A pytest fixture that applies manifests for each test, and deletes them afterwards.

It uses the cluster of KUBECONFIG; without one, it starts the embedded control plane.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from applyprune import ApplySet, ClusterConnection, PruneAlso, PruneOptions, Status, connect, load

WEB = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "web"},
    "data": {"greeting": "hello"},
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[ClusterConnection]:
    """The cluster of all tests."""
    kubeconfig, started = os.environ.get("KUBECONFIG", ""), False
    if not kubeconfig:
        up = ["applyprune", "local", "up", "pytest"]
        line = subprocess.run(up, check=True, stdout=subprocess.PIPE, text=True).stdout
        kubeconfig, started = line.strip().partition("=")[2], True
    with connect(kubeconfig=kubeconfig, namespace="default") as connection:
        yield connection
    if started:
        subprocess.run(["applyprune", "local", "down", "pytest"], check=True)


@pytest.fixture
def web(cluster: ClusterConnection) -> Iterator[ApplySet]:
    """A set of the test's own, ready to be used."""
    applyset = ApplySet(f"web-{uuid4().hex[:8]}", cluster=cluster)
    report = applyset.apply(load(objects=[WEB]), wait=True, timeout=60)
    report.raise_for_failures()
    yield applyset
    applyset.delete(prune=PruneOptions(also=frozenset({PruneAlso.ADOPTED}))).raise_for_failures()


def test_web_is_ready(web: ApplySet) -> None:
    """The fixture has waited for it."""
    assert [one.readiness.status for one in web.status()] == [Status.CURRENT]


def test_web_has_not_drifted(web: ApplySet) -> None:
    """A second apply would change nothing."""
    assert web.diff(load(objects=[WEB])) == []
