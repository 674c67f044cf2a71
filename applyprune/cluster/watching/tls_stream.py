"""TLS over an asyncio stream, with little memory for each connection.

asyncio's own TLS keeps a buffer of 256 KiB for each connection, which is most of what a watch that
sees nothing would cost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import TypeVar

_CHUNK = 16 * 1024

T = TypeVar("T")


class TLSStream(asyncio.StreamReader):
    """A connection to a server over TLS; only ``read`` of the reader's methods is for use."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
        server_hostname: str,
    ) -> None:
        """Keep the plain connection; ``handshake`` comes first."""
        super().__init__()
        self._plain, self._writer = reader, writer
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname=server_hostname)

    async def handshake(self) -> None:
        """Agree with the server; raises OSError if it cannot be trusted."""
        await self._exchange(self._tls.do_handshake)

    async def read(self, n: int = -1) -> bytes:
        """Return at most ``n`` bytes as soon as there are any; none at the end."""
        try:
            return await self._exchange(partial(self._tls.read, n if n > 0 else _CHUNK))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def write(self, data: bytes) -> None:
        """Send bytes, after the handshake."""
        self._tls.write(data)
        self._writer.write(self._sent.read())

    @property
    def transport(self) -> asyncio.WriteTransport:
        """Return the transport of the plain connection."""
        return self._writer.transport

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _exchange(self, call: Callable[[], T]) -> T:
        """Call it until what it needs has come."""
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                self._flush()
            else:
                self._flush()
                return result
            if data := await self._plain.read(_CHUNK):
                self._received.write(data)
            else:
                self._received.write_eof()

    def _flush(self) -> None:
        if self._sent.pending:
            self._writer.write(self._sent.read())
