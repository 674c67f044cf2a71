"""``-o jsonl``: a line an event, as it comes; ``-o json``: one document, when all is over.

Both are ASCII: whatever a server or a manifest holds, nothing in them moves a terminal's cursor.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune._version import __version__
from applyprune.model.events import Outcome
from applyprune.output.gathering import RunReport
from applyprune.output.shapes import SCHEMA, data, plan_data, shape

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from applyprune.output.gathering import ObjectReport
    from applyprune.output.screen import OutputTarget


class JsonLinesPrinter:
    """Writes each event as a line of its own, at once; the first line says schema and version.

    So every line is valid alone, and whatever is left of a stream that was cut at a line is valid.
    """

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the lines go; nothing is written yet."""
        self._out = screen.out
        self._begun = False

    def show(self, event: Event) -> None:
        """Write one event."""
        self._begin()
        self._out(dumped(shape(event)))

    def close(self) -> None:
        """Write the first line, where there was no event."""
        self._begin()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._out(dumped({"event": "output", "schema": SCHEMA, "version": __version__}))


class JsonPrinter:
    """Writes one document at the end; until then a file holds one that is not finished."""

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the document goes."""
        self._out = screen.out
        self._gathered = RunReport()
        screen.draft(self._text())

    def show(self, event: Event) -> None:
        """Keep one event."""
        self._gathered.take(event)

    def close(self) -> None:
        """Write the document."""
        self._out(self._text())

    def _text(self) -> str:
        return dumped(document(self._gathered), indent=2)


def document(gathered: RunReport) -> dict[str, Any]:
    """Return what ``-o json`` writes; every key is there whatever happened.

    ``finished`` is false, and ``exitCode`` null, when the stream was cut off. What was asked for
    versions only has a document of its own.
    """
    if gathered.versions is not None and gathered.started is None:
        return version_document(gathered)
    started, finished = gathered.started, gathered.finished
    name, namespace = gathered.name
    return {
        "schema": SCHEMA,
        "version": __version__,
        "set": {"name": name, "namespace": namespace} if name else None,
        "run": started.run if started else None,
        "mode": str(started.mode) if started else None,
        "dryRun": str(started.dry_run) if started else None,
        "plan": plan_data(gathered.plan) if gathered.plan else None,
        "objects": [_object(one) for one in gathered.objects],
        "applySets": [data(one) for one in gathered.sets.values()],
        "warnings": data(gathered.warnings),
        "mismatches": data(gathered.findings),
        "pruneBlocked": data(gathered.refusal),
        "errors": data(gathered.errors),
        "counts": {str(one): finished.counts.get(one, 0) for one in Outcome} if finished else None,
        "problem": data(finished.problem) if finished else None,
        "finished": finished is not None,
        "exitCode": finished.exit_code if finished else None,
        "elapsed": data(finished.elapsed) if finished else None,
    }


def version_document(gathered: RunReport) -> dict[str, Any]:
    """Return the document of ``version``; ``errors`` says why a server has not answered."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        **data(gathered.versions),
        "errors": data(gathered.errors),
    }


def dumped(value: object, indent: int | None = None) -> str:
    """Return JSON in ASCII, DEL escaped as well."""
    separators = (",", ":") if indent is None else None
    return json.dumps(value, indent=indent, separators=separators).replace("\x7f", "\\u007f")


def _object(told: ObjectReport) -> dict[str, Any]:
    done, compared = told.done, told.compared
    outcome = done.outcome if done else compared.outcome if compared else None
    return {
        "ref": data(told.ref),
        "origin": data(told.origin),
        "outcome": data(outcome),
        "reason": done.reason if done else "",
        "problem": data(told.problem),
        "readiness": data(told.readiness),
        "waited": data(told.assessed.elapsed) if told.assessed else None,
        "diff": _part(told.compared, "ref", "outcome", "origin"),
        "objectStatus": _part(told.standing, "ref", "readiness"),
        "inventoryEntry": data(told.listed.entry) if told.listed else None,
        "explanation": _part(told.explained, "ref", "origin"),
    }


def _part(event: Event | None, *elsewhere: str) -> dict[str, Any] | None:
    """Return an event as a part of its object, without what the object says ``elsewhere``."""
    if event is None:
        return None
    return {key: value for key, value in shape(event).items() if key not in {"event", *elsewhere}}
