"""Locks of open files, and the name of the user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from applyprune.system.processes import try_lock
from applyprune.system.terminal import user_name

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_lock_is_held_by_one_or_shared_by_many(tmp_path: Path) -> None:
    """Each open file counts, also within one process; closing it releases the lock."""
    path = tmp_path / "lock"
    first, second, third = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(3))
    assert try_lock(first)
    assert not try_lock(second)
    assert not try_lock(second, is_shared=True)
    os.close(first)
    assert try_lock(second, is_shared=True)
    assert try_lock(third, is_shared=True)
    assert not try_lock(third)
    os.close(second)
    os.close(third)


def test_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user."""

    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert user_name() == str(os.getuid())
