"""Servers of sources that are killed at one request of the next look, and started again.

A server in front of the real one passes on each request. It is killed as a process is: nobody
listens at its port any more, and its connections have ended.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Self

import trustme

from applyprune.sources.oci_artifact import push
from applyprune.values import replace
from tests.support.artifacts import source_of
from tests.support.git_servers import git_site
from tests.support.registries import PASSWORD, USER, password_registry
from tests.support.remote_bundles import file_of, secret
from tests.support.tls_site import Answer, Site, passed_on, site

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.components import Components
    from tests.support.controller import Tenant
    from tests.support.tls_site import Answering, Call

LOGIN = "login"
"""The Secret with what all of these servers want."""


class Moment(Enum):
    """When a server is killed."""

    BEFORE = auto()
    """Before it sends a byte of a reply."""
    WITHIN = auto()
    """When it has sent half of the body."""
    AFTER = auto()
    """When it has sent all of a reply, before the next request."""


@dataclass(slots=True)
class KilledServer:
    """The server of one Bundle's source."""

    answer: Answering
    """The answers of the real one."""
    publish: Callable[[Sequence[str], str], str]
    """Puts ConfigMaps with a value there, instead of all others; returns the revision."""
    source: dict[str, Any] = field(default_factory=dict)
    """The source of the Bundle."""
    front: Site | None = None
    """None before it was started."""
    _number: int = 0
    _moment: Moment = Moment.BEFORE
    _asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, call: Call) -> Answer:
        """Answer, or be killed."""
        assert self.front is not None
        with self._lock:
            self._asked += 1
            is_last = self._asked == self._number
        if is_last and self._moment is Moment.BEFORE:
            self.front.kill()
        answer = self.answer(call)
        if is_last and self._moment is Moment.WITHIN:
            answer = replace(answer, cut=len(answer.body) // 2)
        return replace(answer, is_last=is_last)

    @property
    def is_killed(self) -> bool:
        """Return whether it was killed and has not started again."""
        return self.front is not None and self.front.is_killed

    def restart(self) -> None:
        """Start it again at the same port."""
        if self.front is not None:
            self.front.restart()

    def kill_at(self, number: int, moment: Moment) -> None:
        """Be killed at a request from now on: 1 is the next one."""
        with self._lock:
            self._number, self._moment, self._asked = number, moment, 0


class KilledServers:
    """All of them, with one CA; a context manager."""

    def __init__(self, folder: Path, components: Components) -> None:
        """Start nothing yet."""
        self._folder, self._components = folder, components
        self._authority = trustme.CA()
        self._opened = ExitStack()
        self.servers: dict[str, KilledServer] = {}

    def __enter__(self) -> Self:
        """Start the real servers."""
        self._git = self._opened.enter_context(
            git_site(self._folder / "git", login=f"{USER}:{PASSWORD}")
        )
        (self._folder / "git-ca.pem").write_bytes(self._git.ca)
        registry = password_registry(self._components, self._folder / "registry")
        self._registry = self._opened.enter_context(registry)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all of them."""
        self._opened.close()

    def login(self, tenant: Tenant) -> None:
        """Give a tenant what all of them want."""
        ca = self._authority.cert_pem.bytes()
        secret(tenant, LOGIN, {"username": USER, "password": PASSWORD, "ca.crt": ca})

    def start(self, kind: str, name: str) -> KilledServer:
        """Start a server with a source of that kind: git or oci."""
        makes = {"git": self._repository, "oci": self._artifact}
        server = self.servers[name] = makes[kind](name)
        server.front = self._opened.enter_context(site(server, authority=self._authority))
        login, url = {"name": LOGIN}, server.front.url
        source: dict[str, dict[str, Any]] = {
            "git": {"url": f"{url}/{name}.git", "path": "web", "secretRef": login},
            "oci": {
                "url": f"oci://{server.front.host}/{name}",
                "ref": {"tag": "prod"},
                "secretRef": login,
                "certSecretRef": login,
            },
        }
        server.source = {kind: {**source[kind], "interval": "1h"}}
        return server

    def _repository(self, name: str) -> KilledServer:
        repository = self._git.repository(name)

        def publish(names: Sequence[str], value: str) -> str:
            data = file_of(*names, value=value)
            return f"main@sha1:{repository.commit({'web/a.yaml': data, 'b.txt': 'b'})}"

        host = self._git.base.removeprefix("https://")
        return KilledServer(passed_on(host, self._folder / "git-ca.pem"), publish)

    def _artifact(self, name: str) -> KilledServer:
        def publish(names: Sequence[str], value: str) -> str:
            files = {"a.yaml": file_of(*names, value=value).encode()}
            return f"prod@{push(source_of(self._registry, f'{name}:prod'), files)}"

        return KilledServer(passed_on(self._registry.host, self._registry.ca), publish)
