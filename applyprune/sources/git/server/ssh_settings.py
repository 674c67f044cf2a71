"""The settings of one OpenSSH client: which key it shows, and which host keys it trusts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from applyprune.sources.git.program.git_program import GitProgram, Surroundings, dying_with_git
from applyprune.sources.remote.fetch_errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.sources.git.git_source import GitSource

_KNOWN_HOSTS = "Get the keys with `ssh-keyscan HOST`, check them, and give them as known_hosts."


def ssh_surroundings(program: GitProgram, source: GitSource, address: str) -> Surroundings:
    """Return what git has for SSH; ``address`` is that of the host, if it was checked.

    Raises AuthenticationFailed without the credentials that SSH needs.
    """
    credentials, url = source.credentials, source.parts
    lines = ["BatchMode yes", "StrictHostKeyChecking yes", "UpdateHostKeys no"]
    lines += ["ConnectTimeout 10", "ServerAliveInterval 15", "PermitLocalCommand no"]
    if address:
        alias = url.host if url.port == 22 else f"[{url.host}]:{url.port}"
        lines += [f"HostName {address}", f"HostKeyAlias {alias}", "CheckHostIP no"]
    if credentials.known_hosts:
        known = program.write("known_hosts", credentials.known_hosts)
        lines += [f'UserKnownHostsFile "{known}"', "GlobalKnownHostsFile none"]
    elif not source.uses_own:
        raise AuthenticationFailed(
            "SSH needs known_hosts", location=program.where, hint=_KNOWN_HOSTS
        )
    if credentials.identity:
        identity = program.write("identity", _private_key(source, program.where))
        lines += [f'IdentityFile "{identity}"', "IdentitiesOnly yes", "IdentityAgent none"]
        lines += ["PreferredAuthentications publickey"]
    elif not source.uses_own:
        raise AuthenticationFailed(
            "SSH needs a private key",
            location=program.where,
            hint="Give it as identity; a password alone is not supported.",
        )
    if source.uses_own:
        # The user's own settings follow: the first value of an option counts.
        options = [word for line in lines for word in ("-o", line.replace(" ", "=", 1))]
        return _around(("ssh", *options), dict(os.environ))
    lines += ["ForwardAgent no", "ClearAllForwardings yes", "ControlMaster no", "ControlPath none"]
    file = program.write("ssh_config", "\n".join(["Host *", *lines, ""]).encode())
    return _around(("ssh", "-F", str(file)), {})


def _around(command: Sequence[str], environ: dict[str, str]) -> Surroundings:
    own = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    ssh = {"GIT_SSH_COMMAND": dying_with_git(*command), "GIT_SSH_VARIANT": "ssh"}
    return Surroundings((("protocol.ssh.allow", "always"),), {**own, **ssh})


def _private_key(source: GitSource, where: str) -> bytes:
    """Return the private key of a source, without a passphrase if the source has it."""
    credentials = source.credentials
    data = credentials.identity.strip() + b"\n"
    if not credentials.password:
        return data
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
        load_ssh_private_key,
    )

    passphrase = credentials.password.encode()
    is_openssh = b"BEGIN OPENSSH PRIVATE KEY" in data
    try:
        key = (load_ssh_private_key if is_openssh else load_pem_private_key)(data, passphrase)
    except TypeError:
        return data  # it has no passphrase
    except (ValueError, UnsupportedAlgorithm):
        raise AuthenticationFailed(
            "the private key cannot be decrypted",
            location=where,
            hint="Check identity, and password, which is its passphrase.",
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
