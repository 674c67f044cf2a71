"""The rules of TLS for watches and for the check of certificates, with the standard library."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import AccessError
from applyprune.http import UNUSABLE_PAIR, certificates_in

if TYPE_CHECKING:
    from applyprune.cluster.credentials import Identity
    from applyprune.http import Trust


def tls_context(trust: Trust, identity: Identity) -> ssl.SSLContext:
    """Return a context that follows ``trust`` and presents the identity's certificate.

    The system's authorities are loaded (20 ms) only when the kubeconfig has none. Raises
    AccessError for invalid certificates and keys.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As Go does: trust every certificate given as an authority, self-signed or not, and ignore the
    # common name of a server's certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    if trust.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.authorities:
        _trust(context, trust.authorities)
    else:
        context.load_default_certs()
    if identity.certificate:
        _show(context, identity)
    return context


def _trust(context: ssl.SSLContext, authorities: str) -> None:
    try:
        _trust_only(context, authorities)
    except ValueError:
        raise AccessError(
            "the certificate authority is not a PEM certificate",
            hint="Check certificate-authority(-data) of the cluster in the kubeconfig.",
        ) from None


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    try:
        _show_certificate(context, identity.certificate, identity.key)
    except ValueError:
        raise AccessError(
            "the client certificate and its key cannot be used",
            reason=UNUSABLE_PAIR,
            hint="Check client-certificate(-data) and client-key(-data) in the kubeconfig.",
        ) from None


def _trust_only(context: ssl.SSLContext, authorities: str) -> None:
    """Trust these certificates, in PEM; raise ValueError if there is none, or an invalid one."""
    # Only the PEM blocks: ssl refuses comments that are not ASCII.
    blocks = certificates_in(authorities)
    if not blocks:
        raise ValueError("no certificate")
    try:
        context.load_verify_locations(cadata="\n".join(blocks))
    except ssl.SSLError:
        raise ValueError("no PEM certificate") from None


def _show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show a client certificate, in PEM, to the server; raise ValueError if it cannot be used.

    ssl needs a file, so write a private one for a moment.
    """
    with tempfile.TemporaryDirectory(prefix="applyprune-") as folder:
        pair = Path(folder) / "client.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(pair, password=_no_password)
        except ssl.SSLError:
            raise ValueError("no usable certificate") from None


def _no_password() -> str:
    raise ValueError("the key has a password")
