"""What goes over a connection, counted at the server."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.http import ConnectionFailed, Connections, Fault, Head, Route, Sent, one_try
from tests.support.clocks import ManualClock
from tests.support.listening import listening, silent_port
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Seen:
    """A server that answers, and keeps what it has got."""

    def __init__(self, last: Callable[[socket.socket, int], bool] = lambda _, __: False) -> None:
        """Ask ``last`` at each request whether the connection ends without an answer."""
        self.heads: list[str] = []
        self._last = last

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection."""
        number = 0
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                if not (more := connection.recv(65536)):
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            number += 1
            if self._last(connection, number):
                return
            connection.sendall(OK)


@contextlib.contextmanager
def connected(seen: Seen) -> Iterator[tuple[Connections, str]]:
    """Yield connections, and the server's URL."""
    with listening(seen.serve) as port, closing(Connections(Route())) as connections:
        yield connections, f"http://127.0.0.1:{port}"


def send(connections: Connections, sent: Sent) -> bytes:
    """Return the body of an answer."""
    with one_try(HANG), closing(connections.send(sent)) as answer:
        return answer.read()


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("GET", marks=pytest.mark.holds("sent-once")),
        "HEAD",
        "DELETE",
        "POST",
        "PATCH",
        "PUT",
    ],
)
def test_request_is_sent_once(method: str) -> None:
    """Where a kept connection dies before the first byte, the server may have executed it."""
    seen = Seen(lambda _, number: number == 2)
    body = None if method in {"GET", "HEAD", "DELETE"} else b"body"
    with connected(seen) as (connections, server):
        assert send(connections, Sent("GET", server, "/first")) == b"ok"
        with pytest.raises(ConnectionFailed) as caught:
            send(connections, Sent(method, server, "/second", body=body))
        assert caught.value.fault is Fault.CLOSED
        assert [head.split()[:2] for head in seen.heads] == [["GET", "/first"], [method, "/second"]]
        # The next one has a new connection.
        assert send(connections, Sent("GET", server, "/third")) == b"ok"


def test_closed_connection_is_not_used() -> None:
    """A server that has closed it while nobody used it costs nothing."""
    ends: list[socket.socket] = []

    def goes_on(connection: socket.socket, _: int) -> bool:
        ends.append(connection)
        return False

    seen = Seen(goes_on)
    with connected(seen) as (connections, server):
        for _ in range(3):
            assert send(connections, Sent("POST", server, "/a", body=b"")) == b"ok"
            (end,) = ends
            end.shutdown(socket.SHUT_RDWR)
            ends.clear()
    assert len(seen.heads) == 3


class Ending:
    """A lease that ends when the test says so."""

    def __init__(self) -> None:
        """Last for a while."""
        self.seconds = 10.0

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.seconds

    def ensure(self) -> None:
        """Do nothing."""


def test_body_is_not_sent_after_the_end_of_a_lease() -> None:
    """To a server that reads slowly, each part of it needs the lease."""
    lease, begun, got = Ending(), threading.Event(), threading.Event()
    size = 64 * 2**20
    received = 0

    def serve(connection: socket.socket) -> None:
        nonlocal received
        received += len(connection.recv(65536))
        begun.set()
        assert got.wait(HANG)
        while data := connection.recv(2**20):
            received += len(data)

    def ended() -> bool:
        if begun.is_set():
            lease.seconds = 0.0
            got.set()
        return False

    with listening(serve) as port, closing(Connections(Route())) as connections:
        sent = Sent("PATCH", f"http://127.0.0.1:{port}", "/", body=bytes(size))
        with one_try(HANG, ended, lease) as current, pytest.raises(ConnectionFailed) as caught:
            connections.send(sent)
        assert (caught.value.fault, current.sent) == (Fault.LEASE, True)
    assert received < size


class Raising(Ending):
    """A lease in which Ctrl-C is pressed when it is asked for the n-th time."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def left(self) -> float:
        self.number -= 1
        if not self.number:
            raise KeyboardInterrupt
        return super().left()


@pytest.mark.parametrize(("number", "is_sent"), [(1, False), (2, True)])
def test_interrupt_within_libcurl_reaches_the_caller(
    number: int, is_sent: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before the request as well as before its body; pycurl would print it and go on."""
    seen = Seen()
    with connected(seen) as (connections, server):
        with one_try(HANG, None, Raising(number)) as current, pytest.raises(KeyboardInterrupt):
            connections.send(Sent("PATCH", server, "/a", body=b"body"))
        assert current.sent == is_sent
        # Its connection is not used again.
        assert send(connections, Sent("GET", server, "/b")) == b"ok"
    assert len([head for head in seen.heads if head.startswith("PATCH")]) <= is_sent
    assert capfd.readouterr().err == ""


@pytest.mark.holds("proxy-headers")
def test_proxy_gets_no_header_of_a_request() -> None:
    """What is for the server goes through the tunnel only.

    Slow: each case starts a proxy and makes keys.
    """
    seen = Seen()
    with listening(seen.serve) as proxy, closing(Connections(Route())) as connections:
        sent = Sent(
            "GET",
            "https://server.example",
            "/",
            (("Authorization", "Bearer secret"), ("Accept", "x/y")),
            proxy=f"http://user:pass%20word@127.0.0.1:{proxy}",
        )
        with pytest.raises(ConnectionFailed):
            send(connections, sent)
    (head,) = seen.heads
    assert head.startswith("CONNECT server.example:443 HTTP/1.1\r\n")
    assert "secret" not in head
    assert "Proxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ=" in head


def test_nothing_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither a proxy nor a login: kubectl's rules are applied before."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = Seen()
    with silent_port() as nobody, connected(seen) as (connections, server):
        for name in ("http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{nobody}")
        assert send(connections, Sent("GET", server, "/")) == b"ok"
    (head,) = seen.heads
    assert sorted(line.partition(":")[0] for line in head.split("\r\n")[1:]) == ["Host"]


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb", "a\0b"])
def test_header_with_a_line_break_is_not_sent(value: str) -> None:
    """It would be another header."""
    seen = Seen()
    with connected(seen) as (connections, server), pytest.raises(ValueError, match="X-One"):
        send(connections, Sent("GET", server, "/", (("X-One", value),)))
    assert seen.heads == []


def test_request_in_words_has_no_secret() -> None:
    """It may come into a log."""
    headers = (("Authorization", "Bearer hush"),)
    sent = Sent("POST", "https://a", "/b", headers, b"hush", "http://user:hush@proxy")
    assert "/b" in repr(sent)
    assert "hush" not in repr(sent)


HEADS = {
    "alone": ["HTTP/1.1 404 Not Found", "A: b", ""],
    "after an interim answer": ["HTTP/1.1 100 Continue", "A: x", "", "HTTP/2 404", "A: b", ""],
    "before trailers": ["HTTP/1.1 404 No", "A: b", "", "A: x", "HTTP/1.1 200 OK", "A: x", ""],
}


@pytest.mark.parametrize("how", HEADS)
def test_head_of_an_answer_comes_once(how: str) -> None:
    head = Head()
    found = [head.take(f"{line}\r\n".encode()) for line in HEADS[how]]
    assert [headers.all("a") for headers in found if headers is not None] == [["b"]]
    assert head.status == 404


def test_connection_that_was_not_used_up_is_closed() -> None:
    """What is left of an answer must not be the beginning of the next one."""
    seen = Seen()
    with connected(seen) as (connections, server):
        with one_try(HANG):
            connections.send(Sent("GET", server, "/left")).close()
        assert send(connections, Sent("GET", server, "/next")) == b"ok"


def test_name_server_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline covers the name; the thread that asks for it ends by itself."""
    clock, asked, ends = ManualClock(), threading.Event(), threading.Event()

    def silent(*_: object, **__: object) -> list[object]:
        asked.set()
        assert ends.wait(HANG)
        return []

    def passes() -> bool:
        clock.advance(1.0 if asked.is_set() else 0.0)
        return False

    monkeypatch.setattr("socket.getaddrinfo", silent)
    with (
        closing(Connections(Route())) as connections,
        one_try(60.0, passes, clock=clock),
        pytest.raises(ConnectionFailed) as caught,
    ):
        connections.send(Sent("GET", "https://server.example", "/"))
    assert caught.value.fault is Fault.CONNECT_TIME
    ends.set()
    eventually(lambda: "resolve" not in {one.name for one in threading.enumerate()})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        pytest.param("127.1", marks=pytest.mark.holds("own-resolver")),
    ],
)
def test_nothing_but_the_address_that_was_found_is_connected_to(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a name is written: libcurl would resolve it again, and perhaps to another one."""
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.0.9", 1))])
    seen = Seen()
    with listening(seen.serve) as port, closing(Connections(Route())) as connections:
        with pytest.raises(ConnectionFailed) as caught:
            send(connections, Sent("GET", f"http://{host}:{port}", "/"))
        assert caught.value.fault in {Fault.REFUSED, Fault.ADDRESS}
    assert seen.heads == []


def test_connections_do_not_outlive_their_owner() -> None:
    """After ``close``, no file of the process is left open."""

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    seen = Seen()
    with listening(seen.serve) as port:
        before = opened()
        connections = Connections(Route(size=4))
        for _ in range(4):
            assert send(connections, Sent("GET", f"http://127.0.0.1:{port}", "/")) == b"ok"
        connections.close()
        # Those of the server go as soon as it has read the end.
        eventually(lambda: opened() <= before)
