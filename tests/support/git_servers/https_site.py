"""``git http-backend`` behind TLS on loopback, and the faults that a server can have."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trustme

from applyprune.sources.address import GitRef, GitSource
from applyprune.sources.tree import SourceCredentials
from tests.support.git_servers.repository import Repository, author
from tests.support.listening import listened_at
from tests.support.waiting import HANG

if TYPE_CHECKING:
    import socket

_SLOW_PAUSE = 1.0
_RESULT = "application/x-git-upload-pack-result"


class HttpsSite:
    """Serves the repositories of a folder; its attributes are what the server does from now on."""

    def __init__(self, folder: Path, host: str = "localhost") -> None:
        """Serve nothing yet; ``host`` is ``localhost`` or an address of this machine."""
        self.folder = folder
        self.host = host
        self.authority = trustme.CA()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.port = 0
        self.requests: list[tuple[str, str, str]] = []
        """Method, path with query, and Authorization of each request."""
        self.times: list[float] = []
        """When each of these came, by ``time.monotonic()``."""
        self.login = ""
        """``user:password`` that a client must send; empty for none."""
        self.token = ""
        """The bearer token that a client must send; empty for none."""
        self.redirects: dict[str, str] = {}
        """Where a path is redirected to, by its beginning."""
        self.protocol: str | None = None
        """The version that git speaks, whatever the client asks for; empty for the first."""
        self.is_slow = False
        """Whether every reply is sent at one byte per second."""
        self.cut_at: int | None = None
        """How many bytes are sent in all before every connection is cut; None for no cut."""
        self.sent = 0
        """How many bytes of replies were sent."""
        self.is_dumb = False
        """Whether files are served as they are, without git."""
        self.fetched: bytes | None = None
        """What the server sends instead of a pack, whatever was asked for."""
        self.hold: threading.Event | None = None
        """What a reply waits for in its middle."""
        self.hold_at = 1
        """Which reply waits first, of those with content."""
        self.replies = 0
        """How many replies with content began."""
        self.held = threading.Event()
        """Set when a reply waits."""
        self.stop = threading.Event()
        self.lock = threading.Lock()

    @property
    def base(self) -> str:
        """The URL above the repositories."""
        return f"https://{self.host}:{self.port}"

    @property
    def ca(self) -> bytes:
        """The certificate of the CA, in PEM."""
        return self.authority.cert_pem.bytes()

    def url(self, name: str) -> str:
        """Return the URL of a repository."""
        return f"{self.base}/{name}.git"

    def repository(self, name: str = "web") -> Repository:
        """Create a repository."""
        return Repository(self.folder / f"{name}.git")

    def repository_of(self, name: str) -> Repository:
        """Return a repository that was created before."""
        return Repository(self.folder / f"{name}.git", is_new=False)

    @property
    def credentials(self) -> SourceCredentials:
        """What the server wants, and its CA."""
        user, _, password = self.login.partition(":")
        return SourceCredentials(
            username=user, password=password, bearer_token=self.token, ca=self.ca
        )

    def source(self, name: str = "web", ref: GitRef | None = None, **fields: Any) -> GitSource:
        """Return the source that reads a repository, as its owner."""
        given: dict[str, Any] = {"credentials": self.credentials, "timeout": HANG, **fields}
        return GitSource(self.url(name), ref or GitRef(branch="main"), **given)

    def paths(self) -> list[str]:
        """Return the paths of the requests so far, with their methods."""
        return [f"{method} {path}" for method, path, _ in self.requests]

    def certify(self, *, expired: bool = False) -> None:
        """Show a new certificate from now on."""
        until = None
        if expired:
            until = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
        issued = self.authority.issue_cert(self.host, "127.0.0.1", not_after=until)
        issued.configure_cert(self.tls)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: bytes) -> None:
        site = self.server.site
        with site.lock:
            site.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
            site.times.append(time.monotonic())
        for start, target in site.redirects.items():
            if self.path.startswith(start):
                self._reply(302, {"Location": target + self.path.removeprefix(start)}, b"")
                return
        if not self._may(site):
            self._reply(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"no")
            return
        if site.is_dumb:
            self._dumb(site)
            return
        if site.fetched is not None and b"command=fetch" in body:
            self._reply(200, {"Content-Type": _RESULT}, site.fetched)
            return
        self._reply(*self._backend(site, body))

    def _may(self, site: HttpsSite) -> bool:
        given = self.headers.get("Authorization", "")
        wanted = []
        if site.login:
            wanted.append(f"Basic {base64.b64encode(site.login.encode()).decode()}")
        if site.token:
            wanted.append(f"Bearer {site.token}")
        return not wanted or given in wanted

    def _dumb(self, site: HttpsSite) -> None:
        file = site.folder / self.path.partition("?")[0].lstrip("/")
        if file.is_file():
            self._reply(200, {"Content-Type": "text/plain"}, file.read_bytes())
        else:
            self._reply(404, {}, b"")

    def _backend(self, site: HttpsSite, body: bytes) -> tuple[int, dict[str, str], bytes]:
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            env={
                **author(),
                "GIT_PROJECT_ROOT": str(site.folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REMOTE_ADDR": "127.0.0.1",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")
                if site.protocol is None
                else site.protocol,
            },
        )
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        status = int(headers.pop("Status", "200").split()[0])
        return status, headers, rest

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        site = self.server.site
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with site.lock:
            site.replies += status == 200
            hold = site.hold if site.replies >= site.hold_at else None
        if hold is not None and status == 200:
            half = len(body) // 2
            self.wfile.write(body[:half])
            site.held.set()
            hold.wait(HANG)
            body = body[half:]
        if site.is_slow:
            for at in range(len(body)):
                self.wfile.write(body[at : at + 1])
                if site.stop.wait(_SLOW_PAUSE):
                    break
            self.close_connection = True
            return
        left = len(body) if site.cut_at is None else max(0, site.cut_at - site.sent)
        with site.lock:
            site.sent += min(left, len(body))
        self.wfile.write(body[:left])
        if left < len(body):
            self.wfile.flush()
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, site: HttpsSite) -> None:
        super().__init__((listened_at(site.host), 0), _Handler)
        self.site = site

    def finish_request(self, request: Any, client_address: Any) -> None:
        # In the thread of the request: a client that does not speak must not hold up the others.
        secured: socket.socket = self.site.tls.wrap_socket(request, server_side=True)
        try:
            super().finish_request(secured, client_address)
        finally:
            with contextlib.suppress(OSError):
                secured.close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us, or was killed, is no error of the site."""


@contextlib.contextmanager
def git_site(
    folder: Path,
    *,
    login: str = "",
    token: str = "",
    expired: bool = False,
    host: str = "localhost",
) -> Iterator[HttpsSite]:
    """Yield a site that serves what is in a folder; it has stopped afterwards."""
    site = HttpsSite(folder, host)
    site.login, site.token = login, token
    folder.mkdir(parents=True, exist_ok=True)
    site.certify(expired=expired)
    server = _Server(site)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.stop.set()
        if site.hold is not None:
            site.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
