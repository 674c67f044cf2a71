"""A file with a secret in it, which needs no disk."""

from __future__ import annotations

import os
import subprocess
import tempfile

import pytest

from applyprune.system.memory_files import memory_file


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory here")
def test_memory_file_needs_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is full or read-only is not asked, and a program can read the file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with memory_file(b"secret") as (path, fds):
        assert path.read_bytes() == b"secret"
        done = subprocess.run(["cat", path], pass_fds=fds, capture_output=True, check=True)
        assert done.stdout == b"secret"
        assert not os.path.realpath(path).startswith(os.sep + "tmp")
    assert not path.exists()


def test_file_on_a_disk_goes_with_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no files in memory; nobody else can read it."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with memory_file(b"secret") as (path, fds):
        assert (path.read_bytes(), fds) == (b"secret", ())
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
