"""The reply to one request of a source: read completely and within a limit, or refused."""

from __future__ import annotations

import hashlib
import ssl
from http import HTTPStatus
from http.client import HTTPException
from typing import IO, TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.text.display import visible
from applyprune.sources.remote.fetch_errors import (
    AuthenticationFailed,
    FetchFailed,
    SourceTooLarge,
)
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3.response import BaseHTTPResponse

_CHUNK = 2**20
_LENGTH = pattern(r"[0-9]{1,18}")
_SHOWN = 200


class UnknownLength(FetchFailed):
    """A server does not say how long its response is, so a truncated one would go unnoticed."""


class Reply:
    """The reply of a server, not read yet; use it inside the block that has opened it."""

    def __init__(self, raw: BaseHTTPResponse, url: str, server: str, seconds: float) -> None:
        """Keep the reply; ``url`` is where the redirects led, ``server`` its host, to print.

        ``seconds`` is the time limit that messages name.
        """
        self._raw = raw
        self._server = server
        self._seconds = seconds
        self.url = url
        self.status = raw.status

    def header(self, name: str) -> str:
        """Return the value of a header; several, joined by commas; empty for none."""
        return self._raw.headers.get(name, "")

    @property
    def shown_status(self) -> str:
        """Return the status as ``404 Not Found``, in words of our own."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)

    def refusal(self, *, reason: str = "", hint: str = "") -> InputError:
        """Return the error for a status that is not the expected one."""
        message = f"the server answered {self.shown_status}"
        if self.status in {401, 403}:
            return AuthenticationFailed(
                message, reason=reason, hint=hint or "Check the source's credentials."
            )
        return FetchFailed(message, reason=reason, hint=hint)

    def chunks(self, limit: int) -> Iterator[bytes]:
        """Yield the body as it is on the wire, in pieces of at most 1 MiB.

        Raises FetchFailed for a body that is compressed, that has no known length, or that ends
        early, and SourceTooLarge as soon as it exceeds ``limit`` bytes.
        """
        from urllib3.exceptions import HTTPError

        self._check_coding()
        too_large = SourceTooLarge(f"the response is larger than {shown_size(limit)}")
        if (self._raw.length_remaining or 0) > limit:
            raise too_large
        size = 0
        try:
            while chunk := self._raw.read(min(_CHUNK, limit + 1 - size), decode_content=False):
                size += len(chunk)
                if size > limit:
                    raise too_large
                yield chunk
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            raise connection_failed(error, self._server, self._seconds) from None

    def read(self, limit: int) -> bytes:
        """Return the whole body; raises as ``chunks``."""
        return b"".join(self.chunks(limit))

    def save(self, file: IO[bytes], limit: int) -> str:
        """Write the whole body to a file, and return its digest: ``sha256:…``.

        Raises as ``chunks``, and FetchFailed if the file cannot be written.
        """
        digest = hashlib.sha256()
        for chunk in self.chunks(limit):
            digest.update(chunk)
            try:
                file.write(chunk)
            except OSError as error:
                raise not_stored(error) from None
        return f"sha256:{digest.hexdigest()}"

    def finish(self) -> None:
        """Release the connection: keep it only if nothing, or little, of the body is left."""
        left = self._raw.length_remaining
        if left is not None and left <= _CHUNK:
            self._raw.drain_conn()
        self._raw.close()

    def _check_coding(self) -> None:
        if self.header("Content-Encoding").strip().lower() not in {"", "identity"}:
            raise FetchFailed("the reply is compressed, and that was not asked for")
        coding = self.header("Transfer-Encoding").strip().lower()
        # With any other coding, or another word for a length, this code could not detect the end.
        known = not coding and _LENGTH.fullmatch(self.header("Content-Length").strip())
        if coding != "chunked" and not known:
            raise UnknownLength(
                "the server does not send the length of its response",
                reason="a truncated response could not be detected",
            )


def shown_size(size: int) -> str:
    """Return a number of bytes as a person reads it: ``256 MiB``."""
    for unit, words in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {words}"
    return f"{size} bytes"


def not_stored(error: OSError) -> FetchFailed:
    """Return the error for a temporary file that cannot be written."""
    return FetchFailed(
        "what was fetched cannot be stored",
        reason=error.strerror or "",
        hint="Check the space in the folder for temporary files (TMPDIR).",
    )


def connection_failed(error: Exception, server: str, seconds: float) -> InputError:
    """Return the error for a broken connection to a server; ``seconds`` was the time limit."""
    from urllib3.exceptions import ProxyError

    from applyprune.http import RefusedAddress, causes, describe_error, refuses_certificate

    for cause in causes(error):
        if isinstance(cause, RefusedAddress):
            return refused_address(server, str(cause))
        if isinstance(cause, ssl.SSLCertVerificationError):
            return FetchFailed(
                f"the certificate of {server} is not trusted",
                reason=cause.verify_message,
                hint="Add its CA to the system's CAs, or to the file in SSL_CERT_FILE.",
            )
        if isinstance(cause, ssl.SSLError) and refuses_certificate(cause):
            return AuthenticationFailed(
                f"{server} refuses the client certificate, or wants one",
                hint="Check the source's client certificate: it may have expired.",
            )
        if isinstance(cause, ProxyError):
            why = visible(str(cause.original_error))[:_SHOWN]
            hint = "Check HTTPS_PROXY and NO_PROXY."
            return FetchFailed("cannot be read", reason=f"the proxy failed: {why}", hint=hint)
    reason, _ = describe_error(error, server=server, seconds=seconds)
    return FetchFailed("cannot be read", reason=reason)


def refused_address(server: str, fault: str) -> FetchFailed:
    """Return the error for a server at an address that must not be connected to."""
    return FetchFailed(
        f"the name {server} means {fault}",
        reason="nothing was sent",
        hint="If sources may be read from there, start the controller with --allow-source-cidr and "
        "the network of that address.",
    )
