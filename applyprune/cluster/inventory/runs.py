"""Encode the records of a set's runs for the header of its inventory, and decode them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from applyprune.cluster.inventory.entries import typed
from applyprune.model.inventory import MOST_RUNS, RunRecord

_MOST_BYTES_OF_RUNS = 16 * 1024
_OPTIONAL: Mapping[str, type] = {
    "actor": str,
    "commit": str,
    "url": str,
    "created": int,
    "changed": int,
    "pruned": int,
}
"""The fields of a run that are stored unless they are empty."""


def run_out(record: RunRecord | None) -> dict[str, Any] | None:
    """Return a record as it is stored."""
    if record is None:
        return None
    return {
        "run": record.run,
        "mode": record.mode,
        "who": record.who,
        "at": record.at,
        "exitCode": record.exit_code,
        **{key: value for key in _OPTIONAL if (value := getattr(record, key))},
    }


def run_in(raw: Mapping[str, Any] | None) -> RunRecord | None:
    """Return a stored record; raise KeyError, TypeError or ValueError if it is unreadable."""
    if raw is None:
        return None
    code = raw["exitCode"]
    return RunRecord(
        run=typed(str, raw["run"]),
        mode=typed(str, raw["mode"]),
        who=typed(str, raw["who"]),
        at=typed(str, raw["at"]),
        exit_code=None if code is None else typed(int, code),
        **{key: typed(kind, raw[key]) for key, kind in _OPTIONAL.items() if key in raw},
    )


def earlier_out(records: Sequence[RunRecord]) -> list[dict[str, Any] | None]:
    """Return the newest records, as many as fit: they must not use the room of the entries."""
    found: list[dict[str, Any] | None] = []
    size = 0
    for record in records[:MOST_RUNS]:
        found.append(run_out(record))
        size += len(json.dumps(found[-1]))
        if size > _MOST_BYTES_OF_RUNS:
            return found[:-1]
    return found


def earlier_in(raw: object) -> tuple[RunRecord, ...]:
    """Return the readable records: nothing depends on them, so none makes an inventory unreadable.

    An older version has written none.
    """
    found: list[RunRecord] = []
    for part in raw if isinstance(raw, list) else ():
        with suppress(KeyError, TypeError, ValueError):
            if (record := run_in(part)) is not None:
                found.append(record)
    return tuple(found[:MOST_RUNS])
