"""An environment for what the pages tell a reader to run."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import DOWN
from tests.docs.reader import reader_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.localplane import Binaries


@pytest.fixture(scope="session")
def environment(
    binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, str]]:
    """An environment with applyprune and kubectl, whose planes are the test's own."""
    folder = tmp_path_factory.mktemp("docs")
    own = reader_environment(binaries, folder)
    own["XDG_STATE_HOME"] = str(folder / "state")
    script = folder / "bin" / "applyprune"
    up = subprocess.run(
        [script, "local", "up"], env=own, check=True, capture_output=True, text=True
    )
    own["KUBECONFIG"] = up.stdout.strip().partition("=")[2]
    yield own
    subprocess.run(DOWN.split(), env=own, check=True, executable=script)
