"""What an attack by a source on another host is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.attacks.servers import Servers

Body = dict[str, Any]
OPEN = {"secretRef": {"name": "cas"}}
"""The Secret with the CAs of the servers, and no credentials."""
LOGIN = {"secretRef": {"name": "login"}}
"""The same, with credentials of the attacker, which go to one host only."""


@dataclass(frozen=True, slots=True)
class SourceAttack:
    """One attack: the source of a Bundle, what is there, and what the Bundle says of it."""

    says: str
    """What the status says, in part."""
    source: Callable[[Servers], Body] | None = None
    """The source; None for the branch of the attacker's repository with the attack's name."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """The files of that branch."""
    modes: Mapping[str, str] = field(default_factory=dict)
    """Their modes, where they are no plain files."""
    path: str = "web"
    spec: Body = field(default_factory=dict)
    prepare: Callable[[Servers], None] = lambda _servers: None
    """What is on the servers for it."""
    never: tuple[str, ...] = ()
    """The paths of objects that must not exist afterwards."""


def git(url: str | None = None, /, **more: Any) -> Callable[[Servers], Body]:
    """Return a source in Git; ``{trap}`` in the URL is the port of the trap."""

    def source(servers: Servers) -> Body:
        where = servers.git.url("evil") if url is None else url.replace("{trap}", str(servers.trap))
        return {"git": {"url": where, "ref": {"branch": "honest"}, "path": "web", **OPEN, **more}}

    return source


def oci(name: str, /, **more: Any) -> Callable[[Servers], Body]:
    """Return an artifact at the attacker's site, or at a URL."""

    def source(servers: Servers) -> Body:
        url = name.replace("{trap}", str(servers.trap))
        where = url if "://" in url else f"oci://{servers.web.host}/{url}"
        return {"oci": {"url": where, "certSecretRef": {"name": "cas"}, **more}}

    return source
