"""The names of artifacts: what they consist of, and what is none."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.sources.address import ArtifactReference, parse_reference

DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://example.com/web", ArtifactReference("example.com", "web")),
        ("oci://example.com:5000/shop/web", ArtifactReference("example.com:5000", "shop/web")),
        ("oci://localhost:1/a/b/c", ArtifactReference("localhost:1", "a/b/c")),
        ("oci://[::1]:5000/web", ArtifactReference("[::1]:5000", "web")),
        ("oci://example.com/web:1.4.0", ArtifactReference("example.com", "web", "1.4.0")),
        ("oci://example.com/web:v1_A.b-c", ArtifactReference("example.com", "web", "v1_A.b-c")),
        (f"oci://example.com/web@{DIGEST}", ArtifactReference("example.com", "web", "", DIGEST)),
        (f"oci://example.com/web:1@{DIGEST}", ArtifactReference("example.com", "web", "1", DIGEST)),
        ("oci://a.b/x-y/z__0/q.r", ArtifactReference("a.b", "x-y/z__0/q.r")),
    ],
)
def test_reference_is_parsed(text: str, expected: ArtifactReference) -> None:
    assert parse_reference(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/web",
        "https://example.com/web",
        "OCI://example.com/web",
        "oci:///web",
        "oci://example.com",
        "oci://example.com/",
        "oci://example.com/web/",
        "oci://example.com//web",
        "oci://example.com/../web",
        "oci://example.com/./web",
        "oci://example.com/Web",
        "oci://example.com/-web",
        "oci://-example.com/web",
        "oci://--upload-pack=x/web",
        "oci://example.com/web:",
        "oci://example.com/web:-x",
        "oci://example.com/web:a/b",
        f"oci://example.com/web:{'a' * 129}",
        "oci://example.com/web@",
        "oci://example.com/web@sha256:00",
        f"oci://example.com/web@sha512:{'0' * 128}",
        f"oci://example.com/web@{DIGEST.upper()}",
        "oci://example.com/web?tag=1",
        "oci://example.com/web#1",
        "oci://example.com:0/web",
        "oci://example.com:65536/web",
        "oci://example.com:x/web",
        "oci://example.com\n/web",
        "oci://example.com/web\n",
        "oci://exämple.com/web",
        f"oci://example.com/{'a' * 256}",
        f"oci://example.com/{'a' * 2000}",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid name of an OCI artifact"):
        parse_reference(text)


@pytest.mark.parametrize("text", ["oci://me:hunter2@h/web", "oci://h/web?token=hunter2"])
def test_possible_credential_is_not_shown(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert "hunter2" not in str(caught.value)
