"""Git servers that become bad, each with a good repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.bad_sources.bad_source import BadSource, Body, both, one
from tests.support.bad_sources.servers import CAS, INTERVAL, LOGIN
from tests.support.git_servers import Repository, ssh_site
from tests.support.registries import PASSWORD, USER
from tests.support.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.bad_sources.servers import BadServers
    from tests.support.git_servers import HttpsSite

SHORT = "3s"
"""The timeout of a source whose server is slow."""


def _server(
    reason: str,
    says: str,
    spoil: Callable[[HttpsSite], object],
    *,
    login: str = "",
    **more: Any,
) -> BadSource:
    def begin(servers: BadServers, name: str) -> Body:
        server = servers.own_git(name, login=login)
        server.repository().commit(both(name))
        credentials = LOGIN if login else CAS
        url = server.url("web")
        return {"git": {"url": url, "interval": INTERVAL, "secretRef": credentials, **more}}

    def spoil_it(servers: BadServers, name: str) -> None:
        server: HttpsSite = servers.own[name]
        server.repository_of("web").commit({**one(name), "b.yaml": None})
        spoil(server)

    return BadSource(reason, says, begin, spoil_it)


def _be_dumb(server: HttpsSite) -> None:
    server.repository_of("web").git("update-server-info")
    server.is_dumb = True


def _want(login: str) -> Callable[[HttpsSite], object]:
    return lambda server: setattr(server, "login", login)


def _begin_ssh(servers: BadServers, name: str) -> Body:
    server = servers.opened.enter_context(ssh_site(servers.folder / name))
    server.repository().commit(both(name))
    relay = servers.opened.enter_context(Relay(server.port))
    servers.own[name] = server, relay
    server.port = relay.port
    known = {"identity": server.identity(), "known_hosts": server.known_hosts()}
    servers.secrets[name] = known
    return {"git": {"url": server.url("web"), "interval": INTERVAL, "secretRef": {"name": name}}}


def _change_host_key(servers: BadServers, name: str) -> None:
    server, relay = servers.own[name]
    repository = Repository(servers.folder / name / "web.git", is_new=False)
    repository.commit({**one(name), "b.yaml": None})
    other = servers.opened.enter_context(ssh_site(servers.folder / name))
    other.authorize(server.client_key)
    relay.target = other.port


GIT_SERVERS: dict[str, BadSource] = {
    "wrong-password": _server(
        "AuthenticationFailed", "", _want("me:another"), login=f"{USER}:{PASSWORD}"
    ),
    "missing-password": _server("AuthenticationFailed", "", _want("me:another")),
    "other-host-key": BadSource("AuthenticationFailed", "host key", _begin_ssh, _change_host_key),
    "expired-certificate": _server(
        "FetchFailed", "no trusted TLS connection", lambda server: server.certify(expired=True)
    ),
    "dumb-server": _server("FetchFailed", "dumb HTTP", _be_dumb),
    "slow-server": _server(
        "FetchFailed",
        "not read in time",
        lambda server: setattr(server, "is_slow", True),
        timeout=SHORT,
    ),
    "cut-connection": _server(
        "FetchFailed", "cut off", lambda server: setattr(server, "cut_at", server.sent + 100)
    ),
}
