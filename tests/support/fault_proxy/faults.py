"""The faults: each is a function of the wire; a factory takes its details."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.fault_proxy.exchange import Fault, Headers, ServerReply, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0


def reset() -> Fault:
    """Reset the connection; the server never sees the request."""

    def fault(wire: Wire) -> None:
        wire.reset()

    return fault


def calling(call: Callable[[], object], fault: Fault) -> Fault:
    """Call something when a request has come; then the fault happens."""

    def both(wire: Wire) -> None:
        call()
        fault(wire)

    return both


def lose_reply() -> Fault:
    """Let the server process it, then reset the connection without a byte of the reply."""

    def fault(wire: Wire) -> None:
        wire.forward()
        wire.reset()

    return fault


def close_before_reply() -> Fault:
    """Let the server process it, then close properly without a byte of the reply."""

    def fault(wire: Wire) -> None:
        wire.forward()
        wire.close()

    return fault


def truncate(fraction: float = 0.5, *, less: int = 0) -> Fault:
    """Let the server process it, then send that part of the body minus ``less`` bytes, and close.

    ``truncate(0)`` cuts right after the headers, ``truncate(1, less=1)`` before the last byte.
    """

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        end = int(len(reply.body) * fraction) - less
        wire.send(head(reply.status, _framed(reply)) + reply.body[: max(0, end)])
        wire.close()

    return fault


def cut_watch(seconds: float, before: Callable[[Wire], object] = bool) -> Fault:
    """Pass on a watch, and call ``before`` and reset its connection after that long."""

    def fault(wire: Wire) -> None:
        def cut() -> None:
            before(wire)
            wire.reset()

        timer = threading.Timer(seconds, cut)
        timer.start()
        try:
            wire.stream()
        finally:
            timer.cancel()

    return fault


def truncate_headers() -> Fault:
    """Let the server process it, then close in the middle of the headers."""

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        whole = head(reply.status, _framed(reply))
        wire.send(whole[: len(whole) // 2])
        wire.close()

    return fault


def unterminated_chunks() -> Fault:
    """Let the server process it, then send the body in chunks without the last one, and close."""

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        headers = [*_bare(reply.headers), ("Transfer-Encoding", "chunked")]
        wire.send(head(reply.status, headers))
        wire.send(b"%x\r\n%b\r\n" % (len(reply.body), reply.body))
        wire.close()

    return fault


def forwarded() -> Fault:
    """Do nothing wrong: for what happens before."""

    def fault(wire: Wire) -> None:
        wire.reply(wire.forward())

    return fault


def dry_run() -> Fault:
    """Let the server only try it, and send the reply to that: a gateway in a read-only mode."""

    def fault(wire: Wire) -> None:
        wire.reply(wire.forward(is_trial=True))

    return fault


def without_metadata(name: str) -> Fault:
    """Let the server process it, and leave a field of ``metadata`` out of the reply.

    A Status has none: there, the field is one of its ``details``.
    """

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        body = json.loads(reply.body)
        for part in ("metadata", "details"):
            if isinstance(body.get(part), dict):
                body[part].pop(name, None)
        wire.reply(ServerReply(reply.status, _bare(reply.headers), json.dumps(body).encode()))

    return fault


def shortened(size: int) -> Fault:
    """Let the server process it, then send part of the body as if it were the whole."""

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        wire.reply(ServerReply(reply.status, _bare(reply.headers), reply.body[:size]))

    return fault


def hang(*, forward: bool = False) -> Fault:
    """Accept the request and never reply."""

    def fault(wire: Wire) -> None:
        if forward:
            wire.forward()
        while wire.wait(HOUR):
            pass

    return fault


def drip(between: Callable[[], object], *, headers: bool = False) -> Fault:
    """Let the server process it, and send its reply byte by byte, but for the last one.

    ``between`` is called after each byte. With ``headers``, they come byte by byte too.
    """

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        whole = head(reply.status, _framed(reply))
        slow = reply.body
        if headers:
            slow = whole + slow
        else:
            wire.send(whole)
        for byte in slow[:-1]:
            wire.send(bytes([byte]))
            between()
            if not wire.wait(0.01):
                return
        while wire.wait(HOUR):
            pass

    return fault


def answer(
    status: int, body: bytes = b"", headers: Headers = (), *, forward: bool = False
) -> Fault:
    """Send this reply instead; with ``forward``, the server processes the request anyway."""

    def fault(wire: Wire) -> None:
        if forward:
            wire.forward()
        wire.reply(ServerReply(status, headers, body))

    return fault


def status(
    code: int, reason: str = "", message: str = "", *, headers: Headers = (), **details: Any
) -> Fault:
    """Reply with a Status, like an API server; ``details`` are the Status's own."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code,
    }
    if reason:
        body["reason"] = reason
    if details:
        body["details"] = details
    typed = (("Content-Type", "application/json"), *headers)
    return answer(code, json.dumps(body).encode(), typed)


def without_groups(*groups: str) -> Fault:
    """Leave API groups out of a reply of discovery, like a server that has just started."""

    def fault(wire: Wire) -> None:
        reply = wire.forward()
        if reply.status != 200:
            wire.reply(reply)
            return
        document = json.loads(reply.body)
        document["items"] = [
            item for item in document["items"] if item["metadata"].get("name", "") not in groups
        ]
        # The ETag is that of the whole list.
        headers = [item for item in _bare(reply.headers) if item[0].lower() != "etag"]
        wire.reply(ServerReply(200, headers, json.dumps(document).encode()))

    return fault


def text(code: int, body: str = "", headers: Headers = ()) -> Fault:
    """Reply with plain text, like Go's net/http and load balancers."""
    return answer(code, body.encode(), (("Content-Type", "text/plain; charset=utf-8"), *headers))


def web_page(code: int = 200) -> Fault:
    """Reply with the login page of a captive portal."""
    page = b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>Log in</body></html>\n"
    return answer(code, page, (("Content-Type", "text/html; charset=utf-8"),))


def garbage() -> Fault:
    """Reply 200 with bytes that are not JSON."""
    return answer(200, b'{"kind":"ConfigMap","apiVersion":"v1","data":{"a":\xff\x00!')


def not_http() -> Fault:
    """Reply with something that is not HTTP, and close."""

    def fault(wire: Wire) -> None:
        wire.send(b"SSH-2.0-OpenSSH_9.6\r\n")
        wire.close()

    return fault


@dataclass(slots=True)
class Pause:
    """A fault that holds a request until the test releases it; nothing else goes wrong."""

    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, wire: Wire) -> None:
        """Report that the request has arrived, wait, forward it, and send the reply."""
        self.reached.set()
        while not self.go_on.is_set():
            if not wire.wait(0.01):
                return
        wire.reply(wire.forward())


def head(status_code: int, headers: Headers) -> bytes:
    """Return a status line and headers as bytes."""
    lines = [f"HTTP/1.1 {status_code} Fault", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _framed(reply: ServerReply) -> Headers:
    return [*_bare(reply.headers), ("Content-Length", str(len(reply.body)))]


def _bare(headers: Headers) -> list[tuple[str, str]]:
    framing = {"content-length", "transfer-encoding", "connection"}
    return [(name, value) for name, value in headers if name.lower() not in framing]
