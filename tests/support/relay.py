"""A TCP relay in front of a server: it passes on bytes, so the server's HTTP is unchanged."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


def _nothing() -> None:
    """Do nothing between two pieces."""


class Relay:
    """Passes on bytes; it calls ``between`` after each ``piece`` bytes from the server."""

    def __init__(self, port: int) -> None:
        """Listen in front of that port of 127.0.0.1."""
        self.target = port
        """The port to which new connections are passed on."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.piece = 65536
        self.between: Callable[[], object] = _nothing
        self.delivers = threading.Event()
        self.delivers.set()
        self._start(self._accept)

    def cut(self) -> None:
        """End every connection, wherever it is."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        """Return the relay, which is listening already."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Close everything."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.delivers.set()
        self.cut()
        for thread in self._threads:
            thread.join(5)
        for one in self._open:
            one.close()

    def _start(self, work: object, *arguments: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=arguments, name="relay", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.target))
                self._open += [client, server]
                self._start(self._pass_up, client, server)
                self._start(self._pass_down, server, client)

    def _pass_up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _pass_down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                for start in range(0, len(data), self.piece):
                    self.delivers.wait()
                    client.sendall(data[start : start + self.piece])
                    self.between()
            client.shutdown(socket.SHUT_RDWR)
