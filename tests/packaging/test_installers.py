"""The built wheel, as pipx and uv install it: in an environment of its own, as a command."""

from __future__ import annotations

import sys
import venv
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune import __version__
from applyprune.cli.main import VERBS
from tests.support.installing import run

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = {"applyprune", "kubectl-applyprune", "kubectl_complete-applyprune"}

pytestmark = [pytest.mark.installs, pytest.mark.sweep]


@dataclass(frozen=True, slots=True)
class Installers:
    """pipx and uv, in an environment that the test has made."""

    programs: Path

    def pipx(self, wheel: Path, folder: Path) -> Path:
        """Install the wheel with pipx below a folder; return the folder of its command."""
        where = {
            "PIPX_HOME": str(folder / "home"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "PIPX_MAN_DIR": str(folder / "man"),
        }
        command = (self.programs / "pipx", "install", "--python", sys.executable, wheel)
        run(*command, cwd=folder, more=where)
        return folder / "bin"

    def uv(self, wheel: Path, folder: Path) -> Path:
        """Install the wheel with uv below a folder; return the folder of its command."""
        where = {
            "UV_TOOL_DIR": str(folder / "tools"),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            # As pip does; a company's proxy has a certificate of its own.
            "UV_SYSTEM_CERTS": "1",
        }
        command = (self.programs / "uv", "tool", "install", "--python", sys.executable, wheel)
        run(*command, cwd=folder, more=where)
        return folder / "bin"


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Installers:
    """From the package index."""
    folder = tmp_path_factory.mktemp("installers")
    venv.create(folder)
    pip = (sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-compile")
    run(*pip, "pipx>=1.7,<2", "uv>=0.9,<1", cwd=folder)
    return Installers(folder / "bin")


@pytest.mark.parametrize("installer", ["pipx", "uv"])
def test_installed_command_runs(
    installers: Installers, wheel: Path, tmp_path: Path, installer: str
) -> None:
    """It has all that it imports, and needs no shell, checkout or other environment."""
    programs = (installers.pipx if installer == "pipx" else installers.uv)(wheel, tmp_path)
    command = programs / "applyprune"
    assert {path.name for path in programs.iterdir()} == PROGRAMS
    version = run(command, "--version", cwd=tmp_path)
    assert version.stdout.startswith(f"applyprune, version {__version__}\n")
    told = run(command, "--help", cwd=tmp_path).stdout
    assert [name for verbs in VERBS.values() for name in verbs if name not in told] == []
