"""Tar archives with one thing in them that is wrong, or right."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BLOCK = 512
END = bytes(2 * BLOCK)


def member(
    name: str,
    data: bytes = b"",
    *,
    kind: bytes = tarfile.REGTYPE,
    link: str = "",
    records: Mapping[str, str] | None = None,
    size: int | None = None,
    form: Literal[0, 1, 2] = tarfile.PAX_FORMAT,
) -> bytes:
    """Return the bytes of one member; ``size`` is what its header says instead of the truth."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(data) if size is None else size
    info.pax_headers = dict(records or {})
    return info.tobuf(form, "utf-8", "surrogateescape") + data + bytes(-len(data) % BLOCK)


def tar(files: Mapping[str, bytes]) -> bytes:
    """Return a plain archive of some files."""
    return archive(member(name, data) for name, data in files.items())


def archive(members: Iterable[bytes]) -> bytes:
    """Return an archive of some members."""
    return b"".join(members) + END


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return a ``.tar.gz`` of some files."""
    return gzip.compress(tar(files), mtime=0)


def zeros(size: int) -> bytes:
    """Return the gzip data of many zeros, a thousandth of their size."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        for _ in range(size // 2**20):
            file.write(bytes(2**20))
    return out.getvalue()
