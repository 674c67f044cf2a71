"""The credentials of a registry are found where docker keeps them, by real programs and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from applyprune.sources.address import ArtifactReference
from applyprune.sources.oci_registry import HELPER_TIMEOUT, Login, login_for, registry_login
from applyprune.sources.tree import ANONYMOUS, AuthenticationFailed, SourceCredentials
from tests.support.waiting import HANG

HOST = "registry.example.com:5000"
WHERE = f"oci://{HOST}/web"


def login(
    home: Path, config: object, *, timeout: float = HELPER_TIMEOUT, **more: str
) -> SourceCredentials:
    (home / ".docker").mkdir(exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (home / ".docker/config.json").write_text(text)
    environ = {"HOME": str(home), "PATH": f"{home}:/usr/bin:/bin", **more}
    return registry_login(HOST, environ, WHERE, timeout)


def helper(home: Path, name: str, script: str) -> None:
    path = home / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


GIVES = """read host; echo "{\\"Username\\": \\"$1 $host\\", \\"Secret\\": \\"hunter2\\"}" """


def test_user_without_a_file_is_anonymous(tmp_path: Path) -> None:
    assert registry_login(HOST, {"HOME": str(tmp_path)}, WHERE) == ANONYMOUS
    assert registry_login(HOST, {"DOCKER_CONFIG": str(tmp_path)}, WHERE) == ANONYMOUS
    (tmp_path / ".docker").touch()
    assert registry_login(HOST, {"HOME": str(tmp_path)}, WHERE) == ANONYMOUS


def test_file_is_given_as_it_is(tmp_path: Path) -> None:
    config = {"auths": {HOST: {"auth": "bWU6aHVudGVyMg=="}}}
    found = login(tmp_path, config)
    assert json.loads(found.docker_config) == config
    assert "hunter" not in repr(found)
    elsewhere = login(tmp_path, {}, DOCKER_CONFIG=str(tmp_path / "gone"))
    assert elsewhere == ANONYMOUS


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"credsStore": "all"}, f"get {HOST}"),
        ({"credHelpers": {HOST: "all"}, "credsStore": "gone"}, f"get {HOST}"),
        ({"credHelpers": {"other": "gone"}}, ""),
        ({"credHelpers": {"other": "gone"}, "credsStore": "all"}, f"get {HOST}"),
        ({"credsStore": ""}, ""),
    ],
)
def test_helper_for_the_host_is_asked(tmp_path: Path, config: object, expected: str) -> None:
    helper(tmp_path, "all", GIVES)
    found = login(tmp_path, config)
    assert found.username == expected
    assert found.password == ("hunter2" if expected else "")
    assert json.loads(found.docker_config) == config


def test_helper_without_credentials_leaves_the_file(tmp_path: Path) -> None:
    helper(tmp_path, "none", "echo 'credentials not found in native keychain'; exit 1")
    found = login(tmp_path, {"credsStore": "none", "auths": {}})
    assert found.docker_config
    assert not found.username


def test_helper_may_give_a_token(tmp_path: Path) -> None:
    helper(tmp_path, "t", """echo '{"Username": "<token>", "Secret": "hunter2"}'""")
    found = login(tmp_path, {"credsStore": "t"})
    assert login_for(ArtifactReference(HOST, "web"), found) == Login(refresh_token="hunter2")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo hunter2; exit 3", "it exited with code 3"),
        ("echo hunter2", "its answer is invalid"),
        ("echo '[]'", "its answer is invalid"),
        ("""echo '{"Username": 1, "Secret": "hunter2"}'""", "its answer is invalid"),
        ("yes hunter2", "its answer is too long"),
        ("sleep 3600", "it did not finish within 0.3 s"),
    ],
)
def test_helper_that_fails_is_an_error(tmp_path: Path, script: str, expected: str) -> None:
    """Never an anonymous request instead; nothing that the helper prints is repeated."""
    helper(tmp_path, "bad", script)
    with pytest.raises(AuthenticationFailed) as caught:
        login(tmp_path, {"credsStore": "bad"}, timeout=0.3 if "sleep" in script else HANG)
    assert str(caught.value).startswith(
        f"{WHERE}: the credential helper docker-credential-bad failed: "
    )
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["gone", "../evil", "a/b", "-x"])
def test_helper_that_is_no_program_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(AuthenticationFailed, match=r"failed: (No such file|its name is invalid)"):
        login(tmp_path, {"credsStore": name})


@pytest.mark.parametrize("text", ["{", "[]", '"hunter2"', "\x00"])
def test_invalid_file_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(AuthenticationFailed, match=r"config\.json cannot be read: it is not"):
        login(tmp_path, text)
