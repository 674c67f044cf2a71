"""A server that gives tokens for a registry, as its specification says: ``GET /token?scope=…``."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

    import trustme

ISSUER = "tests"
SERVICE = "registry of tests"
PUBLIC = "public/"


@dataclass(frozen=True, slots=True)
class TokenServer:
    """A running server of tokens, as the configuration of a registry names it."""

    realm: str
    certificate: bytes
    """The certificate of the key that signs the tokens, in PEM."""
    issuer: str = ISSUER
    service: str = SERVICE
    requests: list[str] = field(default_factory=list)
    """The path and the query of each request."""


@contextlib.contextmanager
def token_server(
    authority: trustme.CA, user: str, password: str, *, lifetime: float = 300.0
) -> Iterator[TokenServer]:
    """Run the server on loopback, behind TLS; tokens are valid for ``lifetime`` seconds.

    Without credentials, a token may pull what is below ``public/``; wrong ones get 401.
    """
    signer = _Signer(authority)
    requests: list[str] = []
    allowed = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            requests.append(self.path)
            given = self.headers.get("Authorization")
            if given not in {None, allowed}:
                self._reply(401, {"errors": [{"code": "UNAUTHORIZED"}]})
                return
            scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
            access = _access(scopes, is_known=given is not None)
            token = signer.token(user if given else "", access, lifetime)
            self._reply(200, {"token": token, "access_token": token, "expires_in": int(lifetime)})

        def _reply(self, status: int, content: dict[str, object]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        realm = f"https://127.0.0.1:{server.server_port}/token"
        yield TokenServer(realm, signer.certificate, requests=requests)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _access(scopes: list[str], *, is_known: bool) -> list[dict[str, object]]:
    """Return what a token for the scopes allows; a scope is ``repository:NAME:ACTION,ACTION``."""
    access: list[dict[str, object]] = []
    for scope in (one for text in scopes for one in text.split()):
        kind, _, rest = scope.partition(":")
        name, _, wanted = rest.rpartition(":")
        actions = wanted.split(",")
        if not is_known:
            actions = ["pull"] if name.startswith(PUBLIC) and "pull" in actions else []
        access.append({"type": kind, "name": name, "actions": actions})
    return access


class _Signer:
    """Signs tokens with ES256; a token has the certificate of its key."""

    def __init__(self, authority: trustme.CA) -> None:
        issued = authority.issue_cert("tokens.example.com")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self.certificate = authority.cert_pem.bytes()
        leaf = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        self._header = {
            "alg": "ES256",
            "typ": "JWT",
            "x5c": [base64.b64encode(leaf.public_bytes(Encoding.DER)).decode()],
        }

    def token(self, subject: str, access: list[dict[str, object]], lifetime: float) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": subject,
            "aud": SERVICE,
            "exp": int(now + lifetime),
            "nbf": now - 10,
            "iat": now,
            "jti": str(time.monotonic_ns()),
            "access": access,
        }
        signed = ".".join(_encoded(json.dumps(one).encode()) for one in (self._header, claims))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
