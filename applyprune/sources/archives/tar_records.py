"""The records of a pax header: what they say about the next file of an archive."""

from __future__ import annotations

from applyprune.sources.remote.fetch_errors import FetchFailed
from applyprune.values import dataclass, pattern

_START = pattern(rb"([1-9][0-9]{0,7}) ([^=\n\0]+)=")
_SIZE = pattern(rb"[0-9]{1,18}")
_SPARSE = b"GNU.sparse."


@dataclass(frozen=True, slots=True)
class Records:
    """What replaces fields of the next header; times, owners and attributes are of no interest."""

    name: bytes = b""
    size: int | None = None
    is_sparse: bool = False

    def then(self, later: Records) -> Records:
        """Return both; the later one wins."""
        return Records(
            later.name or self.name,
            self.size if later.size is None else later.size,
            self.is_sparse or later.is_sparse,
        )


def read_records(data: bytes) -> Records:
    """Return what the content of a pax header says; raises FetchFailed if it is invalid."""
    records = Records()
    at = 0
    while at < len(data):
        start = _START.match(data, at)
        end = at + int(start[1]) if start else 0
        if start is None or not start.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise FetchFailed("the archive is invalid", reason="a pax header cannot be read")
        records = records.then(_record(start[2], data[start.end() : end - 1]))
        at = end
    return records


def _record(key: bytes, value: bytes) -> Records:
    if key == b"path":
        return Records(name=value)
    if key.startswith(_SPARSE):
        return Records(is_sparse=True)
    if key != b"size":
        return Records()
    if _SIZE.fullmatch(value) is None:
        raise FetchFailed("the archive is invalid", reason="a pax header has an invalid size")
    return Records(size=int(value))
