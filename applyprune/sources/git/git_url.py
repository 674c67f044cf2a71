"""The URL of a repository: only https:// and ssh://, and nothing that git could read as an option.

The host is written in one way only, so that the address that was checked is the one that git uses.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote, urlsplit

from applyprune.errors import UsageError
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, field, pattern

_NAME = pattern(r"(?!-)[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_USER = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
# git@host:path, as scp writes it; a scheme has // after its colon.
_SCP = pattern(r"(?P<user>[^@/:]+)@(?P<host>[^/:@\[\]]+):(?!//)(?P<path>.+)")
_PORTS = {"https": 443, "ssh": 22}


@dataclass(frozen=True, slots=True)
class GitUrl:
    """The parts of a URL that was checked."""

    scheme: str
    """https or ssh."""
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    path: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    is_scp: bool = False
    """Whether it is written as ``git@host:path``: the path is relative to the user's home."""

    @property
    def place(self) -> str:
        """The scheme, host and port, as in the settings of git: ``https://host:8443``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def shown(self) -> str:
        """The URL, safe to print: without user and password."""
        if self.is_scp:
            return shown_path(f"{self.host}:{self.path}")
        return shown_path(f"{self.place}{self.path}")

    def given(self, user: str) -> str:
        """Return the URL as git gets it: for SSH with a user, and never with a password."""
        if self.is_scp:
            return f"{user}@{self.host}:{self.path}"
        if self.scheme == "ssh":
            return f"ssh://{user}@{self.place.removeprefix('ssh://')}{self.path}"
        return f"{self.place}{self.path}"


def parse_git_url(url: str) -> GitUrl:
    """Return the parts of a URL; raise UsageError for one that is not supported.

    The error shows no more of the URL than its scheme.
    """
    if not url.isprintable() or "\\" in url:
        raise UsageError("the URL of the repository contains control characters or a backslash")
    if (found := _SCP.fullmatch(url)) is not None:
        if found["path"].startswith("-"):
            raise UsageError("the path in the URL of the repository begins with a dash")
        host = _host(found["host"])
        return GitUrl("ssh", host, 22, found["path"], _user(found["user"]), is_scp=True)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError("the URL of the repository is invalid") from None
    if parts.scheme not in _PORTS:
        raise UsageError(
            f"unsupported URL of a repository: {shown_path(parts.scheme[:20])}:…",
            hint="Use https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH.",
        )
    if "?" in url or "#" in url:
        raise UsageError("the URL of a repository has no query and no fragment")
    if parts.path in {"", "/"}:
        raise UsageError("the URL of the repository has no path")
    if port == 0:
        raise UsageError("the URL of the repository has no valid port")
    return GitUrl(
        parts.scheme,
        _host(parts.hostname or ""),
        port or _PORTS[parts.scheme],
        parts.path,
        _user(unquote(parts.username)) if parts.username else "",
        unquote(parts.password or ""),
    )


def _host(host: str) -> str:
    host = host.lower()
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    last = host.rpartition(".")[2]
    # To some programs other names that end with a number are addresses: 127.1, 0x7f000001.
    if not _NAME.fullmatch(host) or last.isdigit() or last.startswith("0x") or ".." in host:
        raise UsageError(
            "the URL of the repository has no valid host",
            hint="Write an international name in its ASCII form.",
        )
    return host


def _user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise UsageError("the URL of the repository has an unsupported user")
    return user
