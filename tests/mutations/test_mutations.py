"""Each guard is held by a test: in a copy of the project without the guard, that test fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutations.mutations import MUTATIONS

if TYPE_CHECKING:
    from applyprune.localplane import Binaries
    from tests.mutations.mutations import Mutation

ROOT = Path(__file__).parents[2]
COPIED = ("applyprune", "tests", "fixtures", "deploy", "pyproject.toml")
# Not that the test broke, or nothing could be imported: what it says is no longer so.
DISPROVED = re.compile(
    r"^FAILED \S+ - (assert |AssertionError|Failed: DID NOT RAISE)", re.MULTILINE
)


def _copy(folder: Path) -> Path:
    """Copy what the tests need of the project."""
    leftovers = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=leftovers)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose package goes before the installed one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PY")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        # As on a build server, pytest's summary is not cut to the width of a terminal.
        env={**environment, "CI": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _pytest(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    return _python(folder, "-m", "pytest", *tests, "-x", "-q", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def _sound(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every test of the list passes in a copy, on a control plane that need not be built there."""
    del binaries
    folder = _copy(tmp_path_factory.mktemp("unmutated"))
    where = _python(folder, "-c", "import applyprune; print(applyprune.__file__)")
    assert Path(where.stdout.strip()) == folder / "applyprune" / "__init__.py", where.stderr
    tests = {mutation.test for mutation in MUTATIONS}
    reply = _pytest(folder, *sorted(tests))
    assert reply.returncode == 0, reply.stdout
    assert f"\n{len(tests)} passed" in reply.stdout


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.takes_out)
def test_the_list_goes_with_the_code(mutation: Mutation) -> None:
    """What is taken out stands there once, so that the sweep takes out what it says."""
    source = (ROOT / "applyprune" / mutation.file).read_text(encoding="utf-8")
    assert source.count(mutation.text) == 1
    assert mutation.replacement != mutation.text


@pytest.mark.sweep
@pytest.mark.usefixtures("_sound")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.takes_out)
def test_each_guard_that_is_taken_out_is_missed(mutation: Mutation, tmp_path: Path) -> None:
    """All of them: each costs a control plane."""
    _is_missed(mutation, tmp_path)


@pytest.mark.parametrize(
    "mutation",
    [one for one in MUTATIONS if one.takes_out == "the UID of a delete"],
    ids=lambda one: one.takes_out,
)
def test_a_guard_that_is_taken_out_is_missed(mutation: Mutation, tmp_path: Path) -> None:
    """The short form: by the test that the list names, and by what that test asserts."""
    _is_missed(mutation, tmp_path)


def _is_missed(mutation: Mutation, tmp_path: Path) -> None:
    folder = _copy(tmp_path)
    file = folder / "applyprune" / mutation.file
    source = file.read_text(encoding="utf-8")
    file.write_text(source.replace(mutation.text, mutation.replacement), encoding="utf-8")
    reply = _pytest(folder, mutation.test)
    assert reply.returncode == 1, reply.stdout
    assert len(DISPROVED.findall(reply.stdout)) == 1, reply.stdout
