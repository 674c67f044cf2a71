"""Fetches of Bundles that hang: each at a server, or in a program, until the test releases them."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import trustme

from applyprune.sources.oci_artifact import push
from tests.support.artifacts import source_of
from tests.support.encryption import age_key, encrypt
from tests.support.git_servers import git_site, ssh_site
from tests.support.processes import has_started
from tests.support.registries import password_registry
from tests.support.remote_bundles import file_of, git_source, registry_source, secret
from tests.support.signers import GpgSigner, gpg_home
from tests.support.tls_site import passed_on, site
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.components import Components
    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite
    from tests.support.tls_site import Answer, Call

REPLIES = (1, 2, 4)
"""At which replies of a Git server a fetch hangs: two are a look, the others a transfer."""
FETCH_WORKERS = len(REPLIES) + 5
"""Enough for all of these, and one more: the last one is kept for other namespaces."""
LONG = "10m"
"""The timeout of each look: it ends when it is killed."""
# While the file is there, the program hangs; its own arguments tell when.
_PROGRAM = """#!/bin/sh
case "$*" in *{word}*) [ -e {file} ] && exec sleep 30{number};; esac
exec {program} "$@"
"""


@dataclass(slots=True)
class HangingFetches:
    """Bundles of one tenant whose fetches hang until ``release``; a context manager."""

    folder: Path
    components: Components
    tenant: Tenant
    hangs: dict[str, Callable[[int], object]] = field(default_factory=dict)
    """What says of each Bundle, for the process of the controller, whether its fetch hangs."""
    _authority: trustme.CA = field(default_factory=trustme.CA)
    _go_on: threading.Event = field(default_factory=threading.Event)
    _releases: list[Callable[[], object]] = field(default_factory=list)
    _resets: list[Callable[[], object]] = field(default_factory=list)
    _opened: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        """Write the programs that hang."""
        self._releases.append(self._go_on.set)
        (self.folder / "bin").mkdir()
        self._program("gpg", "--verify", str(shutil.which("gpg")), 1)
        self._program("sops", "--decrypt", str(self.components.sops), 2)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all servers."""
        self.release()
        self._opened.close()

    @property
    def search_path(self) -> str:
        """The PATH of the controller."""
        return f"{self.folder / 'bin'}:{os.environ['PATH']}"

    def release(self) -> None:
        """Let every server answer, and every program run, from now on."""
        for release in self._releases:
            release()

    def wait(self, process: int) -> None:
        """Wait until all hang that the controller with this process has begun."""
        for name, hangs in self.hangs.items():
            eventually(partial(hangs, process), partial("{} hangs".format, name))

    def reset(self) -> None:
        """Count no fetch so far as one that hangs."""
        for reset in self._resets:
            reset()

    def begin(self) -> None:
        """Apply the Bundles."""
        for reply in REPLIES:
            self._git(reply)
        self._ssh()
        self._oci()
        self._gpg()
        self._sops()

    def _program(self, name: str, word: str, program: str, number: int) -> None:
        file, wrapper = self.folder / f"{name}-hangs", self.folder / "bin" / name
        file.touch()
        self._releases.append(lambda: file.unlink(missing_ok=True))
        wrapper.write_text(_PROGRAM.format(word=word, file=file, program=program, number=number))
        wrapper.chmod(0o755)

    def _follow(
        self, name: str, source: object, hangs: Callable[[int], object], **more: object
    ) -> None:
        self.hangs[name] = hangs
        self.tenant.bundle(name, source=source, interval="1h", **more)

    def _repository(self, name: str, data: str | bytes) -> HttpsSite:
        server = self._opened.enter_context(git_site(self.folder / name))
        server.repository().commit({"web/a.yaml": data, "other/b.yaml": "b" * 3000})
        secret(self.tenant, name, {"ca.crt": server.ca})
        return server

    def _git(self, reply: int) -> None:
        """A Git server that stops in the middle of a reply."""
        name = f"git-{reply}"
        server = self._repository(name, file_of(name))
        server.hold, server.hold_at = self._go_on, reply

        def reset() -> None:
            server.replies = 0
            server.held.clear()

        self._resets.append(reset)
        source = git_source(
            server, path="web", interval="1h", timeout=LONG, secretRef={"name": name}
        )
        self._follow(name, source, lambda _: server.held.is_set())

    def _ssh(self) -> None:
        """A Git server that lets ssh in, and then says nothing."""
        server = self._opened.enter_context(ssh_site(self.folder / "ssh"))
        server.repository().commit({"web/a.yaml": file_of("ssh")})
        server.go_on = self._go_on
        self._resets.append(server.commands.clear)
        keys = {"identity": server.identity(), "known_hosts": server.known_hosts()}
        secret(self.tenant, "ssh", keys)
        own = {"secretRef": {"name": "ssh"}, "timeout": LONG}
        source = {"url": server.url("web"), "path": "web", **own}
        self._follow("ssh", {"git": source}, lambda _: server.commands)

    def _oci(self) -> None:
        """A registry that does not answer."""
        opened = password_registry(self.components, self.folder / "registry")
        registry = self._opened.enter_context(opened)
        push(source_of(registry, "shop/web:latest"), {"a.yaml": file_of("oci").encode()})
        answer = passed_on(registry.host, registry.ca)

        def late(call: Call) -> Answer:
            self._go_on.wait(HANG)
            return answer(call)

        front = self._opened.enter_context(site(late, authority=self._authority))
        self._resets.append(front.calls.clear)
        self._authority.cert_pem.write_to_path(self.folder / "ca.pem")
        shown = replace(registry, host=front.host, ca=self.folder / "ca.pem")
        source = registry_source(self.tenant, shown, interval="1h", timeout=LONG)
        self._follow("oci", source, lambda _: front.calls)

    def _gpg(self) -> None:
        """A gpg that git has started, and that does not end."""
        home = self.folder / "gnupg"
        home.mkdir()
        with gpg_home(home):
            signer = GpgSigner(home, "own")
            server = self._repository("gpg", file_of("gpg"))
            repository = server.repository_of("web")
            repository.sign(signer.settings, "main")
            secret(self.tenant, "signers", {"own.asc": signer.public()})
        verify = {"secretRef": {"name": "signers"}}
        own = {"name": "gpg"}
        source = git_source(
            server, path="web", interval="1h", timeout=LONG, secretRef=own, verify=verify
        )
        self._follow("gpg", source, lambda process: has_started(process, "sleep 301"))

    def _sops(self) -> None:
        """A sops that does not end, for what is fetched already."""
        key = age_key(self.components)
        file = encrypt(self.components, file_of("sops"), "--age", key.recipient)
        server = self._repository("sops", file)
        secret(self.tenant, "keys", key.secret)
        source = git_source(
            server, path="web", interval="1h", timeout=LONG, secretRef={"name": "sops"}
        )
        decryption = {"provider": "sops", "secretRef": {"name": "keys"}}
        more = {"decryption": decryption}
        self._follow("sops", source, lambda process: has_started(process, "sleep 302"), **more)
