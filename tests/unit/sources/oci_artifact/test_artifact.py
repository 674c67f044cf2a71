"""Artifacts of real registries: pulled as they were pushed, every byte checked, or refused."""

from __future__ import annotations

import gzip
import ipaddress
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from applyprune.addresses import AddressRules
from applyprune.errors import InputError, UsageError
from applyprune.sources.address import OciRef
from applyprune.sources.oci_artifact import (
    INDEX,
    FoundArtifact,
    OciSource,
    fetch_artifact,
    find_artifact,
    push,
)
from applyprune.sources.tree import (
    AuthenticationFailed,
    FetchFailed,
    PathNotFound,
    SourceCredentials,
    SourceTooLarge,
    TreeLimits,
    VerificationFailed,
)
from applyprune.values import replace
from tests.support.archives import packed, tar
from tests.support.artifacts import FILES, described, known, manifest_of, put, source_of
from tests.support.registries import PASSWORD, password_registry
from tests.support.tls_site import files_of, site

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.sources.oci_artifact import ArtifactManifest
    from applyprune.sources.oci_registry import Registry as Session
    from tests.components import Components
    from tests.support.registries import Registry

LAYER = packed(FILES)


def failure(source: OciSource, found: FoundArtifact | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        fetch_artifact(source, found)
    assert PASSWORD not in str(caught.value)
    return caught.value


def test_artifact_is_pulled_as_it_was_pushed(any_registry: Registry) -> None:
    """From each kind of registry; its revision is the tag and the digest of the manifest."""
    source = source_of(any_registry, "shop/web:1.4.0")
    digest = push(source, FILES)
    found = find_artifact(source)
    assert found == FoundArtifact("1.4.0", digest)
    for known_before in (None, found):
        tree = fetch_artifact(source, known_before)
        assert (tree.files, tree.revision) == (FILES, f"1.4.0@{digest}")


def test_pull_takes_few_requests(with_tokens: Registry) -> None:
    """A question, the token, the manifest and the blob; a check takes no blob."""
    source = source_of(with_tokens, "shop/few:1")
    digest = push(source, FILES)
    before = len(with_tokens.requests()), len(with_tokens.token_requests)
    find_artifact(source)
    fetch_artifact(source)
    sent = [one.split(" ")[0::2] for one in with_tokens.requests()[before[0] :]]
    assert sent == [
        ["HEAD", "401"],
        ["HEAD", "200"],
        *[["GET", "401"], ["GET", "200"]],
        ["GET", "200"],
    ]
    asked = with_tokens.token_requests[before[1] :]
    assert [one.endswith("scope=repository%3Ashop%2Ffew%3Apull") for one in asked] == [True, True]
    assert find_artifact(replace(source, url=f"{source.url}@{digest}")).digest == digest
    assert len(with_tokens.token_requests) == before[1] + 2


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        (OciRef(semver="1.x"), "1.10.0"),
        (OciRef(semver=">=1.0.0 <1.5.0"), "1.4.0"),
        (OciRef(semver="1.x", tag="1.4.0"), "1.10.0"),
        (OciRef(tag="1.4.0"), "1.4.0"),
        (OciRef(), "latest"),
    ],
)
def test_version_is_found(registry: Registry, ref: OciRef, expected: str) -> None:
    for tag in ("1.4.0", "1.10.0", "2.0.0", "latest", "v1.5.0-rc.1", "no-version"):
        push(source_of(registry, f"shop/versions:{tag}"), {"a.yaml": tag.encode()})
    source = source_of(registry, "shop/versions", ref)
    assert fetch_artifact(source).files == {"a.yaml": expected.encode()}
    assert find_artifact(source).name == expected
    by_digest = replace(source, ref=replace(ref, digest=find_artifact(source).digest))
    assert fetch_artifact(by_digest).files == {"a.yaml": expected.encode()}


def test_version_is_found_on_a_later_page(registry: Registry) -> None:
    """The registry has more tags than it lists at once: they are files of its storage."""
    push(source_of(registry, "shop/many:0.0.1"), FILES)
    assert registry.storage is not None
    tags = registry.storage / "docker/registry/v2/repositories/shop/many/_manifests/tags"
    for number in range(1100):
        (tags / f"0.1.{number}" / "current").mkdir(parents=True)
        shutil.copy(tags / "0.0.1/current/link", tags / f"0.1.{number}" / "current/link")
    source = source_of(registry, "shop/many", OciRef(semver="0.x"))
    assert find_artifact(source).name == "0.1.1099"
    assert sum("shop/many/tags/list" in one for one in registry.requests()) == 3


def test_digest_alone_is_a_revision(registry: Registry) -> None:
    digest = push(source_of(registry, "shop/web:1"), FILES)
    tree = fetch_artifact(source_of(registry, f"shop/web@{digest}"))
    assert tree.revision == digest


@pytest.mark.parametrize(
    ("name", "ref", "expected"),
    [
        ("shop/web:none", OciRef(), "the registry has no version none"),
        ("shop/none", OciRef(), "the registry has no version latest"),
        ("shop/web", OciRef(digest=f"sha256:{'0' * 64}"), "the registry has no version sha256:00"),
        ("shop/web", OciRef(semver="9.x"), "the repository has no version in the range 9.x"),
        ("shop/none", OciRef(semver="9.x"), "the registry has no such repository"),
    ],
)
def test_missing_version_is_reported(
    registry: Registry, name: str, ref: OciRef, expected: str
) -> None:
    push(source_of(registry, "shop/web:1"), FILES)
    error = failure(source_of(registry, name, ref))
    assert isinstance(error, PathNotFound)
    assert error.message.startswith(expected)
    assert error.location == f"oci://{registry.host}/{name.partition(':')[0]}"


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("shop/web:1", OciRef(tag="2")),
        ("shop/web?x", OciRef()),
    ],
)
def test_invalid_source_is_refused(registry: Registry, name: str, ref: OciRef) -> None:
    with pytest.raises(UsageError):
        fetch_artifact(source_of(registry, name, ref))


def test_tag_that_moves_does_not_change_what_was_found(registry: Registry) -> None:
    """The found manifest is fetched, whatever the tag means by then."""
    source = source_of(registry, "shop/moves:1")
    push(source, FILES)
    found = find_artifact(source)
    push(source, {"other.yaml": b"x"})
    assert fetch_artifact(source, found).files == FILES
    assert find_artifact(source) != found


# Manifests.


HELM = "application/vnd.cncf.helm.chart"
PROVENANCE = f"{HELM}.provenance.v1.prov"


@pytest.mark.parametrize(
    ("layers", "expected"),
    {
        "no layer": ([], "the artifact has 0 layers"),
        "two layers": ([described(LAYER), described(LAYER)], "the artifact has 2 layers"),
        "another type": (
            [described(LAYER, "application/vnd.example.content.v1.tar+gzip")],
            "unknown type of layer: application/vnd.example.content.v1.tar+gzip",
        ),
        "a Helm chart": (
            [described(LAYER, f"{HELM}.content.v1.tar+gzip")],
            "the artifact is a Helm chart, not manifests",
        ),
        "a Helm chart that is signed": (
            [described(LAYER, f"{HELM}.content.v1.tar+gzip"), described(LAYER, PROVENANCE)],
            "the artifact is a Helm chart, not manifests",
        ),
        "no type": ([described(LAYER, "")], "unknown type of layer: "),
    }.values(),
)
def test_other_layers_are_refused(
    registry: Registry, layers: list[dict[str, object]], expected: str
) -> None:
    source = source_of(registry, "shop/odd:1")
    put(source, manifest_of(*layers), LAYER)
    error = failure(source)
    assert isinstance(error, FetchFailed)
    assert error.message == expected
    assert ("helm template NAME oci://HOST/CHART" in error.hint) is ("Helm" in expected)


@pytest.mark.parametrize(
    "media_type",
    [
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ],
)
def test_layer_of_an_image_is_read(registry: Registry, media_type: str) -> None:
    source = source_of(registry, "shop/image:1")
    put(source, manifest_of(described(LAYER, media_type)), LAYER)
    assert fetch_artifact(source).files == FILES


def test_index_is_refused(registry: Registry) -> None:
    """Which of its artifacts is meant, nobody has said."""
    source = source_of(registry, "shop/index:1")
    digest = push(source, FILES)
    size = len(registry.blob(digest).read_bytes())
    listed = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**listed, "size": size}]}
    put(source, index, media_type=INDEX)
    error = failure(source)
    assert isinstance(error, FetchFailed)
    assert error.message == "this is an index of several artifacts, not an artifact"


def test_layer_that_is_not_an_archive_is_refused(registry: Registry) -> None:
    source = source_of(registry, "shop/odd:1")
    data = gzip.compress(b"a: 1\n")
    put(source, manifest_of(described(data)), data)
    assert isinstance(failure(source), FetchFailed)


def test_artifact_without_files_is_refused(registry: Registry) -> None:
    """It would prune everything."""
    source = source_of(registry, "shop/empty:1")
    put(source, manifest_of(described(packed({}))), packed({}))
    assert failure(source).message == "the source has no files"


@pytest.mark.parametrize("size", [2**62, 10**6])
def test_large_layer_is_refused_before_it_is_sent(registry: Registry, size: int) -> None:
    """By what its manifest says."""
    source = replace(source_of(registry, "shop/large:1"), limits=TreeLimits(size=10**5))
    put(source, manifest_of({**described(LAYER), "size": size}), LAYER)
    before = len(registry.requests())
    assert isinstance(failure(source), SourceTooLarge)
    assert [one for one in registry.requests()[before:] if "/blobs/" in one] == []


def test_bomb_is_refused(registry: Registry) -> None:
    """The limit holds for what is unpacked too."""
    source = replace(source_of(registry, "shop/bomb:1"), limits=TreeLimits(size=10**5))
    bomb = gzip.compress(tar({"a": bytes(10**6)}))
    put(source, manifest_of(described(bomb)), bomb)
    assert len(bomb) < 10**4
    assert isinstance(failure(source), SourceTooLarge)


# What the registry has is not what the digests say: its files are changed on its disk.


@pytest.mark.holds("checked-digest")
def test_changed_blob_is_refused(registry: Registry) -> None:
    source = source_of(registry, "shop/changed:1")
    manifest = json.loads(registry.blob(push(source, {"a.yaml": b"changed"})).read_bytes())
    blob = registry.blob(manifest["layers"][0]["digest"])
    data = bytearray(blob.read_bytes())
    data[-600] ^= 1
    blob.write_bytes(data)
    error = failure(source)
    assert isinstance(error, VerificationFailed)
    assert error.message == "a blob has another digest"


def test_missing_blob_is_reported(registry: Registry) -> None:
    source = source_of(registry, "shop/missing:1")
    manifest = json.loads(registry.blob(push(source, {"a.yaml": b"missing"})).read_bytes())
    digest = manifest["layers"][0]["digest"]
    registry.blob(digest).unlink()
    error = failure(source)
    assert isinstance(error, FetchFailed)
    assert error.message == "the registry lacks a blob of the artifact"
    assert error.reason == digest


# Credentials.


@pytest.mark.usefixtures("components")
@pytest.mark.parametrize("kind", ["registry", "with_tokens"])
@pytest.mark.parametrize("password", ["", "wrong"])
def test_wrong_credentials_are_refused(
    request: pytest.FixtureRequest, kind: str, password: str
) -> None:
    running: Registry = request.getfixturevalue(kind)
    source = source_of(running, "shop/web:1")
    push(source, FILES)
    given = SourceCredentials(ca=source.credentials.ca)
    if password:
        given = replace(given, username="deployer", password=password)
    before = len(running.requests())
    error = failure(replace(source, credentials=given))
    assert isinstance(error, AuthenticationFailed)
    assert len(running.requests()) - before <= 2
    with pytest.raises(AuthenticationFailed):
        find_artifact(replace(source, credentials=given))


def test_public_artifact_needs_no_credentials(with_tokens: Registry) -> None:
    source = source_of(with_tokens, "public/web:1")
    push(source, FILES)
    anonymous = replace(source, credentials=SourceCredentials(ca=source.credentials.ca))
    assert fetch_artifact(anonymous).files == FILES


def test_credentials_of_an_image_pull_secret_are_used(registry: Registry) -> None:
    source = source_of(registry, "shop/secret:1")
    push(source, FILES)
    own = known(b"")
    login = {"username": own.username, "password": own.password}
    for host, works in ((registry.host, True), ("127.0.0.1:1", False)):
        config = json.dumps({"auths": {f"https://{host}/v2/": login}}).encode()
        given = SourceCredentials(docker_config=config, ca=source.credentials.ca)
        if works:
            assert fetch_artifact(replace(source, credentials=given)).files == FILES
        else:
            assert isinstance(failure(replace(source, credentials=given)), AuthenticationFailed)


def test_blob_at_another_host_gets_no_credentials(components: Components, tmp_path: Path) -> None:
    """Nor does it matter for the digest where it comes from."""
    with (
        site(files_of(tmp_path / "registry" / "storage")) as store,
        password_registry(components, tmp_path / "registry", blobs_at=store.url) as running,
    ):
        source = source_of(running, "shop/web:1")
        cas = source.credentials.ca + store.ca
        source = replace(source, credentials=replace(source.credentials, ca=cas))
        push(source, FILES)
        assert fetch_artifact(source).files == FILES
        assert [call.method for call in store.calls][-1] == "GET"
        assert [call for call in store.calls if "Authorization" in call.headers] == []


def test_refused_address_is_not_connected_to(registry: Registry) -> None:
    source = replace(source_of(registry, "shop/web:1"), addresses=AddressRules())
    before = len(registry.requests())
    assert "--allow-source-cidr" in failure(source).hint
    assert len(registry.requests()) == before
    loopback = AddressRules((ipaddress.ip_network("127.0.0.0/8"),))
    push(replace(source, addresses=loopback), FILES)
    assert fetch_artifact(replace(source, addresses=loopback)).files == FILES


def test_verification_comes_before_the_layer(registry: Registry) -> None:
    source = source_of(registry, "shop/verified:1")
    digest = push(source, FILES)
    asked = []

    def refuse(_session: Session, manifest: ArtifactManifest) -> None:
        asked.append(manifest.digest)
        raise VerificationFailed("nobody has signed it")

    before = len(registry.requests())
    with pytest.raises(VerificationFailed) as caught:
        fetch_artifact(source, verify=refuse)
    assert caught.value.location == f"oci://{registry.host}/shop/verified"
    assert asked == [digest]
    assert [one for one in registry.requests()[before:] if "/blobs/" in one] == []
