"""Real registries on loopback, behind TLS: one with a password, one with tokens, one that lists
referrers. Each stops with its block, or with the process of the test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import trustme

from tests.support.token_server import token_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.components import Components

USER = "deployer"
PASSWORD = "registry-password-93c1"
# bcrypt with the lowest cost, because the registry computes it for each request.
_HTPASSWD = f"{USER}:$2a$04$eO9MRraZjW0eJEwVGqlNpOOshPJIlSdggHoDYzAOtyf99NtaznOCC\n"
_LISTENING = re.compile(r"listening on (?P<host>[\d.]+:\d+)")
_REQUEST = re.compile(r'"(?P<line>[A-Z]+ \S+) HTTP/[0-9.]+" (?P<status>\d+)')


@dataclass(frozen=True, slots=True)
class Registry:
    """A running registry, and what a client must know."""

    host: str
    """Its address and port."""
    ca: Path
    """A file with the certificate of the only CA that has issued certificates for it, in PEM."""
    log: Path
    username: str = USER
    password: str = field(default=PASSWORD, repr=False)
    storage: Path | None = None
    """The folder of its files, which a test may change; None if it stores in memory."""
    token_requests: Sequence[str] = ()
    """The requests to its server of tokens so far, each as ``/token?service=…``."""

    def requests(self) -> list[str]:
        """Return the requests so far, each as ``GET /v2/shop/web/manifests/1.4.0 200``."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [f"{found['line']} {found['status']}" for found in _REQUEST.finditer(text)]

    def blob(self, digest: str) -> Path:
        """Return the file of a blob or a manifest: a test may change or remove it."""
        assert self.storage is not None
        kind, _, name = digest.partition(":")
        return self.storage / "docker/registry/v2/blobs" / kind / name[:2] / name / "data"


@contextmanager
def anonymous_registry(components: Components, folder: Path) -> Iterator[Registry]:
    """Run the registry of distribution without credentials."""
    with _distribution(components, folder, {}) as running:
        yield running


@contextmanager
def password_registry(
    components: Components, folder: Path, *, blobs_at: str = "", address: str = "127.0.0.1"
) -> Iterator[Registry]:
    """Run the registry of distribution, which wants USER and PASSWORD.

    ``blobs_at`` is the URL of a server of its storage's files: each request of a blob is redirected
    there, as registries with storage in a cloud do it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    passwords = folder / "htpasswd"
    passwords.write_text(_HTPASSWD)
    auth = {"htpasswd": {"realm": "tests", "path": str(passwords)}}
    with _distribution(components, folder, auth, blobs_at=blobs_at, address=address) as running:
        yield running


@contextmanager
def token_registry(
    components: Components, folder: Path, *, lifetime: float = 300.0
) -> Iterator[Registry]:
    """Run the registry of distribution, which wants the tokens of a server of their own.

    That server gives a token for USER and PASSWORD, and one that reads only ``public/…`` without.
    ``lifetime`` is in seconds; with -100 the registry refuses each token as expired.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    with token_server(authority, USER, PASSWORD, lifetime=lifetime) as tokens:
        bundle = folder / "token-signer.pem"
        bundle.write_bytes(tokens.certificate)
        auth = {
            "token": {
                "realm": tokens.realm,
                "service": tokens.service,
                "issuer": tokens.issuer,
                "rootcertbundle": str(bundle),
            }
        }
        with _distribution(components, folder, auth, authority=authority) as running:
            yield replace(running, token_requests=tokens.requests)


@contextmanager
def referrers_registry(components: Components, folder: Path) -> Iterator[Registry]:
    """Run the registry of go-containerregistry with its referrers API, in memory."""
    certificate, key = _certificate(trustme.CA(), folder)
    command = [
        str(components.referrers),
        f"--certificate={certificate}",
        f"--key={key}",
    ]
    environment = {"REGISTRY_USER": USER, "REGISTRY_PASSWORD": PASSWORD}
    with _running(command, environment, folder / "registry.log") as host:
        yield Registry(host, folder / "ca.pem", folder / "registry.log")


@contextmanager
def _distribution(
    components: Components,
    folder: Path,
    auth: Mapping[str, Mapping[str, str]],
    *,
    authority: trustme.CA | None = None,
    blobs_at: str = "",
    address: str = "127.0.0.1",
) -> Iterator[Registry]:
    certificate, key = _certificate(authority or trustme.CA(), folder, address)
    storage = folder / "storage"
    settings: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "info"},
        "storage": {
            "filesystem": {"rootdirectory": str(storage)},
            "delete": {"enabled": True},
            "maintenance": {"uploadpurging": {"enabled": False}},
        },
        "http": {
            "addr": f"{address}:0",
            "secret": "the same for all tests",
            "tls": {"certificate": str(certificate), "key": str(key)},
        },
    }
    if auth:
        settings["auth"] = auth
    if blobs_at:
        settings["middleware"] = {
            "storage": [{"name": "redirect", "options": {"baseurl": blobs_at}}]
        }
    configuration = folder / "registry.yaml"
    configuration.write_text(json.dumps(settings))  # JSON is YAML
    command = [str(components.registry), "serve", str(configuration)]
    # Without it, the registry sends its traces to a server of OpenTelemetry.
    environment = {"OTEL_TRACES_EXPORTER": "none"}
    with _running(command, environment, folder / "registry.log") as host:
        yield Registry(host, folder / "ca.pem", folder / "registry.log", storage=storage)


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[str]:
    """Start a server and yield its address; it ends with the block, or with this process."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": os.defpath, **environment},
        ) as process,
    ):
        try:
            found = eventually(lambda: _address(log, process), lambda: "the registry")
            yield found
        finally:
            process.kill()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    assert process.poll() is None, f"the registry has ended: {text}"
    found = _LISTENING.search(text)
    return found["host"] if found else ""


def _certificate(
    authority: trustme.CA, folder: Path, address: str = "127.0.0.1"
) -> tuple[Path, Path]:
    """Write a certificate, its key and the CA; return the files of the first two."""
    folder.mkdir(parents=True, exist_ok=True)
    issued = authority.issue_cert(address, "localhost")
    certificate, key = folder / "server.pem", folder / "server-key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    key.chmod(0o600)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return certificate, key
