"""A running plane, as its clients see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.layout import Layout

if TYPE_CHECKING:
    from applyprune.localplane.state import State


@dataclass(frozen=True, slots=True)
class Plane:
    """Where the API server is and what to prove oneself with; token and certificate are admins.

    ``kubeconfig`` has the contexts NAME (token) and NAME-cert (client certificate). ``audit_log``
    is None when the plane was started without one. ``kubectl`` is of the server's version.
    """

    name: str
    folder: Path
    server: str
    ca_file: Path
    token: str = field(repr=False)
    client_cert_file: Path
    client_key_file: Path
    kubeconfig: Path
    kubectl: Path
    audit_log: Path | None
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
