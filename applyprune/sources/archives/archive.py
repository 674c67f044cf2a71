"""An archive of manifests at an HTTPS URL: ``.tar``, ``.tar.gz`` or ``.tgz``."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from datetime import timedelta
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune.errors import UsageError
from applyprune.model.manifest import Origin
from applyprune.sources.archives.tar_files import read_tar
from applyprune.sources.remote.fetch_errors import (
    PathNotFound,
    VerificationFailed,
)
from applyprune.sources.remote.file_tree import FileTree, TreeLimits, clean_path
from applyprune.sources.remote.source_credentials import ANONYMOUS, Credentials
from applyprune.sources.remote.url import is_https, login_of, shown_url
from applyprune.sources.remote.web import Web, basic, bearer, located, open_web
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.http import AddressRules
    from applyprune.sources.remote.web_reply import Reply

_IN_MEMORY = 8 * 2**20
"""Bytes of what is transferred that are kept in memory; more are in a file without a name."""
_MOST_OF_A_HEADER = 1024
_SETTLED = timedelta(minutes=1)
"""How long ago a change must be for its time to identify it; the clocks of servers differ."""


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """Where an archive is, and how it is read."""

    url: str = field(repr=False)
    """``https://…``; it may contain a user, a password and a query, none of which is ever shown."""
    digest: str = ""
    """``sha256:…`` of the archive; empty if any archive is trusted that the server sends."""
    credentials: Credentials = ANONYMOUS
    timeout: float = 60.0
    """Seconds for all of it: name resolution, redirects, every byte, and the files in it."""
    addresses: AddressRules | None = None
    """Which addresses may be connected to; None for every one."""
    limits: TreeLimits = field(default_factory=TreeLimits)

    @property
    def shown(self) -> str:
        """Return the URL, safe to print."""
        return shown_url(self.url)


@dataclass(frozen=True, slots=True)
class ArchiveVersion:
    """What a server calls the present version of an archive; empty if it does not say."""

    etag: str = ""
    last_modified: str = ""
    """Empty if there is an ETag, or if the archive was not yet old when the server said it."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The archive is still the one of the version that is known."""


def fetch_archive(source: ArchiveSource, path: str = "") -> FileTree:
    """Return every file of the archive, by its path from the archive's root.

    The revision is the digest of the archive. ``path`` is a folder that must have a file in it;
    ``subtree`` gives its files alone.

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
        tree = FileTree(MappingProxyType(read_tar(file, source.limits, web.check_time)), digest)
        subtree(tree, path)
        return tree


def check_archive(
    source: ArchiveSource, known: ArchiveVersion | None = None
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
        _open(source) as web,
        _get(source, web, headers) as reply,
    ):
        if reply.status == 304 and headers:
            return Unchanged()
        if reply.status != 200:
            raise reply.refusal()
        etag = _short(reply, "ETag")
        found = ArchiveVersion(etag, "" if etag else _last_modified(reply))
    return Unchanged() if found.etag and found.etag == known.etag else found


def subtree(tree: FileTree, path: str) -> FileTree:
    """Return the files below a folder, by their paths from there; raise PathNotFound for none.

    A folder may have no file for one reason only: it is not there. Archives and artifacts that have
    no file at all are refused in the same way, as an empty set would prune everything.
    """
    folder = clean_path(path)
    if folder is None:
        raise PathNotFound(f"the path leads out of the source: {shown_path(path)}")
    if not tree.files:
        raise PathNotFound("the source has no files")
    if folder in tree.files:
        raise PathNotFound(f"the path is a file, not a folder: {shown_path(folder)}")
    start = f"{folder}/" if folder else ""
    files = {
        name.removeprefix(start): data
        for name, data in tree.files.items()
        if name.startswith(start)
    }
    if not files:
        raise PathNotFound(f"the source has no such folder: {shown_path(folder)}")
    return FileTree(MappingProxyType(files), tree.revision)


def check_digest(found: str, wanted: str, what: str) -> None:
    """Raise VerificationFailed if a digest was given, and is another one."""
    # guard: checked-digest
    if wanted and found != wanted:
        raise VerificationFailed(f"{what} has another digest", reason=f"{found}, not {wanted}")


@contextmanager
def open_spool() -> Iterator[IO[bytes]]:
    """Yield a temporary file for what is transferred; it has no name that others could open."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="applyprune-") as file:
        yield file


@contextmanager
def _open(source: ArchiveSource) -> Iterator[Web]:
    if not is_https(source.url):
        raise UsageError(f"unsupported URL: {source.shown}", reason="an archive is at https://")
    with open_web(
        source.url,
        timeout=source.timeout,
        credentials=source.credentials,
        addresses=source.addresses,
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


def _last_modified(reply: Reply) -> str:
    """Return the time of the last change if it identifies a version; empty if it does not.

    It has whole seconds: one that is recent may be that of the next change, too, which the server
    would then never tell (RFC 9110 §8.8.2.2).
    """
    text = _short(reply, "Last-Modified")
    try:
        age = parsedate_to_datetime(reply.header("Date")) - parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return ""
    # guard: version-by-time
    return text if age >= _SETTLED else ""


def _short(reply: Reply, name: str) -> str:
    value = reply.header(name).strip()
    return value if len(value) <= _MOST_OF_A_HEADER else ""
