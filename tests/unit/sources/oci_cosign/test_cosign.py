"""cosign's signatures by key: which one proves that an artifact was signed."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.oci_cosign import SimpleSignature, public_keys, verify_signatures
from applyprune.sources.tree import VerificationFailed
from tests.support.cosign import KINDS, RECORDED
from tests.support.signing import (
    Signer,
    bundle,
    encoded,
    envelope_bundle,
    message_bundle,
    signer,
    simple_payload,
    statement,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.sources.oci_cosign import PublicKey

ARTIFACT = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{hashlib.sha256(ARTIFACT).hexdigest()}"
OTHER = f"sha256:{hashlib.sha256(b'other').hexdigest()}"
MINE, FOREIGN = signer(), signer()
NONE = "the artifact has no signature of cosign"
NO_KEY = "no key of the Secret has signed the artifact"
ANOTHER = "its signature is for another artifact"
KEYLESS = "the artifact has keyless signatures only"


def keys(*signers: Signer) -> tuple[PublicKey, ...]:
    return tuple(public_keys({f"{i}.pub": one.public for i, one in enumerate(signers)}))


def simple(key: Signer, payload: bytes, *, is_keyless: bool = False) -> SimpleSignature:
    return SimpleSignature(payload, encoded(key.sign(payload)), is_keyless=is_keyless)


@pytest.mark.parametrize("kind", ["p256", "p384", "rsa", "ed25519"])
def test_each_kind_of_key_verifies_each_form(kind: str) -> None:
    mine = signer(kind)
    trusted = keys(FOREIGN, mine)
    verify_signatures(DIGEST, trusted, signatures=[simple(mine, simple_payload(DIGEST))])
    verify_signatures(DIGEST, trusted, bundles=[envelope_bundle(mine, statement(DIGEST))])
    if kind != "ed25519":
        verify_signatures(DIGEST, trusted, bundles=[message_bundle(mine, ARTIFACT)])


def test_one_good_signature_among_bad_ones_is_enough_and_no_more_is_read() -> None:
    read: list[str] = []

    def found() -> object:
        for one in (b"broken", envelope_bundle(MINE, statement(DIGEST)), b"not read"):
            read.append(one[:6].decode())
            yield one

    verify_signatures(DIGEST, keys(MINE), signatures=[SimpleSignature(b"", "!")], bundles=found())  # type: ignore[arg-type]
    assert len(read) == 2


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        (simple(FOREIGN, simple_payload(DIGEST)), NO_KEY),
        (simple(FOREIGN, simple_payload(DIGEST), is_keyless=True), KEYLESS),
        (simple(MINE, simple_payload(OTHER)), ANOTHER),
        (simple(MINE, simple_payload(DIGEST, "atomic container signature")), ANOTHER),
        (simple(MINE, DIGEST.encode()), ANOTHER),
        (simple(MINE, b"[" * 100_000), ANOTHER),
        (SimpleSignature(simple_payload(DIGEST), encoded(MINE.sign(b"x"))), NO_KEY),
        (SimpleSignature(simple_payload(DIGEST), "%%%"), NONE),
        (SimpleSignature(simple_payload(DIGEST), "é"), NONE),
        (SimpleSignature(simple_payload(DIGEST), ""), NONE),
        (SimpleSignature(simple_payload(DIGEST), encoded(b"short")), NO_KEY),
    ],
    ids=range(11),
)
def test_simple_signature_that_proves_nothing(signature: SimpleSignature, message: str) -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_signatures(DIGEST, keys(MINE), signatures=[signature])
    assert caught.value.message == message
    assert caught.value.reason == DIGEST
    assert ("Keyless" in caught.value.hint) is (message == KEYLESS)


def edited(made: bytes, edit: Callable[[dict[str, object]], object]) -> bytes:
    """Return a bundle after an edit of its envelope."""
    body = json.loads(made)
    edit(body["dsseEnvelope"])
    return json.dumps(body).encode()


GOOD = envelope_bundle(MINE, statement(DIGEST))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (envelope_bundle(FOREIGN, statement(DIGEST)), NO_KEY),
        (envelope_bundle(FOREIGN, statement(DIGEST), certificate={"rawBytes": "x"}), KEYLESS),
        (envelope_bundle(MINE, statement(OTHER)), ANOTHER),
        (envelope_bundle(MINE, statement(DIGEST, "https://slsa.dev/provenance/v1")), NONE),
        (envelope_bundle(MINE, b"[]"), NONE),
        (envelope_bundle(MINE, statement(DIGEST), "text/plain"), NONE),
        (edited(GOOD, lambda body: body.update(payload=encoded(statement(OTHER)))), NO_KEY),
        (edited(GOOD, lambda body: body.update(payload="%")), NONE),
        (edited(GOOD, lambda body: body.update(signatures=[])), NO_KEY),
        (edited(GOOD, lambda body: body.update(signatures=5)), NO_KEY),
        (edited(GOOD, lambda body: body.update(signatures=[3, {}, {"sig": 4}])), NO_KEY),
        (GOOD.replace(b"application/vnd.dev.sigstore.bundle", b"application/x"), NONE),
        (message_bundle(FOREIGN, ARTIFACT), NO_KEY),
        (message_bundle(MINE, b"other"), ANOTHER),
        (bundle({"messageSignature": {"signature": encoded(MINE.sign(b"x"))}}), NO_KEY),
        (
            bundle(
                {
                    "messageSignature": {
                        "signature": encoded(MINE.sign(b"x")),
                        "messageDigest": {"algorithm": "SHA2_256", "digest": encoded(b"short")},
                    }
                }
            ),
            NO_KEY,
        ),
        (
            bundle({"messageSignature": {"signature": "x", "messageDigest": {"algorithm": "MD5"}}}),
            NONE,
        ),
        (bundle({}), NONE),
        (b"", NONE),
        (b"null", NONE),
        (b"\xff", NONE),
        (b'{"mediaType": "application/vnd.dev.sigstore.bundle", "dsseEnvelope": []}', NONE),
        (b"[" * 100_000, NONE),
    ],
    ids=range(23),
)
def test_bundle_that_proves_nothing(made: bytes, message: str) -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_signatures(DIGEST, keys(MINE), bundles=[made])
    assert caught.value.message == message


@pytest.mark.parametrize(
    "subject", [None, 5, "text", [], [5], [{"digest": 5}], [{"digest": {"sha512": "0"}}], {}]
)
def test_statement_without_the_digest_proves_nothing(subject: object) -> None:
    body = json.loads(statement(DIGEST)) | {"subject": subject}
    made = envelope_bundle(MINE, json.dumps(body).encode())
    with pytest.raises(VerificationFailed) as caught:
        verify_signatures(DIGEST, keys(MINE), bundles=[made])
    assert caught.value.message == ANOTHER


def test_message_signature_of_ed25519_cannot_be_checked_by_a_digest() -> None:
    mine = signer("ed25519")
    with pytest.raises(VerificationFailed, match="no key of the Secret"):
        verify_signatures(DIGEST, keys(mine), bundles=[message_bundle(mine, ARTIFACT)])


def test_signature_that_proves_most_is_reported() -> None:
    made = [envelope_bundle(MINE, statement(OTHER)), envelope_bundle(FOREIGN, statement(DIGEST))]
    with pytest.raises(VerificationFailed, match=ANOTHER):
        verify_signatures(DIGEST, keys(MINE), bundles=made)


def test_unsigned_artifact() -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_signatures(DIGEST, keys(MINE))
    assert caught.value.message == NONE
    assert "cosign sign --key" in caught.value.hint


PRIVATE = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== x",
        PRIVATE,
        signer("weak").public,
        signer("k256").public,
        MINE.public[:60],
    ],
    ids=["empty", "binary", "ssh", "private", "weak", "curve", "cut"],
)
def test_unusable_public_key_is_named(content: bytes) -> None:
    with pytest.raises(VerificationFailed) as caught:
        public_keys({"good.pub": MINE.public, "team.pub": content})
    assert caught.value.message == "the key team.pub of the Secret cannot be used"
    assert base64.b64encode(content).decode() not in str(caught.value) or not content


@pytest.mark.parametrize("secret", [{}, {"cosign.key": b"x", "note": b"y"}])
def test_secret_without_a_public_key(secret: dict[str, bytes]) -> None:
    with pytest.raises(VerificationFailed) as caught:
        public_keys(secret)
    assert "no public key" in caught.value.message
    assert "Keyless signatures are not supported" in caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_that_cosign_has_made(kind: str) -> None:
    """tests/support/cosign.py has recorded them, and how it was done."""
    folder = RECORDED / kind
    trusted = public_keys({"cosign.pub": (folder / "cosign.pub").read_bytes()})
    payload = (folder / "payload.json").read_bytes()
    recorded = SimpleSignature(payload, (folder / "signature.txt").read_text().strip())
    made = (folder / "bundle.json").read_bytes()
    digest = json.loads(payload)["critical"]["image"]["docker-manifest-digest"]
    verify_signatures(digest, trusted, signatures=[recorded])
    verify_signatures(digest, trusted, bundles=[made])
    for wanted, keys_then, message in (
        (OTHER, trusted, ANOTHER),
        (digest, keys(FOREIGN), NO_KEY),
    ):
        with pytest.raises(VerificationFailed, match=message):
            verify_signatures(wanted, keys_then, signatures=[recorded])
        with pytest.raises(VerificationFailed, match=message):
            verify_signatures(wanted, keys_then, bundles=[made])
