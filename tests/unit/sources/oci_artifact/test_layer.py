"""The layer of a push: the same files, the same bytes, on every machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

import pytest

from applyprune.errors import InputError
from applyprune.sources.archive import read_tar
from applyprune.sources.oci_artifact import stored_gzip, write_layer
from applyprune.sources.tree import SourceTooLarge, TreeLimits

FILES = {
    "b/c.yaml": b"c" * 100_000,
    "a.yaml": b"a: 1\n",
    "é/ü.yaml": b"",
    "long/" * 40 + "a.yaml": b"x",
}
DIGEST = "sha256:c3f3e8f01a033f2c5c37159389b6bd714c98a51f7a534f939689b5fe91087cd1"
LIMITS = TreeLimits()


def test_bytes_depend_on_the_files_alone() -> None:
    """Not on their order, nor on Python's or zlib's version: the digest is a constant here."""
    layer = write_layer(FILES, LIMITS)
    assert layer == write_layer(dict(sorted(FILES.items())), LIMITS)
    assert layer.digest == DIGEST
    assert layer.digest == f"sha256:{hashlib.sha256(layer.data).hexdigest()}"
    archive = gzip.decompress(layer.data)
    assert layer.diff_id == f"sha256:{hashlib.sha256(archive).hexdigest()}"


def test_layer_is_what_others_read() -> None:
    """Python's tarfile, which knows nothing of ours: sorted, no times, no owners."""
    layer = write_layer(FILES, LIMITS)
    with tarfile.open(fileobj=io.BytesIO(layer.data), mode="r:gz") as archive:
        members = archive.getmembers()
        contents = {one.name: archive.extractfile(one).read() for one in members}  # type: ignore[union-attr]
    assert contents == FILES
    assert [one.name for one in members] == sorted(FILES)
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in members} == {
        (0, 0, 0, "", "")
    }
    assert {one.mode for one in members} == {0o644}


def test_layer_is_read_again() -> None:
    layer = write_layer(FILES, LIMITS)
    assert read_tar(io.BytesIO(layer.data), LIMITS, lambda: None) == FILES


@pytest.mark.parametrize("size", [0, 1, 65534, 65535, 65536, 131070, 131071])
def test_stored_gzip_is_gzip(size: int) -> None:
    """Also at the ends of its blocks."""
    data = bytes(range(256)) * (size // 256 + 1)
    assert gzip.decompress(stored_gzip(data[:size])) == data[:size]


@pytest.mark.parametrize("name", ["", ".", "../a", "/a", "a//b", "a/", "./a", "a\0b"])
def test_path_that_could_not_be_read_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        write_layer({name: b""}, LIMITS)


def test_pair_that_could_not_be_read_is_refused() -> None:
    with pytest.raises(InputError, match="differ only in case"):
        write_layer({"a": b"", "A": b""}, LIMITS)
    with pytest.raises(SourceTooLarge, match="more than 1 files"):
        write_layer({"a": b"", "b": b""}, TreeLimits(files=1))
    with pytest.raises(SourceTooLarge, match="the layer is larger than 4 KiB"):
        write_layer({"a": bytes(2**12)}, TreeLimits(size=2**12))
