"""Encode entries as lines of JSON, one for each object, and decode them strictly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from applyprune.model.identity import Ref
from applyprune.model.inventory import ApplyFingerprint, InventoryEntry, Ownership, Wave

T = TypeVar("T")

_TIGHT = (",", ":")


def lines_of(entries: Iterable[InventoryEntry]) -> list[tuple[Ref, bytes]]:
    """Return each entry's ref and its line, with the newline, in the order of the refs."""
    # A tuple compares many times faster than a dataclass, and a set may have 100,000 entries.
    ordered = sorted(
        entries,
        key=lambda entry: (entry.ref.group, entry.ref.kind, entry.ref.namespace, entry.ref.name),
    )
    return [(entry.ref, _line(entry)) for entry in ordered]


def entries_of(lines: bytes) -> list[InventoryEntry]:
    """Return the entries; raise ValueError, TypeError or KeyError for anything else."""
    # Only a newline ends a line: splitlines would also split at other characters in names.
    return [_entry_in(json.loads(line)) for line in lines.split(b"\n") if line]


def typed(kind: type[T], value: object) -> T:
    """Return the value if it has exactly that type; raise TypeError otherwise."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _line(entry: InventoryEntry) -> bytes:
    return f"{json.dumps(_entry_out(entry), ensure_ascii=False, separators=_TIGHT)}\n".encode()


def _entry_out(entry: InventoryEntry) -> dict[str, Any]:
    out: dict[str, Any] = {
        **_ref_out(entry.ref),
        "plural": entry.plural,
        "version": entry.version,
        "uidBeforeApply": entry.uid_before_apply,
        "uid": entry.uid,
        "ownership": str(entry.ownership),
        "digest": entry.digest,
        "fingerprint": None,
        "wave": list(entry.wave),
        "dependsOn": [_ref_out(ref) for ref in entry.depends_on],
        "orphanReason": entry.orphan_reason,
        "deleting": entry.deleting,
        "orphaning": entry.orphaning,
    }
    if (fingerprint := entry.fingerprint) is not None:
        out["fingerprint"] = {
            "resourceVersion": fingerprint.resource_version,
            "generation": fingerprint.generation,
            "managedFields": fingerprint.managed_fields,
            "time": fingerprint.time,
            "schema": fingerprint.schema,
        }
    return out


def _entry_in(raw: Mapping[str, Any]) -> InventoryEntry:
    stored = raw["fingerprint"]
    fingerprint = (
        None
        if stored is None
        else ApplyFingerprint(
            resource_version=typed(str, stored["resourceVersion"]),
            generation=_maybe_int(stored["generation"]),
            managed_fields=typed(str, stored["managedFields"]),
            time=typed(str, stored["time"]),
            schema=_maybe_int(stored["schema"]),
        )
    )
    return InventoryEntry(
        ref=_ref_in(raw),
        plural=typed(str, raw["plural"]),
        version=typed(str, raw["version"]),
        uid_before_apply=_maybe_str(raw["uidBeforeApply"]),
        uid=typed(str, raw["uid"]),
        ownership=Ownership(raw["ownership"]),
        digest=typed(str, raw["digest"]),
        fingerprint=fingerprint,
        wave=_wave_in(raw["wave"]),
        depends_on=tuple(_ref_in(ref) for ref in raw["dependsOn"]),
        orphan_reason=typed(str, raw["orphanReason"]),
        deleting=typed(bool, raw["deleting"]),
        orphaning=typed(bool, raw["orphaning"]),
    )


def _ref_out(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _ref_in(raw: Mapping[str, Any]) -> Ref:
    ref = Ref(*(typed(str, raw[key]) for key in ("group", "kind", "namespace", "name")))
    if not ref.kind or not ref.name:
        raise ValueError("an entry does not name an object")
    return ref


def _wave_in(raw: object) -> Wave:
    wave, rank, depth = (typed(int, part) for part in typed(list, raw))
    return Wave(wave, rank, depth)


def _maybe_str(value: object) -> str | None:
    return None if value is None else typed(str, value)


def _maybe_int(value: object) -> int | None:
    return None if value is None else typed(int, value)
