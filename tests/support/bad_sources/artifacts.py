"""Artifacts that become bad in their registry, or on the way from it."""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import partial
from typing import TYPE_CHECKING, Any

from applyprune.sources.oci_artifact import INDEX, MANIFEST, push
from applyprune.values import replace
from tests.support.archives import archive, member, zeros
from tests.support.artifacts import described, manifest_of, put, source_of
from tests.support.bad_sources.bad_source import BadSource, Body, both, one
from tests.support.bad_sources.git_servers import SHORT
from tests.support.bad_sources.servers import INTERVAL, LOGIN
from tests.support.registry_client import BASIC, Client
from tests.support.tls_site import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.bad_sources.servers import BadServers
    from tests.support.tls_site import Call

_TAG = "prod"
_TIMEOUT = "30s"
_BOMB = 112 * 2**20
"""More bytes than an archive of 64 MiB in 20,000 files can have."""


def _publish(servers: BadServers, name: str, files: Mapping[str, bytes]) -> tuple[str, str]:
    """Push an artifact; return its digest, and that of its layer."""
    digest = push(source_of(servers.registry, f"{name}:{_TAG}"), files)
    manifest = json.loads(servers.registry.blob(digest).read_bytes())
    return digest, manifest["layers"][0]["digest"]


def _begin(servers: BadServers, name: str, timeout: str = _TIMEOUT) -> Body:
    _publish(servers, name, both(name))
    url = f"oci://{servers.front.host}/{name}"
    given: dict[str, Any] = {"url": url, "ref": {"tag": _TAG}, "interval": INTERVAL}
    return {"oci": {**given, "timeout": timeout, "secretRef": LOGIN, "certSecretRef": LOGIN}}


def _artifact(
    reason: str,
    says: str,
    spoil: Callable[[BadServers, str, str, str], object],
    timeout: str = _TIMEOUT,
) -> BadSource:
    """Return an artifact that is replaced by another one, and this one, with its layer, is bad."""

    def spoil_it(servers: BadServers, name: str) -> None:
        spoil(servers, name, *_publish(servers, name, one(name)))

    return BadSource(reason, says, partial(_begin, timeout=timeout), spoil_it)


def _data(reason: str, says: str, data: Callable[[str], bytes]) -> BadSource:
    """Return an artifact that is replaced by one with other data as its layer."""

    def spoil(servers: BadServers, name: str) -> None:
        layer = data(name)
        put(source_of(servers.registry, f"{name}:{_TAG}"), manifest_of(described(layer)), layer)

    return BadSource(reason, says, _begin, spoil)


def _member(says: str, *members: bytes) -> BadSource:
    """Return an artifact that gets a bad member."""

    def data(name: str) -> bytes:
        return gzip.compress(archive([member("a.yaml", one(name)["a.yaml"]), *members]))

    return _data("FetchFailed", says, data)


def _answer(servers: BadServers, name: str, answer: Answer) -> None:
    servers.front.answers[f"/v2/{name}/manifests/{_TAG}"] = lambda _: answer


def _layer(
    reason: str, says: str, change: Callable[[Answer], Answer], timeout: str = _TIMEOUT
) -> BadSource:
    """Return an artifact for whose layer the registry has another answer."""

    def spoil(servers: BadServers, name: str, _: str, layer: str) -> None:
        def answer(call: Call) -> Answer:
            reply = servers.registry_answers(call)
            return change(reply) if reply.status == 200 else reply

        servers.front.answers[f"/v2/{name}/blobs/{layer}"] = answer

    return _artifact(reason, says, spoil, timeout)


def _put_index(servers: BadServers, name: str, digest: str, _: str) -> None:
    size = servers.registry.blob(digest).stat().st_size
    listed = {"mediaType": MANIFEST, "digest": digest, "size": size}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]}
    put(source_of(servers.registry, f"{name}:{_TAG}"), index, media_type=INDEX)


ARTIFACTS: dict[str, BadSource] = {
    "above": _member("leads out of it", member("../b.yaml", b"x")),
    "absolute": _member("leads out of it", member("/etc/passwd", b"x")),
    "hard-link": _member("a hard link", member("l", kind=tarfile.LNKTYPE, link="a.yaml")),
    "device": _member("a device", member("d", kind=tarfile.CHRTYPE)),
    "twice": _member("two files of one name", member("a.yaml", b"x")),
    "bomb": _data("SourceTooLarge", "", lambda _: zeros(_BOMB)),
    "web-page": _data("FetchFailed", "archive", lambda _: b"<!doctype html>" + bytes(1000)),
    "other-layer": _layer(
        "VerificationFailed",
        "another digest",
        lambda reply: replace(reply, body=bytes(len(reply.body))),
    ),
    "cut-layer": _layer(
        "FetchFailed", "cut off", lambda reply: replace(reply, cut=len(reply.body) // 2)
    ),
    "slow-layer": _layer("FetchFailed", "", lambda reply: replace(reply, pause=1.0), SHORT),
    "index": _artifact("FetchFailed", "this is an index", _put_index),
    "no-layer": _artifact(
        "FetchFailed",
        "the registry lacks a blob",
        lambda servers, _, __, layer: servers.registry.blob(layer).unlink(),
    ),
    "endless-question": _artifact(
        "AuthenticationFailed",
        "401",
        lambda servers, name, *_: _answer(
            servers, name, Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        ),
    ),
    "busy-registry": _artifact(
        "FetchFailed",
        "429",
        lambda servers, name, *_: _answer(
            servers, name, Answer(429, headers={"Retry-After": "60"})
        ),
    ),
    "no-tag": _artifact(
        "PathNotFound",
        "",
        lambda servers, name, digest, _: Client(servers.registry)(
            "DELETE", f"/v2/{name}/manifests/{digest}", BASIC
        ),
    ),
}
