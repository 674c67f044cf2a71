"""Archives at HTTPS URLs: tar, plain or gzip, read strictly from the first byte to the last.

Each name leads to one file below the root, on every file system.
"""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import zlib
from contextlib import contextmanager
from datetime import timedelta
from email.utils import parsedate_to_datetime
from io import RawIOBase
from types import MappingProxyType
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune.errors import UsageError
from applyprune.model.problem import Origin
from applyprune.sources.address import is_https, login_of, shown_url
from applyprune.sources.tree import (
    ANONYMOUS,
    FetchFailed,
    FileTree,
    PathNotFound,
    SourceCredentials,
    SourceTooLarge,
    TreeLimits,
    VerificationFailed,
    clean_path,
    shown_path,
)
from applyprune.sources.web import Web, basic, bearer, located, open_web, shown_size
from applyprune.values import dataclass, field, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from _typeshed import WriteableBuffer

    from applyprune.addresses import AddressRules
    from applyprune.http import Patience
    from applyprune.sources.web import Reply


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """Where an archive is, and how it is read."""

    url: str = field(repr=False)
    """``https://…``; it may contain a user, a password and a query, none of which is ever shown."""
    digest: str = ""
    """``sha256:…`` of the archive; empty if any archive is trusted that the server sends."""
    credentials: SourceCredentials = ANONYMOUS
    timeout: float = 60.0
    """Seconds for all of it: name resolution, redirects, every byte, and the files in it."""
    addresses: AddressRules | None = None
    """Which addresses may be connected to; None for every one."""
    limits: TreeLimits = field(default_factory=TreeLimits)

    @property
    def shown(self) -> str:
        """Return the URL, safe to print."""
        return shown_url(self.url)


def fetch_archive(source: ArchiveSource) -> FileTree:
    """Return every file of the archive, by its path from the archive's root.

    The revision is the digest of the archive.

    Raises PathNotFound, SourceTooLarge, VerificationFailed for another digest, AuthenticationFailed
    for 401 and 403, and FetchFailed for everything else that is wrong with the server or the
    archive; UsageError for a URL that is not ``https://``.
    """
    with located(Origin(source.shown)), _open(source) as web, open_spool() as file:
        with _get(source, web, {}) as reply:
            if reply.status != 200:
                raise reply.refusal()
            digest = reply.save(file, source.limits.size)
        check_digest(digest, source.digest, "the archive")
        file.seek(0)
        return archive_tree(read_tar(file, source.limits, web.check_time), digest)


def archive_tree(files: Mapping[str, bytes], revision: str) -> FileTree:
    """Return the files of an archive; raise PathNotFound for none: they would prune everything."""
    if not files:
        raise PathNotFound("the source has no files")
    return FileTree(MappingProxyType(files), revision)


def check_digest(found: str, wanted: str, what: str) -> None:
    """Raise VerificationFailed if a digest was given, and is another one."""
    # guard: checked-digest never
    if wanted and found != wanted:
        raise VerificationFailed(f"{what} has another digest", reason=f"{found}, not {wanted}")


_IN_MEMORY = 8 * 2**20
"""Bytes of what is transferred that are kept in memory; more are in a file without a name."""


@contextmanager
def open_spool() -> Iterator[IO[bytes]]:
    """Yield a temporary file for what is transferred; it has no name that others could open."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="applyprune-") as file:
        yield file


@contextmanager
def _open(source: ArchiveSource, patience: Patience | None = None) -> Iterator[Web]:
    if not is_https(source.url):
        raise UsageError(f"unsupported URL: {source.shown}", reason="an archive is at https://")
    with open_web(
        source.url,
        timeout=source.timeout,
        credentials=source.credentials,
        addresses=source.addresses,
        patience=patience,
    ) as web:
        yield web


@contextmanager
def _get(source: ArchiveSource, web: Web, headers: Mapping[str, str]) -> Iterator[Reply]:
    given = source.credentials
    authorization = (
        basic(given.username, given.password)
        or bearer(given.bearer_token)
        or basic(*login_of(urlsplit(source.url)))
    )
    with web.request("GET", source.url, authorization=authorization, headers=headers) as reply:
        yield reply


# The version of an archive, without reading it.


_SETTLED = timedelta(minutes=1)
"""How long ago a change must be for its time to identify it; the clocks of servers differ."""
_MOST_OF_A_HEADER = 1024


@dataclass(frozen=True, slots=True)
class ArchiveVersion:
    """What a server calls the present version of an archive; empty if it does not say."""

    etag: str = ""
    last_modified: str = ""
    """Empty if there is an ETag, or if the archive was not yet old when the server said it."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The archive is still the one of the version that is known."""


def check_archive(
    source: ArchiveSource,
    known: ArchiveVersion | None = None,
    patience: Patience | None = None,
) -> ArchiveVersion | Unchanged:
    """Ask for the version of an archive without reading the archive; Unchanged if it is ``known``.

    An empty version means that the server does not say: the archive must be fetched to be compared.
    Check first, then fetch: a change between the two is then seen by the next check. Raises as
    ``fetch_archive``.
    """
    known = known or ArchiveVersion()
    asked = {
        "If-None-Match": known.etag,
        "If-Modified-Since": "" if known.etag else known.last_modified,
    }
    headers = {name: value for name, value in asked.items() if value}
    # A GET whose body is not read: a signed URL is often valid for a GET only.
    with (
        located(Origin(source.shown)),
        _open(source, patience) as web,
        _get(source, web, headers) as reply,
    ):
        if reply.status == 304 and headers:
            return Unchanged()
        if reply.status != 200:
            raise reply.refusal()
        etag = _bounded_header(reply, "ETag")
        found = ArchiveVersion(etag, "" if etag else _last_modified(reply))
    return Unchanged() if found.etag and found.etag == known.etag else found


def _last_modified(reply: Reply) -> str:
    """Return the time of the last change if it identifies a version; empty if it does not.

    It has whole seconds: one that is recent may be that of the next change, too, which the server
    would then never tell (RFC 9110 §8.8.2.2).
    """
    text = _bounded_header(reply, "Last-Modified")
    try:
        age = parsedate_to_datetime(reply.header("Date")) - parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return ""
    # guard: version-by-time -> text if 1 else ""
    return text if age >= _SETTLED else ""


def _bounded_header(reply: Reply, name: str) -> str:
    value = reply.header(name).strip()
    return value if len(value) <= _MOST_OF_A_HEADER else ""


# Read the regular files of a tar archive, plain or gzip.
#
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
