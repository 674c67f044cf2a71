"""The folder of a controller for what it has fetched: it goes with its process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.controller.process import own_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import sys
from applyprune.controller.process import own_cache_folder
with own_cache_folder() as folder:
    (folder / "artifact").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process with a folder of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as running:
        assert running.stdout is not None
        try:
            yield running, Path(running.stdout.readline().strip())
        finally:
            running.kill()


def test_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    """Its disk outlives a container; that of a process that lives stays, and so does all else."""
    other = Path(tempfile.mkdtemp(prefix="applyprune-", dir=tmp_path))
    with process(tmp_path) as (_, living), process(tmp_path) as (killed, left):
        assert left.stat().st_mode & 0o077 == 0
        killed.kill()
        killed.wait()
        assert (left / "artifact").exists()
        with process(tmp_path) as (ends, own):
            assert not left.exists()
            assert (living / "artifact").exists()
            ends.communicate("")
            assert ends.returncode == 0
            assert not own.exists()
    assert other.exists()


def test_folder_that_cannot_be_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is kept, and nothing fails."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with own_cache_folder() as folder:
        assert folder is None
