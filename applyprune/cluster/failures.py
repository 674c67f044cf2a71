"""A bad reply or a broken connection as one error of ours, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from applyprune.cluster.messages import (
    WEBHOOK,
    ApiRequest,
    ClientContext,
    RawResponse,
    StatusBody,
    json_object,
)
from applyprune.errors import (
    AccessError,
    AlreadyExists,
    ApiError,
    Conflict,
    Denied,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from applyprune.http import (
    AUTHORITIES_HINT,
    BUG_HINT,
    IN_TIME,
    UNUSABLE_PAIR,
    Fault,
    describe_error,
    detail_of,
    fault_of,
    seconds_to_wait,
)
from applyprune.model.live import mapping
from applyprune.model.text import visible
from applyprune.values import replace

_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})


class RequestFailure(Struct, frozen=True):
    """Why a try failed."""

    error: AccessError
    passing: bool = False
    """Whether the same request may succeed in a moment."""
    refused_unseen: bool = False
    """Whether the server refused the request before it did anything with it."""


def response_failure(
    request: ApiRequest, response: RawResponse, client: ClientContext
) -> RequestFailure:
    """Return the failure of a response that is not a valid success."""
    if response.status in _REDIRECTS:
        return RequestFailure(_redirected(request, response, client))
    if response.status < 400:
        return RequestFailure(_invalid_response(request, response, client), passing=True)
    status = StatusBody.of(response)
    message = _message(request, response, status, client)
    error = _error(request, response, status, message, client)
    said = _said(response, status)
    hint = _hint(error, message, client) or _advice_on_webhook(said)
    if hint := hint or _advice_on_hidden(request, error, said):
        error.problem = replace(error.problem, hint=hint)
    passing = isinstance(error, Unavailable)
    return RequestFailure(error, passing, refused_unseen=response.status == 429)


def _redirected(request: ApiRequest, response: RawResponse, client: ClientContext) -> Unreachable:
    target = foreign_text(response.headers.get("Location", ""), client, 200).partition("?")[0]
    return Unreachable(
        f"{client.server} is not an API server: it redirects{f' to {target}' if target else ''}",
        reason=f"{request.method} {request.path} returned {response.status}",
        hint="Check the server's URL in the kubeconfig; credentials are never sent elsewhere.",
    )


def _invalid_response(
    request: ApiRequest, response: RawResponse, client: ClientContext
) -> AccessError:
    """Return the error for a success whose body no API server would send."""
    asked = f"{request.method} {request.path} returned {response.status}"
    if _is_html(response):
        return Unreachable(
            f"{client.server} did not answer as an API server: it sent a web page",
            reason=asked,
            hint="A proxy or a login page is in between; check the network and the server's URL.",
        )
    encoding = response.headers.get("Content-Encoding", "")
    return Unavailable(
        f"the response is encoded as {foreign_text(encoding, client, 50)}, which was not requested"
        if encoding
        else f"the response is not a JSON object ({len(response.raw)} bytes)",
        code=response.status,
        reason=asked,
    )


_MOST_NAMED = 10
_HIDDEN = "; the server's words are hidden, because they may hold a value"
# Go names the port of its own end of a broken connection: another one in each try.
_OWN_END = r"\b(read|write) (tcp|udp) \S+->"


def _message(
    request: ApiRequest, response: RawResponse, status: StatusBody, client: ClientContext
) -> str:
    """Return the server's message, made safe; for a Secret, only what cannot hold a value."""
    text = _said(response, status)
    text = re.sub(_OWN_END, r"\1 \2 ", text)
    safe = without_values(text) if request.secret else foreign_text(text, client)
    if safe:
        return safe
    if request.secret and text:
        causes = _causes(request, status, client)
        told = {f"{one['field']}: {one['message']}": None for one in causes if one["message"]}
        if told:
            is_whole = all(rule_in(cause["message"])[1] for cause in status.causes)
            return f"{', '.join([*told][:_MOST_NAMED])}{'' if is_whole else _HIDDEN}"
        fields = sorted({cause["field"] for cause in causes if cause["field"]})
        named = f" at {', '.join(fields[:_MOST_NAMED])}" if fields else ""
        reason = _reason(request, status.reason, client) or response.status
        return f"the server refused the request{named} ({reason}){_HIDDEN}"
    what = "a web page" if _is_html(response) else "no message"
    return f"the server returned {response.status} with {what}"


def _said(response: RawResponse, status: StatusBody) -> str:
    """Return what the server says, as it says it; empty for a web page."""
    return status.message or ("" if _is_html(response) else _decoded(response.raw))


_PAGE_BEGINNINGS = ("<!doctype html", "<html", "<head", "<?xml")


def _is_html(response: RawResponse) -> bool:
    content_type = response.headers.get("Content-Type", "")
    beginning = _decoded(response.raw[:200]).lower()
    return "html" in content_type.lower() or beginning.startswith(_PAGE_BEGINNINGS)


def _decoded(raw: bytes) -> str:
    return raw[:8192].decode("utf-8", "replace").strip()


def _error(
    request: ApiRequest,
    response: RawResponse,
    status: StatusBody,
    message: str,
    client: ClientContext,
) -> ApiError:
    is_final = response.status >= _FIRST_OF_SERVER and _is_final(_said(response, status))
    kind = ApiError if is_final else _error_class(request, response.status, status)
    retry_after = seconds_to_wait(response.headers.get("Retry-After", ""))
    return kind(
        message,
        code=response.status,
        status_reason=_reason(request, status.reason, client),
        causes=_causes(request, status, client),
        retry_after=status.retry_after if retry_after is None else retry_after,
        reason=f"{request.method} {request.path} returned {response.status}",
    )


def _causes(
    request: ApiRequest, status: StatusBody, client: ClientContext
) -> tuple[dict[str, str], ...]:
    """Return the causes, made safe; for a Secret, only messages that just name managers or rules.

    Of a webhook not even these, because it may have put a value there. A path is shown as far as
    the object that was sent has it, or its schema. A message that names managers keeps the words of
    the server, which decide about the conflict.
    """
    body = _with_known_fields(json_object(request.body or b"") or {}) if request.secret else {}
    denied = _is_denied(status)  # guard: forged-cause -> False

    def message_of(cause: dict[str, str]) -> str:
        if cause["reason"] == "FieldManagerConflict" and not denied:
            return safe_text(cause["message"])
        if request.secret:
            return "" if denied else rule_in(cause["message"])[0]
        return foreign_text(cause["message"], client)

    def field_of(cause: dict[str, str]) -> str:
        if request.secret:
            return _path_in(body, cause["field"])
        return foreign_text(cause["field"], client) if denied else safe_text(cause["field"])

    return tuple(
        {
            "reason": _reason(request, cause["reason"], client),
            "field": field_of(cause),
            "message": message_of(cause),
        }
        for cause in status.causes
    )


# Fields of a Secret that the API names although the manifest lacks them: those that it may have
# left out since, and those that a type demands.
_KNOWN_FIELDS: Mapping[str, Any] = {"immutable": None, "type": None}
_KNOWN_KEYS = (
    ".dockercfg",
    ".dockerconfigjson",
    "password",
    "ssh-privatekey",
    "tls.crt",
    "tls.key",
    "username",
)
_KNOWN_ANNOTATION = "kubernetes.io/service-account.name"


def _with_known_fields(body: dict[str, Any]) -> dict[str, Any]:
    metadata = mapping(body.get("metadata"))
    annotations = {_KNOWN_ANNOTATION: None, **mapping(metadata.get("annotations"))}
    data = {**dict.fromkeys(_KNOWN_KEYS), **mapping(body.get("data"))}
    return {
        **_KNOWN_FIELDS,
        **body,
        "data": data,
        "metadata": {**metadata, "annotations": annotations},
    }


# Of a Secret, no other reason is shown: a webhook may write anything there.
_REASONS = frozenset(
    {
        "AlreadyExists",
        "BadRequest",
        "Conflict",
        "Expired",
        "FieldManagerConflict",
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueNotFound",
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
        "Forbidden",
        "Gone",
        "InternalError",
        "Invalid",
        "MethodNotAllowed",
        "NotAcceptable",
        "NotFound",
        "RequestEntityTooLarge",
        "ServerTimeout",
        "ServiceUnavailable",
        "Timeout",
        "TooManyRequests",
        "Unauthorized",
        "UnsupportedMediaType",
    }
)


def _reason(request: ApiRequest, reason: str, client: ClientContext) -> str:
    if reason in _REASONS:
        return reason
    return "" if request.secret else foreign_text(reason, client, 100)


def _path_in(body: dict[str, Any], field: str) -> str:
    """Return the part of a path that the body has, as the server writes it."""
    # It would slow down every start, and only an error needs it.
    from applyprune.planning.server_errors import dotted, parse_path  # noqa: PLC0415

    path, left = parse_path(field, body)
    return safe_text(dotted(path) if left else field, 200)


# Patterns are compiled when an error comes: that takes longer than a whole request.
_DENIED = (
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "[^"]*")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)


def _hint(error: ApiError, message: str, client: ClientContext) -> str:
    who = f"context {client.context!r}" + (f", user {client.user!r}" if client.user else "")
    if isinstance(error, Unauthorized):
        if client.server.startswith("http://"):
            return f"{client.server} is plain HTTP; credentials are not sent over it."
        return f"The credentials of {who} are missing, wrong or expired: log in again."
    if isinstance(error, Forbidden):
        denied = re.search(_DENIED, message)
        if denied:
            place = denied["namespace"]
            return (
                f"Ask for the right to {denied['verb']} {denied['resource']}"
                f"{f' in namespace {place}' if place else ''} (used: {who})."
            )
    elif error.code == 413 and not error.status_reason:
        return (
            "A gateway in front of the API server takes no request of this size "
            "(in nginx: client_max_body_size)."
        )
    elif "HTTP request to an HTTPS server" in message:
        return f"The server expects https:// instead of {client.server}."
    return ""


# The codes that keep their meaning if admission has chosen them: a 404 is never proof by itself,
# and after a 429 a request is sent again.
_OF_ADMISSION_TOO = frozenset({404, 429})


def _error_class(request: ApiRequest, code: int, status: StatusBody) -> type[ApiError]:
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
    chosen = code < 500 and code not in _OF_ADMISSION_TOO
    if chosen and _is_denied(status):  # guard: denied-by-admission never
        return Denied
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


# An admission webhook chooses code, reason and causes of its denial, and an admission policy its
# reason (by default Invalid, a 422). The server adds the beginning of the message.
_DENIAL = (
    r'admission webhook "(?:[^"\\]|\\.)*" denied the request'
    r'|(?:[\w.-]+(?: "(?:[^"\\]|\\.)*")? is forbidden: )?'
    r"(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) "
    r"""(?:'[^']*'|"[^"]*")(?: with binding '[^']*')? denied request"""
)


def _is_denied(status: StatusBody) -> bool:
    """Return whether an admission webhook or policy has denied the request, whatever its code."""
    return re.match(_DENIAL, status.message) is not None


def _conflict(request: ApiRequest, status: StatusBody) -> type[ApiError]:
    if status.reason == "AlreadyExists":
        return AlreadyExists
    # The quota's own bookkeeping lost a race (kubernetes#67761); the object was not checked.
    plural = request.about[1] if request.about else ""
    return Unavailable if status.kind == "resourcequotas" != plural else Conflict


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

_NO_CERTIFICATE = "unable to load root certificates"

# What is wrong with a configuration, or with a webhook's program: a retry does not help. The code
# is 500, as for a webhook that is away, or 503 for an API server behind the aggregator. Not among
# them: a certificate that is not trusted, which its injector may replace in a moment, and a Service
# without Pods.
_FINAL = (
    _NO_CERTIFICATE,
    "could not get REST client",
    "could not create admission objects",
    "Webhook SideEffects is nil",
    "received invalid webhook response",
    "received undecodable patch in webhook response",
    "unsupported patch type",
    "http: server gave HTTP response to HTTPS client",
    "no supported conversion review versions",
    "returned invalid converted object",
    "returned invalid object",
    "returned invalid metadata",
)
_FIRST_OF_SERVER = 500


def _is_final(said: str) -> bool:
    return any(words in said for words in _FINAL)  # guard: final-of-the-server -> 0 > 1


_CONVERSION = r"conversion webhook for (\S+, Kind=\w+)"


def _advice_on_webhook(said: str) -> str:
    """Return what to do about a webhook that no retry brings back; empty for any other error."""
    if not _is_final(said):
        return ""
    admission, conversion = re.search(WEBHOOK, said), re.search(_CONVERSION, said)
    whose = "the APIService"
    if admission is not None:
        whose = f"the webhook {safe_text(admission[1], 255)}"
    elif conversion is not None:
        whose = f"the CRD of {safe_text(conversion[1], 255)}"
    if _NO_CERTIFICATE in said:
        return f"The caBundle of {whose} holds no certificate in PEM: correct it there."
    return f"Correct {whose}: a retry does not help."


def _advice_on_hidden(request: ApiRequest, error: ApiError, said: str) -> str:
    """Return which command shows what the server has said of a Secret, if words are hidden."""
    message, said = error.message, " ".join(said.split())
    # After a schema error only values are left out, after a conflict what its causes say; and
    # what passes is tried again.
    left_out = said.startswith(message) and said != message
    is_told = isinstance(error, Conflict | Unavailable) or re.match(_SCHEMA_ERROR, said)
    if not request.secret or request.method == "GET":
        return ""
    if not (left_out and not is_told) and not message.endswith(_HIDDEN):
        return ""
    place = re.search(r"/namespaces/([^/]+)/", request.path)
    where = f" -n {place[1]}" if place is not None else ""
    command = f"apply{where} --server-side --dry-run=server -f FILE"
    if request.method == "DELETE":
        command = f"delete{where} --dry-run=server secret NAME"
    return f"To see the server's words, which may hold a value: kubectl {command}"


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


def _class_of_500(request: ApiRequest, status: StatusBody) -> type[ApiError]:
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


# A broken connection: one error, and whether a retry may help.


def connection_failure(
    request: ApiRequest,
    error: OSError,
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
    if fault_of(error) in _UNUSABLE:
        return RequestFailure(AccessError(what, reason=_UNUSABLE[fault_of(error)], hint=hint))
    return RequestFailure(
        Unreachable(what, reason=reason, lasting_reason=lasting, hint=hint),
        passing=passing,
        refused_unseen=not sent,
    )


# Faults on this side; nothing was sent.
_UNUSABLE: Mapping[Fault, str] = {
    Fault.AUTHORITY: "",
    Fault.OWN_CERTIFICATE: UNUSABLE_PAIR,
    Fault.SYSTEM_AUTHORITIES: "",
    Fault.SET_UP: "",
}
# What to do about what has gone wrong, and whether a retry may help.
_ADVICE: Mapping[Fault, tuple[str, bool]] = {
    Fault.ADDRESS: ("", False),
    Fault.CERTIFICATE: (
        "Check server and certificate-authority-data in the kubeconfig: is the cluster new?",
        False,
    ),
    Fault.CLIENT_CERTIFICATE: (
        "The certificate of user {user!r} of context {context!r} may have expired: log in again.",
        False,
    ),
    Fault.NOT_TLS: ("Is the server's URL right?", False),
    Fault.PROXY: ("Check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY.", True),
    Fault.AUTHORITY: (
        "Check certificate-authority(-data) of the cluster in the kubeconfig.",
        False,
    ),
    Fault.OWN_CERTIFICATE: (
        "Check client-certificate(-data) and client-key(-data) in the kubeconfig.",
        False,
    ),
    Fault.SYSTEM_AUTHORITIES: (AUTHORITIES_HINT, False),
    Fault.SET_UP: (BUG_HINT, False),
}


def _explained(error: OSError, client: ClientContext) -> tuple[str, str, bool]:
    """Return what happened, what to do, and whether a retry may help."""
    fault, detail = fault_of(error), safe_text(detail_of(error), 200)
    if fault is Fault.CERTIFICATE and client.secret:  # guard: quoted-name never
        detail = detail.partition(", certificate is not valid for")[0]
    what, unreachable = describe_error(error, server=client.server, detail=detail)
    if fault in _ADVICE:
        hint, passing = _ADVICE[fault]
        refused = fault is Fault.PROXY and "Tunnel connection failed: 4" in detail
        hint = hint.format(user=client.user, context=client.context)
        return what, hint, passing and not refused
    context = f" (context {client.context!r})" if client.context else ""
    hint = f"Check that the cluster is running and reachable{context}."
    return what, hint if unreachable else "", True


# Foreign text, safe to show: no control sequences, no secrets, not too long.


MAX_SHOWN = 1024


def safe_text(text: str, limit: int = MAX_SHOWN) -> str:
    """Return the text on one line, with invisible characters escaped, cut to ``limit``."""
    # Cut first: the text may be a hundred megabytes.
    cut = len(text) > limit
    line = " ".join(text[:limit].split())
    clean = visible(line)
    return f"{clean[:limit]}…" if cut or len(clean) > limit else clean


def foreign_text(text: str, client: ClientContext, limit: int = MAX_SHOWN) -> str:
    """Return a text of others as ``safe_text`` does, without values of the Secrets that are known.

    What the server says in its own words, about names and not about values, stays as it is: the
    run decides by it.
    """
    # Cut first: the text may be a hundred megabytes.
    text = text[: 4 * MAX_SHOWN].strip()
    if not re.fullmatch(_WITHOUT_VALUES, text, re.VERBOSE):
        own = next((found.end() for words in _BEGINNINGS if (found := re.match(words, text))), 0)
        text = text[:own] + client.secrets.masked(text[own:])  # guard: secret-in-refusal
    return safe_text(text, limit)


# Patterns are compiled when an error comes: that takes longer than a whole request.
# Messages of the API server that can hold names and paths, but no values. A message must match as
# a whole: otherwise a value could follow the known part.
_WORD = r"[A-Za-z0-9_.:/-]+"
_QUOTED = r"\"[^\"\n]{0,300}\""
_OBJECT = rf"{_WORD}[ ]{_QUOTED}"
_AMOUNTS = r"[\w./=,-]+"
_WITHOUT_VALUES = rf"""
      {_OBJECT}[ ]not[ ]found
    | (?:object[ ]is[ ]being[ ]deleted:[ ])?{_OBJECT}[ ]already[ ]exists
    | {_OBJECT}[ ]is[ ]forbidden:[ ](?:
        User[ ]{_QUOTED}[ ]cannot[ ]\w+[ ]resource[ ]{_QUOTED}[ ]in[ ]API[ ]group[ ]{_QUOTED}
        (?:[ ]in[ ]the[ ]namespace[ ]{_QUOTED}|[ ]at[ ]the[ ]cluster[ ]scope)
      | unable[ ]to[ ]create[ ]new[ ]content[ ]in[ ]namespace[ ]{_WORD}
        [ ]because[ ]it[ ]is[ ]being[ ]terminated
      | exceeded[ ]quota:[ ]{_WORD},[ ]requested:[ ]{_AMOUNTS},[ ]used:[ ]{_AMOUNTS}
        ,[ ]limited:[ ]{_AMOUNTS}
      )
    | Operation[ ]cannot[ ]be[ ]fulfilled[ ]on[ ]{_OBJECT}:[ ](?:
        the[ ]object[ ]has[ ]been[ ]modified;[ ]please[ ]apply[ ]your[ ]changes[ ]to[ ]the
        [ ]latest[ ]version[ ]and[ ]try[ ]again
      | (?:Precondition[ ]failed:[ ])?
        (?:UID|ResourceVersion)[ ]in[ ]precondition:[ ][\w-]*,
        [ ](?:UID|ResourceVersion)[ ]in[ ]object[ ]meta:[ ][\w-]*
      )
    | \w+[ ]in[ ]version[ ]{_QUOTED}[ ]cannot[ ]be[ ]handled[ ]as[ ]a[ ]\w+:
        [ ]illegal[ ]base64[ ]data[ ]at[ ]input[ ]byte[ ]\d+
    | failed[ ]to[ ]convert[ ]new[ ]object[ ]\([\w./-]*;[ ][\w./-]*,[ ]Kind=\w+\)[ ]to[ ]proper
        [ ]version:[ ]unable[ ]to[ ]convert[ ]unstructured[ ]object[ ]to[ ][\w./-]*,[ ]Kind=\w+:
        [ ](?:error[ ]decoding[ ]from[ ]json:[ ])?
        illegal[ ]base64[ ]data[ ]at[ ]input[ ]byte[ ]\d+
    | unknown[ ]field[ ]{_QUOTED}
    | {_WORD}[ ]\w+[ ]is[ ]deprecated(?:[ ]in[ ]v[\d.]+\+)?(?:,[ ]unavailable[ ]in[ ]v[\d.]+\+)?
        (?:;[ ]use[ ]{_WORD}[ ]\w+)?
    | etcdserver:[ ][a-z ]{{1,80}}
    | Request[ ]entity[ ]too[ ]large:[ ]limit[ ]is[ ]\d+
    | Unauthorized
"""

_SCHEMA_ERROR = (
    r"failed to create typed patch object \([\w./-]*; [\w./-]*, Kind=\w+\): "
    r"(?:errors:\s+)?\.[\w.\[\]-]{1,300}: "
    r"(?:field not declared in schema|expected \w+|duplicate entries for key)"
)
# The known beginnings of messages whose end may quote a value.
_BEGINNINGS = (
    rf"admission webhook {_QUOTED} denied the request",
    (
        rf"Internal error occurred: failed calling webhook {_QUOTED}"
        r"(?:: could not get REST client: unable to load root certificates:"
        r" unable to parse bytes as PEM block$)?"
    ),
    _SCHEMA_ERROR,
    r"Apply failed with \d+ conflicts?",
    (
        rf"{_OBJECT} is forbidden: ValidatingAdmissionPolicy '[\w.-]{{1,253}}'"
        r" with binding '[\w.-]{1,253}' denied request"
    ),
    r"Validation failed for ValidatingAdmissionPolicy '[\w.-]{1,253}' with binding '[\w.-]{1,253}'",
    (
        rf"[\w.-]{{1,253}} {_QUOTED} is forbidden: ValidatingAdmissionPolicy '[\w.-]{{1,253}}'"
        r"(?: with binding '[\w.-]{1,253}')? denied request"
    ),
)


def without_values(message: str) -> str:
    """Return the part of an API server's message that cannot hold a value of the object's fields.

    This is for errors about a Secret: server-side apply quotes values in its schema errors, and a
    webhook's message can hold anything. Empty when no part of the message is known to be safe.
    """
    message = message.strip()
    if len(message) <= 4 * MAX_SHOWN and re.fullmatch(_WITHOUT_VALUES, message, re.VERBOSE):
        return safe_text(message)
    for beginning in _BEGINNINGS:
        if found := re.match(beginning, message):
            return safe_text(found.group())
    return ""


# What the validation of apimachinery says of a field, and the rules whose words are fixed: of a
# message, nothing else is shown.
_FAULT = (
    r"(?P<fault>Required value|Invalid value|Forbidden|Too long|Too many|Duplicate value"
    r"|Unsupported value)(?P<rest>(?:: .*)?)"
)
_RULE = r""".*:[ ](?P<rule>
      field[ ]is[ ]immutable(?:[ ]when[ ]`immutable`[ ]is[ ]set)?
    | (?:must|may)[ ](?:not[ ]be|be[ ]no|have[ ]at)[ ]mo(?:re[ ]than|st)[ ]\d{1,7}
      (?:[ ](?:bytes|characters|items))?
    | must[ ]be[ ](?:specified|unique|non-empty)
    | must[ ]not[ ](?:be[ ]empty|be[ ]'\.\.?'|start[ ]with[ ]'\.\.')
    | cannot[ ]be[ ]unset
    | a[ ]valid[ ]config[ ]key[ ]must[ ]consist[ ]of[ ]alphanumeric[ ]characters,
      [ ]'-',[ ]'_'[ ]or[ ]'\.'
    | (?:a[ ]valid[ ]label[ ]must[ ]be[ ]an[ ]empty[ ]string[ ]or|name[ ]part[ ]must)
      [ ]consist[ ]of[ ]alphanumeric[ ]characters,[ ]'-',[ ]'_'[ ]or[ ]'\.',
      [ ]and[ ]must[ ]start[ ]and[ ]end[ ]with[ ]an[ ]alphanumeric[ ]character
    | (?:prefix[ ]part[ ])?a[ ]lowercase[ ]RFC[ ]1123[ ](?:subdomain|label)[ ]must[ ]consist[ ]of
      [ ]lower[ ]case[ ]alphanumeric[ ]characters(?:,[ ]'-'|[ ]or[ ]'-')(?:[ ]or[ ]'\.')?,
      [ ]and[ ]must[ ]start[ ]and[ ]end[ ]with[ ]an[ ]alphanumeric[ ]character
    | name[ ]is[ ]neither[ ]a[ ]standard[ ]finalizer[ ]name[ ]nor[ ]is[ ]it[ ]fully[ ]qualified
    )(?:[ ]\(e\.g\.[ ].*)?"""


def rule_in(message: str) -> tuple[str, bool]:
    """Return the part of a cause that cannot hold a value, and whether only a value is left out."""
    found = re.fullmatch(_FAULT, message, re.DOTALL) if len(message) <= 4 * MAX_SHOWN else None
    if found is None:
        return "", False
    fault, rest = found["fault"], found["rest"]
    if not rest or fault == "Duplicate value":
        return fault, True
    rule = re.fullmatch(_RULE, rest, re.VERBOSE)
    return (f"{fault}: {rule['rule']}", True) if rule is not None else (fault, False)
