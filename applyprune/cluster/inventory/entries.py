"""Encode entries as lines of JSON, one for each object, and decode them strictly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

from applyprune.cluster.json_text import json_value
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    ApplyFingerprint,
    InventoryEntry,
    JobRecord,
    Ownership,
    Wave,
)
from applyprune.planning.fields.normalize import canonical_text
from applyprune.values import dataclass, encode

T = TypeVar("T")

_LONGEST_SHOWN = 100
# In memory, a line may take twenty times its bytes. The server's limit for an object is 1.5 MiB.
_LONGEST_LINE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """The line of one entry, without the number of its field set."""

    ref: Ref
    text: str
    """The JSON text of the entry, without its closing brace."""
    owned_fields: str
    """The JSON text of its field set; empty if there is none."""


def lines_of(entries: Iterable[InventoryEntry]) -> list[Line]:
    """Return a line for each entry, in the order of the refs."""
    # A tuple compares many times faster than a dataclass, and a set may have 100,000 entries.
    ordered = sorted(
        entries,
        key=lambda entry: (entry.ref.group, entry.ref.kind, entry.ref.namespace, entry.ref.name),
    )
    return [
        Line(
            entry.ref,
            encode(_entry_out(entry)).decode()[:-1],
            entry.owned_fields,
        )
        for entry in ordered
    ]


def block_of(lines: Sequence[Line]) -> bytes:
    """Return lines as they are stored, after the distinct field sets that their entries own.

    Most objects of a kind own the same fields. So each set is stored once, and an entry has its
    number in the block.
    """
    numbers: dict[str, int] = {}
    texts = []
    for line in lines:
        number = ""
        if line.owned_fields:
            index = numbers.setdefault(line.owned_fields, len(numbers))
            number = f',"ownedFields":{index}'
        texts.append(f"{line.text}{number}}}\n")
    sets = (f'{{"fieldSet":{fields},"number":{index}}}\n' for fields, index in numbers.items())
    return "".join([*sets, *texts]).encode()


def entries_of(lines: bytes) -> list[InventoryEntry]:
    """Return the entries in one or more blocks.

    Raises ValueError, TypeError or KeyError for anything else.
    """
    field_sets: dict[int, str] = {}
    found = []
    # Only a newline ends a line: splitlines would also split at other characters in names.
    for line in lines.split(b"\n"):
        if not line:
            continue
        if len(line) > _LONGEST_LINE:  # guard: longest-line
            raise ValueError(f"an entry is larger than {_LONGEST_LINE >> 20} MiB")
        raw = json_value(line)
        if "fieldSet" in raw:
            # Each block has its own numbers.
            field_sets[typed(int, raw["number"])] = canonical_text(typed(dict, raw["fieldSet"]))
        else:
            found.append(_entry_in(raw, field_sets))
    return found


def typed(kind: type[T], value: object) -> T:
    """Return the value if it has exactly that type; raise TypeError otherwise."""
    if type(value) is not kind:
        raise TypeError(f"{repr(value)[:_LONGEST_SHOWN]} is not of type {kind.__name__}")
    return value


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
    if entry.marks:
        out["marks"] = list(entry.marks)
    if entry.stored:
        out["stored"] = entry.stored
    if entry.crd:
        out["crd"] = entry.crd
    if (fingerprint := entry.fingerprint) is not None:
        out["fingerprint"] = {
            "resourceVersion": fingerprint.resource_version,
            "generation": fingerprint.generation,
            "managedFields": fingerprint.managed_fields,
            "time": fingerprint.time,
            "schema": fingerprint.schema,
        }
    if (job := entry.job) is not None:
        out["job"] = {"created": job.created, "ttl": job.ttl, "completed": job.completed}
    return out


def _entry_in(raw: Mapping[str, Any], field_sets: Mapping[int, str]) -> InventoryEntry:
    number = raw.get("ownedFields")
    stored = raw["fingerprint"]
    fingerprint = (
        None
        if stored is None
        else ApplyFingerprint(
            resource_version=typed(str, stored["resourceVersion"]),
            generation=_maybe_int(stored["generation"]),
            managed_fields=_common(stored["managedFields"]),
            time=_common(stored["time"]),
            schema=_maybe_int(stored["schema"]),
        )
    )
    return InventoryEntry(
        ref=_ref_in(raw),
        plural=_common(raw["plural"]),
        version=_common(raw["version"]),
        uid_before_apply=_maybe_str(raw["uidBeforeApply"]),
        uid=typed(str, raw["uid"]),
        ownership=Ownership(raw["ownership"]),
        digest=typed(str, raw["digest"]),
        stored=typed(str, raw.get("stored", "")),
        fingerprint=fingerprint,
        owned_fields="" if number is None else field_sets[typed(int, number)],
        marks=tuple(typed(str, mark) for mark in typed(list, raw.get("marks", []))),
        wave=_wave_in(raw["wave"]),
        depends_on=tuple(_ref_in(ref) for ref in raw["dependsOn"]),
        orphan_reason=typed(str, raw["orphanReason"]),
        deleting=typed(bool, raw["deleting"]),
        orphaning=typed(bool, raw["orphaning"]),
        job=_job_in(raw.get("job")),
        crd=typed(str, raw.get("crd", "")),
    )


def _job_in(raw: Mapping[str, Any] | None) -> JobRecord | None:
    if raw is None:
        return None
    return JobRecord(
        typed(str, raw["created"]), typed(int, raw["ttl"]), completed=typed(bool, raw["completed"])
    )


def _ref_out(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _ref_in(raw: Mapping[str, Any]) -> Ref:
    group, kind, namespace = (_common(raw[key]) for key in ("group", "kind", "namespace"))
    ref = Ref(group, kind, namespace, typed(str, raw["name"]))
    if not ref.kind or not ref.name:
        raise ValueError("an entry does not name an object")
    return ref


def _wave_in(raw: object) -> Wave:
    wave, rank, depth = (typed(int, part) for part in typed(list, raw))
    return _wave(wave, rank, depth)


_wave = lru_cache(64)(Wave)


def _common(value: object) -> str:
    """Return a text that many entries have: they share it."""
    return intern(typed(str, value))


def _maybe_str(value: object) -> str | None:
    return None if value is None else typed(str, value)


def _maybe_int(value: object) -> int | None:
    return None if value is None else typed(int, value)
