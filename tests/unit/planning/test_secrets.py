"""Secrets in a comparison: what is equal and what is not may be seen, and nothing else."""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from applyprune.planning.secrets import HIDDEN, KnownSecrets, masked, value_text


def secret(data: Any, **annotations: str) -> dict[str, Any]:
    metadata = {"name": "s", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


SAME, BEFORE, AFTER = "***", "*** (before)", "*** (after)"


@pytest.mark.parametrize(
    ("old", "new", "then", "now"),
    [
        ({"a": "eA=="}, {"a": "eA=="}, {"a": SAME}, {"a": SAME}),
        ({"a": "eA=="}, {"a": "eQ=="}, {"a": BEFORE}, {"a": AFTER}),
        ({"a": "eA=="}, {"b": "eA=="}, {"a": SAME}, {"b": SAME}),
        ({"a": "eA=="}, None, {"a": SAME}, None),
        ({"a": ["eA=="]}, {"a": {"b": 1}}, {"a": BEFORE}, {"a": AFTER}),
        ("eA==", {"a": "eA=="}, BEFORE, {"a": SAME}),
        ({}, {}, {}, {}),
    ],
)
@pytest.mark.parametrize("part", ["data", "stringData"])
def test_values_are_masked_and_keys_are_not(
    old: Any, new: Any, then: Any, now: Any, part: str
) -> None:
    """Equal ones alike, others in two ways, of whatever type."""
    sides = [{**secret({}), part: one} for one in (old, new)]
    before, after = masked(*sides)
    assert before is not None
    assert after is not None
    assert (before[part], after[part]) == (then, now)


@pytest.mark.holds("secret-in-diff")
def test_created_or_deleted_object_is_masked_too() -> None:
    """There is but one side then."""
    assert masked(None, secret({"a": "eA=="}))[1] == secret({"a": SAME})
    assert masked(secret({"a": "eA=="}), None) == (secret({"a": SAME}), None)


@pytest.mark.parametrize(
    "copy",
    [
        '{"data":{"pw":"c2VjcmV0LXBhc3N3b3Jk"}}',
        "H4sIAAAAAAAA/6tWKkktLlGyUlAqLU4tUtJRAPHyEnNTgQJQAAAyL4pJIgAAAA==",
        'the password is secret-pass"word',
        base64.b64encode(b'secret-pass"word').decode(),
        f"quoted: {json.dumps('secret-pass' + chr(34) + 'word')}",
    ],
)
def test_annotation_that_may_hold_a_value_is_masked(copy: str) -> None:
    """As kubectl's and Rancher's copies of the whole object are; another of the manifest is not."""
    data = {"pw": base64.b64encode(b'secret-pass"word').decode()}
    one = secret(data, copy=copy, plain="shown")
    before, after = masked(one, secret(data, plain="shown"), one)
    assert before is not None
    assert after is not None
    assert before["metadata"]["annotations"] == {"copy": SAME, "plain": "shown"}
    assert after["metadata"]["annotations"] == {"plain": "shown"}


@pytest.mark.holds("secret-label", "secret-annotation")
def test_text_is_shown_only_where_the_manifest_has_it() -> None:
    """Of labels, annotations and everything else: who knows what a text of another's is made of?"""
    manifest = secret({"a": "eA=="}, team="platform", note="new")
    manifest["metadata"]["labels"] = {"app": "web"}
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    live = secret({"a": "eA=="}, team="platform", note="eA", hash="11f6ad8e")
    live["metadata"] |= {"labels": {"app": "web", "note": "new"}, "ownerReferences": [{"uid": "x"}]}
    live |= {"type": "eA", "immutable": True, "note": "eA"}
    before, after = masked(live, {**manifest, "type": "Opaque"}, manifest)
    assert before == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "annotations": {"team": "platform", "note": BEFORE, "hash": SAME},
            "labels": {"app": "web", "note": SAME},
            "ownerReferences": SAME,
        },
        "data": {"a": SAME},
        "type": BEFORE,
        "immutable": True,
        "note": SAME,
    }
    assert after == {**manifest, "data": {"a": SAME}, "type": "Opaque"}
    deleted, _ = masked(live, None)
    assert deleted is not None
    assert set(deleted["metadata"]["annotations"].values()) == {SAME}
    assert set(deleted["metadata"]["labels"].values()) == {SAME}


@pytest.mark.holds("secret-unsent")
def test_value_that_is_left_to_others_is_masked_where_it_is_copied() -> None:
    """Neither state has it, only the manifest."""
    manifest = secret({"a": base64.b64encode(b"hunter2").decode()}, note="it is hunter2")
    sent = secret({}, note="it is hunter2")
    (_, after) = masked(sent, sent, manifest)
    assert after is not None
    assert after["metadata"]["annotations"] == {"note": SAME}


@pytest.mark.holds("mistyped-secret")
def test_mistyped_secret_is_masked_too() -> None:
    """No other kind of Kubernetes has `stringData`."""
    body = {**secret({"a": "eA=="}), "kind": "ConfigMap", "stringData": {"b": "x"}}
    _, after = masked(None, body, body)
    assert after is not None
    assert (after["data"], after["stringData"]) == ({"a": SAME}, {"b": SAME})


def test_only_secrets_are_masked() -> None:
    """A kind of the same name in another group, and a ConfigMap, are not."""
    for group, kind in (("v1", "ConfigMap"), ("x.example.com/v1", "Secret")):
        body = {**secret({"a": "eA=="}), "apiVersion": group, "kind": kind}
        assert masked(body, body) == (body, body)


VALUE = 'hunter2 "p<w>/é&\n\tend'
BYTES = VALUE.encode()
OTHER = base64.b64encode(b"\xff\x00\xfebinary").decode()
ENCODINGS = {
    "plain": VALUE,
    "one line": " ".join(VALUE.split()),
    "a line": "a line: end of it",
    "reversed": VALUE[::-1],
    "capitals": "HUNTER2-UPPER",
    "json": json.dumps(VALUE),
    "json in json": json.dumps(json.dumps(VALUE)),
    "repr": repr(VALUE),
    "html": html.escape(VALUE),
    "url": quote(VALUE, safe=""),
    "form": quote_plus(VALUE),
    "base64": base64.b64encode(BYTES).decode(),
    "base64 without padding": base64.b64encode(BYTES).decode().rstrip("="),
    "base64 of URLs": base64.urlsafe_b64encode(BYTES).decode(),
    "base64 of a login": base64.b64encode(b"user:" + BYTES).decode(),
    "base64 in other base64": base64.b64encode(b"{ab" + BYTES + b"}").decode(),
    "base64 of base64": base64.b64encode(base64.b64encode(BYTES)).decode(),
    "base32": base64.b32encode(BYTES).decode(),
    "hex": BYTES.hex(),
    "capital hex": BYTES.hex().upper(),
    "hex with colons": BYTES.hex(":"),
    "bytes of Go": str(list(BYTES)).replace(",", ""),
    "bytes of Python": str(list(BYTES)),
    "escaped bytes": "".join(f"\\x{one:02x}" for one in BYTES),
    "escaped characters": "".join(f"\\u{ord(one):04x}" for one in VALUE),
    "binary": b"\xff\x00\xfebinary".hex(),
    "short": "the pin is 'a7x'",
    "one character": "found: 7",
}


@pytest.mark.holds("secret-in-text", row="base64")
@pytest.mark.holds("short-secret-in-text", row="short")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_value_is_hidden_in_every_form_in_which_programs_write_it(encoding: str) -> None:
    """Of all Secrets of the run; what is left shows none of it."""
    values = {"a": VALUE, "b": "hunter2-upper", "c": "a7x", "d": "7"}
    known = KnownSecrets(lambda: [{"stringData": values}, {"data": {"e": OTHER}}])
    written = ENCODINGS[encoding]
    told = known.masked(f"it said {written}, then more")
    assert HIDDEN in told
    assert written not in told
    assert told.startswith("it said ")
    assert told.endswith("then more")
    assert len(told.replace(HIDDEN, "")) < len("it said , then more") + 18, told


def test_words_that_are_no_values_stay() -> None:
    """A short value is hidden only as a word, and an empty one never."""
    known = KnownSecrets(lambda: [{"stringData": {"a": "no", "b": "", "c": "1"}}])
    assert known.masked("nothing of 10 notes, no. 1") == f"nothing of 10 notes, {HIDDEN}. {HIDDEN}"
    known.know(tuple)
    assert known.masked("no. 1") == "no. 1"


def test_secret_field_is_never_shown() -> None:
    """Whatever it is."""
    assert value_text("eA==", secret=True) == HIDDEN
    assert value_text("eA==", secret=False) == '"eA=="'
