"""An inventory that was forged to take much memory is an error before it does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.inventory_format import (
    MAX_OBJECTS,
    MAX_SHARDS,
    UnpackedLines,
    add_lines,
    decode_entries,
    decode_root,
    encode_root,
    pack_entries,
)
from applyprune.errors import InventoryError
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20


def _entry(number: int, marks: tuple[str, ...] = ()) -> InventoryEntry:
    ref = Ref("", "ConfigMap", "home", f"c-{number}")
    return InventoryEntry(ref, "configmaps", "v1", None, uid="u", marks=marks)


def _stored(header: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Return a root as it is stored, with another header."""
    entries = [_entry(number) for number in range(5000)]
    inventory = Inventory("web", "home", uid="i1", resource_version="5", generation=4)
    body = encode_root(inventory, pack_entries(entries), write="w1")
    body["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z"
    stored = json.loads(body["data"]["header"])
    header(stored)
    body["data"]["header"] = json.dumps(stored)
    return body


def _twenty_times(header: dict[str, Any]) -> None:
    header["shards"] = header["shards"][:1] * 20


def _too_many(header: dict[str, Any]) -> None:
    header["shards"] = [[f"{number:064x}", 1] for number in range(MAX_SHARDS + 1)]


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        pytest.param(_twenty_times, " twice", marks=pytest.mark.holds("shard-named-twice")),
        pytest.param(
            _too_many,
            "it names 1001 shards, and 1000 are allowed",
            marks=pytest.mark.holds("most-shards"),
        ),
        (lambda header: header.update(count=MAX_OBJECTS + 1), "and 100000 are allowed"),
        (lambda header: header.update(count=-1), "it says that it lists -1 objects"),
        (lambda header: header.update(holder=json.loads("[" * 400 + "]" * 400)), "list"),
    ],
)
def test_forged_header_is_unreadable(forge: Callable[[dict[str, Any]], None], why: str) -> None:
    """The error names the ConfigMap, what is wrong with it, and how to repair it."""
    with pytest.raises(InventoryError) as caught:
        decode_root(_stored(forge))
    assert caught.value.message == "the inventory cannot be read"
    assert caught.value.location == "configmap/applyprune-web in namespace home"
    assert why in caught.value.reason
    assert "applyprune inventory repair" in caught.value.hint


@pytest.mark.holds("unpacked-in-total")
def test_all_shards_together_have_a_limit() -> None:
    """A shard of 16 MiB is allowed, and each one of many is not."""
    root = decode_root(_stored(lambda _: None))
    lines, part = UnpackedLines(), b"\n" * 16 * MIB
    for _ in range(8):
        add_lines(root, lines, part)
    with pytest.raises(InventoryError, match="are larger than 128 MiB"):
        add_lines(root, lines, part)
    assert len(lines.parts) == 8
    with pytest.raises(InventoryError, match="have more than 8000000 values"):
        add_lines(root, UnpackedLines(), b"," * 9_000_000)


@pytest.mark.holds("longest-line")
def test_one_line_has_a_limit() -> None:
    """In memory, a line of a million empty lists takes twenty times its bytes."""
    line = b'{"fieldSet":{"f:a":[' + b"[]," * 3 * MIB + b'[]]},"number":0}\n'
    with pytest.raises(ValueError, match="an entry is larger than 8 MiB"):
        decode_entries(line)


@pytest.mark.holds("values-in-total")
def test_inventory_that_could_not_be_read_again_is_not_written() -> None:
    """The writer has the limits of the reader."""
    marks = ("",) * 100_000
    with pytest.raises(InventoryError, match="is too large") as caught:
        pack_entries(_entry(number, marks) for number in range(81))
    assert "more than 8000000 values" in caught.value.reason
