"""Artifacts in a registry of the tests: signed as by cosign, and verified as by a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.sources.address import ArtifactReference
from applyprune.sources.oci_artifact import fetch_manifest
from applyprune.sources.oci_cosign import verification
from applyprune.sources.oci_registry import PULL, Registry
from applyprune.sources.tree import SourceCredentials
from applyprune.sources.web import open_web
from tests.support.cosign import INDEX_TYPE, NAME, SIGNATURE
from tests.support.registry_client import BASIC, MANIFEST_TYPE, Client, manifest_of
from tests.support.signing import (
    MEDIA_TYPE,
    Signer,
    encoded,
    envelope_bundle,
    simple_payload,
    statement,
)
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from tests.support import registries


def push_version(client: Client, version: str) -> str:
    """Push an artifact with a version of its own, and return its digest."""
    config = client.push(NAME, b"{}", BASIC)
    return client.push_manifest(NAME, version, manifest_of(config, annotations={"v": version}))


def attach(client: Client, digest: str, form: str, key: Signer, named: str = "") -> None:
    """Add a signature, as cosign stores it; ``named`` is the digest in it, if it is another one."""
    config = client.push(NAME, b"{}", BASIC)
    tag = digest.replace(":", "-")
    if form == "tag":
        payload = simple_payload(named or digest)
        layer = layer_of(client, payload, "application/vnd.dev.cosign.simplesigning.v1+json")
        layer["annotations"] = {SIGNATURE: encoded(key.sign(payload))}
        client.push_manifest(NAME, f"{tag}.sig", manifest_of(config, layers=[layer]))
        return
    layer = layer_of(client, envelope_bundle(key, statement(named or digest)), MEDIA_TYPE)
    subject = {"mediaType": MANIFEST_TYPE, "digest": digest, "size": 1}
    body = manifest_of(config, layers=[layer], subject=subject, artifactType=MEDIA_TYPE)
    referrer = client.push_manifest(NAME, f"referrer-{tag[7:20]}", body)
    entry = {"mediaType": MANIFEST_TYPE, "digest": referrer, "size": 1}
    # What a client does for a registry without the API.
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}
    client.push_manifest(NAME, tag, index, INDEX_TYPE)


def layer_of(client: Client, content: bytes, media_type: str) -> dict[str, object]:
    digest = client.push(NAME, content, BASIC)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def check_signatures(registry: registries.Registry, digest: str, *keys: Signer) -> None:
    """Verify as a source does it."""
    login = SourceCredentials(registry.username, registry.password, ca=registry.ca.read_bytes())
    verify = verification({f"{i}.pub": key.public for i, key in enumerate(keys)})
    with open_web(f"https://{registry.host}/", timeout=HANG, credentials=login) as web:
        opened = Registry(web, ArtifactReference(registry.host, NAME), login, PULL)
        manifest = fetch_manifest(opened, digest)
        assert manifest is not None
        verify(opened, manifest)
