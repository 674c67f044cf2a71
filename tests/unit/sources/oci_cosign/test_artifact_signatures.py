"""Signatures of an artifact in real registries: with and without an API for referrers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.sources.tree import VerificationFailed
from tests.support import registries
from tests.support.cosign import FORMS, NAME, push_artifact
from tests.support.registry_client import BASIC, MANIFEST_TYPE, Client, manifest_of
from tests.support.signed_artifacts import attach, check_signatures, layer_of, push_version
from tests.support.signing import signer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.components import Components

MINE, FOREIGN = signer(), signer()


@pytest.fixture(scope="module", params=["password_registry", "referrers_registry"])
def registry(
    request: pytest.FixtureRequest,
    components: Components,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[registries.Registry]:
    """Each of both registries; each test has an artifact of its own."""
    start = getattr(registries, request.param)
    with start(components, tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.mark.parametrize("form", FORMS)
def test_signature_of_a_key_is_found(registry: registries.Registry, form: str) -> None:
    client = Client(registry)
    digest = push_version(client, f"found-{form}")
    attach(client, digest, form, MINE)
    check_signatures(registry, digest, FOREIGN, MINE)
    with pytest.raises(VerificationFailed, match="no key of the Secret has signed"):
        check_signatures(registry, digest, FOREIGN)


@pytest.mark.parametrize("form", FORMS)
def test_signature_that_was_moved_from_another_artifact(
    registry: registries.Registry, form: str
) -> None:
    client = Client(registry)
    signed, digest = push_version(client, f"signed-{form}"), push_version(client, f"moved-{form}")
    attach(client, digest, form, MINE, named=signed)
    with pytest.raises(VerificationFailed, match="its signature is for another artifact"):
        check_signatures(registry, digest, MINE)


def test_unsigned_artifact_and_referrers_of_other_kinds(registry: registries.Registry) -> None:
    client = Client(registry)
    digest = push_version(client, "unsigned")
    with pytest.raises(VerificationFailed, match="has no signature"):
        check_signatures(registry, digest, MINE)
    config = client.push(NAME, b"{}", BASIC)
    subject = {"mediaType": MANIFEST_TYPE, "digest": digest, "size": 1}
    layer = layer_of(client, b"a list of parts", "application/spdx+json")
    body = manifest_of(config, layers=[layer], subject=subject)
    client.push_manifest(NAME, "parts", body)
    with pytest.raises(VerificationFailed, match="has no signature"):
        check_signatures(registry, digest, MINE)


def test_signature_in_the_tag_takes_two_requests(registry: registries.Registry) -> None:
    client = Client(registry)
    digest = push_version(client, "counted")
    attach(client, digest, "tag", MINE)
    before = len(registry.requests())
    check_signatures(registry, digest, MINE)
    asked = [one for one in registry.requests()[before:] if not one.endswith(" 401")]
    assert [one.split("/")[4] for one in asked] == ["manifests", "manifests", "blobs"]
    assert push_artifact(client) != digest
