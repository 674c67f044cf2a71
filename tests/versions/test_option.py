"""``--kubernetes``: which tests it leaves out, which it skips, and what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.versions.releases import releases

ROOT = Path(__file__).parents[2]
OLDEST = releases()[0]
TESTS = f"""
import pytest

@pytest.fixture
def components():
    "Its name says that a test needs a server."

@pytest.mark.since_kubernetes("v1.36", "the server has the thing")
def test_new(components, kubernetes):
    assert kubernetes != "{OLDEST}"

def test_old(components, kubernetes):
    assert kubernetes == "{OLDEST}"

def test_without_a_server():
    raise AssertionError
"""


def _run(folder: Path, *options: str) -> str:
    """Run pytest on a file with these tests."""
    file = folder / "test_some.py"
    file.write_text(TESTS)
    project = ("-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider")
    command = (sys.executable, "-m", "pytest", *project, *options, str(file))
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout


@pytest.mark.parametrize("named", [OLDEST, OLDEST.removeprefix("v")])
def test_version_leaves_out_what_needs_no_server_and_skips_what_it_lacks(
    named: str, tmp_path: Path
) -> None:
    out = _run(tmp_path, "--kubernetes", named)
    assert f"\nKubernetes: {OLDEST}\n" in out
    assert "1 passed, 1 skipped, 1 deselected" in out
    assert f"Kubernetes {OLDEST}: the server has the thing since v1.36" in out


def test_default_version_has_everything_and_runs_every_test(tmp_path: Path) -> None:
    out = _run(tmp_path)
    assert f"\nKubernetes: {releases()[-1]}\n" in out
    assert "2 failed, 1 passed" in out
    assert "_ test_old _" in out
    assert "_ test_without_a_server _" in out
