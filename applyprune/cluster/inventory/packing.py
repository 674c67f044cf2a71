"""Pack the entries of an inventory: as text, as a gzip stream, or in shards.

The root ConfigMap stores few entries as text and more entries as one gzip stream. Many entries are
stored in shards: immutable ConfigMaps that are named by the digest of their contents, so that a
shard cannot be half written, changed, or taken for another. Each cut between two shards depends
only on the entry before it: adding or removing an entry creates one new shard and keeps the others.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO

from applyprune.cluster.inventory.entries import lines_of
from applyprune.errors import InventoryError
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry

READABLE = 64 * 1024
"""Bytes of entries that the root stores as text; about 150 objects."""
PACKED = 256 * 1024
"""Bytes of a gzip stream that the root stores; every renewal of the lock writes it again."""
LIMIT = 1_000_000
"""Bytes that a shard may have; the server's own limit for one ConfigMap is 1,048,576."""
MOST = 100_000
"""Objects that one set may have."""

_UNPACKED_LIMIT = 64 * 1024 * 1024
# A shard has this many entries on average, and at most four times as many.
_PER_SHARD = 2048


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the entries: the digest of its lines, their number, and their gzip stream."""

    digest: str
    count: int
    packed: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Packed:
    """The entries in one of the three forms; ``digest`` is the digest of all lines."""

    count: int
    digest: str
    readable: str = field(default="", repr=False)
    stream: str = field(default="", repr=False)
    shards: tuple[Shard, ...] = ()


def pack(entries: Iterable[InventoryEntry]) -> Packed:
    """Return entries in the form to store; raise InventoryError if they are too many."""
    lines = lines_of(entries)
    if len(lines) > MOST:
        raise InventoryError(
            f"an inventory of {len(lines)} objects is too large",
            reason=f"a set may have at most {MOST} objects",
            hint="Split the set in two.",
        )
    whole = b"".join(line for _, line in lines)
    digest = digest_of(whole)
    if len(whole) <= READABLE:
        return Packed(len(lines), digest, readable=whole.decode())
    # Only if it may fit: compressing all of a large inventory would be wasted.
    if len(lines) <= 2 * _PER_SHARD and len(stream := _packed(whole)) <= PACKED:
        return Packed(len(lines), digest, stream=stream)
    shards = [shard for part in _cut(lines) for shard in _shards(part)]
    return Packed(len(lines), digest, shards=tuple(shards))


def unpack(stream: str) -> bytes:
    """Return the lines in a stream; raise ValueError if it is invalid or unpacks to too much."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(base64.b64decode(stream, validate=True))) as opened:
            lines = opened.read(_UNPACKED_LIMIT + 1)
    except binascii.Error as error:
        raise ValueError("its entries are not base64") from error
    except (zlib.error, EOFError, OSError) as error:
        raise ValueError("its entries cannot be unpacked") from error
    if len(lines) > _UNPACKED_LIMIT:
        raise ValueError("its unpacked entries are too large")
    return lines


def digest_of(lines: bytes) -> str:
    """Return the digest of lines."""
    return hashlib.sha256(lines).hexdigest()


def _cut(lines: Sequence[tuple[Ref, bytes]]) -> Iterator[Sequence[bytes]]:
    part: list[bytes] = []
    for ref, line in lines:
        part.append(line)
        name = f"{ref.group}\0{ref.kind}\0{ref.namespace}\0{ref.name}"
        if zlib.crc32(name.encode()) % _PER_SHARD == 0 or len(part) == 4 * _PER_SHARD:
            yield part
            part = []
    if part:
        yield part


def _shards(part: Sequence[bytes]) -> Iterator[Shard]:
    """Yield one shard for a part, or more if it does not compress well enough."""
    lines = b"".join(part)
    stream = _packed(lines) if len(lines) <= _UNPACKED_LIMIT else ""
    if stream and len(stream) <= LIMIT:
        yield Shard(digest_of(lines), len(part), stream)
        return
    if len(part) == 1:
        raise InventoryError("one entry of the inventory is larger than a ConfigMap")
    half = len(part) // 2
    yield from _shards(part[:half])
    yield from _shards(part[half:])


def _packed(lines: bytes) -> str:
    return base64.b64encode(gzip.compress(lines, compresslevel=6, mtime=0)).decode()
