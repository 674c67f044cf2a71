"""A network of its own that has IPv6 addresses only, as a Pod of an IPv6 cluster has it.

It belongs to one thread: what that thread opens, and each process and thread that it starts, is in
that network. Nothing of it is left when the thread has ended, and nothing is installed for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from fcntl import ioctl
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.support.linux import enter_network
from tests.support.listening import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POD, PROXY, LINK_LOCAL = "fd00:1::10", "fd00:1::20", "fe80::10"
INTERFACE = "lo"
_SIOCSIFFLAGS, _SIOCSIFADDR = 0x8914, 0x8916
_UP = 0x1 | 0x8 | 0x40
"""Up, loopback, running."""
_Found = TypeVar("_Found")


class Ipv6Network:
    """The network, and the thread that is in it."""

    def __init__(self) -> None:
        """Start the thread; it is not in the network yet."""
        self._inside = ThreadPoolExecutor(1, "ipv6-only")

    def do(self, call: Callable[[], _Found]) -> _Found:
        """Return the result of a call inside the network."""
        return self._inside.submit(call).result()

    def close(self) -> None:
        """End the thread."""
        self._inside.shutdown()

    @contextlib.contextmanager
    def passing(self, address: str, serve: Callable[[socket.socket], None]) -> Iterator[int]:
        """Give each connection to a port of an address inside to ``serve``, which runs outside."""
        listener = self.do(lambda: socket.create_server(_full(address), family=socket.AF_INET6))
        opened: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def guarded(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                serve(connection)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    opened.append(listener.accept()[0])
                    threads.append(threading.Thread(target=guarded, args=(opened[-1],)))
                    threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            for one in (listener, *opened):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            listener.close()
            acceptor.join()
            for thread in threads:
                thread.join()


def _full(address: str) -> tuple[str, int, int, int]:
    zone = 1 if address == LINK_LOCAL else 0
    return address, 0, 0, zone


def to_port(port: int) -> Callable[[socket.socket], None]:
    """Return what passes a connection on to a port of this machine's own network."""

    def serve(connection: socket.socket) -> None:
        # By no resolver: a test may have replaced it.
        with socket.socket() as server:
            server.connect(("127.0.0.1", port))
            pass_on(connection, server)

    return serve


@contextlib.contextmanager
def ipv6_network() -> Iterator[Ipv6Network]:
    """Yield such a network; skip the test where none can be made."""
    network = Ipv6Network()
    try:
        try:
            network.do(_enter)
        except (OSError, AttributeError) as error:
            pytest.skip(f"needs the right to create network namespaces (root, on Linux): {error}")
        yield network
    finally:
        network.close()


def _enter() -> None:
    """Move this thread into a network of its own, which has these addresses and no other."""
    enter_network()
    with (
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as ipv6,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ipv4,
    ):
        ioctl(ipv6, _SIOCSIFFLAGS, struct.pack("16sh14x", INTERFACE.encode(), _UP))
        index = socket.if_nametoindex(INTERFACE)
        for address, length in ((POD, 128), (PROXY, 128), (LINK_LOCAL, 64)):
            number = socket.inet_pton(socket.AF_INET6, address)
            ioctl(ipv6, _SIOCSIFADDR, number + struct.pack("Ii", length, index))
        # The kernel has given 127.0.0.1 to it; an empty address removes that.
        empty = struct.pack("16sHH4s8x", INTERFACE.encode(), socket.AF_INET, 0, bytes(4))
        ioctl(ipv4, _SIOCSIFADDR, empty)
