"""Read the regular files of a tar archive, plain or gzip, from its first byte to its last.

Nothing is extracted: there is no folder that a name or a link could lead out of. Python's tarfile
ends silently at the first header that it cannot read, and what is missing would be pruned. So this
module walks over the headers itself, and an archive must end as the format says.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from io import RawIOBase
from typing import IO, TYPE_CHECKING

from applyprune.sources.archives.tar_names import TarNames
from applyprune.sources.archives.tar_records import Records, read_records
from applyprune.sources.remote.fetch_errors import FetchFailed, SourceTooLarge
from applyprune.sources.remote.web_reply import shown_size
from applyprune.sources.source import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

    from applyprune.sources.remote.file_tree import TreeLimits

_BLOCK = 512
_PIECE = 64 * 2**10
_GZIP = b"\x1f\x8b"
_MOST_RECORDS = 64 * 2**10
"""Bytes of one header with records, or of one long name."""
_PER_FILE = 4 * _BLOCK
"""How much an archive needs for a file beside its content: headers, records, padding."""
_GNU = b"ustar  \0"

_PLAIN = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE})
_REFUSED = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


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
    tape = _Tape(file, limits, check_time)
    names = TarNames(limits.files)
    files: dict[str, bytes] = {}
    left = limits.size
    while (member := _next_member(tape)) is not None:
        info, name, size = member
        if info.isdir():
            if size:
                raise _refused(name, "a folder with content")
            names.add_folder(name)
            continue
        if info.type not in _PLAIN:
            raise _refused(name, _REFUSED.get(info.type, "a member of an unknown type"))
        path = names.add_file(name)
        left -= size
        if left < 0:
            raise _too_large(limits)
        files[path] = tape.padded(size)
    tape.expect_end()
    return files


def _next_member(tape: _Tape) -> tuple[tarfile.TarInfo, str, int] | None:
    """Return the next member with its name and size; None at the end of the archive."""
    records = Records()
    while True:
        block = tape.exactly(_BLOCK)
        if not any(block):
            if records != Records():
                raise FetchFailed(
                    "the archive is invalid", reason="it ends before a file that it names"
                )
            return None
        info = _header(block)
        if info.type in {tarfile.XHDTYPE, tarfile.XGLTYPE}:
            found = read_records(tape.header_data(info.size))
            if info.type == tarfile.XHDTYPE:
                records = records.then(found)
            elif found != Records():
                raise FetchFailed(
                    "the archive is invalid", reason="a name or a size for all its files"
                )
        elif info.type == tarfile.GNUTYPE_LONGNAME:
            records = records.then(Records(name=tape.header_data(info.size).rstrip(b"\0")))
        elif info.type == tarfile.GNUTYPE_LONGLINK:
            tape.header_data(info.size)
        else:
            name = _name(records.name or info.name.encode("utf-8", "surrogateescape"))
            if records.is_sparse:
                raise _refused(name, _REFUSED[tarfile.GNUTYPE_SPARSE])
            return info, name, info.size if records.size is None else records.size


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        raise FetchFailed(
            "not a tar archive, or a damaged one",
            reason="a header is invalid",
            hint="Only .tar, .tar.gz and .tgz are read.",
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
        raise _refused(
            raw.decode("utf-8", "backslashreplace"), "a name that is not UTF-8"
        ) from None


def _invalid(reason: str) -> FetchFailed:
    return FetchFailed("the archive is invalid", reason=reason)


def _refused(name: str, what: str) -> FetchFailed:
    return FetchFailed(
        f"the archive has {what}: {shown_path(name)}",
        hint="Only regular files and folders with names in UTF-8 are read.",
    )


def _too_large(limits: TreeLimits) -> SourceTooLarge:
    return SourceTooLarge(f"the files are larger than {shown_size(limits.size)} together")


class _Timed(RawIOBase):
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


class _Tape:
    """The blocks of an archive, one after the other, and no more than the limits allow."""

    def __init__(self, file: IO[bytes], limits: TreeLimits, check_time: Callable[[], None]) -> None:
        start = file.tell()
        is_gzip = file.read(len(_GZIP)) == _GZIP
        file.seek(start)
        timed = _Timed(file, check_time)
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
            raise _invalid("something follows its end")
        while piece := self._some(_PIECE):
            if any(piece):
                raise _invalid("something follows its end")

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
