"""Documents that the API server publishes, each cached by its ETag.

The cache holds the last response for each URL. An ETag is a hash of the content, so a 304 means
that the content is the same. A broken file of the cache counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from applyprune.cluster.object_requests import JSON, for_document
from applyprune.system.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from applyprune.cluster.transport.transport import Transport

_LARGEST = 64 * 1024 * 1024
"""The bytes of the largest file that is read: the largest real ones have 1 MB."""


def read_document(
    transport: Transport,
    server: str,
    path: str,
    cache: Path | None,
    *,
    accept: str = JSON,
    part: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    form: str = "",
    within: float | None = None,
) -> Mapping[str, Any]:
    """Return a document as the server publishes it now; raises AccessError.

    ``cache`` is a folder for earlier responses; None means no cache. With ``part``, only that part
    of a response is kept and returned; ``form`` names what ``part`` returns. ``within`` is in
    seconds and limits all tries together.
    """
    kept = _Kept(cache, " ".join(filter(None, (server, path, form))))
    etag, before = kept.read()
    headers = (("If-None-Match", etag),) if etag else ()
    reply = transport.send(for_document(path, accept=accept, headers=headers, within=within))
    if reply.status == 304 and before is not None:
        return before
    document = part(reply.body) if part else reply.body
    kept.write(reply.headers.get("ETag", ""), document)
    return document


class _Kept:
    """One document in the cache folder."""

    def __init__(self, folder: Path | None, key: str) -> None:
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        self._file = folder / f"{name}.json" if folder else None

    def read(self) -> tuple[str, Mapping[str, Any] | None]:
        if self._file is None:
            return "", None
        try:
            with self._file.open("rb") as file:
                # A read of the most that it may be would allocate so much.
                raw = file.read() if os.fstat(file.fileno()).st_size <= _LARGEST else b"{}"
            kept = json.loads(raw)
            etag, document = kept["etag"], kept["document"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "", None
        is_header = isinstance(etag, str) and etag.isascii() and etag.isprintable()
        return (etag, document) if is_header and isinstance(document, dict) else ("", None)

    def write(self, etag: str, document: Mapping[str, Any]) -> None:
        if self._file is None or not etag:
            return
        text = json.dumps({"etag": etag, "document": document}, separators=(",", ":"))
        # Without a cache, only time is lost.
        with suppress(OSError), ExitStack() as unless_moved:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._file.parent, delete=False) as fresh:
                unless_moved.callback(Path(fresh.name).unlink)
                fresh.write(text.encode())
            replace_file(Path(fresh.name), self._file)
            unless_moved.pop_all()


def cache_folder() -> Path:
    """Return the user's folder for the documents."""
    return platformdirs.user_cache_path("applyprune", appauthor=False) / "discovery"
