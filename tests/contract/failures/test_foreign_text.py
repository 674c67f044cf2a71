"""Texts of others: on one line, without control characters and values of the run's Secrets."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.failures import foreign_text, response_failure
from applyprune.cluster.messages import ApiRequest, ClientContext, RawResponse
from applyprune.errors import ApiError
from applyprune.http import Headers
from applyprune.planning.secrets import HIDDEN, KnownSecrets
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE = "hunter2-in-a-refusal"
ENCODED = base64.b64encode(VALUE.encode()).decode()
SECRETS = KnownSecrets(
    lambda: [{"stringData": {"a": VALUE, "b": "web", "c": "is", "d": "alice@example.com"}}]
)
CLIENT = ClientContext("prod", "alice", "https://k8s.example:6443", secrets=SECRETS)


PATCH = ApiRequest("PATCH", "/apis/apps/v1/namespaces/shop/deployments/web")


def status(code: int, reason: str, message: str, **details: Any) -> RawResponse:
    """Return a refusal in the server's own form."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return RawResponse(code, Headers(), json.dumps(body).encode(), body)


def _error(request: ApiRequest, response: RawResponse) -> ApiError:
    error = response_failure(request, response, CLIENT).error
    assert isinstance(error, ApiError)
    return error


def _texts(error: ApiError) -> Iterator[str]:
    yield from (error.message, error.reason, error.hint, error.status_reason)
    for cause in error.causes:
        yield from cause.values()


DENIED = 'admission webhook "a.example.com" denied the request'
QUOTED = f"found {VALUE} and {ENCODED}\n::error::forged\x1b[2J\u202e"
CAUSE = {"reason": f"Bad{VALUE}", "field": f"spec.{VALUE}", "message": QUOTED}
REFUSALS = {
    "webhook": status(403, "Forbidden", f"{DENIED}: {QUOTED}", causes=[CAUSE]),
    "webhook that says its own code": status(409, f"No{VALUE}", f"{DENIED}: {QUOTED}"),
    "webhook that names a manager": status(
        409, "Conflict", f"{DENIED}: x", causes=[{**CAUSE, "reason": "FieldManagerConflict"}]
    ),
    "policy": status(
        422,
        "Invalid",
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' "
        f"denied request: {QUOTED}",
    ),
    "conversion webhook": status(500, "InternalError", f"conversion failed: {QUOTED}"),
    "proxy": RawResponse(502, Headers(), QUOTED.encode(), None),
}


@pytest.mark.holds("secret-in-refusal", row="webhook")
@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusal_shows_no_value(refusal: str) -> None:
    """Of a Secret that the run knows, whatever object it refuses; and it is one line."""
    error = _error(PATCH, REFUSALS[refusal])
    for told in _texts(error):
        assert told.isprintable()
        # The path of a cause is the server's own, unless a webhook denies the request.
        if refusal.startswith("webhook") or told == error.message:
            assert VALUE not in told
            assert ENCODED not in told
    if "names" not in refusal:
        assert HIDDEN in error.message


OWN = (
    'namespaces "web" not found',
    (
        'services "web" is forbidden: User "alice@example.com" cannot get resource "services"'
        ' in API group "" in the namespace "web"'
    ),
    'deployments.apps "web" already exists',
)


@pytest.mark.parametrize("words", OWN)
def test_own_words_of_the_server_stay(words: str) -> None:
    """The run decides by them, and a name may be equal to a value."""
    assert foreign_text(words, CLIENT) == words


def test_beginning_that_says_who_refuses_stays() -> None:
    """Whatever the values are: it tells a refusal from a field that cannot be changed."""
    told = foreign_text('admission webhook "web" denied the request: it is so', CLIENT)
    assert told == f'admission webhook "web" denied the request: it {HIDDEN} so'


def test_conflict_keeps_the_names_of_managers() -> None:
    """They decide what a conflict is about."""
    cause: dict[str, Any] = {
        "reason": "FieldManagerConflict",
        "field": ".data.web",
        "message": 'conflict with "web" using v1',
    }
    error = _error(
        PATCH, status(409, "Conflict", "Apply failed with 1 conflict: x", causes=[cause])
    )
    assert error.causes == (cause,)


def test_hidden_texts_of_another_run_are_not_kept() -> None:
    """Each run knows its own Secrets."""
    other = replace(CLIENT, secrets=KnownSecrets())
    assert VALUE in foreign_text(f"found {VALUE}", other)
