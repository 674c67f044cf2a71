"""Turn a connection error into one exception, and decide whether a retry may help."""

from __future__ import annotations

import ssl

from urllib3.exceptions import HTTPError, ProxyError

from applyprune.cluster.transport.message import ClientContext, Request
from applyprune.cluster.transport.safe_message import safe_text
from applyprune.cluster.transport.status_errors import RequestFailure
from applyprune.errors import Unreachable
from applyprune.http import IN_TIME, RefusedAddress, causes, describe_error, refuses_certificate


def connection_failure(
    request: Request,
    error: HTTPError | OSError,
    *,
    sent: bool,
    seconds: float,
    client: ClientContext,
) -> RequestFailure:
    """Return the failure of a try without a response; ``sent``: the server may have seen it."""
    what, hint, passing = _explained(error, client)
    lasting = f"{request.method} {request.path} got no response"
    # What is left of a deadline is another number in each try.
    reason = f"{lasting} in {seconds:.3g} s" if what.endswith(IN_TIME) else lasting
    return RequestFailure(
        Unreachable(what, reason=reason, lasting_reason=lasting, hint=hint),
        passing=passing,
        refused_unseen=not sent,
    )


def _explained(error: HTTPError | OSError, client: ClientContext) -> tuple[str, str, bool]:
    """Return what happened, what to do, and whether a retry may help."""
    for cause in causes(error):
        if isinstance(cause, RefusedAddress):
            return f"the name of {client.server} means {cause}; nothing was sent", "", False
        if isinstance(cause, ProxyError):
            return _proxy(cause)
        if isinstance(cause, ssl.SSLError) and (found := _tls(cause, client)):
            return found
    what, unreachable = describe_error(error, server=client.server)
    return what, _reach(client) if unreachable else "", True


def _proxy(error: ProxyError) -> tuple[str, str, bool]:
    text = safe_text(str(error.original_error), 200)
    refused = "Tunnel connection failed: 4" in text
    return (
        f"the proxy failed: {text}",
        "Check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY.",
        not refused,
    )


def _tls(error: ssl.SSLError, client: ClientContext) -> tuple[str, str, bool] | None:
    """Explain a TLS error; None if it is only a broken connection."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        if client.secret:  # guard: quoted-name
            why = why.partition(", certificate is not valid for")[0]
        return (
            f"the certificate of {client.server} cannot be trusted: {why}",
            "Check server and certificate-authority-data in the kubeconfig: is the cluster new?",
            False,
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if refuses_certificate(error):
        who = f"user {client.user!r} of context {client.context!r}"
        return (
            f"{client.server} refused the client certificate ({reason.lower()})",
            f"The certificate of {who} may have expired: log in again.",
            False,
        )
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}:
        return f"{client.server} does not speak TLS", "Is the server's URL right?", False
    return f"TLS with {client.server} failed ({reason or error.strerror})", "", True


def _reach(client: ClientContext) -> str:
    context = f" (context {client.context!r})" if client.context else ""
    return (
        f"Check that the cluster is running and reachable{context}."
        " Without a cluster, `applyprune local up` starts one here."
    )
