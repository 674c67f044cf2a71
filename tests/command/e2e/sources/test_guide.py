"""The commands of the guide to sources, on servers on loopback instead of example.com."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tests.docs.pages import page
from tests.docs.reader import commands
from tests.support.command import Ended, applyprune
from tests.support.followed_sources import login
from tests.support.registries import password_registry
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components

GUIDE = page("docs/guides/sources.md")
A = config_map("a")


def test_commands_of_the_guide_run(
    plane: Plane, namespace: str, components: Components, tmp_path: Path
) -> None:
    """All read the same object, so after the first apply nothing changes any more."""
    write(tmp_path, {"manifests/a.yaml": A})
    with password_registry(components, tmp_path / "registry") as registry:
        login(tmp_path, registry)

        def run(line: str) -> Ended:
            program, *words = shlex.split(line)
            assert program == "applyprune"
            found = [word.replace("registry.example.com", registry.host) for word in words]
            if found[0] != "push":
                found += ["-n", namespace]
            return applyprune(
                *found,
                kubeconfig=plane.kubeconfig,
                cwd=tmp_path,
                more={"HOME": str(tmp_path), "SSL_CERT_FILE": str(registry.ca)},
            )

        lines = [command.line for command in commands(GUIDE) if "example.com" in command.line]
        verbs = [line.split()[1] for line in lines]
        assert verbs == ["diff", "apply", "push", "push"]
        # The guide publishes last what it applies first.
        published = run(lines[-1])
        assert published.code == 0, published.err
        assert published.out.startswith(f"oci://{registry.host}/shop/web:1.4.0@sha256:")
        codes = [run(line).code for line in lines]
        assert codes == [1, 0, 0, 0]
        assert run(lines[0]).code == 0
