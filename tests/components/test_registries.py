"""The registries of tests: who is let in, and what they write down."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import urllib3

from tests.support.home import processes_with
from tests.support.registries import (
    USER,
    anonymous_registry,
    password_registry,
    referrers_registry,
    token_registry,
)
from tests.support.registry_client import BASIC, MANIFEST_TYPE, Client, manifest_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.components import Components

WRONG = {"Authorization": "Basic " + base64.b64encode(f"{USER}:wrong".encode()).decode()}


@pytest.mark.parametrize("headers", [{}, WRONG], ids=["none", "wrong"])
def test_password_is_needed_and_requests_are_recorded(
    components: Components, tmp_path: Path, headers: dict[str, str]
) -> None:
    with password_registry(components, tmp_path) as registry:
        client = Client(registry)
        refused = client("GET", "/v2/", headers)
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"].startswith("Basic ")
        assert client("GET", "/v2/", BASIC).status == 200
        digest = client.push("shop/web", b"{}", BASIC)
        assert client("GET", f"/v2/shop/web/blobs/{digest}", BASIC).data == b"{}"
        assert registry.blob(digest).read_bytes() == b"{}"
        requests = eventually(lambda: [one for one in registry.requests() if "blobs/sha256" in one])
        assert requests == [f"GET /v2/shop/web/blobs/{digest} 200"]
        assert registry.requests()[:2] == ["GET /v2/ 401", "GET /v2/ 200"]
    with pytest.raises(urllib3.exceptions.HTTPError):
        client("GET", "/v2/", BASIC)


def test_registry_without_credentials(components: Components, tmp_path: Path) -> None:
    with anonymous_registry(components, tmp_path) as registry:
        client = Client(registry)
        assert client.push("shop/web", b"{}", {}).startswith("sha256:")


def test_blobs_are_elsewhere(components: Components, tmp_path: Path) -> None:
    with password_registry(components, tmp_path, blobs_at="https://127.0.0.1:9/store") as registry:
        client = Client(registry)
        digest = client.push("shop/web", b"{}", BASIC)
        found = client("GET", f"/v2/shop/web/blobs/{digest}", BASIC)
        assert found.status == 307
        where = found.headers["Location"].removeprefix("https://127.0.0.1:9/store/")
        assert registry.storage is not None
        assert (registry.storage / where).read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("headers", "name", "status"),
    [
        (BASIC, "shop/web", 200),
        ({}, "shop/web", 401),
        ({}, "public/web", 200),
    ],
    ids=["password", "nobody", "public"],
)
def test_tokens_allow_what_they_say(
    components: Components, tmp_path: Path, headers: dict[str, str], name: str, status: int
) -> None:
    with token_registry(components, tmp_path) as registry:
        client = Client(registry)
        digest = client.push(name, b"{}", _token(client, name, BASIC))
        bearer = _token(client, name, headers)
        assert client("GET", f"/v2/{name}/blobs/{digest}", bearer).status == status
        assert client("GET", f"/v2/other/blobs/{digest}", bearer).status == 401
        assert client("GET", f"/v2/{name}/blobs/{digest}", BASIC).status == 401
        assert len(registry.token_requests) == 2


def test_server_of_tokens_refuses_a_wrong_password(components: Components, tmp_path: Path) -> None:
    with token_registry(components, tmp_path) as registry:
        client = Client(registry)
        realm, scope = _challenge(client, "shop/web")
        assert client("GET", f"{realm}?scope={scope}", WRONG).status == 401


def test_expired_token_is_refused(components: Components, tmp_path: Path) -> None:
    with token_registry(components, tmp_path, lifetime=-100) as registry:
        client = Client(registry)
        bearer = _token(client, "public/web", BASIC)
        refused = client("GET", "/v2/public/web/tags/list", bearer)
        assert refused.status == 401
        assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]


def test_referrers_are_listed(components: Components, tmp_path: Path) -> None:
    with referrers_registry(components, tmp_path) as registry:
        client = Client(registry)
        assert client("GET", "/v2/", WRONG).status == 401
        config = client.push("shop/web", b"{}", BASIC)
        subject = client.push_manifest("shop/web", "1.4.0", manifest_of(config))
        names = {"digest": subject, "mediaType": MANIFEST_TYPE, "size": 1}
        about = manifest_of(config, subject=names, artifactType="application/x")
        referrer = client.push_manifest("shop/web", "about", about)
        listed = client("GET", f"/v2/shop/web/referrers/{subject}", BASIC).json()["manifests"]
        assert [one["digest"] for one in listed] == [referrer]
        assert f"GET /v2/shop/web/referrers/{subject} 200" in registry.requests()


@pytest.mark.parametrize("kind", ["password_registry", "referrers_registry"])
def test_registry_dies_with_the_test_that_started_it(
    components: Components, tmp_path: Path, kind: str
) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "from tests.components import Components\n"
        f"from tests.support.registries import {kind}\n"
        f"with {kind}(Components(*map(pathlib.Path, sys.argv[2:])), pathlib.Path(sys.argv[1])):\n"
        "    print('started', flush=True)\n"
        "    signal.pause()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "r"), *_paths(components)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "started\n"
        assert len(processes_with(tmp_path)) == 2
        starter.send_signal(signal.SIGKILL)
    eventually(lambda: processes_with(tmp_path) == {}, lambda: "the end of the registry")


def _paths(components: Components) -> list[str]:
    return [str(getattr(components, name)) for name in components.__slots__]


def _challenge(client: Client, name: str) -> tuple[str, str]:
    """Return the realm and the scope that the registry wants for a push."""
    refused = client("POST", f"/v2/{name}/blobs/uploads/", {})
    assert refused.status == 401
    parts = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers["WWW-Authenticate"]))
    return parts["realm"], parts["scope"]


def _token(client: Client, name: str, headers: dict[str, str]) -> dict[str, str]:
    """Return the header of a token for the repository."""
    realm, scope = _challenge(client, name)
    given = client("GET", f"{realm}?service=tests&scope={scope}", headers)
    assert given.status == 200, given.data
    return {"Authorization": f"Bearer {given.json()['token']}"}
