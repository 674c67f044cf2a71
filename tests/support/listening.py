"""Servers of a few lines: what happens to each connection, and a proxy."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def listened_at(host: str) -> str:
    """Return the address at which a server listens that clients call by this name or address."""
    return "127.0.0.1" if host == "localhost" else host


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept connections on a free port and give each to ``serve`` in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    opened: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                opened.append(connection)
                threads.append(threading.Thread(target=guarded, args=(connection,)))
                threads[-1].start()

    def guarded(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            serve(connection)

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for item in (listener, *opened):
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for thread in threads:
            thread.join()


def pass_on(connection: socket.socket, server: socket.socket) -> None:
    """Pass on all bytes both ways, and the end of each."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pump, args=(server, connection))
    back.start()
    pump(connection, server)
    back.join()


def tunnel(to: str, opened: list[socket.socket] | None = None) -> Callable[[socket.socket], None]:
    """Return what an HTTP proxy does with a connection: CONNECT, then bytes both ways.

    ``opened`` gets the connections that lead to the server.
    """
    host, _, port = to.removeprefix("https://").partition(":")

    def serve(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        if b"Proxy-Authorization: Basic dTpwYXNz".lower() not in head.lower():
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        with socket.create_connection((host, int(port))) as server:
            if opened is not None:
                opened.append(connection)
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            pass_on(connection, server)

    return serve


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port of this machine at which nobody listens, and that nobody else can take."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


class Silence:
    """A host that accepts every connection and never says a word, but perhaps a first one."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.held = 0
        self.port = 0
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        """Hold a connection until the other side has gone."""
        with self._lock:
            self.held += 1
        try:
            connection.sendall(self.greeting)
            while connection.recv(65536):
                pass
        finally:
            with self._lock:
                self.held -= 1


@contextlib.contextmanager
def silent_host(greeting: bytes = b"") -> Iterator[Silence]:
    """Yield a silent host on this machine."""
    host = Silence(greeting)
    with listening(host.serve) as host.port:
        yield host
