"""Patterns: what a shell would put in their place, and that nothing unread is empty."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError
from applyprune.sources import read
from applyprune.sources.folders import expand_pattern, is_pattern
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from pathlib import Path

PATHS = (
    "a.yaml",
    "b.yml",
    ".hidden.yaml",
    "m/a.yaml",
    "m/b-1.yaml",
    "m/b-2.yaml",
    "m/sub/c.yaml",
    "m/sub/deep/d.yaml",
    "m/.dot/e.yaml",
    "n/a.yaml",
    "n/[x].yaml",
    "n/a b.yaml",
)
PATTERNS = (
    "*.yaml",
    "./*.yaml",
    "*.y*ml",
    ".*.yaml",
    "m/*.yaml",
    "m/b-?.yaml",
    "m/b-[13].yaml",
    "m/b-[!1].yaml",
    "*/a.yaml",
    "m/*",
    "m/*/*.yaml",
    "m/.*/e.yaml",
    "**/*.yaml",
    "**/d.yaml",
    "m/**/*.yaml",
    "n/../m/s*/c.yaml",
    "n/a*.yaml",
    "a.yaml/*",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
def test_glob_matches_as_in_a_shell(folder: Path, pattern: str) -> None:
    """Held against bash with ``globstar``."""
    write(folder, {path: config_map("a") for path in PATHS})
    script = f"shopt -s globstar nullglob; LC_ALL=C; printf '%s\\0' {pattern}"
    reply = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    shells = [path for path in reply.stdout.split("\0") if path]
    # The shell has `.` and `..` for `.*`; they are no names of files.
    assert sorted(expand_pattern(pattern)) == sorted(shells)


def test_file_with_that_exact_name_wins(folder: Path) -> None:
    """The name is then no pattern, whatever else it would match."""
    write(folder, {"n/[x].yaml": config_map("real"), "n/x.yaml": config_map("other")})
    assert not is_pattern("n/[x].yaml")
    assert [one.name for one in read(["n/[x].yaml"])] == ["real"]
    assert [one.name for one in read(["n/[xy].yaml"])] == ["other"]


def test_matching_folder_is_read_recursively(folder: Path) -> None:
    write(folder, {"m/one/a.yaml": config_map("a"), "m/two/x/b.yaml": config_map("b")})
    assert [one.name for one in read(["m/*"])] == ["a", "b"]


def test_matching_pipe_is_an_error(folder: Path) -> None:
    """Nobody may ever write to it; one that is named itself is read."""
    os.mkfifo(folder / "pipe.yaml")
    with pytest.raises(InputError, match=r"pipe\.yaml: not a regular file"):
        read(["*.yaml"])


def test_circular_links_end(folder: Path) -> None:
    write(folder, {"m/a.yaml": config_map("a")})
    (folder / "m/loop").symlink_to(folder / "m")
    assert [one.name for one in read(["**/*.yaml"])] == ["a"]


@pytest.mark.parametrize("pattern", ["nowhere/*.yaml", "*.json", "m/**/none*"])
def test_glob_without_a_match_is_an_error(folder: Path, pattern: str) -> None:
    """Never an empty set: the prune would take all."""
    write(folder, {"m/a.yaml": config_map("a")})
    with pytest.raises(InputError) as caught:
        read([pattern])
    assert str(caught.value).startswith(f"{pattern}: no file matches")


AS_NOBODY = """
import os
from applyprune.sources.folders import expand_pattern
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    print(expand_pattern("m/**/*.yaml"))
except PermissionError as error:
    print(error.filename)
"""


def test_unreadable_folder_is_an_error(folder: Path) -> None:
    """Python's own glob would take it for empty. Root reads everything, so nobody looks."""
    write(folder, {"m/a.yaml": config_map("a"), "m/locked/b.yaml": config_map("b")})
    folder.chmod(0o755)
    (folder / "m/locked").chmod(0)
    try:
        run = [sys.executable, "-c", AS_NOBODY]
        reply = subprocess.run(run, capture_output=True, text=True, check=False)
    finally:
        (folder / "m/locked").chmod(0o755)
    assert reply.stdout.strip() == "m/locked", reply.stderr


@pytest.mark.parametrize("pattern", ["m/*/b.yaml", "m/*/*.yaml", "m/**/*.yaml", "m/**/b.yaml"])
@pytest.mark.parametrize("name", ["gone", "gone.d"])
def test_link_to_a_missing_folder_is_an_error(folder: Path, pattern: str, name: str) -> None:
    """A shell would pass it over, and what was in it would be pruned."""
    write(folder, {"m/a.yaml": config_map("a"), "m/here/b.yaml": config_map("b")})
    (folder / "m" / name).symlink_to("nowhere")
    with pytest.raises(InputError, match=rf"m/{name}.*: cannot be read: No such file"):
        read([pattern])
