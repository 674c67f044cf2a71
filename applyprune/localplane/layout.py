"""What lies where in a plane's folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one plane; all of them are the supervisor's, but the lock."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Return the file that is locked for as long as any process of the plane lives."""
        return self.folder / "lock"

    @property
    def supervisor_lock(self) -> Path:
        """Return the file that is locked for as long as the supervisor lives."""
        return self.folder / "supervisor.lock"

    @property
    def state(self) -> Path:
        """Return the file that says how far the plane is, and where its server listens."""
        return self.folder / "state.json"

    @property
    def kubeconfig(self) -> Path:
        """Return the user's kubeconfig: both admin credentials, a context each."""
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Return the folder of certificates and keys, written by ``controlplane pki``."""
        return self.folder / "pki"

    @property
    def tokens(self) -> Path:
        """Return the API server's static token file."""
        return self.folder / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        """Return the API server's audit policy."""
        return self.folder / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """Return the audit log, one JSON event a line; there only when the spec asks for it."""
        return self.folder / "audit.log"

    @property
    def stages(self) -> Path:
        """Return what kwok's nodes and pods do, step by step."""
        return self.folder / "kwok-stages.yaml"

    def certificate(self, name: str) -> Path:
        """Return the certificate of an identity, a PEM file."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the private key of an identity, a PEM file."""
        return self.pki / f"{name}.key"

    def component_kubeconfig(self, component: str) -> Path:
        """Return the kubeconfig that a component speaks to the API server with."""
        return self.folder / f"{component}.kubeconfig"

    def log(self, component: str) -> Path:
        """Return the file that a component's output goes to."""
        return self.folder / f"{component}.log"
