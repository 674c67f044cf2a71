"""Entries ⇄ lines: one line of JSON for each object of a set, read back strictly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from applyprune.model.inventory import Entry, Evidence, Made
from applyprune.model.refs import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")

_TIGHT = (",", ":")


def lines_of(entries: Iterable[Entry]) -> list[tuple[Ref, bytes]]:
    """Return each entry's ref and its line, with the newline, in the order of the refs."""
    # A tuple compares many times faster than a dataclass; there may be 100,000 of them.
    ordered = sorted(
        entries,
        key=lambda one: (one.ref.group, one.ref.kind, one.ref.namespace, one.ref.name),
    )
    return [(entry.ref, _line(entry)) for entry in ordered]


def entries_of(lines: bytes) -> list[Entry]:
    """Return the entries; raises ValueError, TypeError or KeyError for anything else."""
    # Only a newline ends a line: names may hold what Python's splitlines takes for an end.
    return [_entry_in(json.loads(line)) for line in lines.split(b"\n") if line]


def typed(kind: type[T], value: object) -> T:
    """Return the value when it is of exactly that type; raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _line(entry: Entry) -> bytes:
    return f"{json.dumps(_entry_out(entry), ensure_ascii=False, separators=_TIGHT)}\n".encode()


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
        "lettingGo": entry.letting_go,
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
    evidence = (
        None
        if found is None
        else Evidence(
            resource_version=typed(str, found["resourceVersion"]),
            generation=_maybe_int(found["generation"]),
            managed=typed(str, found["managed"]),
            time=typed(str, found["time"]),
            schema=_maybe_int(found["schema"]),
        )
    )
    return Entry(
        ref=_ref_in(raw),
        plural=typed(str, raw["plural"]),
        version=typed(str, raw["version"]),
        found=typed(str, raw["found"]),
        uid=typed(str, raw["uid"]),
        made=Made(raw["made"]),
        digest=typed(str, raw["digest"]),
        evidence=evidence,
        wave=typed(int, raw["wave"]),
        after=tuple(_ref_in(one) for one in raw["after"]),
        keep=typed(str, raw["keep"]),
        deleting=typed(bool, raw["deleting"]),
        letting_go=typed(bool, raw["lettingGo"]),
    )


def _ref_out(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _ref_in(raw: Mapping[str, Any]) -> Ref:
    ref = Ref(*(typed(str, raw[key]) for key in ("group", "kind", "namespace", "name")))
    if not ref.kind or not ref.name:
        raise ValueError("an entry names no object")
    return ref


def _maybe_int(value: object) -> int | None:
    return None if value is None else typed(int, value)
