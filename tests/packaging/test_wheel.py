"""The built wheel in an empty environment: what it carries, and that the demo runs from it."""

from __future__ import annotations

import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from applyprune import __version__
from applyprune.localplane.build import module_digest
from tests.support.installing import run

if TYPE_CHECKING:
    from applyprune.localplane import Binaries

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.installs


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    # Compiling all of what it needs would take longer than everything else here.
    pip = (sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-compile")
    run(*pip, wheel, cwd=folder)
    return folder / "bin"


def test_wheel_contains_data_beside_the_code(wheel: Path) -> None:
    """The demo's manifests, ``deploy/``, the control plane's sources, and the mark of its types."""
    expected = {"applyprune/py.typed"}
    for source, target in (
        ("fixtures/demo", "applyprune/_data/demo"),
        ("deploy", "applyprune/_data/deploy"),
        ("applyprune/localplane/gomodule", "applyprune/localplane/gomodule"),
    ):
        folder = ROOT / source
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files, folder
        expected |= {f"{target}/{path.relative_to(folder).as_posix()}" for path in files}
    with ZipFile(wheel) as archive:
        carried = set(archive.namelist())
    assert expected - carried == set()


def test_wheel_contains_nothing_else(wheel: Path) -> None:
    """No tests, no fixtures, no leftovers of a build."""
    with ZipFile(wheel) as archive:
        carried = archive.namelist()
    tops = {name.partition("/")[0] for name in carried}
    assert tops == {"applyprune", f"applyprune-{__version__}.dist-info"}
    assert [name for name in carried if "__pycache__" in name] == []


def test_installed_wheel_runs(installed: Path, tmp_path: Path) -> None:
    """The program is there, and is the one that was built."""
    reply = run(installed / "applyprune", "--version", cwd=tmp_path)
    assert reply.stdout.strip() == f"applyprune, version {__version__}"


def test_demo_runs_from_the_wheel(installed: Path, binaries: Binaries, tmp_path: Path) -> None:
    """With the control plane that the test run has built already: same sources, same build.

    Slow: pip installs the wheel, and its demo starts a control plane.
    """
    assert binaries.program.exists()
    script = "from applyprune.localplane.build import module_digest; print(module_digest())"
    reply = run(installed / "python", "-c", script, cwd=tmp_path)
    assert reply.stdout.strip() == module_digest(), "it would build another control plane"
    reply = run(installed / "applyprune", "demo", cwd=tmp_path)
    assert "Demo finished." in reply.stdout
