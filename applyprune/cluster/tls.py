"""The TLS context for one API server: its own authorities only, checked as Go checks them."""

from __future__ import annotations

import re
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import AccessError

if TYPE_CHECKING:
    from applyprune.cluster.access import TLSTrust
    from applyprune.cluster.credentials import Identity

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def tls_context(trust: TLSTrust, identity: Identity) -> ssl.SSLContext:
    """Return a context that trusts what ``trust`` says and shows the identity's certificate.

    The system's authorities are loaded (20 ms) only when the kubeconfig names none. Raises
    AccessError for certificates and keys that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As Go: any certificate that is named as an authority is trusted, be it self-signed or not,
    # and the common name of a server's certificate says nothing.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    if trust.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.authorities:
        _trust_only(context, trust.authorities)
    else:
        context.load_default_certs()
    if identity.certificate:
        _show(context, identity)
    return context


def _trust_only(context: ssl.SSLContext, authorities: str) -> None:
    # Only the PEM blocks: comments around them may hold what ssl does not take as ASCII.
    blocks = _CERTIFICATE.findall(authorities)
    try:
        context.load_verify_locations(cadata="\n".join(blocks) if blocks else "none")
    except (ssl.SSLError, ValueError):
        raise AccessError(
            "the certificate authority is not a PEM certificate",
            hint="Check certificate-authority(-data) of the cluster in the kubeconfig.",
        ) from None


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    """Load certificate and key, which ssl takes from files only: a private one, gone at once."""
    with tempfile.TemporaryDirectory(prefix="applyprune-") as folder:
        pair = Path(folder) / "client.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(identity.certificate + b"\n" + identity.key)
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(pair, password=_no_password)
        except (ssl.SSLError, ValueError):
            raise AccessError(
                "the client certificate and its key cannot be used",
                why="they are not PEM, do not belong together, or the key has a password",
                hint="Check client-certificate(-data) and client-key(-data) in the kubeconfig.",
            ) from None


def _no_password() -> str:
    raise ValueError("the key has a password")
