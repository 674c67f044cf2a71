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
from io import BytesIO

from applyprune.cluster.inventory.entries import Line, block_of, lines_of
from applyprune.errors import InventoryError
from applyprune.model.inventory import InventoryEntry
from applyprune.values import dataclass, field

READABLE = 64 * 1024
"""Bytes of entries that the root stores as text; about 150 objects."""
PACKED = 256 * 1024
"""Bytes of a gzip stream that the root stores; every renewal of the lock writes it again."""
LIMIT = 1_000_000
"""Bytes that a shard may have; the server's own limit for one ConfigMap is 1,048,576."""
MOST = 100_000
"""Objects that one set may have."""
MOST_SHARDS = 1000
"""Shards that one set may have; 100,000 objects have about 50."""
_MOST_UNPACKED = 128 * 1024 * 1024
"""Bytes that the lines of all shards may have; those of 100,000 objects are about 50 MB."""
_MOST_VALUES = 8_000_000
"""Values that all lines may have: in memory, the shortest one takes ten times its bytes."""

_UNPACKED_LIMIT = 16 * 1024 * 1024
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


@dataclass(slots=True)
class UnpackedLines:
    """The lines of one inventory, no more than fit into memory.

    A small stream may unpack to a thousand times its size, and many shards to many times that.
    """

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    values: int = 0

    def add(self, part: bytes) -> None:
        """Add the lines of one shard; raise ValueError if there are too many."""
        self.size += len(part)
        self.values += part.count(b",")
        if self.size > _MOST_UNPACKED:  # guard: unpacked-in-total
            raise ValueError(f"its unpacked entries are larger than {_MOST_UNPACKED >> 20} MiB")
        if self.values > _MOST_VALUES:  # guard: values-in-total
            raise ValueError(f"its entries have more than {_MOST_VALUES} values")
        self.parts.append(part)


def pack(entries: Iterable[InventoryEntry]) -> Packed:
    """Return entries in the form to store; raise InventoryError if they are too many."""
    lines = lines_of(entries)
    if len(lines) > MOST:
        raise _too_large(len(lines), f"a set may have at most {MOST} objects")
    # Only if it may fit: compressing all of a large inventory would be wasted.
    if len(lines) <= 2 * _PER_SHARD:
        whole = block_of(lines)
        if len(whole) <= READABLE:
            return Packed(len(lines), digest_of(whole), readable=whole.decode())
        if len(whole) <= _UNPACKED_LIMIT and len(stream := _packed(whole)) <= PACKED:
            return Packed(len(lines), digest_of(whole), stream=stream)
    blocks = [block for part in _cut(lines) for block in _blocks(part)]
    if len(blocks) > MOST_SHARDS:
        raise _too_large(len(lines), f"it would take {len(blocks)} shards of {MOST_SHARDS}")
    # What no run could read again is not written.
    unpacked = UnpackedLines()
    try:
        for block, _ in blocks:
            unpacked.add(block)
    except ValueError as error:
        raise _too_large(len(lines), str(error)) from error
    return Packed(
        len(lines),
        digest_of(*(block for block, _ in blocks)),
        shards=tuple(shard for _, shard in blocks),
    )


def _too_large(count: int, reason: str) -> InventoryError:
    return InventoryError(
        f"an inventory of {count} objects is too large",
        reason=reason,
        hint="Split the set in two.",
    )


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


def digest_of(*blocks: bytes) -> str:
    """Return the digest of all lines in some blocks."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _cut(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    part: list[Line] = []
    for line in lines:
        part.append(line)
        ref = line.ref
        name = f"{ref.group}\0{ref.kind}\0{ref.namespace}\0{ref.name}"
        if zlib.crc32(name.encode()) % _PER_SHARD == 0 or len(part) == 4 * _PER_SHARD:
            yield part
            part = []
    if part:
        yield part


def _blocks(part: Sequence[Line]) -> Iterator[tuple[bytes, Shard]]:
    """Yield the block and the shard of a part; more if it does not compress well enough."""
    block = block_of(part)
    stream = _packed(block) if len(block) <= _UNPACKED_LIMIT else ""
    if stream and len(stream) <= LIMIT:
        yield block, Shard(digest_of(block), len(part), stream)
        return
    if len(part) == 1:
        raise InventoryError("one entry of the inventory is larger than a ConfigMap")
    half = len(part) // 2
    yield from _blocks(part[:half])
    yield from _blocks(part[half:])


def _packed(lines: bytes) -> str:
    return base64.b64encode(gzip.compress(lines, compresslevel=6, mtime=0)).decode()
