"""Content that nobody can use safely: each an error with its place, and nothing of it is read."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.address import GitRef
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import FetchFailed, PathNotFound, SourceTooLarge, TreeLimits
from tests.support.git_servers import LFS_POINTER, LINK, SUBMODULE, HttpsSite
from tests.support.git_servers.reads import fetch_git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOUND = {"a/x.yaml": "x", "other/y.yaml": "y"}


@pytest.mark.parametrize(
    ("files", "modes", "message"),
    [
        ({"a/link.yaml": "/etc/passwd"}, {"a/link.yaml": LINK}, "a/link.yaml is a symbolic link"),
        ({"a/link": "../other"}, {"a/link": LINK}, "a/link is a symbolic link"),
        ({"a/link": "../../.."}, {"a/link": LINK}, "a/link is a symbolic link"),
        ({"a/sub": "1" * 40}, {"a/sub": SUBMODULE}, "a/sub is a submodule"),
        ({"a/big.yaml": LFS_POINTER}, {}, "a/big.yaml is a pointer of Git LFS"),
        ({"a/X.yaml": "X"}, {}, "two files differ only in case: a/X.yaml and a/x.yaml"),
        ({"a/ß.yaml": "X", "a/SS.yaml": ""}, {}, "two files differ only in case"),
    ],
)
@pytest.mark.parametrize("path", ["a", ""])
def test_unusable_entry_is_an_error(
    site: HttpsSite,
    tmp_path: Path,
    files: dict[str, str],
    modes: dict[str, str],
    message: str,
    path: str,
) -> None:
    """In the path; elsewhere in the repository nobody minds."""
    site.repository().commit({**SOUND, **files}, modes=modes)
    with pytest.raises(FetchFailed, match=message):
        fetch_git(site.source(), path, tmp_path / "store")
    assert fetch_git(site.source(), "other", tmp_path / "store").files == {"other/y.yaml": b"y"}


@pytest.mark.parametrize("path", ["link", "link/y.yaml", "a/up/other"])
def test_path_through_a_link_is_not_found(site: HttpsSite, tmp_path: Path, path: str) -> None:
    site.repository().commit(
        {**SOUND, "link": "other", "a/up": ".."}, modes={"link": LINK, "a/up": LINK}
    )
    with pytest.raises((PathNotFound, FetchFailed), match=r"no path|is a symbolic link"):
        fetch_git(site.source(), path, tmp_path / "store")


def test_path_that_is_a_submodule_is_an_error(site: HttpsSite, tmp_path: Path) -> None:
    site.repository().commit({**SOUND, "sub": "1" * 40}, modes={"sub": SUBMODULE})
    with pytest.raises(FetchFailed, match="sub is a submodule"):
        fetch_git(site.source(), "sub", tmp_path / "store")


def test_names_in_another_case_count_for_manifests_and_builds(
    site: HttpsSite, tmp_path: Path
) -> None:
    """Two texts that nothing reads may be there."""
    repository = site.repository()
    repository.commit({**SOUND, "a/README": "", "a/readme": ""})
    assert len(fetch_git(site.source(), "a", tmp_path / "store").files) == 3
    repository.commit({"a/kustomization.yaml": "resources: [x.yaml]\n"})
    with pytest.raises(FetchFailed, match="a/README and a/readme"):
        fetch_git(site.source(), "a", tmp_path / "store")


def test_name_that_is_not_utf8_is_an_error(site: HttpsSite, tmp_path: Path) -> None:
    site.repository().import_commit([b'M 100644 inline "a/\\377.yaml"\ndata 1\nx\n'])
    with pytest.raises(FetchFailed, match=r"the name of a/\\xff.yaml is not UTF-8"):
        fetch_git(site.source(), "a", tmp_path / "store")


@pytest.mark.parametrize("name", [b"..", b".git", b".", b"a/b", b".GIT"])
def test_tree_with_a_name_that_escapes_is_refused(
    site: HttpsSite, tmp_path: Path, name: bytes
) -> None:
    """The objects are checked as they arrive."""
    repository = site.repository()
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"x")
    inner = b"100644 %s\0%s" % (name, bytes.fromhex(blob))
    tree = repository.git("hash-object", "--literally", "-t", "tree", "-w", "--stdin", stdin=inner)
    commit = repository.git("commit-tree", "-m", "x", tree)
    repository.git("update-ref", "refs/heads/main", commit)
    with pytest.raises(FetchFailed, match="invalid objects"):
        fetch_git(site.source(), "", tmp_path / "store")
    assert not GitStore(tmp_path / "store").has(commit)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'),
        (".gitmodules", '[submodule "../x"]\n\tpath = -x\n\tupdate = !touch\n'),
        (".gitattributes", "x" * 5000),
    ],
)
def test_file_of_work_trees_fails_no_path(
    site: HttpsSite, tmp_path: Path, name: str, content: str
) -> None:
    """What git refuses to check out: there is no work tree."""
    site.repository().commit({**SOUND, name: content})
    assert fetch_git(site.source(), "a", tmp_path / "store").files == {"a/x.yaml": b"x"}


def test_link_of_work_trees_fails_no_path(site: HttpsSite, tmp_path: Path) -> None:
    names = (".gitmodules", ".gitattributes", ".gitignore", ".mailmap")
    site.repository().commit(
        {**SOUND, **dict.fromkeys(names, "a/x")}, modes=dict.fromkeys(names, LINK)
    )
    assert fetch_git(site.source(), "a", tmp_path / "store").files == {"a/x.yaml": b"x"}


def test_too_many_files_are_too_large(site: HttpsSite, tmp_path: Path) -> None:
    """Only where they are: another path of the same commit is fine."""
    files = {f"many/{number}.yaml": "x" for number in range(30)}
    site.repository().commit({**SOUND, **files})
    source = site.source(limits=TreeLimits(files=20))
    for path in ("many", ""):
        with pytest.raises(SourceTooLarge, match="more than 20"):
            fetch_git(source, path, tmp_path / "store")
    assert len(fetch_git(source, "a", tmp_path / "store").files) == 1


@pytest.mark.sweep
def test_hundred_thousand_files_are_too_large(site: HttpsSite, tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield b'M 100644 inline "a/x.yaml"\ndata 1\nx\n'
        for number in range(100_000):
            yield b'M 100644 inline "many/%d/%d.yaml"\ndata 1\nx\n' % (number % 300, number)

    site.repository().import_commit(lines())
    for path in ("many", ""):
        with pytest.raises(SourceTooLarge):
            fetch_git(site.source(), path, tmp_path / "store")
    assert fetch_git(site.source(), "a", tmp_path / "store").files == {"a/x.yaml": b"x"}


def test_file_that_compresses_well_is_too_large(site: HttpsSite, tmp_path: Path) -> None:
    """Its size counts before it is read, whatever little was transferred."""
    site.repository().commit({**SOUND, "large/zeros.yaml": bytes(5_000_000)})
    source = site.source(limits=TreeLimits(size=2_000_000))
    with pytest.raises(SourceTooLarge, match="larger than 1 MiB"):
        fetch_git(source, "large", tmp_path / "store")
    assert len(fetch_git(source, "a", tmp_path / "store").files) == 1


@pytest.mark.sweep
def test_gigabyte_is_too_large(site: HttpsSite, tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield b'M 100644 inline "large/zeros.yaml"\ndata %d\n' % 2**30
        for _ in range(2**10):
            yield bytes(2**20)
        yield b"\n"

    site.repository().import_commit(lines())
    with pytest.raises(SourceTooLarge):
        fetch_git(site.source(), "large", tmp_path / "store")


def test_transfer_is_limited_too(site: HttpsSite, tmp_path: Path) -> None:
    """A whole commit is one pack."""
    data = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(100_000))
    site.repository().commit({"large/noise.yaml": data})
    with pytest.raises(SourceTooLarge, match="the repository is too large"):
        fetch_git(site.source(limits=TreeLimits(transfer=1_000_000)), "", tmp_path / "store")
    assert list((tmp_path / "store/repository/objects/pack").glob("*.pack")) == []


def _bomb() -> bytes:
    """Return a pack with a delta of a delta: 1 MiB becomes 64 MiB, and then 2 GiB."""
    first, second, third = 2**20, 2**26, 2**31
    objects = [_head(3, first) + zlib.compress(bytes(first))]
    for size, before, copied in ((second, first, 2**20), (third, second, 2**23)):
        oid = hashlib.sha1(b"blob %d\0" % before + bytes(before), usedforsecurity=False).digest()
        copies = b"".join([b"\xf0", struct.pack("<I", copied)[:3]]) * (size // copied)
        delta = _varint(before) + _varint(size) + copies
        objects.append(_head(7, len(delta)) + oid + zlib.compress(delta))
    pack = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return pack + hashlib.sha1(pack, usedforsecurity=False).digest()


def _head(kind: int, size: int) -> bytes:
    first, size = kind << 4 | size & 15, size >> 4
    out = []
    while size:
        out.append(first | 128)
        first, size = size & 127, size >> 7
    return bytes([*out, first])


def _varint(size: int) -> bytes:
    out = []
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size])


def test_pack_bomb_is_too_large(site: HttpsSite, tmp_path: Path) -> None:
    """A few kilobytes that would become gigabytes in the memory of git."""
    repository = site.repository()
    commit = repository.commit(SOUND)
    pack = _bomb()
    assert len(pack) < 10_000
    site.fetched = b"000dpackfile\n%04x\x01%s0000" % (len(pack) + 5, pack)
    with pytest.raises(SourceTooLarge, match="limit of memory"):
        fetch_git(site.source(ref=GitRef(commit=commit)), "", tmp_path / "store")
