"""``-o jsonl``: a line an event, as it comes; ``-o json``: one document, when all is over.

Both are ASCII: whatever a server or a manifest holds, nothing in them moves a terminal's cursor.

Events as plain JSON data: the schema ``applyprune.dev/output/v1``.

Every event is an object whose ``event`` names it; the names and keys are those of ``wire_names``.
Only what is entered there is ever taken apart: a type or a field that is new has to be entered
before it reaches anybody, and bodies, digests and live objects never do.
Within v1 keys and words are only added; none is taken away or gets another meaning.

A comparison explained for programs: a patch that does it, and a list of what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from applyprune._version import __version__
from applyprune.model.events import ObjectDiff, Outcome
from applyprune.model.manifest import Origin
from applyprune.model.plan import ApplyStep, Plan
from applyprune.output.collector import RunReport
from applyprune.output.wire_names import EVENT_NAMES, KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.model.events import Event
    from applyprune.model.plan import RemoveStep
    from applyprune.output.collector import ObjectReport
    from applyprune.output.printers import OutputTarget


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
        "mismatches": data(gathered.mismatches),
        "pruneBlocked": data(gathered.prune_blocked),
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
    done, compared = told.result, told.diff
    outcome = done.outcome if done else compared.outcome if compared else None
    return {
        "ref": data(told.ref),
        "origin": data(told.origin),
        "outcome": data(outcome),
        "reason": done.reason if done else "",
        "problem": data(told.problem),
        "readiness": data(told.readiness),
        "waited": data(told.wait_result.elapsed) if told.wait_result else None,
        "diff": _part(told.diff, "ref", "outcome", "origin"),
        "objectStatus": _part(told.status, "ref", "readiness"),
        "inventoryEntry": data(told.entry.entry) if told.entry else None,
        "explanation": _part(told.explanation, "ref", "origin"),
    }


def _part(event: Event | None, *elsewhere: str) -> dict[str, Any] | None:
    """Return an event as a part of its object, without what the object says ``elsewhere``."""
    if event is None:
        return None
    return {key: value for key, value in shape(event).items() if key not in {"event", *elsewhere}}


SCHEMA = "applyprune.dev/output/v1"


def shape(event: Event) -> dict[str, Any]:
    """Return an event as JSON data; a comparison also as a patch and as a list of changes."""
    told = {"event": EVENT_NAMES[type(event)], **_record(event)}
    return told | differences(event) if isinstance(event, ObjectDiff) else told


def differences(compared: ObjectDiff) -> dict[str, Any]:
    """Return what differs: as an RFC 6902 patch, and each difference with its values."""
    return {"patch": json_patch(compared), "changes": changes(compared)}


def data(value: object) -> Any:
    """Return a value that an event holds as JSON data; raise TypeError for one not to be shown."""
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Mapping):
        return {str(key): data(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [data(one) for one in value]
    if isinstance(value, Plan):
        return plan_data(value)
    return _record(value)


def plan_data(plan: Plan) -> dict[str, Any]:
    """Return of a plan what is to be done about each object and why, and never a body."""
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *plan.removals)
    return {
        "objects": [_step(one) for one in steps],
        "pruneSkipReason": plan.no_prune,
        "pruneBlocked": data(plan.refusal),
        "recovered": [data(entry.ref) for entry in plan.recovered],
        "restored": plan.restored,
    }


def _record(value: object) -> dict[str, Any]:
    kind: type = type(value)
    record = {key: data(getattr(value, name)) for name, key in _keys(kind)}
    if isinstance(value, Origin):
        # A place has no line 0: what a reader gets is a number, or that there is none.
        return {key: one or None for key, one in record.items()}
    return record


@cache
def _keys(kind: type) -> tuple[tuple[str, str], ...]:
    """Return each field of a type that is shown, and its key; raise TypeError for one without."""
    keys = KEYS.get(kind)
    if keys is None:
        raise TypeError(f"a {kind.__name__} is not for output")
    unnamed = {one.name for one in fields(kind)} - keys.keys()
    if unnamed:
        raise TypeError(f"no key on the wire for {kind.__name__}: {', '.join(sorted(unnamed))}")
    return tuple((name, key) for name, key in keys.items() if key is not None)


def _step(step: ApplyStep | RemoveStep) -> dict[str, Any]:
    desired = step.desired if isinstance(step, ApplyStep) else None
    return {
        "ref": data(step.entry.ref),
        "action": str(step.action),
        "reason": step.reason,
        "origin": data(desired.origin) if desired else None,
        "problem": data(step.problem),
    }


_KINDS = {
    "dictionary_item_added": "added",
    "iterable_item_added": "added",
    "dictionary_item_removed": "removed",
    "iterable_item_removed": "removed",
}


def json_patch(compared: ObjectDiff) -> Sequence[Mapping[str, Any]]:
    """Return the operations (RFC 6902) that make ``before`` of a comparison its ``after``.

    Of a Secret they hold the masks, not the values.
    """
    before, after = compared.before, compared.after
    if after is None:
        return [{"op": "remove", "path": ""}]
    if before is None:
        return [{"op": "add", "path": "", "value": after}]
    # Imported here, as deepdiff below: both take longer than most runs.
    from jsonpatch import make_patch

    patch: Sequence[Mapping[str, Any]] = make_patch(before, after).patch
    return patch


def changes(compared: ObjectDiff) -> Sequence[Mapping[str, Any]]:
    """Return each difference: ``path`` (a JSON pointer), ``kind`` and the values.

    The kind is ``added`` (with ``new``), ``removed`` (with ``old``) or ``changed`` (with both); an
    object that comes or goes as a whole is one change of the path "". deepdiff takes some 12 ms.
    """
    before, after = compared.before, compared.after
    if before is None or after is None:
        if before is after:
            return []
        whole = {"kind": "added", "new": after} if before is None else {"kind": "removed"}
        return [{"path": "", **whole, **({"old": before} if after is None else {})}]
    from deepdiff import DeepDiff

    tree = DeepDiff(before, after, view="tree")
    found = [_change(kind, node) for kind, nodes in tree.items() for node in nodes]
    return sorted(found, key=lambda one: str(one["path"]))


def _change(kind: str, node: Any) -> Mapping[str, Any]:
    steps = node.path(output_format="list")
    path = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    word = _KINDS.get(kind, "changed")
    old = {} if word == "added" else {"old": node.t1}
    new = {} if word == "removed" else {"new": node.t2}
    return {"path": path, "kind": word, **old, **new}
