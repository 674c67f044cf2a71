"""The servers of sources that become bad: those for many of them, and those for one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trustme

from tests.support.encryption import age_key
from tests.support.git_servers import git_site
from tests.support.registries import PASSWORD, USER, password_registry
from tests.support.signers import SshSigner
from tests.support.tls_site import passed_on, site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.components import Components
    from tests.support.encryption import Key
    from tests.support.git_servers import HttpsSite
    from tests.support.registries import Registry
    from tests.support.tls_site import Answering, Site

LOGIN = {"name": "login"}
"""The Secret with user, password and the CAs of all servers."""
CAS = {"name": "cas"}
"""The Secret with the CAs alone."""
KEYS = {"name": "keys"}
SIGNERS = {"name": "signers"}
INTERVAL = "1h"
"""Of each source: a look is asked for."""


@dataclass(slots=True)
class BadServers:
    """All of them; each source has a name of its own on them."""

    folder: Path
    components: Components
    opened: ExitStack
    git: HttpsSite
    registry: Registry
    registry_answers: Answering
    front: Site
    """Passes on what the registry is asked."""
    key: Key
    signer: SshSigner
    cas: list[bytes] = field(default_factory=list)
    secrets: dict[str, Mapping[str, str | bytes]] = field(default_factory=dict)
    """The Secrets of the Bundles' namespace."""
    own: dict[str, Any] = field(default_factory=dict)
    """The server of one source, by the name of its Bundle."""
    files_of_content: dict[str, str | bytes | None] = field(default_factory=dict)
    """What is committed next to the branch that many Bundles follow, each another path."""
    modes_of_content: dict[str, str] = field(default_factory=dict)
    raw_content: list[bytes] = field(default_factory=list)
    """The same, as lines of ``git fast-import``."""

    def own_git(self, name: str, **options: Any) -> HttpsSite:
        """Start a Git server for one Bundle."""
        server = self.opened.enter_context(git_site(self.folder / name, **options))
        self.cas.append(server.ca)
        self.own[name] = server
        return server

    def commit_content(self) -> None:
        """Commit what was collected for the branch that many Bundles follow."""
        repository = self.git.repository_of("content")
        repository.commit(self.files_of_content, modes=self.modes_of_content)
        if self.raw_content:
            repository.import_commit(self.raw_content)
        for collected in (self.files_of_content, self.modes_of_content, self.raw_content):
            collected.clear()

    def all_secrets(self) -> Mapping[str, Mapping[str, str | bytes]]:
        """Return the Secrets of the Bundles' namespace, once all servers run."""
        cas: dict[str, str | bytes] = {"ca.crt": b"\n".join(self.cas)}
        login = {"username": USER, "password": PASSWORD, **cas}
        shared: dict[str, Mapping[str, str | bytes]] = {
            LOGIN["name"]: login,
            CAS["name"]: cas,
            KEYS["name"]: self.key.secret,
            SIGNERS["name"]: {"own.sshpub": self.signer.public()},
        }
        return {**shared, **self.secrets}


@contextmanager
def bad_servers(folder: Path, components: Components) -> Iterator[BadServers]:
    """Start the servers that many sources share; the others end with them."""
    authority = trustme.CA()
    with ExitStack() as opened:
        git = opened.enter_context(git_site(folder / "git", login=f"{USER}:{PASSWORD}"))
        git.repository("content")
        registry = opened.enter_context(password_registry(components, folder / "registry"))
        answers = passed_on(registry.host, registry.ca)
        front = opened.enter_context(site(answers, authority=authority))
        yield BadServers(
            folder,
            components,
            opened,
            git,
            registry,
            answers,
            front,
            age_key(components),
            SshSigner(folder / "signer"),
            [git.ca, authority.cert_pem.bytes()],
        )
