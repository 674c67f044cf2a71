"""Artifacts that become bad in their registry, or on the way from it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from applyprune.sources.oci_artifact import INDEX, MANIFEST, push
from tests.support.artifacts import put, source_of
from tests.support.bad_sources.bad_source import BadSource, Body, both, one
from tests.support.bad_sources.servers import INTERVAL, LOGIN
from tests.support.registry_client import BASIC, Client
from tests.support.tls_site import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.bad_sources.servers import BadServers
    from tests.support.tls_site import Call

_TAG = "prod"
_TIMEOUT = "30s"


def _publish(servers: BadServers, name: str, files: Mapping[str, bytes]) -> tuple[str, str]:
    """Push an artifact; return its digest, and that of its layer."""
    digest = push(source_of(servers.registry, f"{name}:{_TAG}"), files)
    manifest = json.loads(servers.registry.blob(digest).read_bytes())
    return digest, manifest["layers"][0]["digest"]


def _begin(servers: BadServers, name: str) -> Body:
    _publish(servers, name, both(name))
    url = f"oci://{servers.front.host}/{name}"
    given: dict[str, Any] = {"url": url, "ref": {"tag": _TAG}, "interval": INTERVAL}
    return {"oci": {**given, "timeout": _TIMEOUT, "secretRef": LOGIN, "certSecretRef": LOGIN}}


def _artifact(
    reason: str, says: str, spoil: Callable[[BadServers, str, str, str], object]
) -> BadSource:
    """Return an artifact that is replaced by another one, and this one, with its layer, is bad."""

    def spoil_it(servers: BadServers, name: str) -> None:
        spoil(servers, name, *_publish(servers, name, one(name)))

    return BadSource(reason, says, _begin, spoil_it)


def _answer(servers: BadServers, name: str, answer: Answer) -> None:
    servers.front.answers[f"/v2/{name}/manifests/{_TAG}"] = lambda _: answer


def _change_layer(servers: BadServers, name: str, _: str, layer: str) -> None:
    def answer(call: Call) -> Answer:
        reply = servers.registry_answers(call)
        return replace(reply, body=bytes(len(reply.body))) if reply.status == 200 else reply

    servers.front.answers[f"/v2/{name}/blobs/{layer}"] = answer


def _put_index(servers: BadServers, name: str, digest: str, _: str) -> None:
    size = servers.registry.blob(digest).stat().st_size
    listed = {"mediaType": MANIFEST, "digest": digest, "size": size}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]}
    put(source_of(servers.registry, f"{name}:{_TAG}"), index, media_type=INDEX)


ARTIFACTS: dict[str, BadSource] = {
    "other-layer": _artifact("VerificationFailed", "another digest", _change_layer),
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
