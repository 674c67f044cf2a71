"""The paths of the files in a plane's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one plane; the supervisor owns all of them except the lock."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Return the file that is locked as long as any process of the plane lives."""
        return self.folder / "lock"

    @property
    def supervisor_lock(self) -> Path:
        """Return the file that is locked as long as the supervisor lives."""
        return self.folder / "supervisor.lock"

    @property
    def state(self) -> Path:
        """Return the file with the phase of the plane and the address of its server."""
        return self.folder / "state.json"

    @property
    def kubeconfig(self) -> Path:
        """Return the user's kubeconfig, with a context for each of the two admin credentials."""
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
        """Return the audit log, one JSON event per line; it exists only if the spec enables it."""
        return self.folder / "audit.log"

    @property
    def stages(self) -> Path:
        """Return the configuration of kwok's stages for nodes and pods."""
        return self.folder / "kwok-stages.yaml"

    def certificate(self, name: str) -> Path:
        """Return the PEM file with the certificate of an identity."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the PEM file with the private key of an identity."""
        return self.pki / f"{name}.key"

    def component_kubeconfig(self, component: str) -> Path:
        """Return the kubeconfig that a component uses for the API server."""
        return self.folder / f"{component}.kubeconfig"

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self.folder / f"{component}.log"
