"""A skipped case fails its sweep: pytest is run on a file with skips, with this project's hooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPS = """
import pytest

@pytest.fixture
def cannot():
    pytest.skip("no such machine")

@pytest.mark.sweep
def test_in_its_body():
    pytest.skip("no such right")

@pytest.mark.sweep
def test_by_a_fixture(cannot):
    pass

@pytest.mark.sweep
@pytest.mark.skipif(True, reason="no such program")
def test_by_its_mark():
    pass

@pytest.mark.sweep
@pytest.mark.parametrize("case", [])
def test_without_cases(case):
    pass

@pytest.mark.sweep
@pytest.mark.xfail(reason="expected", strict=True)
def test_expected_to_fail():
    raise AssertionError

def test_in_no_sweep():
    pytest.skip("allowed")
"""


def _run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """Run pytest on a file with this text."""
    file = folder / "test_skips.py"
    file.write_text(text)
    # Outside the project: its hooks and its markers are named.
    project = ("-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider")
    command = (sys.executable, "-m", "pytest", "-q", *project, *options, str(file))
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


def test_skip_in_a_sweep_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    """Wherever the skip comes from; elsewhere it stays a skip."""
    code, out = _run(tmp_path, SKIPS, "-m", "")
    assert code == 1
    assert "1 failed, 1 skipped, 1 xfailed, 3 errors" in out
    for why in ("no such right", "no such machine", "no such program", "got empty parameter set"):
        assert f"would prove nothing: Skipped: {why}" in out
    assert ": allowed" in out


@pytest.mark.parametrize(("marked", "code"), [("sweep", 2), ("not sweep", 5)])
def test_skip_of_a_whole_file_is_a_failure_in_a_sweep_only(
    tmp_path: Path, marked: str, code: int
) -> None:
    """Without the file nobody knows which of its tests are in the sweep."""
    text = 'import pytest\npytest.importorskip("no_such_module_here")\n'
    ended, out = _run(tmp_path, text, "-m", marked)
    assert ended == code
    assert ("it would prove nothing" in out) is (marked == "sweep")
