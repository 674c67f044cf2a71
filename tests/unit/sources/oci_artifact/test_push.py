"""What is pushed: the same artifact for the same files, in the form that Flux reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.sources.address import OciRef
from applyprune.sources.oci_artifact import fetch_artifact, find_artifact, push, write_layer
from applyprune.sources.tree import (
    AuthenticationFailed,
    SourceCredentials,
    SourceTooLarge,
    TreeLimits,
)
from applyprune.values import replace
from tests.support.artifacts import FILES, digest_of, source_of

if TYPE_CHECKING:
    from tests.support.registries import Registry

DIGEST = "sha256:d569f313f23e57c04a53b0b2ab604f560eeccbf82dbfe386302a800e9b652464"
NOTES = {"org.opencontainers.image.revision": "main@sha1:0", "org.opencontainers.image.source": "x"}


def test_same_files_have_the_same_digest(registry: Registry) -> None:
    """Wherever, whenever and in whatever order they are pushed; this one is a constant."""
    first = push(source_of(registry, "shop/web:1"), FILES, NOTES)
    backwards = dict(reversed(FILES.items())), dict(reversed(NOTES.items()))
    assert push(source_of(registry, "shop/other:2"), *backwards) == first == DIGEST
    assert push(source_of(registry, "shop/web:1"), FILES) != first
    assert push(source_of(registry, "shop/web:1"), {**FILES, "a.yaml": b""}, NOTES) != first


def test_artifact_has_the_form_of_flux(registry: Registry) -> None:
    digest = push(source_of(registry, "shop/web:1"), FILES, NOTES)
    raw = registry.blob(digest).read_bytes()
    manifest = json.loads(raw)
    layer = write_layer(FILES, TreeLimits())
    (listed,) = manifest["layers"]
    assert digest_of(raw) == digest
    assert manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert manifest["annotations"] == NOTES
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.flux.config.v1+json"
    assert listed == {
        "mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip",
        "digest": layer.digest,
        "size": len(layer.data),
    }
    config = json.loads(registry.blob(manifest["config"]["digest"]).read_bytes())
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer.diff_id]}


def test_known_blobs_are_not_sent_again(registry: Registry) -> None:
    source = source_of(registry, "shop/again:1")
    push(source, FILES)
    before = len(registry.requests())
    push(replace(source, url=f"oci://{registry.host}/shop/again:2"), FILES)
    sent = [one.split(" ")[0] for one in registry.requests()[before:] if not one.endswith(" 401")]
    assert sent == ["HEAD", "HEAD", "PUT"]


def test_push_moves_a_tag(any_registry: Registry) -> None:
    source = source_of(any_registry, "shop/moves:1")
    first = push(source, FILES)
    second = push(source, {"a.yaml": b"a: 2\n"})
    assert first != second == find_artifact(source).digest
    assert fetch_artifact(source).files == {"a.yaml": b"a: 2\n"}


@pytest.mark.usefixtures("components")
@pytest.mark.parametrize("password", ["", "wrong"])
@pytest.mark.parametrize("kind", ["registry", "with_tokens"])
def test_push_needs_credentials(request: pytest.FixtureRequest, kind: str, password: str) -> None:
    """Also where a pull needs none; nothing is stored."""
    running: Registry = request.getfixturevalue(kind)
    source = source_of(running, "public/unsent:1")
    given = SourceCredentials(ca=source.credentials.ca)
    if password:
        given = replace(given, username="deployer", password=password)
    with pytest.raises(AuthenticationFailed):
        push(replace(source, credentials=given), FILES)
    with pytest.raises(InputError):
        find_artifact(source)


@pytest.mark.parametrize("name", ["shop/web", f"shop/web:1@sha256:{'0' * 64}"])
def test_push_needs_a_tag(registry: Registry, name: str) -> None:
    with pytest.raises(UsageError, match="a push needs a tag, and no digest"):
        push(source_of(registry, name), FILES)
    with pytest.raises(UsageError, match="a push needs a tag, and no digest"):
        push(source_of(registry, "shop/web:1", OciRef(tag="1")), FILES)


def test_push_of_nothing_is_refused(registry: Registry) -> None:
    """Whoever pulls it would prune everything."""
    with pytest.raises(UsageError, match="there are no files to push"):
        push(source_of(registry, "shop/web:1"), {})


def test_push_that_could_not_be_pulled_is_refused(registry: Registry) -> None:
    source = replace(source_of(registry, "shop/web:1"), limits=TreeLimits(size=2**12))
    with pytest.raises(SourceTooLarge):
        push(source, {"a.yaml": bytes(2**12)})
