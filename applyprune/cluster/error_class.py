"""Choose the exception for an error response, by its code and its Status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    Unauthorized,
    Unavailable,
)

if TYPE_CHECKING:
    from applyprune.cluster.answer import StatusBody
    from applyprune.cluster.request import Request

# Schema errors of server-side apply come as a 500 without a reason; a retry does not help.
_SCHEMA_ERRORS = (
    "field not declared in schema",
    "duplicate entries for key",
    ", got &value",
    ", got &{",
    "failed to create typed patch object",
    "failed to create typed live object",
    "failed to create manager for existing fields",
    "failed to convert new object",
)
_TOO_LARGE = (
    "etcdserver: request is too large",
    "trying to send message larger than max",
    "Request entity too large",
)
_PASSING = (
    "failed calling webhook",
    "etcdserver: leader changed",
    "etcdserver: no leader",
    "etcdserver: request timed out",
    "etcdserver: server stopped",
    "etcdserver: too many requests",
    "resource quota evaluation timed out",
    "connection refused",
    "connection reset by peer",
    "context deadline exceeded",
    "transport is closing",
)


def class_of(request: Request, code: int, status: StatusBody) -> type[ApiError]:
    """Return the exception class of a response with that code, 400 or more, and Status."""
    by_code: dict[int, type[ApiError]] = {
        401: Unauthorized,
        403: Forbidden,
        410: Expired,
        413: Invalid,
        429: Unavailable,
        502: Unavailable,
        503: Unavailable,
        504: Unavailable,
    }
    if code in by_code:
        return by_code[code]
    if code == 404:
        named = (status.group, status.kind, status.name)
        proof = status.reason == "NotFound" and status.name and named == request.about
        return NotFound if proof else NotServed
    if code == 409:
        return _conflict(request, status)
    if code == 500:
        return _class_of_500(request, status)
    return Invalid if code < 500 and status.is_status else ApiError


def _conflict(request: Request, status: StatusBody) -> type[ApiError]:
    if status.reason == "AlreadyExists":
        return AlreadyExists
    # The quota's own bookkeeping lost a race (kubernetes#67761); the object was not checked.
    plural = request.about[1] if request.about else ""
    return Unavailable if status.kind == "resourcequotas" != plural else Conflict


def _class_of_500(request: Request, status: StatusBody) -> type[ApiError]:
    """Tell transient errors from permanent ones: the code alone never decides."""
    if _says(status, _TOO_LARGE):
        return Invalid
    if request.method == "GET" or not status.is_status or status.reason == "ServerTimeout":
        return Unavailable
    if not status.reason and _says(status, _SCHEMA_ERRORS):
        return Invalid
    return Unavailable if _says(status, _PASSING) else ApiError


def _says(status: StatusBody, phrases: tuple[str, ...]) -> bool:
    return any(phrase in status.message for phrase in phrases)
