"""Over SSH: the real client of OpenSSH, which trusts one host key and shows one key."""

from __future__ import annotations

import re
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from applyprune.sources.git_server import find_ref
from applyprune.sources.tree import AuthenticationFailed, FetchFailed
from applyprune.values import replace
from tests.support.git_servers import SshSite
from tests.support.git_servers.reads import fetch_git
from tests.support.listening import listening, silent_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"a/x.yaml": "x", "b/y.yaml": "y"}
SECRET = "hunter2"


def test_path_is_read(ssh: SshSite, tmp_path: Path) -> None:
    """With the second protocol, so that references and files are filtered."""
    commit = ssh.repository().commit(FILES)
    tree = fetch_git(ssh.source(), "a", tmp_path / "store")
    assert (tree.files, tree.revision) == ({"a/x.yaml": b"x"}, f"main@sha1:{commit}")
    assert set(ssh.protocols) == {"version=2"}
    assert set(ssh.commands) == {"git-upload-pack '/web.git'"}


def test_path_in_a_url_is_no_command(ssh: SshSite, tmp_path: Path) -> None:
    """The server's shell gets it as one word."""
    mark = tmp_path / "ran"
    source = replace(
        ssh.source(), url=f"{ssh.url('web')}$(touch%20{mark})`touch${{IFS}}'{mark}'`;'"
    )
    with pytest.raises(FetchFailed):
        find_ref(source)
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["openssh", "pkcs8-pem", "pkcs1-pem"])
def test_passphrase_decrypts_the_identity(ssh: SshSite, kind: str) -> None:
    ssh.repository().commit(FILES)
    if kind == "pkcs1-pem":
        ssh.authorize(asyncssh.generate_private_key("ssh-rsa"))
    # By default, OpenSSH's format takes a second for each decryption.
    few: Any = {"rounds": 1, "ignore_few_rounds": True} if kind == "openssh" else {}
    key = ssh.client_key.export_private_key(kind, passphrase=SECRET, **few)
    source = ssh.source(credentials=replace(ssh.credentials, identity=key, password=SECRET))
    assert find_ref(source).name == "refs/heads/main"
    for password in ("wrong", ""):
        wrong = replace(source.credentials, password=password)
        with pytest.raises(AuthenticationFailed) as caught:
            find_ref(replace(source, credentials=wrong))
        assert SECRET not in str(caught.value)


def test_password_beside_a_plain_identity_is_ignored(ssh: SshSite) -> None:
    ssh.repository().commit(FILES)
    assert find_ref(ssh.source(credentials=replace(ssh.credentials, password=SECRET))).commit


def test_other_host_key_is_refused(ssh: SshSite) -> None:
    """Nothing is sent to such a server."""
    ssh.repository().commit(FILES)
    other = ssh.known_hosts(asyncssh.generate_private_key("ssh-ed25519"))
    for known in (other, other.replace(b"localhost", b"elsewhere")):
        with pytest.raises(AuthenticationFailed, match="no host key that known_hosts names"):
            find_ref(ssh.source(credentials=replace(ssh.credentials, known_hosts=known)))
    assert ssh.commands == []


def test_missing_credentials_are_named(ssh: SshSite) -> None:
    ssh.repository().commit(FILES)
    with pytest.raises(AuthenticationFailed, match="needs known_hosts"):
        find_ref(ssh.source(credentials=replace(ssh.credentials, known_hosts=b"")))
    with pytest.raises(AuthenticationFailed, match="needs a private key"):
        find_ref(ssh.source(credentials=replace(ssh.credentials, identity=b"")))


@pytest.mark.parametrize("identity", [b"none", b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"])
def test_unusable_identity_is_refused(ssh: SshSite, identity: bytes) -> None:
    ssh.repository().commit(FILES)
    for password in ("", SECRET):
        credentials = replace(ssh.credentials, identity=identity, password=password)
        with pytest.raises(AuthenticationFailed):
            find_ref(ssh.source(credentials=credentials))


def test_foreign_identity_is_refused(ssh: SshSite) -> None:
    ssh.repository().commit(FILES)
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key()
    with pytest.raises(AuthenticationFailed, match="refuses the credentials"):
        find_ref(ssh.source(credentials=replace(ssh.credentials, identity=key)))


def test_missing_repository_is_reported(ssh: SshSite) -> None:
    with pytest.raises(FetchFailed, match="no such repository"):
        find_ref(ssh.source("none"))


def test_unreachable_server_is_reported(ssh: SshSite) -> None:
    with silent_port() as port:
        for host, message in (
            (f"localhost:{port}", "cannot be reached"),
            ("tls.invalid", "resolved"),
        ):
            source = replace(ssh.source(), url=f"ssh://git@{host}/web.git")
            with pytest.raises(FetchFailed, match=message) as caught:
                find_ref(source)
            assert re.search(r"; ssh says: ssh: .* host(?:name)? ….*: .", caught.value.reason)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"", "kex_exchange_identification: Connection closed by remote host"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "kex_exchange_identification: "),
        (b"SSH-2.0-x\r\n", "Connection closed by"),
    ],
)
def test_own_words_of_ssh_are_the_reason(ssh: SshSite, reply: bytes, said: str) -> None:
    """Of a server that closes, that speaks something else, or that goes in the middle."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    with listening(serve) as port:
        source = replace(ssh.source(), url=f"ssh://git@localhost:{port}/web.git")
        with pytest.raises(FetchFailed) as caught:
            find_ref(source)
    assert f"ssh says: {said}" in caught.value.reason
    assert "Could not read" not in str(caught.value)


def test_user_of_a_secret_is_not_shown(ssh: SshSite) -> None:
    """Although ssh names whom the server refuses."""
    ssh.repository().commit(FILES)
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key()
    credentials = replace(ssh.credentials, identity=key, username=SECRET)
    source = ssh.source(credentials=credentials)
    with pytest.raises(AuthenticationFailed, match=r"ssh says: Permission denied \(") as caught:
        find_ref(replace(source, url=source.url.replace("git@", "")))
    assert SECRET not in str(caught.value)


def test_user_without_a_passwd_entry_is_named(
    ssh: SshSite, be_without_passwd_entry: Callable[[], None]
) -> None:
    """By the user ID of whoever runs ssh; with what to do."""
    ssh.repository().commit(FILES)
    be_without_passwd_entry()
    with pytest.raises(FetchFailed, match="ssh says: No user exists for uid 54321") as caught:
        find_ref(ssh.source())
    assert "/etc/passwd" in caught.value.reason
    assert "mount an /etc/passwd" in caught.value.hint


def test_agent_of_the_controller_is_not_used(
    ssh: SshSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.repository().commit(FILES)
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_bytes(ssh.identity())
    socket = str(tmp_path / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as agent:
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", socket)
            while subprocess.run(
                ["ssh-add", "-q", key], capture_output=True, check=False
            ).returncode:
                assert agent.poll() is None
            own = replace(ssh.credentials, identity=b"")
            with pytest.raises(AuthenticationFailed):
                find_ref(ssh.source(credentials=own))
            foreign = asyncssh.generate_private_key("ssh-ed25519").export_private_key()
            with pytest.raises(AuthenticationFailed, match="refuses the credentials"):
                find_ref(ssh.source(credentials=replace(own, identity=foreign)))
        finally:
            agent.terminate()
