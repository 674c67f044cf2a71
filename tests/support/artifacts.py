"""Artifacts that a registry holds, among them those that no client of ours would push."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from applyprune.sources.address import OciRef
from applyprune.sources.oci_artifact import (
    FLUX_CONFIG,
    FLUX_LAYER,
    MANIFEST,
    OciSource,
    open_registry,
)
from applyprune.sources.oci_registry import PULL_AND_PUSH
from applyprune.sources.tree import SourceCredentials
from tests.support.registries import PASSWORD, USER
from tests.support.tls_site import Answer
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.registries import Registry
    from tests.support.tls_site import Answering

FILES = {"a.yaml": b"a: 1\n", "b/c.yaml": b"c: 1\n"}


def known(ca: bytes) -> SourceCredentials:
    """Return the credentials that the registries of tests accept."""
    return SourceCredentials(username=USER, password=PASSWORD, ca=ca)


def source_of(registry: Registry, name: str, ref: OciRef | None = None) -> OciSource:
    """Return an artifact of a running registry, such as ``shop/web:1.4.0``."""
    return OciSource(
        f"oci://{registry.host}/{name}",
        ref=ref or OciRef(),
        credentials=known(registry.ca.read_bytes()),
        timeout=HANG,
    )


def digest_of(data: bytes) -> str:
    """Return ``sha256:…``."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def described(data: bytes, media_type: str = FLUX_LAYER) -> dict[str, object]:
    """Return the descriptor of a blob."""
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


def manifest_of(*layers: dict[str, object], **more: object) -> dict[str, object]:
    """Return the manifest of some layers."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(b"{}", FLUX_CONFIG),
        "layers": list(layers),
        **more,
    }


def served_artifact(name: str, layer: bytes) -> Mapping[str, Answering]:
    """Return the answers of a registry without login that has an artifact with one layer."""
    body = json.dumps(manifest_of(described(layer))).encode()
    manifest = Answer(200, body, {"Content-Type": MANIFEST})
    return {
        f"/v2/{name}/manifests/latest": lambda _: manifest,
        f"/v2/{name}/manifests/{digest_of(body)}": lambda _: manifest,
        f"/v2/{name}/blobs/{digest_of(layer)}": lambda _: Answer(200, layer),
    }


def put(
    source: OciSource, manifest: object, *blobs: bytes, media_type: str = MANIFEST, tag: str = ""
) -> str:
    """Store blobs and a manifest as they are; return the manifest's digest."""
    body = json.dumps(manifest).encode()
    with open_registry(source, PULL_AND_PUSH) as registry:
        for blob in (b"{}", *blobs):
            with registry.request("POST", "blobs/uploads/", body=b"") as reply:
                assert reply.status == 202, reply.status
                place = reply.header("Location")
            place += f"{'&' if '?' in place else '?'}digest={digest_of(blob)}"
            with registry.request("PUT", place, body=blob) as reply:
                assert reply.status == 201, reply.status
        tag = tag or source.url.rpartition(":")[2]
        kind = {"Content-Type": media_type}
        with registry.request("PUT", f"manifests/{tag}", headers=kind, body=body) as reply:
            assert reply.status == 201, reply.read(10_000)
    return digest_of(body)
