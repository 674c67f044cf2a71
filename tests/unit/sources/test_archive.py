"""Archives are read completely, and nothing but regular files with harmless names, or refused."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError
from applyprune.sources.archive import read_tar
from applyprune.sources.tree import FetchFailed, SourceTooLarge, TreeLimits
from tests.support.archives import BLOCK, END, archive, member, packed, tar, zeros

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"a.yaml": b"a: 1\n", "b/c.yaml": b"c" * 1000, "b/empty.yaml": b""}
LIMITS = TreeLimits(files=100, size=2**20)


def _in_time() -> None:
    """There is always time."""


def files_in(data: bytes, limits: TreeLimits = LIMITS) -> dict[str, bytes]:
    return read_tar(io.BytesIO(data), limits, _in_time)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["tar", "gzip"])
def test_files_are_read(pack: object) -> None:
    assert callable(pack)
    assert files_in(pack(tar(FILES))) == FILES


@pytest.mark.parametrize("form", ["v7", "ustar", "gnu", "oldgnu", "pax"])
def test_archives_of_gnu_tar_are_read(form: str, tmp_path: Path) -> None:
    """With folders, with ``./`` before each name, and with long names where the format has them."""
    files = dict(FILES)
    if form not in {"v7", "ustar"}:
        files["d" * 90 + "/" + "é" * 60 + ".yaml"] = b"long"
    for name, data in files.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    out = tmp_path / "out.tar.gz"
    subprocess.run(["tar", f"--format={form}", "-czf", out, "-C", tmp_path / "in", "."], check=True)
    assert files_in(out.read_bytes()) == files


def test_archive_of_git_is_read(tmp_path: Path) -> None:
    """It begins with a comment about all files: the commit."""
    (tmp_path / "a.yaml").write_bytes(b"a: 1\n")
    config = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "-q"), ("add", "."), (*config, "commit", "-qm", "a")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    made = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=tmp_path, check=True, capture_output=True
    )
    assert b"comment=" in made.stdout
    assert files_in(made.stdout) == {"a.yaml": b"a: 1\n"}


def test_several_gzip_members_are_one_archive() -> None:
    """Some builders of images write one for each file."""
    data = tar(FILES)
    assert files_in(gzip.compress(data[:700]) + gzip.compress(data[700:])) == FILES


ODD = {
    "parent": ([member("../a", b"x")], "leads out of it: ../a"),
    "parent inside": ([member("b/../../a", b"x")], "leads out of it: b/../../a"),
    "absolute": ([member("/etc/passwd", b"x")], "leads out of it: /etc/passwd"),
    "a folder above": ([member("../", kind=tarfile.DIRTYPE)], "leads out of it: .."),
    "an empty part": ([member("b//a", b"x")], "leads out of it: b//a"),
    "too long": ([member("b/" * 600 + "a", b"x")], "too long, or leads out of it: b/b/"),
    "NUL": ([member("a", b"x", records={"path": "a\0b"})], r"leads out of it: a\x00b"),
    "no name": ([member("./", b"x", records={"path": "."})], "a file without a name: ."),
    "twice": ([member("a", b"x"), member("a", b"y")], "two files of one name: a"),
    "twice, dotted": ([member("a", b"x"), member("./a", b"y")], "two files of one name: ./a"),
    "case": ([member("a/B", b"x"), member("a/b", b"y")], "differ only in case: a/B, a/b"),
    "case of a folder": ([member("A/x", b"x"), member("a/y", b"y")], "differ only in case: A, a"),
    "case of both": ([member("A", b"x"), member("a/y", b"y")], "differ only in case: A, a"),
    "file, then folder": (
        [member("a", b"x"), member("a/b", b"y")],
        "a file and a folder of one name: a",
    ),
    "folder, then file": (
        [member("a/b", b"x"), member("a", b"y")],
        "a file and a folder of one name: a",
    ),
    "hard link": (
        [member("a", b"x"), member("b", kind=tarfile.LNKTYPE, link="a")],
        "a hard link: b",
    ),
    "symbolic link": (
        [member("a", kind=tarfile.SYMTYPE, link="/etc/passwd")],
        "a symbolic link: a",
    ),
    "long link": (
        [member("a", kind=tarfile.SYMTYPE, link="x" * 300, form=tarfile.GNU_FORMAT)],
        "a symbolic link: a",
    ),
    "device": ([member("a", kind=tarfile.CHRTYPE)], "a device: a"),
    "disk": ([member("a", kind=tarfile.BLKTYPE)], "a device: a"),
    "pipe": ([member("a", kind=tarfile.FIFOTYPE)], "a named pipe: a"),
    "old sparse": ([member("a", kind=tarfile.GNUTYPE_SPARSE)], "a sparse file: a"),
    "new sparse": ([member("a", b"x", records={"GNU.sparse.major": "1"})], "a sparse file: a"),
    "volume": ([member("a", kind=b"V")], "a member of an unknown type: a"),
    "folder with content": (
        [member("a", b"x", kind=tarfile.DIRTYPE, form=tarfile.USTAR_FORMAT)],
        "a folder with content: a",
    ),
    "not UTF-8": (
        [member("a\udcff", b"x", form=tarfile.GNU_FORMAT)],
        r"a name that is not UTF-8: a\xff",
    ),
    "escape": ([member("\x1b[2J/../a", b"x")], r"leads out of it: \x1b[2J/../a"),
    "negative size": ([member("a", size=-512, form=tarfile.GNU_FORMAT)], "a negative size"),
    "size of all": (
        [member("g", b"12 size=100\n", kind=tarfile.XGLTYPE), member("a", b"x")],
        "a name or a size for all its files",
    ),
    "no pax": (
        [member("x", b"99 path=b\n", kind=tarfile.XHDTYPE), member("a", b"x")],
        "a pax header cannot be read",
    ),
    "pax size": (
        [member("x", b"12 size=-10\n", kind=tarfile.XHDTYPE), member("a", b"x")],
        "a pax header has an invalid size",
    ),
    "long pax": (
        [member("x", bytes(2**17), kind=tarfile.XHDTYPE), member("a", b"x")],
        "a header is too long",
    ),
    "pax without a file": (
        [member("x", b"10 path=b\n", kind=tarfile.XHDTYPE)],
        "it ends before a file that it names",
    ),
    "something behind": (
        [member("a", b"x"), END, member("b", b"y")],
        "there is data after its end",
    ),
    "half an end": ([member("a", b"x"), END[:BLOCK], member("b", b"y")], "after its end"),
}


@pytest.mark.holds("names-that-differ-in-case", row="case")
@pytest.mark.parametrize(("members", "expected"), ODD.values(), ids=ODD)
def test_odd_archive_is_refused(members: list[bytes], expected: str) -> None:
    """And the message names the member."""
    with pytest.raises(FetchFailed) as caught:
        files_in(archive([member("first.yaml", b"x"), *members]))
    assert expected in str(caught.value)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_sparse_file_of_gnu_tar_is_refused(form: str, tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**20)
        file.write(b"x")
    made = subprocess.run(
        ["tar", f"--format={form}", "--sparse", "-cf", "-", "hole"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    with pytest.raises(FetchFailed, match=r"a sparse file: .*hole"):
        files_in(made.stdout)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["tar", "gzip"])
def test_truncated_archive_never_is_a_smaller_one(pack: object) -> None:
    """Wherever it ends; what is after the mark of the end is only padding."""
    assert callable(pack)
    data = pack(tar(FILES))
    for size in range(0, len(data), 64 if pack is bytes else 1):
        with pytest.raises(FetchFailed):
            files_in(data[:size])


def test_damaged_header_never_ends_an_archive() -> None:
    """Python's tarfile would end there, silently, without the files that follow."""
    data = tar({f"{number}.yaml": b"x" * 10 for number in range(3)})
    for at in range(2 * BLOCK, 2 * BLOCK + 500, 7):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with pytest.raises(FetchFailed):
            files_in(bytes(damaged))
    with tarfile.open(fileobj=io.BytesIO(bytes(damaged))) as lenient:
        assert lenient.getnames() == ["0.yaml"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<!doctype html>" + bytes(1000),
        b"PK\x03\x04" + bytes(600),
        gzip.compress(b"a: b\n"),
        packed(FILES) + b"garbage",
        gzip.compress(tar(FILES))[:-8] + bytes(8),
    ],
    ids=["nothing", "a page", "zip", "yaml", "garbage behind", "wrong checksum"],
)
def test_other_data_is_refused(data: bytes) -> None:
    with pytest.raises(FetchFailed):
        files_in(data)


def test_archive_without_files_has_none() -> None:
    """What that means is for the caller to say."""
    assert files_in(archive([member("a/", kind=tarfile.DIRTYPE)])) == {}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (tar({"a": bytes(2**19), "b": bytes(2**19 + 1)}), "larger than 1 MiB together"),
        (archive([member("a", size=10**15, form=tarfile.GNU_FORMAT)]), "larger than 1 MiB"),
        (tar({f"{number}": b"" for number in range(101)}), "more than 100 files"),
        (
            archive(member(f"{number}/", kind=tarfile.DIRTYPE) for number in range(101)),
            "more than 100 folders",
        ),
        (tar({"/".join("abcdefghij" * 11): b""}), "more than 100 folders"),
    ],
    ids=["sum", "claim", "files", "folders", "depth"],
)
def test_large_archive_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(SourceTooLarge, match=expected):
        files_in(data)


def test_archive_at_its_limits_is_read() -> None:
    files = {f"{number}": bytes(2**20 // 100) for number in range(100)}
    assert files_in(tar(files)) == files


@pytest.mark.parametrize("front", [b"", tar(FILES)], ids=["from the start", "behind its end"])
def test_gzip_bomb_ends_within_little_memory(front: bytes) -> None:
    """32 MiB of zeros: as a file that a header announces, and as padding."""
    header = front or archive([member("a", size=2**25, form=tarfile.GNU_FORMAT)])[:BLOCK]
    bomb = gzip.compress(header) + zeros(2**25)
    tracemalloc.start()
    try:
        with pytest.raises(SourceTooLarge):
            files_in(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**21


def test_gzip_that_never_gives_a_byte_ends_in_time() -> None:
    """Many empty members: gzip skips them inside of one read, in which the time is checked too."""
    members = io.BytesIO(gzip.compress(b"") * 200_000)

    def check() -> None:
        if members.tell() > 1_000_000:
            raise FetchFailed("not read in time")

    with pytest.raises(FetchFailed, match="not read in time"):
        read_tar(members, LIMITS, check)


def test_errors_are_those_of_the_input() -> None:
    """Exit code 2, and a reason of a Bundle."""
    with pytest.raises(InputError) as caught:
        files_in(b"x")
    assert caught.value.kind == "FetchFailed"
