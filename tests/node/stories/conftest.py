"""The cluster of `make node`, as the plane of these stories."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from applyprune.localplane import Plane
from applyprune.localplane.plane import Layout
from tests.node.cluster import FOLDER_VARIABLE, SERVER


@pytest.fixture(scope="session")
def plane() -> Plane:
    """The control plane of the nodes; a story cleans up what it has made outside its namespace."""
    folder = os.environ.get(FOLDER_VARIABLE)
    kubectl = shutil.which("kubectl")
    assert folder, "these stories need real nodes: make node"
    assert kubectl is not None
    layout = Layout(Path(folder))
    return Plane(
        name="node",
        folder=layout.folder,
        server=SERVER,
        ca_file=layout.certificate("ca"),
        token=layout.tokens.read_text().partition(",")[0],
        client_cert_file=layout.certificate("admin"),
        client_key_file=layout.key("admin"),
        kubeconfig=layout.kubeconfig,
        kubectl=Path(kubectl),
        audit_log=None,
        supervisor_pid=os.getpid(),
    )
