"""What the real API server says about a broken Secret, and what of it is passed on."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.messages import ApiRequest
from applyprune.errors import ApiError

if TYPE_CHECKING:
    from tests.support.plane import OpenTransport

CANARY = "c4n4ryc4n4ryc4n4ry"
NUMBER = 987654321012
ENCODED = base64.b64encode(CANARY.encode()).decode()
TRACES = (CANARY, ENCODED, str(NUMBER), CANARY.upper())

BROKEN: dict[str, dict[str, Any]] = {
    "data is a list": {"data": [CANARY]},
    "data is a text": {"data": CANARY},
    "a value is a number": {"data": {"k": NUMBER}},
    "a value is a list": {"data": {"k": [CANARY]}},
    "a value is a mapping": {"data": {"k": {"v": CANARY}}},
    "a value is not base64": {"data": {"k": f"{CANARY}!"}},
    "stringData is a number": {"stringData": {"k": NUMBER}},
    "a key is no key": {"data": {"a key with spaces": ENCODED}},
    "an unknown field": {"date": {"k": ENCODED}},
    "immutable is a text": {"immutable": CANARY, "data": {"k": ENCODED}},
    "a certificate that is none": {"type": "kubernetes.io/tls", "data": {"tls.crt": ENCODED}},
    "docker settings that are none": {
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": ENCODED},
    },
    "the type is a list": {"type": [CANARY], "data": {"k": ENCODED}},
    "too large": {"data": {"k": ENCODED * 60_000}},
}


def send_broken(
    open_transport: OpenTransport, namespace: str, content: dict[str, Any], *, secret: bool
) -> ApiError:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": namespace},
        **content,
    }
    request = ApiRequest(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/secrets/s",
        query=(("fieldManager", "test"),),
        body=json.dumps(body).encode(),
        content_type="application/apply-patch+yaml",
        secret=secret,
    )
    with pytest.raises(ApiError) as caught:
        open_transport(retry_budget=0.1).send(request)
    return caught.value


@pytest.mark.parametrize("case", BROKEN)
def test_error_quotes_no_secret_value(
    open_transport: OpenTransport, namespace: str, case: str
) -> None:
    error = send_broken(open_transport, namespace, BROKEN[case], secret=True)

    told = f"{error!s} {error!r} {vars(error)}"
    assert not [trace for trace in TRACES if trace in told]
    assert type(error).__name__ == "Invalid"


def test_server_does_quote_values(open_transport: OpenTransport, namespace: str) -> None:
    # Else the test above would prove nothing.
    told = [
        str(send_broken(open_transport, namespace, content, secret=False))
        for content in BROKEN.values()
    ]

    assert sum(any(trace in text for trace in TRACES) for text in told) >= 5
