"""The servers of attacks by a source on another host, and the hosts that nobody may reach."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.canaries import TOKEN
from tests.support.git_servers import HttpsSite, git_site
from tests.support.tls_site import Answer, Site, site

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OWN = "127.0.0.1"
"""Where the servers of the attacker are; the controller may go there."""
DENIED = "127.0.0.9"
"""An address in a network that is allowed, and is denied."""
FORBIDDEN = "127.0.0.2"
"""An address of the machine that nobody has allowed."""


@dataclass(slots=True)
class Servers:
    """All of them."""

    git: HttpsSite
    """The attacker's own: anybody may read it."""
    vault: HttpsSite
    """A repository of the victim, which wants a password."""
    web: Site
    """The attacker's own: answers that are made for an attack."""
    trap: int
    """The port at which connections to forbidden addresses are counted."""
    listening: Sequence[socket.socket] = field(repr=False)
    sentinel: Path
    """A file that commands of attacks would create."""

    def caught(self) -> list[str]:
        """Return the forbidden addresses that somebody has connected to."""
        ready, _, _ = select.select(self.listening, [], [], 0)
        return [one.getsockname()[0] for one in ready]

    @property
    def ca(self) -> bytes:
        """The CAs of all servers."""
        return b"\n".join([self.git.ca, self.vault.ca, self.web.ca])


@contextmanager
def attack_servers(folder: Path) -> Iterator[Servers]:
    """Start the servers; the trap listens, and never answers."""
    with ExitStack() as opened:
        git = opened.enter_context(git_site(folder / "git"))
        vault = opened.enter_context(git_site(folder / "vault", login=f"me:{TOKEN}"))
        web = opened.enter_context(site(lambda _: Answer(404)))
        first = opened.enter_context(socket.create_server((FORBIDDEN, 0)))
        port = first.getsockname()[1]
        listening = [first, opened.enter_context(socket.create_server((DENIED, port)))]
        with suppress(OSError):  # a machine without IPv6 has no such address either
            six = socket.create_server(("::1", port), family=socket.AF_INET6)
            listening.append(opened.enter_context(six))
        yield Servers(git, vault, web, port, listening, folder / "sentinel")


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """Yield the command lines of all processes that are seen until the end of the block."""
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            for one in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    seen.add(one.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
