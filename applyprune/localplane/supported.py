"""Where the embedded control plane runs."""

from __future__ import annotations

from applyprune.system.processes import require_posix


def require_supported_system() -> None:
    """Raise UsageError where it does not run: on Windows."""
    require_posix(
        "the embedded control plane does not run",
        reason="etcd and the API server are built for Linux and macOS only",
        hint="Set KUBECONFIG to a cluster of your own, or run applyprune in WSL.",
    )
