"""A plane, as its clients see it: the components to start, and the address and credentials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.layout import Layout
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.localplane.state import State


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """The components beside etcd and the API server; a plane with fewer components starts faster.

    Pods need the controller manager, the scheduler and kwok to run.
    """

    controller_manager: bool = True
    """Without it, namespaces are never removed and nothing is garbage-collected."""
    scheduler: bool = True
    kwok: bool = True
    nodes: int = 1
    """The number of nodes that kwok simulates."""
    audit: bool = False
    """Whether the API server writes an audit log."""


FULL = PlaneSpec(audit=True)
API_SERVER_ONLY = PlaneSpec(controller_manager=False, scheduler=False, kwok=False, nodes=0)


@dataclass(frozen=True, slots=True)
class Plane:
    """The address of a plane's API server, and the admin credentials for it."""

    name: str
    folder: Path
    server: str
    """The URL of the API server."""
    ca_file: Path
    token: str = field(repr=False)
    """The bearer token of an admin."""
    client_cert_file: Path
    """The client certificate of an admin."""
    client_key_file: Path
    kubeconfig: Path
    """A kubeconfig with the contexts NAME (token) and NAME-cert (client certificate)."""
    kubectl: Path
    """kubectl of the server's version."""
    audit_log: Path | None
    """The audit log; None if the plane was started without it."""
    supervisor_pid: int


def plane_in(folder: Path, state: State) -> Plane:
    """Return the ready plane of a folder."""
    layout = Layout(folder)
    return Plane(
        name=state.name,
        folder=folder,
        server=state.server,
        ca_file=layout.certificate("ca"),
        token=layout.tokens.read_text().partition(",")[0],
        client_cert_file=layout.certificate("admin"),
        client_key_file=layout.key("admin"),
        kubeconfig=layout.kubeconfig,
        kubectl=Path(state.kubectl),
        audit_log=layout.audit_log if state.audit else None,
        supervisor_pid=state.pid,
    )
