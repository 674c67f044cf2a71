"""The cache of fetched sources: whole artifacts only, within a size."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from applyprune.controller.fetch import SourceCache
from applyprune.sources.tree import FetchFailed

FILES = {"web/a.yaml": b"a: 1\n", "web/b.yaml": b"", "c.yaml": b"\xff\x00"}


@pytest.fixture
def cache(tmp_path: Path) -> SourceCache:
    """An empty cache of a megabyte."""
    return SourceCache(tmp_path / "sources", 1 << 20)


def test_artifact_is_read_as_it_was_written(cache: SourceCache) -> None:
    """Every byte, and the order."""
    cache.put("x", FILES)
    read = cache.read("x")
    assert read == FILES
    assert list(read or ()) == list(FILES)
    assert cache.has("x")


def test_missing_artifact_is_not_read(cache: SourceCache) -> None:
    """It was removed to make room, or never written."""
    assert cache.read("x") is None
    assert not cache.has("x")


@pytest.mark.parametrize("cut", [0, 1, 40, 66, 80, -1])
def test_incomplete_artifact_is_not_read(cache: SourceCache, cut: int) -> None:
    """Whatever the disk has lost."""
    cache.put("x", FILES)
    path = cache.artifacts / "x"
    path.write_bytes(path.read_bytes()[:cut])
    assert cache.read("x") is None


@pytest.mark.holds("whole-artifact")
def test_changed_artifact_is_not_read(cache: SourceCache) -> None:
    """A bit that has flipped is not applied."""
    cache.put("x", FILES)
    path = cache.artifacts / "x"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert cache.read("x") is None


def test_name_depends_on_who_has_read_what(cache: SourceCache, tmp_path: Path) -> None:
    """The same content that was read with other credentials is another artifact."""
    named = [("one", "content"), ("other", "content"), ("one", "other"), ("onecon", "tent")]
    assert len({cache.artifact_name(*one) for one in named}) == len(named)
    # Each process that looks finds what another one has written.
    another = SourceCache(tmp_path / "another", 1)
    assert cache.artifact_name(*named[0]) == another.artifact_name(*named[0])


def test_least_recently_used_are_removed_first(cache: SourceCache) -> None:
    """A read counts as a use; what is in use stays, whatever its age."""
    big = {"a.yaml": bytes(400_000)}
    for age, name in enumerate(("newest", "middle", "oldest")):
        cache.put(name, big)
        os.utime(cache.artifacts / name, (1000 - age, 1000 - age))
    store = cache.store("place")
    store.mkdir()
    (store / "pack").write_bytes(bytes(400_000))
    os.utime(store, (1, 1))
    assert cache.read("oldest") == big
    cache.trim(keep=store)
    assert {path.name for path in cache.artifacts.iterdir()} == {"oldest"}
    assert store.exists()
    cache.trim()
    assert store.exists()


def test_folder_is_private(cache: SourceCache) -> None:
    """Sources may be confidential."""
    cache.put("x", FILES)
    cache.store("place")
    assert cache.artifacts.stat().st_mode & 0o077 == 0
    assert cache.stores.stat().st_mode & 0o077 == 0


def test_full_disk_is_an_error_of_the_source(cache: SourceCache) -> None:
    """Nothing is left of an artifact that could not be written."""
    program = (
        "import sys; from pathlib import Path;"
        "from applyprune.controller.fetch import SourceCache;"
        "SourceCache(Path(sys.argv[1]), 1).put('x', {'a': bytes(200_000)})"
    )

    def limit() -> None:
        # The kernel then answers as for a full disk: no more can be written.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        # Without -B it cuts the bytecode that it writes, for all who import that later.
        [sys.executable, "-B", "-c", program, str(cache.folder)],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert FetchFailed.__name__ in done.stderr
    assert "the source cache: File too large" in done.stderr
    assert list(cache.artifacts.iterdir()) == []
