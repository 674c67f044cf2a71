"""Sources on real servers that a command reads by an address: published, changed, gone and back."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from applyprune.sources.oci_artifact import OciSource, push
from applyprune.sources.tree import SourceCredentials
from tests.support.git_servers.https_site import git_site
from tests.support.registries import password_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.components import Components
    from tests.support.git_servers.repository import Repository
    from tests.support.registries import Registry

KINDS = ("git", "oci")


class FollowedSource(ABC):
    """A source with a folder ``prod``, which the address names."""

    def __init__(self, address: str, shown: str, environ: Mapping[str, str]) -> None:
        """Keep the address, its form in messages, and what the user's environment has."""
        self.address = address
        self.shown = shown
        self.environ = environ

    @property
    def commit(self) -> str:
        """Return the commit that the address means now; empty if it has none."""
        return ""

    @abstractmethod
    def publish(self, files: Mapping[str, str]) -> None:
        """Replace all files of the source, and bring it back."""

    @abstractmethod
    def remove(self) -> None:
        """Remove what the address names from the server."""


class _Git(FollowedSource):
    repository: Repository
    known: Mapping[str, str] = MappingProxyType({})

    @property
    def commit(self) -> str:
        return self.repository.oid("refs/heads/main")

    def publish(self, files: Mapping[str, str]) -> None:
        gone = {name: None for name in self.known if name not in files}
        self.repository.commit({**gone, **files})
        self.known = files

    def remove(self) -> None:
        self.repository.git("update-ref", "-d", "refs/heads/main")
        self.known = {}


class _Oci(FollowedSource):
    registry: Registry

    def publish(self, files: Mapping[str, str]) -> None:
        credentials = SourceCredentials(
            username=self.registry.username,
            password=self.registry.password,
            ca=self.registry.ca.read_bytes(),
        )
        source = OciSource(f"oci://{self.registry.host}/shop/web:1.4.0", credentials=credentials)
        push(source, {name: text.encode() for name, text in files.items()})

    def remove(self) -> None:
        assert self.registry.storage is not None
        tags = "docker/registry/v2/repositories/shop/web/_manifests/tags"
        (self.registry.storage / tags / "1.4.0/current/link").unlink()


@contextmanager
def followed(kind: str, folder: Path, components: Components) -> Iterator[FollowedSource]:
    """Start the server of a kind of source, which has nothing yet."""
    home = folder / "home"
    home.mkdir()
    ca = folder / "ca.pem"
    environ = {"HOME": str(home), "SSL_CERT_FILE": str(ca)}
    with ExitStack() as servers:
        if kind == "git":
            server = servers.enter_context(git_site(folder / "git", login="me:hunter2"))
            ca.write_bytes(server.ca)
            (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
            (home / ".git-credentials").write_text(
                server.base.replace("https://", "https://me:hunter2@") + "\n"
            )
            url = f"git+{server.url('deploy')}"
            git = _Git(f"{url}//prod?ref=main", url, environ)
            git.repository = server.repository("deploy")
            yield git
        else:
            registry = servers.enter_context(password_registry(components, folder / "registry"))
            ca.write_bytes(registry.ca.read_bytes())
            login(home, registry)
            url = f"oci://{registry.host}/shop/web:1.4.0"
            oci = _Oci(f"{url}//prod", url, environ)
            oci.registry = registry
            yield oci


def login(home: Path, registry: Registry) -> None:
    """Write what ``docker login`` writes."""
    auth = base64.b64encode(f"{registry.username}:{registry.password}".encode()).decode()
    (home / ".docker").mkdir(exist_ok=True)
    config = {"auths": {registry.host: {"auth": auth}}}
    (home / ".docker/config.json").write_text(json.dumps(config))
