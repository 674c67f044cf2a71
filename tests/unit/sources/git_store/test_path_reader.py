"""Many paths of a commit, read at once: each has its own result, and git runs as for one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.git_server import find_ref
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import FetchFailed, PathNotFound, SourceTooLarge, TreeLimits
from tests.support.git_servers import LINK, HttpsSite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from applyprune.sources.git_store import PathFiles

GOOD = {"web": {"web/a.yaml": b"a"}, "web-2": {"web-2/a.yaml": b"b", "web-2/more/c.yaml": b"c"}}
SMALL = TreeLimits(files=3, size=1000)


def read_all(
    site: HttpsSite,
    store: GitStore,
    files: Mapping[str, str],
    paths: Sequence[str],
    limits: TreeLimits | None = None,
) -> dict[str, PathFiles]:
    modes = {name: LINK for name in files if name.startswith("link/")}
    site.repository().commit(files, modes=modes)
    found = find_ref(site.source())
    store.fetch(site.source(), found)
    with store.reading(found.commit) as tree:
        return dict(tree.read_all(paths, limits or TreeLimits()))


@pytest.mark.parametrize(
    ("files", "wrong", "error"),
    [
        ({}, "absent", PathNotFound),
        ({"link/a": "../web"}, "link", FetchFailed),
        ({"lfs/a": "version https://git-lfs.github.com/spec/v1\noid x\n"}, "lfs", FetchFailed),
        ({f"many/{n}.yaml": "x" for n in range(4)}, "many", SourceTooLarge),
        ({f"many/{n}.yaml": "x" for n in range(20)}, "many", SourceTooLarge),
        ({"large/a.yaml": "x" * 1001}, "large", SourceTooLarge),
    ],
)
def test_bad_path_fails_no_other(
    site: HttpsSite,
    store: GitStore,
    files: dict[str, str],
    wrong: str,
    error: type[Exception],
) -> None:
    good = {name: data.decode() for part in GOOD.values() for name, data in part.items()}
    found = read_all(site, store, {**good, **files}, ["web", wrong, "web-2"], SMALL)
    assert isinstance(found.pop(wrong), error)
    assert found == GOOD


def test_paths_that_contain_each_other_have_all_their_files(
    site: HttpsSite, store: GitStore
) -> None:
    """The root, a folder, a folder in it, a file, and a folder whose name begins like another."""
    files = {"a.yaml": "1", "a/b/c.yaml": "2", "a/d.yaml": "3", "a-b/e.yaml": "4", "a0.yaml": "5"}
    found = read_all(site, store, files, ["", "a", "a/b", "a/d.yaml", "a-b"])
    assert {path: sorted(one) for path, one in found.items() if isinstance(one, dict)} == {
        "": sorted(files),
        "a": ["a/b/c.yaml", "a/d.yaml"],
        "a/b": ["a/b/c.yaml"],
        "a/d.yaml": ["a/d.yaml"],
        "a-b": ["a-b/e.yaml"],
    }


def test_large_files_are_read_in_several_parts(site: HttpsSite, store: GitStore) -> None:
    """Of each path all, in its order."""
    files = {f"p{number}/a.yaml": str(number) * (7 * 2**20) for number in range(4)}
    paths = [f"p{number}" for number in range(4)]
    found = read_all(site, store, files, paths)
    assert list(found) == paths
    assert all(
        found[path] == {f"{path}/a.yaml": files[f"{path}/a.yaml"].encode()} for path in paths
    )


def test_as_many_processes_for_a_hundred_paths_as_for_one(
    site: HttpsSite, store: GitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by a script that is called git, and calls git."""
    files = {f"p{number}/a.yaml": f"{number}" for number in range(100)}
    paths = [f"p{number}" for number in range(100)]
    assert len(read_all(site, store, files, paths)) == 100
    commit = find_ref(site.source()).commit
    log, folder = tmp_path / "log", tmp_path / "bin"
    one: list[str] = []
    folder.mkdir()
    script = folder / "git"
    script.write_text(f'#!/bin/sh\necho "$1" >> {log}\nexec {shutil.which("git")} "$@"\n')
    script.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{folder}:/usr/bin:/bin")
        for some in (paths[:1], paths):
            with store.reading(commit) as tree:
                assert len(dict(tree.read_all(some, TreeLimits()))) == len(some)
            one = one or log.read_text().split()
    assert log.read_text().split() == [*one, *one]
    assert len(one) <= 4
