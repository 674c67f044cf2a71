"""The user's own credentials for a registry, where ``docker login`` keeps them.

The file is ``config.json`` in ``$DOCKER_CONFIG``, or in ``~/.docker``. Where it names a credential
helper for the host, that program is asked, as docker asks it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from applyprune.sources.remote.fetch_errors import AuthenticationFailed
from applyprune.sources.remote.source_credentials import ANONYMOUS, Credentials
from applyprune.sources.source import shown_path
from applyprune.system.files import in_home
from applyprune.system.processes import GROUP_FLAGS, command_line, kill_group
from applyprune.values import pattern

HELPER_TIMEOUT = 30.0
"""Seconds for one credential helper."""

_MAX_BYTES = 2**20
_FILE = "config.json"
_HELPER = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IDENTITY_USER = "<token>"
_NOT_FOUND = "credentials not found"


def registry_login(
    host: str, environ: Mapping[str, str], where: str, timeout: float = HELPER_TIMEOUT
) -> Credentials:
    """Return the credentials for a registry, ANONYMOUS if there are none.

    ``host`` has its port, if it is not 443. ``timeout`` is in seconds, for a helper. Raises
    AuthenticationFailed for ``where`` if the file is invalid, or a helper that it names fails.
    """
    folder = environ.get("DOCKER_CONFIG")
    path = Path(folder, _FILE) if folder else in_home(environ, ".docker", _FILE)
    if path is None:
        return ANONYMOUS
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ANONYMOUS
    except OSError as error:
        raise _unusable(path, where, error.strerror or "") from None
    try:
        config = json.loads(data)
    except ValueError:
        raise _unusable(path, where, "it is not JSON") from None
    if not isinstance(config, dict):
        raise _unusable(path, where, "it is not a JSON object")
    if helper := _helper(config, host):
        login = _ask(helper, host, environ, where, timeout)
        if login is not None:
            return login
    return Credentials(docker_config=data)


def _helper(config: Mapping[str, Any], host: str) -> str:
    """Return the name of the helper for a host, empty for none."""
    helpers = config.get("credHelpers")
    own = helpers.get(host) if isinstance(helpers, dict) else None
    name = own if own is not None else config.get("credsStore")
    return name if isinstance(name, str) else ""


def _ask(
    name: str, host: str, environ: Mapping[str, str], where: str, timeout: float
) -> Credentials | None:
    """Return what a helper knows about a host; None if it has no credentials for it."""
    program = f"docker-credential-{name}"
    if _HELPER.fullmatch(name) is None:
        raise _failed(where, program, "its name is invalid")
    try:
        with subprocess.Popen(
            command_line([program, "get"], Path.cwd(), environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=GROUP_FLAGS,
            env=dict(environ),
        ) as process:
            try:
                out, _ = process.communicate(host.encode(), timeout=timeout)
            finally:
                if process.poll() is None:
                    with suppress(ProcessLookupError):
                        kill_group(process.pid)
    except subprocess.TimeoutExpired:
        reason = f"it has not finished after {timeout:.3g} s"
        raise _failed(where, program, reason) from None
    except OSError as error:
        raise _failed(where, program, error.strerror or "") from None
    if process.returncode:
        if _NOT_FOUND in out.decode("utf-8", "replace").lower():
            return None
        raise _failed(where, program, f"it exited with code {process.returncode}")
    try:
        reply = json.loads(out)
        user, secret = reply["Username"], reply["Secret"]
    except (ValueError, TypeError, KeyError):
        raise _failed(where, program, "its answer is invalid") from None
    if not (isinstance(user, str) and isinstance(secret, str)):
        raise _failed(where, program, "its answer is invalid")
    if user == _IDENTITY_USER:
        # As docker stores it without a helper: a token for the registry's server of tokens.
        entry = {"auths": {host: {"identitytoken": secret}}}
        return Credentials(docker_config=json.dumps(entry).encode())
    return Credentials(username=user, password=secret)


def _unusable(path: Path, where: str, reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"{shown_path(str(path))} cannot be read",
        location=where,
        reason=reason,
        hint="It has the credentials of registries: run `docker login` again.",
    )


def _failed(where: str, program: str, reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the credential helper {shown_path(program)} failed",
        location=where,
        reason=reason,
        hint="Docker's config.json names it in credHelpers or credsStore. Check it with: "
        f"echo HOST | {shown_path(program)} get",
    )
