"""From an answer that is not a success to the one error that says what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.cluster.answer import StatusBody
from applyprune.cluster.error_class import class_of
from applyprune.cluster.retry_after import seconds_to_wait
from applyprune.cluster.server_text import shown, without_values
from applyprune.errors import (
    AccessError,
    ApiError,
    Forbidden,
    Unauthorized,
    Unavailable,
    Unreachable,
)

if TYPE_CHECKING:
    from applyprune.cluster.answer import Answer
    from applyprune.cluster.request import Request

# Patterns are compiled when an error comes: that takes longer than a whole request.
_DENIED = (
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "[^"]*")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})
_PAGE_BEGINNINGS = ("<!doctype html", "<html", "<head", "<?xml")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer means. ``passing``: the same request may well succeed in a moment.

    ``refused_unseen`` says that the server turned the request away before doing anything with it.
    """

    error: AccessError
    passing: bool = False
    refused_unseen: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, for hints: the kubeconfig's context and user, and the server's URL."""

    context: str
    user: str
    server: str


def judge(request: Request, answer: Answer, asker: Asker) -> Verdict:
    """Return the meaning of an answer other than a success that can be believed."""
    if answer.status in _REDIRECTS:
        return Verdict(_redirected(request, answer, asker))
    if answer.status < 400:
        return Verdict(_unbelievable(request, answer, asker), passing=True)
    status = StatusBody.of(answer)
    message = _message(request, answer, status)
    error = _error(request, answer, status, message)
    _add_hint(error, message, asker)
    passing = isinstance(error, Unavailable)
    return Verdict(error, passing, refused_unseen=answer.status == 429)


def _error(request: Request, answer: Answer, status: StatusBody, message: str) -> ApiError:
    kind = class_of(request, answer.status, status)
    retry_after = seconds_to_wait(answer.headers.get("Retry-After", ""))
    return kind(
        message,
        code=answer.status,
        reason=shown(status.reason, 100),
        causes=_causes(request, status),
        retry_after=status.retry_after if retry_after is None else retry_after,
        why=f"{request.method} {request.path} was answered by {answer.status}",
    )


def _message(request: Request, answer: Answer, status: StatusBody) -> str:
    """Return what the server said, made safe; for a Secret what can hold no value of it."""
    text = status.message or ("" if _is_html(answer) else _decoded(answer.raw))
    safe = without_values(text) if request.secret else shown(text)
    if safe:
        return safe
    if request.secret and text:
        fields = sorted({shown(cause["field"], 200) for cause in status.causes if cause["field"]})
        named = f" at {', '.join(fields[:10])}" if fields else ""
        return f"the server refused it{named} ({shown(status.reason, 100) or answer.status})"
    what = "a web page" if _is_html(answer) else "no message"
    return f"the server answered {answer.status} with {what}"


def _causes(request: Request, status: StatusBody) -> tuple[dict[str, str], ...]:
    """Return the causes made safe; of a Secret's the messages are kept that name managers only."""
    return tuple(
        {
            "reason": shown(cause["reason"], 100),
            "field": shown(cause["field"]),
            "message": shown(cause["message"])
            if not request.secret or cause["reason"] == "FieldManagerConflict"
            else "",
        }
        for cause in status.causes
    )


def _decoded(raw: bytes) -> str:
    return raw[:8192].decode("utf-8", "replace").strip()


def _is_html(answer: Answer) -> bool:
    content_type = answer.headers.get("Content-Type", "")
    beginning = _decoded(answer.raw[:200]).lower()
    return "html" in content_type.lower() or beginning.startswith(_PAGE_BEGINNINGS)


def _add_hint(error: ApiError, message: str, asker: Asker) -> None:
    who = f"context {asker.context!r}" + (f", user {asker.user!r}" if asker.user else "")
    if isinstance(error, Unauthorized):
        error.hint = (
            f"The credentials of {who} are missing, wrong or expired: log in again."
            if asker.server.startswith("https://")
            else f"{asker.server} is plain HTTP, over which no credentials are sent."
        )
    elif isinstance(error, Forbidden):
        denied = re.search(_DENIED, message)
        if denied:
            place = denied["namespace"]
            error.hint = (
                f"Ask for the right to {denied['verb']} {denied['resource']}"
                f"{f' in namespace {place}' if place else ''} (used: {who})."
            )
    elif "HTTP request to an HTTPS server" in message:
        error.hint = f"The server expects https:// instead of {asker.server}."


def _redirected(request: Request, answer: Answer, asker: Asker) -> Unreachable:
    target = shown(answer.headers.get("Location", ""), 200).partition("?")[0]
    return Unreachable(
        f"{asker.server} is not an API server: it redirects{f' to {target}' if target else ''}",
        why=f"{request.method} {request.path} was answered by {answer.status}",
        hint="Check the server's URL in the kubeconfig; credentials are never sent elsewhere.",
    )


def _unbelievable(request: Request, answer: Answer, asker: Asker) -> AccessError:
    """Return the error for a success whose body is not what an API server sends."""
    asked = f"{request.method} {request.path} was answered by {answer.status}"
    if _is_html(answer):
        return Unreachable(
            f"{asker.server} did not answer as an API server: it sent a web page",
            why=asked,
            hint="A proxy or a login page stands in between; check the network and server's URL.",
        )
    encoding = answer.headers.get("Content-Encoding", "")
    return Unavailable(
        f"the reply is encoded as {shown(encoding, 50)}, which was not asked for"
        if encoding
        else f"the reply is not a JSON object ({len(answer.raw)} bytes)",
        code=answer.status,
        why=asked,
    )
