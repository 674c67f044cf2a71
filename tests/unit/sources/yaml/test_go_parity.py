"""Every scalar, key and stream is read as Go's sigs.k8s.io/yaml and kubectl's decoder read it.

``fixtures/yaml/go-parity.jsonl`` was recorded from them: ``yaml``, and ``json`` or ``error``; and
where kubectl's splitting of the stream makes a difference, ``kubectl_docs`` or ``kubectl_error``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.source_text import refusals, values

FIXTURE = Path(__file__).parents[4] / "fixtures/yaml/go-parity.jsonl"
RECORDED = [json.loads(line) for line in FIXTURE.read_text(encoding="utf-8").strip().split("\n")]

LOST_DIGITS = "Go reads another number than stands there; nobody means that"
LOST_BYTES = "Go puts U+FFFD for what is no text; base64 of bytes belongs into a Secret's data"
TAG_IGNORED = "Go ignores the tag; who wrote it meant something that would not happen"
LAST_WINS = "Go silently takes the last of two equal keys; one of them is a mistake"
MERGE_OVERWRITES = "Go lets << overwrite a key before it, other readers do not"
DROPPED = "Go silently drops the rest; a manifest in it would be pruned"
ACCEPTED = "the only reading there is, valid in YAML 1.2 and JSON; Go's scanner is older"

REFUSED_ON_PURPOSE = {
    "a: 18446744073709551616\n": LOST_DIGITS,
    "a: 123456789012345678901234567890\n": LOST_DIGITS,
    "a: 1e15\nb: 1e16\nc: 123456789012345680000\nd: 1.5e300\n": LOST_DIGITS,
    "16777217.0: a\n": LOST_DIGITS,
    "123456.789: a\n": LOST_DIGITS,
    "a: !!binary /w==\n": LOST_BYTES,
    "a: !!timestamp 2001-01-01\n": TAG_IGNORED,
    'a: !!timestamp "2001-01-01"\n': TAG_IGNORED,
    "a: !!set {x, y}\n": TAG_IGNORED,
    "a: !!omap [x: 1]\n": TAG_IGNORED,
    "a: !custom foo\n": TAG_IGNORED,
    "a: !custom {x: 1}\n": TAG_IGNORED,
    "a: !custom [1]\n": TAG_IGNORED,
    "a: !b\n": TAG_IGNORED,
    "a: !!python/object:os.x 1\n": TAG_IGNORED,
    "a: !!str [1]\n": TAG_IGNORED,
    "a: !!int {x: 1}\n": TAG_IGNORED,
    'true: a\n"true": b\n': LAST_WINS,
    "yes: 1\ntrue: 2\n": LAST_WINS,
    "a: 1\na: 2\n": LAST_WINS,
    "- a: 1\n  a: 2\n": LAST_WINS,
    '"a": 1\na: 2\n': LAST_WINS,
    "x: &x {a: 1}\ny:\n  a: 5\n  <<: [*x]\n  a: 6\n": MERGE_OVERWRITES,
    "a: 1\n...\nb: 2\n": DROPPED,
    '"a":1\n': DROPPED,
    " a: 1\nb: 2\n": DROPPED,
}

ACCEPTED_ON_PURPOSE = {'a: "\\/"\n': (ACCEPTED, {"a": "/"})}


def documents_of(recorded: dict[str, Any]) -> list[Any] | None:
    """Return what kubectl makes of a recorded stream; None where Go or kubectl refuses it."""
    if "kubectl_docs" in recorded:
        return [json.loads(document) for document in recorded["kubectl_docs"]]
    if "error" in recorded or "kubectl_error" in recorded:
        return None
    return [] if recorded["json"] is None else [recorded["json"]]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: ascii(recorded["yaml"]))
def test_yaml_reads_as_in_go(recorded: dict[str, Any]) -> None:
    """The same documents, or both refuse; or the difference stands in a table, with its reason."""
    text = recorded["yaml"]
    expected = documents_of(recorded)
    if text in REFUSED_ON_PURPOSE:
        assert expected is not None, "no difference any more"
        expected = None
    elif text in ACCEPTED_ON_PURPOSE:
        assert expected is None, "no difference any more"
        expected = [ACCEPTED_ON_PURPOSE[text][1]]
    read = values(text)
    assert read == expected
    assert with_types(read) == with_types(expected)


def test_every_difference_is_recorded() -> None:
    texts = {recorded["yaml"] for recorded in RECORDED}
    assert REFUSED_ON_PURPOSE.keys() | ACCEPTED_ON_PURPOSE.keys() <= texts
    assert all(refusals(text) for text in REFUSED_ON_PURPOSE)


def with_types(data: Any) -> Any:
    """Tell 1 from true, and 1 from 1.0: Python holds them for equal."""
    if isinstance(data, dict):
        return {key: with_types(inner) for key, inner in data.items()}
    if isinstance(data, list):
        return [with_types(inner) for inner in data]
    # What Go writes with an exponent or a long row of zeros is read back as either.
    number = isinstance(data, int | float) and not isinstance(data, bool)
    return ("number", float(data)) if number and abs(data) >= 2**53 else (type(data).__name__, data)
