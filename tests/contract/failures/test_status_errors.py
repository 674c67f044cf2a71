"""What each answer of a server means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.cluster.failures import response_failure
from applyprune.cluster.messages import ApiRequest, ClientContext, RawResponse
from applyprune.errors import (
    AlreadyExists,
    ApiError,
    ApplypruneError,
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
from applyprune.http import Headers

CLIENT = ClientContext(context="prod", user="alice", server="https://k8s.example:6443")
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"
ABOUT = ("apps", "deployments", "web")
SCHEMA_ERROR = (
    "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.replica:"
    " field not declared in schema"
)
CALLING = 'Internal error occurred: failed calling webhook "w"'
CONVERTING = "conversion webhook for x.io/v1, Kind=Foo"
NO_PEM = (
    "could not get REST client: unable to load root certificates: unable to parse bytes as PEM "
    "block"
)
NO_ANSWER = "received invalid webhook response: expected webhook response of admission/v1, got /"
NOT_YET = 'Post "https://w": x509: certificate signed by unknown authority'
NOT_TLS = "http: server gave HTTP response to HTTPS client"
HTML = b"<!DOCTYPE html><html><body>Please log in</body></html>"


def status(code: int, reason: str = "", message: str = "it says so", **details: Any) -> RawResponse:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "details": details,
    }
    if reason:
        body["reason"] = reason
    return RawResponse(code, Headers(), json.dumps(body).encode(), body)


def text(code: int, body: bytes = b"404 page not found\n", **headers: str) -> RawResponse:
    return RawResponse(
        code, Headers((key.replace("_", "-"), value) for key, value in headers.items()), body, None
    )


GET = ApiRequest("GET", PATH, about=ABOUT)
PATCH = ApiRequest("PATCH", PATH, about=ABOUT)
NAMED = {"group": "apps", "kind": "deployments", "name": "web"}


@pytest.mark.parametrize(
    ("request_", "answer", "kind", "passing"),
    [
        (PATCH, status(400, "BadRequest"), Invalid, False),
        (PATCH, text(400, b"Client sent an HTTP request"), ApiError, False),
        (PATCH, status(401, "Unauthorized"), Unauthorized, False),
        (PATCH, text(401, b"no"), Unauthorized, False),
        (PATCH, status(403, "Forbidden"), Forbidden, False),
        (PATCH, text(403, HTML), Forbidden, False),
        (GET, status(404, "NotFound", **NAMED), NotFound, False),
        (GET, status(404, "NotFound", **{**NAMED, "name": "other"}), NotServed, False),
        (GET, status(404, "NotFound", **{**NAMED, "kind": "statefulsets"}), NotServed, False),
        (GET, status(404, "NotFound", **{**NAMED, "group": ""}), NotServed, False),
        (PATCH, status(404, "NotFound", kind="namespaces", name="shop"), NotServed, False),
        (GET, status(404, "", **NAMED), NotServed, False),
        (GET, status(404, "NotFound"), NotServed, False),
        (GET, text(404), NotServed, False),
        (GET, text(404, HTML), NotServed, False),
        (ApiRequest("GET", PATH), status(404, "NotFound", **NAMED), NotServed, False),
        (ApiRequest("GET", PATH, about=("", "", "")), status(404, "NotFound"), NotServed, False),
        (PATCH, status(405, "MethodNotAllowed"), Invalid, False),
        (PATCH, status(409, "Conflict", **NAMED), Conflict, False),
        (PATCH, text(409, b"odd"), Conflict, False),
        (PATCH, status(409, "AlreadyExists", **NAMED), AlreadyExists, False),
        (PATCH, status(409, "Conflict", kind="resourcequotas", name="q"), Unavailable, True),
        (
            ApiRequest("PUT", PATH, about=("", "resourcequotas", "q")),
            status(409, "Conflict", kind="resourcequotas", name="q"),
            Conflict,
            False,
        ),
        (GET, status(410, "Expired"), Expired, False),
        (PATCH, status(413, "RequestEntityTooLarge"), Invalid, False),
        (PATCH, text(413, b"too large"), Invalid, False),
        (PATCH, status(415, "UnsupportedMediaType"), Invalid, False),
        (PATCH, status(422, "Invalid"), Invalid, False),
        (PATCH, status(429, "TooManyRequests"), Unavailable, True),
        (PATCH, text(429, b"Too many requests, please try again later."), Unavailable, True),
        (PATCH, status(500, "", SCHEMA_ERROR), Invalid, False),
        (PATCH, status(500, "", ".spec.ports: duplicate entries for key [port=1]"), Invalid, False),
        (PATCH, status(500, "", ".data: expected map, got &{[x]}"), Invalid, False),
        (PATCH, status(500, "", "etcdserver: request is too large"), Invalid, False),
        (
            PATCH,
            status(500, "", "rpc error: trying to send message larger than max"),
            Invalid,
            False,
        ),
        (PATCH, status(500, "InternalError", "jsonpatch add operation: no path"), ApiError, False),
        (PATCH, status(500, "", "something new"), ApiError, False),
        (
            PATCH,
            status(
                500, "InternalError", 'Internal error occurred: failed calling webhook "w": EOF'
            ),
            Unavailable,
            True,
        ),
        pytest.param(
            PATCH,
            status(500, "InternalError", f"{CALLING}: {NO_PEM}"),
            ApiError,
            False,
            marks=pytest.mark.holds("final-of-the-server"),
        ),
        (PATCH, status(500, "InternalError", f"{CALLING}: {NO_ANSWER}"), ApiError, False),
        (PATCH, status(500, "InternalError", f"{CALLING}: {NOT_YET}"), Unavailable, True),
        (GET, status(500, "InternalError", f"{CONVERTING} failed: {NO_PEM}"), ApiError, False),
        (GET, status(500, "InternalError", f"{CONVERTING} failed: {NOT_YET}"), Unavailable, True),
        (GET, text(500, b"unable to load root certificates: no PEM"), ApiError, False),
        (GET, text(503, b"error trying to reach service: " + NOT_TLS.encode()), ApiError, False),
        (PATCH, status(500, "", "etcdserver: leader changed"), Unavailable, True),
        (PATCH, status(500, "", "etcdserver: request timed out"), Unavailable, True),
        (PATCH, status(500, "", "etcdserver: too many requests"), Unavailable, True),
        (PATCH, status(500, "ServerTimeout"), Unavailable, True),
        (PATCH, text(500, b""), Unavailable, True),
        (GET, status(500, "InternalError", "whatever"), Unavailable, True),
        (PATCH, text(502, HTML), Unavailable, True),
        (PATCH, text(503, b"service unavailable\n"), Unavailable, True),
        (PATCH, status(503, "ServiceUnavailable"), Unavailable, True),
        (PATCH, status(504, "Timeout"), Unavailable, True),
        (PATCH, text(501, b"no"), ApiError, False),
        (GET, text(301, b"", Location="https://elsewhere/"), Unreachable, False),
        (GET, text(302, b"", Location="https://login/?token=x"), Unreachable, False),
        (GET, text(200, HTML), Unreachable, True),
        (GET, text(200, b""), Unavailable, True),
        (GET, text(200, b"{"), Unavailable, True),
        (GET, text(200, b"[]"), Unavailable, True),
        (GET, text(204, b""), Unavailable, True),
        (GET, text(304, b""), Unavailable, True),
    ],
)
def test_status_code_has_one_meaning(
    request_: ApiRequest, answer: RawResponse, kind: type[ApplypruneError], passing: bool
) -> None:
    failure = response_failure(request_, answer, CLIENT)

    assert type(failure.error) is kind
    assert failure.passing is passing
    assert not isinstance(failure.error, ApiError) or failure.error.code == answer.status


def test_only_a_429_is_surely_unprocessed() -> None:
    seen = [
        code
        for code in range(200, 600)
        if response_failure(PATCH, text(code, b""), CLIENT).refused_unseen
    ]

    assert seen == [429]


def test_status_keeps_reason_and_causes() -> None:
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl" using apps/v1',
        "field": ".spec.replicas",
    }
    error = response_failure(PATCH, status(409, "Conflict", causes=[cause, "odd", 7]), CLIENT).error

    assert isinstance(error, Conflict)
    assert error.status_reason == "Conflict"
    assert error.causes == (cause,)
    assert str(error) == f"it says so: PATCH {PATH} returned 409"


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [("7", {}, 7.0), ("", {"retryAfterSeconds": 3}, 3.0), ("later", {}, None), ("", {}, None)],
)
def test_status_tells_when_to_retry(
    header: str, details: dict[str, Any], seconds: float | None
) -> None:
    plain = status(429, "TooManyRequests", **details)
    error = response_failure(
        PATCH, RawResponse(429, Headers([("Retry-After", header)]), plain.raw, plain.body), CLIENT
    ).error

    assert isinstance(error, ApiError)
    assert error.retry_after == seconds


def test_401_names_the_refused_credentials() -> None:
    assert "context 'prod', user 'alice'" in response_failure(GET, status(401), CLIENT).error.hint


def test_403_names_the_missing_permission_and_the_user() -> None:
    message = (
        'deployments.apps "web" is forbidden: User "alice@example.com" cannot patch resource'
        ' "deployments" in API group "apps" in the namespace "shop"'
    )
    hint = response_failure(PATCH, status(403, "Forbidden", message), CLIENT).error.hint

    assert hint == (
        "Ask for the right to patch deployments in namespace shop"
        " (used: context 'prod', user 'alice')."
    )


def test_redirect_is_shown_without_its_query() -> None:
    error = response_failure(GET, text(302, b"", Location="https://login/?token=x"), CLIENT).error

    assert "https://login/" in str(error)
    assert "token" not in str(error)


def test_web_page_is_recognised() -> None:
    assert "sent a web page" in str(response_failure(GET, text(200, HTML), CLIENT).error)
    assert "web page" in str(response_failure(PATCH, text(502, HTML), CLIENT).error)


def test_size_that_a_gateway_refuses_is_explained() -> None:
    """What the API server itself says of a size stays as it is."""
    page = response_failure(PATCH, text(413, HTML), CLIENT).error
    assert isinstance(page, Invalid)
    assert page.hint == (
        "A gateway in front of the API server takes no request of this size "
        "(in nginx: client_max_body_size)."
    )
    own = status(413, "RequestEntityTooLarge", "limit is 3145728")
    assert response_failure(PATCH, own, CLIENT).error.hint == ""


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (f"{CALLING}: {NO_PEM}", 'The caBundle of the webhook "w" holds no certificate in PEM'),
        (f"{CALLING}: {NO_ANSWER}", 'Correct the webhook "w": a retry does not help.'),
        (f"{CONVERTING} failed: {NO_PEM}", "The caBundle of the CRD of x.io/v1, Kind=Foo holds no"),
        (f"{CALLING}: {NOT_YET}", ""),
    ],
)
def test_webhook_that_no_retry_brings_back_is_named(message: str, hint: str) -> None:
    """Of a Secret too, for the words are the server's own, and the name is the webhook's."""
    for request in (PATCH, ApiRequest("PATCH", PATH, secret=True)):
        error = response_failure(request, status(500, "InternalError", message), CLIENT).error
        assert error.hint.startswith(hint)
        assert bool(error.hint) is bool(hint)
        assert "PEM" in error.message or NO_PEM not in message or CONVERTING in message


def test_encoded_reply_is_recognised() -> None:
    assert "encoded as gzip" in str(
        response_failure(GET, text(200, b"\x1f\x8b", Content_Encoding="gzip"), CLIENT).error
    )


def test_port_of_a_broken_connection_is_removed() -> None:
    """It is another one in each try, and two tries would have two messages."""
    told = 'failed calling webhook "w": failed to call webhook: Post "https://w/?timeout=1s": '
    message = f"{told}read tcp 10.0.0.1:40912->10.0.0.2:443: read: connection reset by peer"
    error = response_failure(PATCH, status(500, "InternalError", message), CLIENT).error
    assert error.message == f"{told}read tcp 10.0.0.2:443: read: connection reset by peer"


def test_control_sequences_are_removed() -> None:
    error = response_failure(PATCH, status(422, "Inv\x1balid", "\x1b]0;owned\x07"), CLIENT).error

    assert isinstance(error, ApiError)
    assert "\x1b" not in f"{error}{error.status_reason}"


REFUSED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (f'configmaps "c" is forbidden: {REFUSED}: frozen', Denied),
        (
            "namespaces is forbidden: ValidatingAdmissionPolicy 'p' denied request: no",
            Denied,
        ),
        ("policy 'p' with binding 'b' denied request: no", Denied),
        ('policy "p" denied request: no', Denied),
        # Values of the object do not speak for the server.
        (f'ConfigMap "c" is invalid: data: Invalid value: "{REFUSED}": no', Invalid),
        ('ConfigMap "c" is invalid: data: Forbidden: field is immutable', Invalid),
    ],
)
def test_denial_of_a_policy_is_a_refusal_and_no_invalid_field(
    message: str, kind: type[ApiError]
) -> None:
    """By default a policy answers 422, as the validation of the server does."""
    assert type(response_failure(PATCH, status(422, "Invalid", message), CLIENT).error) is kind


CANARY = "c4n4ryc4n4ry"


@pytest.mark.parametrize(
    "answer",
    [
        status(500, "", f".data: expected map, got &{{[{CANARY}]}}"),
        status(
            422,
            "Invalid",
            f'Secret "s" is invalid: data[k]: Invalid value: "{CANARY}"',
            causes=[{"reason": "FieldValueInvalid", "message": CANARY, "field": "data[k]"}],
        ),
        status(400, "BadRequest", f"admission webhook says {CANARY}"),
        status(403, "Forbidden", f'admission webhook "w" denied the request: {CANARY}'),
        status(500, "InternalError", f'failed calling webhook "w": {CANARY}'),
        text(503, CANARY.encode()),
        text(500, CANARY.encode()),
        text(200, CANARY.encode()),
        text(404, CANARY.encode()),
    ],
)
def test_secret_error_contains_no_value(answer: RawResponse) -> None:
    request = ApiRequest("PATCH", "/api/v1/namespaces/n/secrets/s", secret=True)

    error = response_failure(request, answer, CLIENT).error

    assert CANARY not in f"{error!s} {error!r} {vars(error)}"
    assert str(error)


SENT = b'{"kind": "Secret", "data": {"k": "v", "a.b": "v"}}'


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("data[k]", "data[k]"),
        (".data.a.b", ".data.a.b"),
        # What the object lacks is not shown, because it may be a value.
        (f"data[{CANARY}]", "data"),
        (f".data.k.{CANARY}", "data.k"),
    ],
)
def test_secret_error_still_names_the_field(field: str, shown: str) -> None:
    answer = status(
        422, "Invalid", CANARY, causes=[{"reason": "X", "message": CANARY, "field": field}]
    )
    request = ApiRequest("PATCH", "/api/v1/namespaces/n/secrets/s", secret=True, body=SENT)

    assert f"refused the request at {shown} (Invalid)" in str(
        response_failure(request, answer, CLIENT).error
    )


def _refusal(
    *causes: tuple[str, str], message: str = "", method: str = "PATCH"
) -> tuple[str, str, ApiError]:
    named = [{"reason": "X", "field": at, "message": says} for at, says in causes]
    answer = status(422, "Invalid", message or f"Secret is invalid: {CANARY}", causes=named)
    path = "/api/v1/namespaces/n/secrets/s"
    request = ApiRequest(method, path, secret=True, body=SENT if method == "PATCH" else None)
    error = response_failure(request, answer, CLIENT).error
    assert isinstance(error, ApiError)
    assert CANARY not in f"{error!s} {error!r} {vars(error)}"
    return error.message, error.problem.hint, error


HIDDEN = "; the server's words are hidden, because they may hold a value"
TO_SEE = "To see the server's words, which may hold a value: kubectl"
UNTYPED = "failed to create typed patch object (n/s; /v1, Kind=Secret):"
APPLY = f"{TO_SEE} apply -n n --server-side --dry-run=server -f FILE"


@pytest.mark.parametrize(
    ("causes", "message", "hint"),
    [
        # The manifest lacks them, and the API names them for each TLS Secret.
        (
            [("data[tls.crt]", "Required value"), ("data[tls.key]", "Required value")],
            "data[tls.crt]: Required value, data[tls.key]: Required value",
            "",
        ),
        (
            [("metadata.annotations[kubernetes.io/service-account.name]", "Required value")],
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
            "",
        ),
        (
            [("type", f'Invalid value: "{CANARY}": field is immutable')],
            "type: Invalid value: field is immutable",
            "",
        ),
        (
            [("data[k]", "Required value"), ("data[a.b]", f'Invalid value: "{CANARY}": no')],
            f"data[k]: Required value, data[a.b]: Invalid value{HIDDEN}",
            APPLY,
        ),
        (
            [("data[k]", CANARY)],
            f"the server refused the request at data[k] (Invalid){HIDDEN}",
            APPLY,
        ),
        ([], f"the server refused the request (Invalid){HIDDEN}", APPLY),
    ],
)
def test_refused_secret_gives_the_reason_or_says_that_it_is_hidden(
    causes: list[tuple[str, str]], message: str, hint: str
) -> None:
    assert _refusal(*causes)[:2] == (message, hint)


@pytest.mark.parametrize(
    ("method", "message", "hint"),
    [
        ("PATCH", f'admission webhook "w" denied the request: {CANARY}', APPLY),
        (
            "DELETE",
            f'admission webhook "w" denied the request: {CANARY}',
            f"{TO_SEE} delete -n n --dry-run=server secret NAME",
        ),
        ("PATCH", 'admission webhook "w" denied the request', ""),
        # What follows is only the value.
        (
            "PATCH",
            f"{UNTYPED} .data: expected map, got &{{[{CANARY}]}}",
            "",
        ),
    ],
)
def test_refused_secret_names_the_command_that_shows_what_is_left_out(
    method: str, message: str, hint: str
) -> None:
    assert _refusal(message=message, method=method)[1] == hint


def test_refused_secret_shows_no_words_of_a_webhook() -> None:
    """It chooses the causes, too."""
    _, _, error = _refusal(("data[k]", "Required value"), message=DENIED)

    assert [cause["message"] for cause in error.causes] == [""]


DENIED = f'admission webhook "w" denied the request: {CANARY}'


@pytest.mark.parametrize(
    "code",
    [
        400,
        401,
        403,
        404,
        pytest.param(409, marks=pytest.mark.holds("forged-cause")),
        410,
        413,
        422,
        429,
        500,
        503,
    ],
)
def test_forged_causes_of_a_webhook_show_only_paths(code: int) -> None:
    """It knows all values, and chooses everything but the beginning of the message."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{CANARY}"',
            "field": "data.k",
        },
        {"reason": CANARY, "message": CANARY, "field": f".data.{CANARY}"},
        {"reason": CANARY, "message": CANARY, "field": CANARY},
    ]
    answer = status(code, CANARY, DENIED, causes=causes)
    request = ApiRequest("PATCH", "/api/v1/namespaces/n/secrets/s", secret=True, body=SENT)

    error = response_failure(request, answer, CLIENT).error

    assert isinstance(error, ApiError)
    assert CANARY not in f"{error!s} {error!r} {vars(error)}"
    assert [cause["field"] for cause in error.causes] == ["data.k", "data", ""]


@pytest.mark.parametrize("code", [400, 401, 405, 409, 410, 413, 422])
@pytest.mark.parametrize("reason", ["Conflict", "AlreadyExists", "Unauthorized", "Invalid", ""])
def test_webhook_cannot_speak_for_the_server(code: int, reason: str) -> None:
    """Whatever code and reason it chooses, it has refused the request; nobody was faster."""
    answer = status(code, reason, DENIED, kind="resourcequotas")
    failure = response_failure(PATCH, answer, CLIENT)

    assert type(failure.error) is Denied
    assert not failure.passing
    # The server's own words begin otherwise.
    own = response_failure(PATCH, status(409, "Conflict", f"no: {DENIED}"), CLIENT)
    assert isinstance(own.error, Conflict)
