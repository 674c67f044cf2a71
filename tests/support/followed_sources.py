"""An artifact in a registry that a command reads by its address: published, gone and back."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.sources.oci_artifact import OciSource, push
from applyprune.sources.tree import SourceCredentials
from tests.support.registries import password_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.components import Components
    from tests.support.registries import Registry


@dataclass(frozen=True, slots=True)
class FollowedSource:
    """An artifact with a folder ``prod``, which the address names."""

    registry: Registry
    environ: Mapping[str, str]
    """What the user's environment has."""

    @property
    def shown(self) -> str:
        """Return the artifact, as in messages."""
        return f"oci://{self.registry.host}/shop/web:1.4.0"

    @property
    def address(self) -> str:
        return f"{self.shown}//prod"

    def publish(self, files: Mapping[str, str]) -> None:
        """Replace all files of the artifact, and bring it back."""
        credentials = SourceCredentials(
            username=self.registry.username,
            password=self.registry.password,
            ca=self.registry.ca.read_bytes(),
        )
        source = OciSource(self.shown, credentials=credentials)
        push(source, {name: text.encode() for name, text in files.items()})

    def remove(self) -> None:
        """Remove what the address names from the registry."""
        assert self.registry.storage is not None
        tags = "docker/registry/v2/repositories/shop/web/_manifests/tags"
        (self.registry.storage / tags / "1.4.0/current/link").unlink()


@contextmanager
def followed(folder: Path, components: Components) -> Iterator[FollowedSource]:
    """Start a registry, which has nothing yet."""
    home = folder / "home"
    home.mkdir()
    with password_registry(components, folder / "registry") as registry:
        login(home, registry)
        yield FollowedSource(registry, {"HOME": str(home), "SSL_CERT_FILE": str(registry.ca)})


def login(home: Path, registry: Registry) -> None:
    """Write what ``docker login`` writes."""
    auth = base64.b64encode(f"{registry.username}:{registry.password}".encode()).decode()
    (home / ".docker").mkdir(exist_ok=True)
    config = {"auths": {registry.host: {"auth": auth}}}
    (home / ".docker/config.json").write_text(json.dumps(config))
