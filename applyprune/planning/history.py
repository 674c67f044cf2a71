"""The history of a set: the objects of its last runs as they are stored, and how far back one goes.

It is information for people. Whoever may write the inventory may forge it, so nothing of it lifts a
guard, and what cannot be read is left out.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.errors import InventoryError, UsageError
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    MOST_RUNS,
    Inventory,
    ObjectsOfOutcome,
    RunRecord,
    is_object_id,
    short_commit,
)
from applyprune.model.kinds import INGRESS, SERVICE
from applyprune.model.live import CLAIMS, VOLUMES, one_line
from applyprune.model.options import Mode
from applyprune.model.text import and_more
from applyprune.values import encode

if TYPE_CHECKING:
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Problem


# The objects of the runs, compressed in one text: the run's ID, then outcome, number and objects.


MOST_REFS = 50
"""The objects of one outcome that a run records; of more, only the number."""
MOST_BYTES = 24 * 1024
"""Bytes of the stored text; beyond them the objects of the oldest runs go."""
_MOST_UNPACKED = 2**20
_VERSION = 1
_GZIP = 31
"""The ``wbits`` of a gzip stream, which people can unpack."""
ObjectsOfRun: TypeAlias = Mapping[Outcome, ObjectsOfOutcome]


def is_recorded(outcome: Outcome) -> bool:
    """Return whether the history names the objects with an outcome."""
    return outcome.is_change or outcome is Outcome.FAILED


def with_objects(stored: str, run: str, objects: ObjectsOfRun, kept: Iterable[str]) -> str:
    """Return the stored text with the objects of a run; of earlier runs those of ``kept`` stay."""
    known = _unpacked(stored)
    runs = {run: _encoded(objects)} if objects else {}
    runs |= {one: known[one] for one in islice(kept, MOST_RUNS - 1) if one in known and one != run}
    while runs:
        text = _packed(runs)
        if len(text) <= MOST_BYTES:
            return text
        runs.popitem()
    return ""


def objects_of(stored: str, run: str) -> ObjectsOfRun | None:
    """Return the objects of a run; None if they are not recorded any more, or unreadable."""
    found = _unpacked(stored).get(run)
    try:
        return None if found is None else _decoded(found)
    except (KeyError, TypeError, ValueError):
        return None


def unreadable_history(inventory: Inventory) -> InventoryError | None:
    """Return the error for stored objects that cannot be read; None if there is nothing wrong."""
    try:
        _unpack(inventory.objects_of_runs)
    except ValueError as error:
        return InventoryError(
            f"the history of the set {inventory.name} has no objects of its runs",
            reason=str(error),
            hint="Nothing else depends on it. The next run that changes something writes it again.",
        )
    return None


def _packed(runs: Mapping[str, Any]) -> str:
    content = encode({"version": _VERSION, "runs": runs})
    return base64.b64encode(zlib.compress(content, 9, _GZIP)).decode("ascii")


def _unpacked(text: str) -> Mapping[str, Any]:
    try:
        return _unpack(text)
    except ValueError:
        return {}


def _unpack(text: str) -> Mapping[str, Any]:
    """Return what is stored of each run; raise ValueError for what cannot be read."""
    if not text:
        return {}
    stream = zlib.decompressobj(_GZIP)
    try:
        content = stream.decompress(base64.b64decode(text, validate=True), _MOST_UNPACKED)
        found = json.loads(content) if stream.eof else None
    except (ValueError, zlib.error, RecursionError) as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it is cut off, or too large")  # noqa: TRY004 - what is stored
    if (version := found.get("version")) != _VERSION:
        raise ValueError(
            f"it has format {one_line(str(version))}, and this applyprune reads format {_VERSION}"
        )
    runs = found.get("runs")
    return runs if isinstance(runs, dict) else {}


def _encoded(objects: ObjectsOfRun) -> Any:
    return {
        str(outcome): [
            found.count,
            *(f"{r.group}/{r.kind}/{r.namespace}/{r.name}" for r in found.refs),
        ]
        for outcome, found in objects.items()
    }


def _decoded(stored: Any) -> ObjectsOfRun:
    found: dict[Outcome, ObjectsOfOutcome] = {}
    words = {str(outcome): outcome for outcome in Outcome}
    for word, (count, *refs) in dict(stored).items():
        if type(count) is not int:
            raise TypeError("not a number")
        parts = (one_line(str(ref)).split("/") for ref in refs[:MOST_REFS])
        objects = (Ref(group, kind, namespace, name) for group, kind, namespace, name in parts)
        found[words[word]] = ObjectsOfOutcome(count, tuple(objects))
    return found


def run_that_applied(inventory: Inventory, ref: Ref, time: str) -> RunRecord | None:
    """Return the run in which an object was applied at a time; None if it is not recorded any more.

    Both times are RFC 3339 in UTC: that of the run is its end. Two runs may end in one second: then
    it is the last one that has the object among those which it has changed.
    """
    later = [run for run in inventory.history if run.at >= time]
    for run in later:
        objects = objects_of(inventory.objects_of_runs, run.run) or {}
        if any(ref in found.refs for found in objects.values()):
            return run
    return min(later, key=lambda run: run.at, default=None)


# The run that a rollback goes back to.


def run_of(inventory: Inventory, number: int) -> RunRecord:
    """Return the run with a number; raise UsageError if it is not recorded."""
    for run in inventory.history:
        if run.number == number:
            return run
    known = ", ".join(str(run.number) for run in inventory.history if run.number)
    raise UsageError(
        f"the set {inventory.name} has no run {number}",
        reason=f"it records the runs {known}" if known else "it records no run",
        hint=f"See: applyprune history {inventory.name} -n {inventory.namespace}",
    )


def run_before(inventory: Inventory) -> RunRecord:
    """Return the run before the last one that changed something; raise UsageError without one."""
    history = inventory.history
    if len(history) > 1:
        return history[1]
    raise UsageError(
        f"the set {inventory.name} has nothing to go back to",
        reason=f"it records {'one run' if history else 'no run'} that changed something",
        hint="To delete the set: applyprune delete" if history else "",
    )


def refuse_rollback_to(run: RunRecord, inventory: Inventory) -> None:
    """Raise UsageError unless a run can be repeated: whole, without a failure, from a commit."""
    reason = _why_not(run)
    if not reason:
        return
    others = [one for one in inventory.history[1:] if one != run and not _why_not(one)]
    again = f"applyprune rollback {inventory.name}"
    hints = []
    if run.source.differs:
        commit = short_commit(run.source.commit)
        hints.append(f"To apply what the commit has, add --at {commit} to your apply.")
    if others:
        hints.append(f"Run {others[0].number} can be repeated: {again} {others[0].number}")
    raise UsageError(
        f"run {run.number} of the set {inventory.name} cannot be repeated",
        reason=reason,
        hint=" ".join(hints),
    )


_READ_AGAIN = {"filename", "kustomize"}


def _why_not(run: RunRecord) -> str:
    """Return the first reason why a run cannot be repeated; empty if it can be."""
    source = run.source
    paths = [path for paths in source.paths.values() for path in paths]
    outside = [path for path in paths if path.startswith("/") or ".." in path.split("/")]
    is_input = source.paths.keys() <= _READ_AGAIN and not outside
    reasons = (
        (run.exit_code is None, "it was not finished"),
        (run.mode != Mode.APPLY, f"it was not an apply, but: {run.mode}"),
        (bool(run.exit_code), f"it failed, with exit code {run.exit_code}"),
        (not run.is_whole, "it applied a part of its input, or did not prune"),
        (not source.commit, f"its input has no commit: {source.shown or 'it is not recorded'}"),
        (source.differs, f"files that it read were not those of the commit: {source.text}"),
        (not paths, f"its input is not read from a work tree: {source.text}"),
        # guard: rollback-commit
        (not is_object_id(source.commit), f"its record names no commit: {source.commit}"),
        # guard: rollback-inside
        (not is_input, f"its record names what is not in a work tree: {', '.join(outside)}"),
    )
    return next((reason for holds, reason in reasons if holds), "")


# What no rollback brings back.


_VOLUMES = frozenset({VOLUMES.group_kind, CLAIMS.group_kind})
_ADDRESSES = frozenset({SERVICE, INGRESS})
_SHOWN = 5


def not_brought_back(plan: Plan) -> Iterator[Problem]:
    """Yield a warning for each thing that the objects of a rollback had and will not have again."""
    new = [step.desired for step in plan.applies if step.fate in {Fate.CREATE, Fate.RECREATE}]
    for kinds, what in ((_VOLUMES, "its data"), (_ADDRESSES, "its address")):
        if refs := [one.ref.short for one in new if one.ref.group_kind in kinds]:
            yield UsageError(
                f"a rollback does not bring back {what}: {and_more(refs, _SHOWN)}",
                reason="the object is created new",
            ).problem
