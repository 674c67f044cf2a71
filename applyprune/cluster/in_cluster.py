"""Access from inside a pod: two environment variables and a mounted service account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.cluster.access import ClusterAccess, TLSTrust
from applyprune.cluster.credentials import CredentialFiles, RenewableCredentials, read_file
from applyprune.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def pod_access(
    environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> ClusterAccess | None:
    """Return the access of the pod that we run in; None outside a pod, or without a token.

    The token is read again when the kubelet rotates it. Raises AccessError.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    token = service_account / "token"
    if not host or not port or not token.exists():
        return None
    if ":" in host:
        host = f"[{host}]"
    return ClusterAccess(
        server=f"https://{host}:{port}",
        namespace=environ.get("POD_NAMESPACE") or _namespace(service_account),
        context="in-cluster",
        user="the pod's service account",
        credentials=RenewableCredentials(CredentialFiles(token=token).issue),
        trust=TLSTrust(read_file(service_account / "ca.crt").decode("ascii", "replace")),
    )


def _namespace(service_account: Path) -> str:
    try:
        return read_file(service_account / "namespace").decode("ascii").strip() or "default"
    except (AccessError, UnicodeDecodeError):
        return "default"
