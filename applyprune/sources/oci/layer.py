"""Write files as one layer: the same files always give the same bytes.

The archive has sorted names, no times, no owners. gzip has no name and no time. What zlib makes of
the same input depends on the library (zlib, zlib-ng, a processor's own) and its version, at every
level. So the layer is gzip whose blocks are stored, not compressed: the format fixes every bit, at
the price of a layer as large as its files.
"""

from __future__ import annotations

import hashlib
import struct
import tarfile
import zlib
from collections.abc import Mapping

from applyprune.errors import InputError
from applyprune.sources.archives.tar_names import TarNames
from applyprune.sources.remote.fetch_errors import SourceTooLarge
from applyprune.sources.remote.file_tree import TreeLimits, clean_path
from applyprune.sources.remote.web_reply import shown_size
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, field

_HEAD = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
"""gzip, deflate, no flags, no time, nothing extra, an unknown system."""
_MOST_STORED = 2**16 - 1
"""Bytes in one stored block."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an artifact."""

    data: bytes = field(repr=False)
    digest: str
    """``sha256:…`` of the data."""
    diff_id: str
    """``sha256:…`` of the tar archive in it."""


def write_layer(files: Mapping[str, bytes], limits: TreeLimits) -> Layer:
    """Return the layer with these files, by their relative paths.

    Raises InputError for a path that could not be read again, and SourceTooLarge for what could not
    be pulled with the same limits.
    """
    names = TarNames(limits.files)
    parts = []
    for name in sorted(files):
        if clean_path(name) != name:
            raise InputError(f"invalid path of a file: {shown_path(name)}")
        names.add_file(name)
        info = tarfile.TarInfo(name)
        info.size = len(files[name])
        info.mode = 0o644
        # The defaults: a regular file of user and group 0, without names and time.
        parts += [info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict"), files[name]]
        parts.append(bytes(-info.size % tarfile.BLOCKSIZE))
    parts.append(bytes(2 * tarfile.BLOCKSIZE))
    archive = b"".join(parts)
    data = stored_gzip(archive)
    if len(data) > limits.size:
        raise SourceTooLarge(f"the layer is larger than {shown_size(limits.size)}")
    return Layer(data, _digest(data), _digest(archive))


def stored_gzip(data: bytes) -> bytes:
    """Return data in the format of gzip, without compression."""
    blocks = [_HEAD]
    for start in range(0, len(data) or 1, _MOST_STORED):
        piece = data[start : start + _MOST_STORED]
        is_last = start + _MOST_STORED >= len(data)
        blocks += [struct.pack("<BHH", is_last, len(piece), len(piece) ^ 0xFFFF), piece]
    blocks.append(struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF))
    return b"".join(blocks)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
