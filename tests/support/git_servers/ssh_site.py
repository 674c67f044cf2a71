"""An SSH server around ``git upload-pack`` on loopback, for the real client of OpenSSH."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh

from applyprune.sources.address import GitRef, GitSource
from applyprune.sources.tree import SourceCredentials
from tests.support.git_servers.repository import Repository, author
from tests.support.listening import listened_at
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

USER = "git"
_CHUNK = 65536
_LONGEST = HANG


class SshSite:
    """Serves the repositories of a folder to one key."""

    def __init__(self, folder: Path, host: str = "localhost") -> None:
        """Make the keys of the server and of its client."""
        self.folder = folder
        self.host = host
        self.port = 0
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.client_key = asyncssh.generate_private_key("ssh-ed25519")
        self.commands: list[str] = []
        """What clients have run."""
        self.protocols: list[str] = []
        """The GIT_PROTOCOL of each."""
        self.go_on = threading.Event()
        """What each command waits for, a minute at most; set at first."""
        self.go_on.set()

    def repository(self, name: str = "web") -> Repository:
        """Create a repository."""
        return Repository(self.folder / f"{name}.git")

    def url(self, name: str) -> str:
        """Return the URL of a repository."""
        return f"ssh://{USER}@{self.host}:{self.port}/{name}.git"

    def known_hosts(self, key: asyncssh.SSHKey | None = None) -> bytes:
        """Return the line about the server, or about one with another host key."""
        public = (key or self.host_key).export_public_key().decode().strip()
        return f"[{self.host}]:{self.port} {public}\n".encode()

    def identity(self, passphrase: str = "") -> bytes:
        """Return the private key of the client, encrypted if there is a passphrase."""
        if passphrase:
            return self.client_key.export_private_key(passphrase=passphrase)
        return self.client_key.export_private_key()

    def authorize(self, key: asyncssh.SSHKey) -> None:
        """Serve another key, and no longer the one before it."""
        self.client_key = key

    @property
    def credentials(self) -> SourceCredentials:
        """What the server wants, and its host key."""
        return SourceCredentials(identity=self.identity(), known_hosts=self.known_hosts())

    def source(self, name: str = "web", ref: GitRef | None = None, **fields: Any) -> GitSource:
        """Return the source that reads a repository, as its owner."""
        given: dict[str, Any] = {"credentials": self.credentials, "timeout": HANG, **fields}
        return GitSource(self.url(name), ref or GitRef(branch="main"), **given)

    async def serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run upload-pack for one client."""
        command = process.command or ""
        self.commands.append(command)
        words = shlex.split(command)
        protocol = process.env.get("GIT_PROTOCOL", "")
        self.protocols.append(protocol)
        if len(words) != 2 or words[0] != "git-upload-pack":
            process.exit(1)
            return
        await asyncio.to_thread(self.go_on.wait, _LONGEST)
        child = await asyncio.create_subprocess_exec(
            *("git", "upload-pack", str(self.folder / words[1].lstrip("/"))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**author(), "GIT_PROTOCOL": protocol},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        upward = asyncio.create_task(_pump(process.stdin, child.stdin))
        try:
            await _pump(child.stdout, process.stdout)
            await _pump(child.stderr, process.stderr)
            process.exit(await child.wait())
        finally:
            upward.cancel()
            await asyncio.gather(upward, return_exceptions=True)
            if child.returncode is None:
                child.kill()
                await child.wait()


class _Login(asyncssh.SSHServer):
    """Lets the one key in."""

    def __init__(self, site: SshSite) -> None:
        self._site = site

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key.public_data == self._site.client_key.public_data


async def _pump(reader: Any, writer: Any) -> None:
    """Copy what arrives until its end."""
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if isinstance(writer, asyncio.StreamWriter):
            writer.close()


@contextlib.contextmanager
def ssh_site(folder: Path, host: str = "localhost") -> Iterator[SshSite]:
    """Yield a site that serves what is in a folder; it has stopped afterwards."""
    site = SshSite(folder, host)
    folder.mkdir(parents=True, exist_ok=True)
    loop = asyncio.new_event_loop()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            listened_at(host),
            0,
            server_host_keys=[site.host_key],
            server_factory=lambda: _Login(site),
            process_factory=site.serve,
            encoding=None,
        )

    acceptor = loop.run_until_complete(listen())
    site.port = acceptor.get_port()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def close() -> None:
        acceptor.close()
        await acceptor.wait_closed()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield site
    finally:
        site.go_on.set()
        _finish(loop, close)
        thread.join()
        loop.close()


def _finish(loop: asyncio.AbstractEventLoop, close: Callable[[], Any]) -> None:
    with contextlib.suppress(TimeoutError):
        asyncio.run_coroutine_threadsafe(close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
