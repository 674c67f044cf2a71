"""From what went wrong on the wire to one error that says what it means and whether it may pass."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING

from urllib3.exceptions import (
    ConnectTimeoutError,
    EmptyPoolError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
)

from applyprune.cluster.server_text import shown
from applyprune.cluster.status import Asker, Verdict
from applyprune.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

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
# What may pass, the first that fits an error or what it was raised from; with it what to say and
# whether the server seems to be out of reach.
_PASSING: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, bool], ...] = (
    (NameResolutionError, "the name of {server} cannot be resolved", True),
    (ConnectTimeoutError, "{server} cannot be reached: no connection in time", True),
    (ConnectionRefusedError, "nothing listens at {server}", True),
    (EmptyPoolError, "no connection to {server} became free within {seconds} s", False),
    ((ReadTimeoutError, TimeoutError), "{server} gave no complete reply in {seconds} s", False),
    (http.client.IncompleteRead, "the reply of {server} was cut off", False),
    (http.client.RemoteDisconnected, "{server} closed the connection without a reply", False),
    (http.client.HTTPException, "what answers at {server} does not speak HTTP", True),
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
    # A refused connection is a NewConnectionError too, and that is a kind of ConnectTimeoutError.
    causes = [cause for cause in _causes(error) if type(cause) is not NewConnectionError]
    for cause in causes:
        if isinstance(cause, ProxyError):
            return _proxy(cause)
        if isinstance(cause, ssl.SSLError) and (found := _tls(cause, asker)):
            return found
    for kinds, what, unreachable in _PASSING:
        if any(isinstance(cause, kinds) for cause in causes):
            told = what.format(server=asker.server, seconds=f"{seconds:.3g}")
            return told, _reach(asker) if unreachable else "", True
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror:
            return f"the connection to {asker.server} broke: {cause.strerror}", "", True
    return f"the connection to {asker.server} broke: {type(error).__name__}", "", True


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was raised from or wraps, outermost first."""
    seen: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop(0)
        if any(current is known for known in seen):
            continue
        seen.append(current)
        yield current
        wrapped = [item for item in current.args if isinstance(item, BaseException)]
        pending += [*wrapped, *([current.__cause__] if current.__cause__ else [])]


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
