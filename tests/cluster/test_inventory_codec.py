"""The inventory's text: what goes in comes out, and what was touched is never read as less."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.cluster.inventory_codec import READABLE, decode, encode
from applyprune.errors import InventoryError
from applyprune.model.inventory import ABSENT, Entry, Evidence, Holder, Inventory, Made
from applyprune.model.refs import Ref

# RBAC names may hold nearly everything; 253 characters is the longest name there is.
NAMES = st.text("abcXYZ019-._:@ é☃", min_size=1, max_size=253)
EVIDENCE = st.builds(
    Evidence,
    st.text("0123456789", min_size=1),
    st.none() | st.integers(0, 2**53),
    st.text("0123456789abcdef", min_size=32, max_size=32),
    st.just("2026-11-21T10:00:00Z"),
    st.none() | st.integers(0, 99),
)
REFS = st.builds(Ref, st.sampled_from(["", "apps", "x.io"]), NAMES, st.just("") | NAMES, NAMES)
ENTRIES = st.builds(
    Entry,
    ref=REFS,
    plural=NAMES,
    version=st.just("v1"),
    found=st.just(ABSENT) | NAMES,
    uid=st.just("") | NAMES,
    made=st.sampled_from(Made),
    digest=st.just("") | NAMES,
    evidence=st.none() | EVIDENCE,
    wave=st.integers(0, 9),
    after=st.lists(REFS, max_size=3).map(tuple),
    keep=st.text(max_size=20),
    deleting=st.booleans(),
)
HOLDER = Holder("r1", "me@here", "boot/1", "7@99", 15.0, 3)


def _entry(number: int) -> Entry:
    return Entry(Ref("", "ConfigMap", "home", f"c-{number}"), "configmaps", "v1", ABSENT, uid="u")


def _inventory(*entries: Entry, **changes: Any) -> Inventory:
    listed = {entry.ref: entry for entry in entries}
    facts: dict[str, Any] = {"uid": "i1", "resource_version": "5", "generation": 4}
    return Inventory("web", "home", entries=listed, **{**facts, **changes})


@settings(max_examples=150, deadline=None)
@given(st.lists(ENTRIES, max_size=8), st.none() | st.just(HOLDER))
def test_what_goes_in_comes_out(entries: list[Entry], holder: Holder | None) -> None:
    """For every legal name, and through JSON as the server keeps it."""
    inventory = _inventory(*entries, holder=holder)
    stored = decode(json.loads(json.dumps(encode(inventory, write="w"))))
    assert stored.inventory == inventory
    assert dict(stored.inventory.entries) == dict(inventory.entries)
    assert stored.write == "w"


@pytest.mark.parametrize("count", [1, 2_000])
def test_small_is_readable_and_large_is_packed(count: int) -> None:
    """And both come out as they went in."""
    inventory = _inventory(*(_entry(number) for number in range(count)))
    body = encode(inventory, write="w")
    assert ("entries" in body["data"]) == (count == 1)
    assert len(json.dumps(body)) < max(2 * READABLE, 400 * count)
    assert dict(decode(body).inventory.entries) == dict(inventory.entries)


def test_what_cannot_fit_is_refused_before_anything_is_written() -> None:
    """The size counts every entry as confirmed: UIDs do not compress."""
    with pytest.raises(InventoryError, match="does not fit"):
        encode(_inventory(*(_entry(number) for number in range(20_000))), write="w")


def test_a_header_that_names_another_uid_is_a_copy() -> None:
    """A restored backup, or a copy by hand; the first write of all names none yet."""
    body = encode(_inventory(_entry(1)), write="w")
    assert not decode(body).inventory.copied
    body["metadata"]["uid"] = "i2"
    assert decode(body).inventory.copied
    first = encode(_inventory(_entry(1), uid="", resource_version=""), write="w")
    first["metadata"] |= {"uid": "i9", "resourceVersion": "1"}
    assert not decode(first).inventory.copied


@pytest.mark.parametrize("count", [3, 2_000])
def test_no_flipped_byte_is_taken_for_an_inventory(count: int) -> None:
    """Whichever byte of the entries changes, readable or packed: an error, never fewer entries."""
    body = encode(_inventory(*(_entry(number) for number in range(count))), write="w")
    part, key = ("data", "entries") if count == 3 else ("binaryData", "entries.gz")
    text = body[part][key]
    for at in range(0, len(text), max(1, len(text) // 200)):
        torn = deepcopy(body)
        flipped = "A" if text[at] != "A" else "B"
        torn[part][key] = text[:at] + flipped + text[at + 1 :]
        with pytest.raises(InventoryError, match="cannot be read"):
            decode(torn)


HEADERS: dict[str, dict[str, Any]] = {
    "a missing count": {"count": None},
    "a wrong count": {"count": 2},
    "a generation that is text": {"generation": "4"},
    "a generation that is a boolean": {"generation": True},
    "a holder without a lease": {"holder": {"run": "r"}},
    "a wrong digest": {"digest": "0" * 64},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_read_strictly(name: str) -> None:
    """No value of another type, no missing key."""
    body = encode(_inventory(_entry(1)), write="w")
    header = json.loads(body["data"]["header"]) | HEADERS[name]
    body["data"]["header"] = json.dumps(header)
    with pytest.raises(InventoryError, match="cannot be read"):
        decode(body)


@pytest.mark.parametrize("key", ["header", "entries"])
def test_half_a_record_is_an_error(key: str) -> None:
    """Never an empty inventory."""
    body = encode(_inventory(_entry(1)), write="w")
    del body["data"][key]
    with pytest.raises(InventoryError):
        decode(body)


def test_a_newer_format_is_named() -> None:
    """With what to do about it."""
    body = encode(_inventory(_entry(1)), write="w")
    header = json.loads(body["data"]["header"]) | {"schema": 99}
    body["data"]["header"] = json.dumps(header)
    with pytest.raises(InventoryError, match="format 99") as caught:
        decode(body)
    assert "newer" in caught.value.hint


def test_the_configmap_is_a_valid_applyset_parent() -> None:
    """Label and annotations of KEP-3659, and the guards of a compare-and-swap."""
    entries = [_entry(1), replace(_entry(2), ref=Ref("apps", "Deployment", "b", "x"))]
    metadata = encode(_inventory(*entries), write="w")["metadata"]
    assert metadata["labels"]["applyset.kubernetes.io/id"].startswith("applyset-")
    annotations = metadata["annotations"]
    assert annotations["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap,Deployment.apps"
    assert annotations["applyset.kubernetes.io/additional-namespaces"] == "b"
    assert annotations["applyset.kubernetes.io/tooling"].startswith("applyprune/v")
    assert (metadata["uid"], metadata["resourceVersion"]) == ("i1", "5")
