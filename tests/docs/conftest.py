"""An environment for what the pages tell a reader to run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.localplane import Binaries


@pytest.fixture(scope="session")
def environment(
    binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, str]]:
    """An environment with applyprune and kubectl, whose planes are the test's own."""
    folder = tmp_path_factory.mktemp("docs")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(binaries.kubectl)
    script = programs / "applyprune"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m applyprune "$@"\n')
    script.chmod(0o755)
    own = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    own["PATH"] = f"{programs}:{own['PATH']}"
    own["XDG_STATE_HOME"] = str(folder / "state")
    up = subprocess.run(
        [script, "local", "up"], env=own, check=True, capture_output=True, text=True
    )
    own["KUBECONFIG"] = up.stdout.strip().partition("=")[2]
    yield own
    subprocess.run(DOWN.split(), env=own, check=True, executable=script)
