"""Trust certificates, and show one: PEM from memory to an SSLContext."""

from __future__ import annotations

import re
import ssl
import tempfile
from pathlib import Path

from applyprune.patterns import pattern

_CERTIFICATE = pattern(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# TLS alerts with which a server refuses a client certificate, or wants one.
_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_REVOKED",
)


def trust_only(context: ssl.SSLContext, authorities: str) -> None:
    """Trust these certificates, in PEM; raise ValueError if there is none, or an invalid one."""
    # Only the PEM blocks: ssl refuses comments that are not ASCII.
    blocks = _CERTIFICATE.findall(authorities)
    if not blocks:
        raise ValueError("no certificate")
    try:
        context.load_verify_locations(cadata="\n".join(blocks))
    except ssl.SSLError:
        raise ValueError("no PEM certificate") from None


def show_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
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


def refuses_certificate(error: ssl.SSLError) -> bool:
    """Return whether a server refuses our certificate, or wants one."""
    return any(alert in (error.reason or "") for alert in _CERTIFICATE_ALERTS)
