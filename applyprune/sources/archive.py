"""The tar archive of an artifact, plain or gzip, read strictly from the first byte to the last.

Each name leads to one file below the root, on every file system.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from io import RawIOBase
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from applyprune.sources.tree import (
    FetchFailed,
    SourceTooLarge,
    TreeLimits,
    clean_path,
    shown_path,
)
from applyprune.sources.web import shown_size
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

# Nothing is extracted: there is no folder that a name or a link could lead out of. Python's tarfile
# ends silently at the first header that it cannot read, and what is missing would be pruned. So
# the headers are read here, and an archive must end as the format says.


_PLAIN = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE})
_REFUSED = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_BLOCK = 512
_GNU = b"ustar  \0"
_PIECE = 64 * 2**10
_GZIP = b"\x1f\x8b"
_MOST_RECORDS = 64 * 2**10
"""Bytes of one header with records, or of one long name."""
_PER_FILE = 4 * _BLOCK
"""How much an archive needs for a file beside its content: headers, records, padding."""


def read_tar(
    file: IO[bytes], limits: TreeLimits, check_time: Callable[[], None]
) -> dict[str, bytes]:
    """Return the content of each regular file, by its path in the archive; folders are ignored.

    ``file`` is read from its present position to its end. ``check_time`` is called again and again,
    and raises when there is no time left.

    Raises SourceTooLarge as soon as there are too many files or bytes; of a gzip bomb, no more than
    twice the limit is ever in memory. Raises FetchFailed for everything that is not a complete tar
    archive of regular files with distinct names that stay below its root: the server sends the
    wrong thing.
    """
    tape = _BlockReader(file, limits, check_time)
    names = TarNames(limits.files)
    files: dict[str, bytes] = {}
    left = limits.size
    while (member := _next_member(tape)) is not None:
        info, name, size = member
        if info.isdir():
            if size:
                raise _unsupported(name, "a folder with content")
            names.add_folder(name)
            continue
        if info.type not in _PLAIN:
            raise _unsupported(name, _REFUSED.get(info.type, "a member of an unknown type"))
        path = names.add_file(name)
        left -= size
        if left < 0:
            raise _too_large(limits)
        files[path] = tape.padded(size)
    tape.expect_end()
    return files


def _next_member(tape: _BlockReader) -> tuple[tarfile.TarInfo, str, int] | None:
    """Return the next member with its name and size; None at the end of the archive."""
    records = Records()
    while True:
        block = tape.exactly(_BLOCK)
        if not any(block):
            if records != Records():
                raise _invalid("it ends before a file that it names")
            return None
        info = _header(block)
        if info.type in {tarfile.XHDTYPE, tarfile.XGLTYPE}:
            found = read_records(tape.header_data(info.size))
            if info.type == tarfile.XHDTYPE:
                records = records.then(found)
            elif found != Records():
                raise _invalid("a name or a size for all its files")
        elif info.type == tarfile.GNUTYPE_LONGNAME:
            records = records.then(Records(name=tape.header_data(info.size).rstrip(b"\0")))
        elif info.type == tarfile.GNUTYPE_LONGLINK:
            tape.header_data(info.size)
        else:
            name = _name(records.name or info.name.encode("utf-8", "surrogateescape"))
            if records.is_sparse:
                raise _unsupported(name, _REFUSED[tarfile.GNUTYPE_SPARSE])
            return info, name, info.size if records.size is None else records.size


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        raise FetchFailed(
            "not a tar archive, or a damaged one",
            reason="a header is invalid",
        ) from None
    # GNU tar has other fields where POSIX has the first part of a name.
    if block[257:265] == _GNU and any(block[345:500]) and info.type != tarfile.GNUTYPE_SPARSE:
        raise _invalid("a header of an incremental backup")
    if info.size < 0:
        raise _invalid("a file has a negative size")
    return info


def _name(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _unsupported(
            raw.decode("utf-8", "backslashreplace"), "a name that is not UTF-8"
        ) from None


def _invalid(reason: str) -> FetchFailed:
    return FetchFailed("the archive is invalid", reason=reason)


def _unsupported(name: str, what: str) -> FetchFailed:
    return FetchFailed(
        f"the archive has {what}: {shown_path(name)}",
        hint="Only regular files and folders with names in UTF-8 are read.",
    )


def _too_large(limits: TreeLimits) -> SourceTooLarge:
    return SourceTooLarge(f"the files are larger than {shown_size(limits.size)} together")


class _BlockReader:
    """The blocks of an archive, one after the other, and no more than the limits allow."""

    def __init__(self, file: IO[bytes], limits: TreeLimits, check_time: Callable[[], None]) -> None:
        start = file.tell()
        is_gzip = file.read(len(_GZIP)) == _GZIP
        file.seek(start)
        timed = _TimedFile(file, check_time)
        self._file = gzip.GzipFile(fileobj=timed, mode="rb") if is_gzip else timed
        self._limits = limits
        self._check_time = check_time
        # Of the whole archive; the content of the files has a limit of its own.
        self._left = limits.size + limits.files * _PER_FILE + tarfile.RECORDSIZE

    def exactly(self, size: int) -> bytes:
        """Return so many bytes; raises FetchFailed if the archive ends before."""
        pieces = []
        while size:
            piece = self._some(min(size, _PIECE))
            if not piece:
                raise FetchFailed("the archive is truncated")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def padded(self, size: int) -> bytes:
        """Return the content of a member, and skip what fills its last block."""
        data = self.exactly(size)
        self.exactly(-size % _BLOCK)
        return data

    def header_data(self, size: int) -> bytes:
        """Return the content of a member that describes the next one."""
        if size > _MOST_RECORDS:
            raise _invalid("a header is too long")
        return self.padded(size)

    def expect_end(self) -> None:
        """Read the rest; raises FetchFailed unless it is zeros, at least a block of them."""
        if any(self.exactly(_BLOCK)):
            raise _invalid("there is data after its end")
        while piece := self._some(_PIECE):
            if any(piece):
                raise _invalid("there is data after its end")

    def _some(self, size: int) -> bytes:
        self._check_time()
        try:
            data = self._file.read(size) or b""
        except EOFError:
            raise FetchFailed("the archive is truncated") from None
        except (gzip.BadGzipFile, zlib.error):
            raise _invalid("its gzip data is damaged") from None
        except OSError as error:
            raise FetchFailed(
                "what was fetched cannot be read again", reason=str(error.strerror)
            ) from None
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._limits)
        return data


class _TimedFile(RawIOBase):
    """A file that is read in time: gzip may read much before it returns anything."""

    def __init__(self, file: IO[bytes], check_time: Callable[[], None]) -> None:
        self._file = file
        self._check_time = check_time

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._check_time()
        view = memoryview(buffer).cast("B")
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)


# The records of a pax header: what they say about the next file of an archive.


_START = pattern(rb"([1-9][0-9]{0,7}) ([^=\n\0]+)=")
_SIZE = pattern(rb"[0-9]{1,18}")
_SPARSE = b"GNU.sparse."


class Records(Struct, frozen=True):
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
            raise _invalid("a pax header cannot be read")
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
        raise _invalid("a pax header has an invalid size")
    return Records(size=int(value))


# The names in an archive: each leads to one file below the root, on every file system.


_LONGEST = 1024
"""Characters of a path; with the limit on files, it bounds the memory for names."""


class TarNames:
    """The names that were read, and what a further one must not be."""

    def __init__(self, limit: int) -> None:
        """Accept at most ``limit`` files, and as many folders."""
        self._limit = limit
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._spelled: dict[str, str] = {}

    def add_file(self, name: str) -> str:
        """Return the path of a file.

        Raises FetchFailed for a name that is not relative, leads out of the archive, or is there
        twice, also if only in another case, and SourceTooLarge for too many files.
        """
        path = _path(name)
        if not path or name.endswith("/"):
            raise FetchFailed(f"the archive has a file without a name: {shown_path(name)}")
        if path in self._files:
            raise FetchFailed(f"the archive has two files of one name: {shown_path(name)}")
        if path in self._folders:
            raise _file_and_folder(path)
        self._files.add(path)
        self._check_case(path)
        if len(self._files) > self._limit:
            raise SourceTooLarge(f"the archive has more than {self._limit} files")
        self._add_folders(path.rpartition("/")[0])
        return path

    def add_folder(self, name: str) -> None:
        """Check the name of a folder, which may be there twice; raises as ``add_file``."""
        self._add_folders(_path(name))

    def _add_folders(self, path: str) -> None:
        """Add a folder and those above it, of which the known ones have been checked."""
        while path and path not in self._folders:
            if path in self._files:
                raise _file_and_folder(path)
            self._folders.add(path)
            self._check_case(path)
            if len(self._folders) > self._limit:
                raise SourceTooLarge(f"the archive has more than {self._limit} folders")
            path = path.rpartition("/")[0]

    def _check_case(self, path: str) -> None:
        # guard: names-that-differ-in-case never
        if (other := self._spelled.setdefault(path.casefold(), path)) != path:
            raise FetchFailed(
                "the archive has two names that differ only in case: "
                f"{shown_path(other)}, {shown_path(path)}",
                reason="some file systems take them for one file",
            )


def _path(name: str) -> str:
    """Return a name as a path below the root, which itself is empty; raises FetchFailed."""
    path = clean_path(name) if len(name) <= _LONGEST else None
    if path is None:
        raise FetchFailed(
            f"the archive has a name that is too long, or leads out of it: "
            f"{shown_path(name[:_LONGEST])}"
        )
    return path


def _file_and_folder(path: str) -> FetchFailed:
    return FetchFailed(f"the archive has a file and a folder of one name: {shown_path(path)}")
