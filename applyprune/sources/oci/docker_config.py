"""Credentials for a registry in ``.dockerconfigjson``, the content of an image pull Secret."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING

from applyprune.model.json_access import mapping, text
from applyprune.sources.remote.fetch_errors import AuthenticationFailed
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.sources.oci.reference import Reference
    from applyprune.sources.remote.source_credentials import Credentials

_HINT = "Check .dockerconfigjson in the source's Secret."
_ENDS = ("/v1", "/v2")


@dataclass(frozen=True, slots=True)
class Login:
    """Who pulls and pushes; each field is empty if it is not known."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    bearer_token: str = field(default="", repr=False)
    """A token for the registry itself, which is sent unasked."""
    refresh_token: str = field(default="", repr=False)
    """A token that the registry's token server exchanges for another one."""


def login_for(reference: Reference, credentials: Credentials) -> Login:
    """Return the login for a registry: the one that is given, else that of its host.

    Raises AuthenticationFailed for a ``.dockerconfigjson`` that cannot be read.
    """
    if credentials.username or credentials.password or credentials.bearer_token:
        return Login(credentials.username, credentials.password, credentials.bearer_token)
    if not credentials.docker_config:
        return Login()
    try:
        config = json.loads(credentials.docker_config)
    except (ValueError, RecursionError):
        # The error would quote a password.
        raise AuthenticationFailed("the credentials are not JSON", hint=_HINT) from None
    entries = mapping(mapping(config).get("auths"))
    place = f"{reference.host}/{reference.repository}".lower()
    # As kubelet does: the longest name wins, which may be that of a part of the registry.
    best = max((key for key in entries if _covers(_normal(key), place)), key=_length, default=None)
    return _login(mapping(entries[best])) if best is not None else Login()


def _normal(key: str) -> str:
    name = key.lower().removeprefix("https://").rstrip("/")
    for end in _ENDS:
        name = name.removesuffix(end)
    return name


def _length(key: str) -> int:
    return len(_normal(key))


def _covers(name: str, place: str) -> bool:
    return bool(name) and (place == name or place.startswith(f"{name}/"))


def _login(entry: Mapping[str, object]) -> Login:
    username, password = text(entry, "username"), text(entry, "password")
    if auth := text(entry, "auth"):
        try:
            decoded = base64.b64decode(auth, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise AuthenticationFailed("the field auth is not base64", hint=_HINT) from None
        username, _, password = decoded.rstrip("\n").partition(":")
    return Login(
        username,
        password,
        text(entry, "registrytoken"),
        text(entry, "identitytoken"),
    )
