"""From what went wrong on the wire to one error that says what it means and whether it may pass."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from urllib3.exceptions import HTTPError, ProxyError

from applyprune.cluster.server_text import shown
from applyprune.cluster.status import Asker, Verdict
from applyprune.errors import Unreachable
from applyprune.network.wire_faults import causes, described

if TYPE_CHECKING:
    from applyprune.cluster.request import Request

# TLS alerts by which a server turns our certificate away.
_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_REVOKED",
)


def judge_fault(
    request: Request, error: HTTPError | OSError, *, sent: bool, seconds: float, asker: Asker
) -> Verdict:
    """Return the meaning of a try that brought no reply; ``sent``: the server may have seen it."""
    what, hint, passing = _explained(error, seconds, asker)
    return Verdict(
        Unreachable(what, why=f"{request.method} {request.path} had no reply", hint=hint),
        passing=passing,
        refused_unseen=not sent,
    )


def _explained(error: HTTPError | OSError, seconds: float, asker: Asker) -> tuple[str, str, bool]:
    """Return what happened, what to do, and whether it may pass."""
    for cause in causes(error):
        if isinstance(cause, ProxyError):
            return _proxy(cause)
        if isinstance(cause, ssl.SSLError) and (found := _tls(cause, asker)):
            return found
    what, unreachable = described(error, server=asker.server, seconds=seconds)
    return what, _reach(asker) if unreachable else "", True


def _proxy(error: ProxyError) -> tuple[str, str, bool]:
    text = shown(str(error.original_error), 200)
    refused = "Tunnel connection failed: 4" in text
    return (
        f"the proxy between here and the server failed: {text}",
        "Check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY.",
        not refused,
    )


def _tls(error: ssl.SSLError, asker: Asker) -> tuple[str, str, bool] | None:
    """Return the meaning of a TLS error; None for one that is no more than a broken connection."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {asker.server} is not to be trusted: {error.verify_message}",
            "Check server and certificate-authority-data in the kubeconfig: is the cluster new?",
            False,
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if any(alert in reason for alert in _CERTIFICATE_ALERTS):
        who = f"user {asker.user!r} of context {asker.context!r}"
        return (
            f"{asker.server} refused the client certificate ({reason.lower()})",
            f"The certificate of {who} may have expired: log in again.",
            False,
        )
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}:
        return f"{asker.server} does not speak TLS", "Is the server's URL right?", False
    return f"TLS with {asker.server} failed ({reason or error.strerror})", "", True


def _reach(asker: Asker) -> str:
    context = f" (context {asker.context!r})" if asker.context else ""
    return (
        f"Check that the cluster runs and can be reached{context};"
        " without a cluster, `applyprune local up` starts one here."
    )
