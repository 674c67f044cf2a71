"""An inventory ⇄ its ConfigMap. Decoding is strict: what cannot be read is an error, never empty.

The header, one line of JSON, says how many entries there are and what their digest is, so half of
a record is never taken for the whole. Entries are one line of JSON each, readable with
``kubectl get -o yaml`` while they are few, one gzip stream beyond that.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

from applyprune._version import __version__
from applyprune.errors import InventoryError
from applyprune.model.inventory import Entry, Evidence, Holder, Inventory, Made
from applyprune.model.refs import Ref
from applyprune.planning.tracking import SET_ID, applyset_annotations, identity, set_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = 1
READABLE = 64 * 1024
"""Up to so many bytes of entries stand in the ConfigMap as they are."""
LIMIT = 1_000_000
"""Bytes that the values of one ConfigMap may hold; the server's own limit is 1,048,576."""

T = TypeVar("T")

_HEADER, _ENTRIES, _PACKED = "header", "entries", "entries.gz"
_UNPACKED_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stored:
    """An inventory as it was read, and the mark of the write that made it so."""

    inventory: Inventory
    write: str


def encode(inventory: Inventory, *, write: str) -> dict[str, Any]:
    """Return the ConfigMap; ``write`` marks this one write. Raises InventoryError when too large.

    The size is that of the inventory with every entry confirmed, so that a run which begins can
    also end.
    """
    target = identity(inventory.name, inventory.namespace)
    lines = _lines(inventory.entries.values())
    _check_size(inventory)
    packed = len(lines) > READABLE
    header = {
        "schema": SCHEMA,
        "generation": inventory.generation,
        "uid": inventory.uid,
        "write": write,
        "count": len(inventory.entries),
        "digest": _digest(lines),
        "holder": _holder_out(inventory.holder),
    }
    metadata: dict[str, Any] = {
        "name": target.inventory.name,
        "namespace": inventory.namespace,
        "labels": {SET_ID: target.id},
        "annotations": dict(
            applyset_annotations(
                inventory.entries,
                namespace=inventory.namespace,
                tooling=f"applyprune/v{__version__}",
            )
        ),
    }
    if inventory.uid:
        metadata["uid"] = inventory.uid
        metadata["resourceVersion"] = inventory.resource_version
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {_HEADER: json.dumps(header, sort_keys=True)},
    }
    if packed:
        stream = gzip.compress(lines, compresslevel=6, mtime=0)
        body["binaryData"] = {_PACKED: base64.b64encode(stream).decode()}
    else:
        body["data"][_ENTRIES] = lines.decode()
    return body


def decode(body: Mapping[str, Any]) -> Stored:
    """Return the inventory in a ConfigMap as the server gave it; raises InventoryError."""
    metadata = body["metadata"]
    where = f"configmap/{metadata['name']} in namespace {metadata['namespace']}"
    try:
        header = json.loads((body.get("data") or {})[_HEADER])
        if header["schema"] != SCHEMA:
            raise InventoryError(
                f"the inventory has format {header['schema']}",
                where=where,
                why=f"this applyprune {__version__} reads format {SCHEMA}",
                hint="Use the version of applyprune that wrote it, or a newer one.",
            )
        inventory = Inventory(
            name=set_name(metadata["name"]),
            namespace=metadata["namespace"],
            entries=_entries_in(_stored_lines(body), header),
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            generation=_of(int, header["generation"]),
            holder=_holder_in(header["holder"]),
            # The first write cannot know its own UID; every later one names it.
            copied=header["uid"] not in {"", metadata["uid"]},
        )
        return Stored(inventory, _of(str, header["write"]))
    except (KeyError, TypeError, ValueError, EOFError, OSError, RecursionError) as error:
        raise InventoryError(
            "the inventory cannot be read",
            where=where,
            why=str(error),
            hint="Nothing was applied or pruned. Restore the ConfigMap from a backup.",
        ) from error


def _entries_in(lines: bytes, header: Mapping[str, Any]) -> Mapping[Ref, Entry]:
    if _digest(lines) != header["digest"]:
        raise ValueError("its digest does not fit its entries")
    entries = [_entry_in(json.loads(line)) for line in lines.splitlines()]
    found = {entry.ref: entry for entry in entries}
    if not len(found) == len(entries) == header["count"]:
        raise ValueError(f"it should list {header['count']} objects")
    return found


def _stored_lines(body: Mapping[str, Any]) -> bytes:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    if (_ENTRIES in data) == (_PACKED in binary):
        raise ValueError("it needs either entries or entries.gz")
    if _ENTRIES in data:
        return _of(str, data[_ENTRIES]).encode()
    try:
        packed = base64.b64decode(binary[_PACKED], validate=True)
    except binascii.Error as error:
        raise ValueError("its entries are not base64") from error
    try:
        with gzip.GzipFile(fileobj=BytesIO(packed)) as stream:
            lines = stream.read(_UNPACKED_LIMIT + 1)
    except zlib.error as error:
        raise ValueError("its entries cannot be unpacked") from error
    if len(lines) > _UNPACKED_LIMIT:
        raise ValueError("its entries unpack to more than they may")
    return lines


def _check_size(inventory: Inventory) -> None:
    full = _lines(_as_if_confirmed(entry) for entry in inventory.entries.values())
    size = len(full)
    if size > READABLE:
        size = (len(gzip.compress(full, compresslevel=1)) + 2) // 3 * 4
    if size > LIMIT:
        raise InventoryError(
            f"the inventory of {len(inventory.entries)} objects does not fit",
            where=f"set {inventory.name} in namespace {inventory.namespace}",
            why=f"it would take {size} bytes, and one ConfigMap holds {LIMIT}",
            hint="Split the set in two.",
        )


def _as_if_confirmed(entry: Entry) -> Entry:
    """Return the entry at its largest: with a UID, a digest and evidence that do not compress."""
    mark = hashlib.sha256(repr(entry.ref).encode()).hexdigest()
    evidence = Evidence(
        resource_version=str(int(mark[:10], 16)),
        generation=int(mark[:4], 16),
        managed=mark[32:],
        time="2006-01-02T15:04:05Z",
        schema=int(mark[4:6], 16),
    )
    return replace(entry, uid=mark[28:], digest=mark[:32], evidence=entry.evidence or evidence)


def _lines(entries: Iterable[Entry]) -> bytes:
    ordered = sorted(entries, key=lambda entry: entry.ref)
    return "".join(
        json.dumps(_entry_out(entry), ensure_ascii=False, separators=(",", ":")) + "\n"
        for entry in ordered
    ).encode()


def _digest(lines: bytes) -> str:
    return hashlib.sha256(lines).hexdigest()


def _entry_out(entry: Entry) -> dict[str, Any]:
    out: dict[str, Any] = {
        **_ref_out(entry.ref),
        "plural": entry.plural,
        "version": entry.version,
        "found": entry.found,
        "uid": entry.uid,
        "made": str(entry.made),
        "digest": entry.digest,
        "evidence": None,
        "wave": entry.wave,
        "after": [_ref_out(ref) for ref in entry.after],
        "keep": entry.keep,
        "deleting": entry.deleting,
    }
    if (evidence := entry.evidence) is not None:
        out["evidence"] = {
            "resourceVersion": evidence.resource_version,
            "generation": evidence.generation,
            "managed": evidence.managed,
            "time": evidence.time,
            "schema": evidence.schema,
        }
    return out


def _entry_in(raw: Mapping[str, Any]) -> Entry:
    found = raw["evidence"]
    evidence = found and Evidence(
        resource_version=_of(str, found["resourceVersion"]),
        generation=_maybe_int(found["generation"]),
        managed=_of(str, found["managed"]),
        time=_of(str, found["time"]),
        schema=_maybe_int(found["schema"]),
    )
    return Entry(
        ref=_ref_in(raw),
        plural=_of(str, raw["plural"]),
        version=_of(str, raw["version"]),
        found=_of(str, raw["found"]),
        uid=_of(str, raw["uid"]),
        made=Made(raw["made"]),
        digest=_of(str, raw["digest"]),
        evidence=evidence or None,
        wave=_of(int, raw["wave"]),
        after=tuple(_ref_in(one) for one in raw["after"]),
        keep=_of(str, raw["keep"]),
        deleting=_of(bool, raw["deleting"]),
    )


def _ref_out(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _ref_in(raw: Mapping[str, Any]) -> Ref:
    ref = Ref(*(_of(str, raw[key]) for key in ("group", "kind", "namespace", "name")))
    if not ref.kind or not ref.name:
        raise ValueError("an entry names no object")
    return ref


def _holder_out(holder: Holder | None) -> dict[str, Any] | None:
    if holder is None:
        return None
    return {
        "run": holder.run,
        "who": holder.who,
        "host": holder.host,
        "process": holder.process,
        "leaseSeconds": holder.lease,
        "renewals": holder.renewals,
    }


def _holder_in(raw: Mapping[str, Any] | None) -> Holder | None:
    if raw is None:
        return None
    lease = raw["leaseSeconds"]
    if not isinstance(lease, int | float) or isinstance(lease, bool):
        raise TypeError(f"not a number of seconds: {lease!r}")
    return Holder(
        run=_of(str, raw["run"]),
        who=_of(str, raw["who"]),
        host=_of(str, raw["host"]),
        process=_of(str, raw["process"]),
        lease=float(lease),
        renewals=_of(int, raw["renewals"]),
    )


def _maybe_int(value: object) -> int | None:
    return None if value is None else _of(int, value)


def _of(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value
