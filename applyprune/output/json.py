"""``-o jsonl``: one line for each event, at once; ``-o json``: one document, at the end.

Both are ASCII, so that no text of a server or a manifest can move a terminal's cursor. Within the
schema v1 keys and words are only added; none is removed or changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from applyprune._version import __version__
from applyprune.model.events import (
    ApplySetListed,
    ContainerLog,
    EntryListed,
    ErrorRaised,
    Event,
    Explanation,
    FieldsOfManager,
    Finished,
    InventoryWritten,
    MismatchFound,
    ObjectBelongs,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    ObjectStuck,
    Pending,
    Planned,
    PruneBlocked,
    Readiness,
    ReadinessReported,
    RetryReported,
    RunListed,
    SetEvent,
    SetsBegan,
    Started,
    TreeNode,
    Waiting,
    WarningEvent,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import (
    InventoryEntry,
    Mismatch,
    ObjectsOfOutcome,
    RunRecord,
    RunSource,
)
from applyprune.model.plan import (
    ApplyStep,
    Consequence,
    GuardResult,
    Plan,
    RemoveStep,
    ToolRecord,
    wait_reason,
)
from applyprune.model.problem import ContestedField, ManagerConflict, Mark, Origin, Problem
from applyprune.model.reports import (
    ArtifactPushed,
    ImportEnded,
    InputChecked,
    ManifestMade,
    OwnerFound,
    VersionReport,
)
from applyprune.output.printers import OutputTarget
from applyprune.output.report import ObjectReport, RunReport, with_members
from applyprune.values import pattern

if TYPE_CHECKING:
    from msgspec import Struct

_SCHEMA = "applyprune.dev/output/v1"


class JsonLinesPrinter:
    """Writes each event as one line, at once; the first line names the schema and the version.

    Each line is valid by itself, so a stream that was cut off after a line is still valid.
    """

    def __init__(self, target: OutputTarget) -> None:
        self._out = target.out
        self._begun = False

    def show(self, event: Event) -> None:
        """Write one event."""
        self._begin()
        self._out(to_json(event_data(event)))

    def close(self) -> None:
        """Write the first line if there was no event."""
        self._begin()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._out(to_json({"event": "output", "schema": _SCHEMA, "version": __version__}))


class JsonPrinter:
    """Writes one document at the end; until then a file contains an unfinished one."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output, and write the unfinished document to a file."""
        self._out = target.out
        self._report = RunReport()
        target.draft(self._text())

    def show(self, event: Event) -> None:
        """Keep one event."""
        self._report.take(event)

    def close(self) -> None:
        """Write the document."""
        self._out(self._text())

    def _text(self) -> str:
        return to_json(document(self._report), indent=2)


def document(report: RunReport) -> dict[str, Any]:
    """Return the document of ``-o json``; it always has all keys.

    ``finished`` is false and ``exitCode`` is null if the stream was cut off. Of many sets, each has
    a document in ``sets``, and what all of them share stands at the top. The verb ``version`` has a
    document of its own.
    """
    if report.versions is not None and report.started is None:
        return version_document(report)
    started, finished = report.started, report.finished
    name, namespace = report.name
    return {
        "schema": _SCHEMA,
        "version": __version__,
        "set": {"name": name, "namespace": namespace} if name else None,
        "run": started.run if started else None,
        **{key: _shared(report, key) for key in ("mode", "dryRun", "context", "server")},
        "plan": plan_data(report.plan) if report.plan else None,
        "objects": [_object(object_report) for object_report in report.objects],
        "sets": [
            {**document(one), "set": set_data(key, one.input)}
            for key, one in report.members.items()
        ],
        "applySets": [data(applyset) for applyset in report.sets.values()],
        "runs": [{**data(one.run), "objects": data(one.objects)} for one in report.runs],
        "belongs": data(report.belongs),
        "artifact": data(report.artifact),
        "inputChecked": data(report.input_checked),
        "manifests": data(report.manifests),
        "owners": data(report.owners),
        "imported": data(report.imported),
        "warnings": data(report.warnings),
        "mismatches": data(report.mismatches),
        "pruneBlocked": data(report.prune_blocked),
        "errors": data(report.errors),
        "counts": {str(outcome): finished.counts.get(outcome, 0) for outcome in Outcome}
        if finished
        else None,
        "problem": data(finished.problem) if finished else None,
        "finished": finished is not None,
        "exitCode": finished.exit_code if finished else None,
        "elapsed": data(finished.elapsed) if finished else None,
    }


def _shared(report: RunReport, key: str) -> Any:
    """Return a value of the run, or the one that the runs of many sets share; None if none."""
    found = {_record(one.started)[key] for one in with_members(report) if one.started is not None}
    return found.pop() if len(found) == 1 else None


def version_document(report: RunReport) -> dict[str, Any]:
    """Return the document of ``version``; ``errors`` says why the server did not answer."""
    return {
        "schema": _SCHEMA,
        "version": __version__,
        **data(report.versions),
        "errors": data(report.errors),
    }


def _object(object_report: ObjectReport) -> dict[str, Any]:
    result = object_report.result
    outcome = result.outcome if result else None
    return {
        "ref": data(object_report.ref),
        "origin": data(object_report.origin),
        "outcome": data(outcome),
        "reason": result.reason if result else "",
        "problem": data(object_report.problem),
        "readiness": data(object_report.readiness),
        "waited": data(object_report.wait_result.elapsed) if object_report.wait_result else None,
        "diff": _part(object_report.diff, "ref", "origin"),
        "objectStatus": _part(object_report.status, "ref", "readiness"),
        "inventoryEntry": data(object_report.entry.entry) if object_report.entry else None,
        "explanation": _part(object_report.explanation, "ref", "origin"),
    }


def _part(event: Event | None, *elsewhere: str) -> dict[str, Any] | None:
    """Return an event as a part of its object, without the keys that are ``elsewhere`` in it."""
    if event is None:
        return None
    return {
        key: value for key, value in event_data(event).items() if key not in {"event", *elsewhere}
    }


def event_data(event: Event) -> dict[str, Any]:
    """Return an event as JSON data; a diff also gets its patch and its list of changes.

    One of many sets says in ``set`` whose it is.
    """
    if isinstance(event, SetEvent):
        return {**event_data(event.event), "set": set_data(event.key, event.input)}
    record = {"event": EVENT_NAMES[type(event)], **_record(event)}
    if isinstance(event, ObjectDiff):
        record |= {"patch": json_patch(event), "changes": changes(event)}
    return record


def set_data(key: SetKey, folder: str) -> dict[str, Any]:
    """Return which one of many sets it is, and the folder of its files."""
    return {"name": key.name, "namespace": key.namespace, "input": folder}


def json_patch(diff: ObjectDiff) -> Sequence[Mapping[str, Any]]:
    """Return the RFC 6902 operations that turn ``before`` of a diff into its ``after``.

    For a Secret they contain the masks, not the values.
    """
    before, after = diff.before, diff.after
    if after is None:
        return [{"op": "remove", "path": ""}]
    if before is None:
        return [{"op": "add", "path": "", "value": after}]
    # Imported here, like deepdiff below: both imports take longer than most runs.
    from jsonpatch import make_patch

    patch: Sequence[Mapping[str, Any]] = make_patch(before, after).patch
    return patch


def changes(diff: ObjectDiff) -> Sequence[Mapping[str, Any]]:
    """Return each difference: ``path`` (a JSON pointer), ``kind`` and the values.

    The kind is ``added`` (with ``new``), ``removed`` (with ``old``) or ``changed`` (with both). An
    object that is created or deleted is one change at the path "". deepdiff takes about 12 ms.
    """
    before, after = diff.before, diff.after
    if before is None or after is None:
        if before is after:
            return []
        whole = {"kind": "added", "new": after} if before is None else {"kind": "removed"}
        return [{"path": "", **whole, **({"old": before} if after is None else {})}]
    from deepdiff import DeepDiff

    tree = DeepDiff(before, after, view="tree")
    found = [_change(kind, node) for kind, nodes in tree.items() for node in nodes]
    return sorted(found, key=lambda change: str(change["path"]))


_KINDS = {
    "dictionary_item_added": "added",
    "iterable_item_added": "added",
    "dictionary_item_removed": "removed",
    "iterable_item_removed": "removed",
}


def _change(kind: str, node: Any) -> Mapping[str, Any]:
    steps = node.path(output_format="list")
    path = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    word = _KINDS.get(kind, "changed")
    old = {} if word == "added" else {"old": node.t1}
    new = {} if word == "removed" else {"new": node.t2}
    return {"path": path, "kind": word, **old, **new}


def data(value: object) -> Any:
    """Return a value of an event as JSON data; raise TypeError for a type that is never shown."""
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Mapping):
        return {str(key): data(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [data(part) for part in value]
    if isinstance(value, Plan):
        return plan_data(value)
    return _record(value)


def plan_data(plan: Plan) -> dict[str, Any]:
    """Return the fate of each object of a plan with its reason, the guards and consequences.

    No body of an object is in it.
    """
    return {
        "objects": [_step(step) for step in plan.steps],
        "pruneSkipReason": plan.no_prune,
        "pruneWaitReason": wait_reason(plan.removals),
        "guards": data(plan.guards),
        "pruneBlocked": data(plan.refusal),
        "recovered": [data(entry.ref) for entry in plan.recovered],
        "restored": plan.restored,
        "newSet": plan.new_set,
        "consequences": data(plan.consequences),
        "toolRecords": data(plan.records),
        "deletions": plan.deletions,
        "digest": plan.digest,
    }


def _step(step: ApplyStep | RemoveStep) -> dict[str, Any]:
    desired = step.desired if isinstance(step, ApplyStep) else None
    ignored = step.ignored if isinstance(step, RemoveStep) else ""
    return {
        "ref": data(step.entry.ref),
        "fate": str(step.fate),
        "reason": "; ".join(filter(None, (step.reason, ignored))),
        "notChecked": step.not_checked,
        "takenFrom": list(step.taken_from) if isinstance(step, ApplyStep) else [],
        "reverts": [
            {"path": path, "manager": who}
            for path, who in (step.reverts if isinstance(step, ApplyStep) else ())
        ],
        "origin": data(desired.origin) if desired else None,
        "problem": data(step.problem),
    }


def _record(value: object) -> dict[str, Any]:
    kind: type = type(value)
    record = {key: data(getattr(value, name)) for name, key in _keys(kind)}
    for key in _NULL_IF_UNKNOWN.get(kind, ()):
        if record[key] in _UNKNOWN:
            record[key] = None
    return record


# What is null if it is unknown or absent. Lines and columns start at 1, no name or time is empty,
# and a value is JSON.
_NULL_IF_UNKNOWN: Mapping[type, Sequence[str]] = MappingProxyType(
    {
        Origin: ("path", "document", "line", "column"),
        Drift: ("manager", "operation", "time"),
        ManagerConflict: ("operation", "subresource", "time"),
        ContestedField: ("ours", "theirs"),
        FieldsOfManager: ("time",),
        WarningEvent: ("last",),
    }
)
_UNKNOWN = frozenset({"", 0, "none"})


@cache
def _keys(kind: type) -> tuple[tuple[str, str], ...]:
    """Return each shown field of a type and its key; raise TypeError for a field without one."""
    keys = KEYS.get(kind)
    if keys is None:
        raise TypeError(f"a {kind.__name__} is not for output")
    unnamed = {*cast("type[Struct]", kind).__struct_fields__} - keys.keys()
    if unnamed:
        raise TypeError(f"no key on the wire for {kind.__name__}: {', '.join(sorted(unnamed))}")
    return tuple((name, key) for name, key in keys.items() if key is not None)


# As in ``model.text.without_commands``; no line of JSON begins with ``::``.
_COMMAND = pattern(r"#(?=#\w*\[)")


def to_json(value: object, indent: int | None = None) -> str:
    """Return JSON in ASCII, with escapes for DEL and for what the runner of a pipeline obeys."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators)
    return _COMMAND.sub(r"\\u0023", text.replace("\x7f", "\\u007f"))


# The wire names, which are the contract ``applyprune.dev/output/v1``. A class or an attribute may
# be renamed in the code; its wire name, in quotes and right of ``=``, never changes. A hidden field
# is never shown, and one without a key is an error.


EVENT_NAMES: Mapping[type, str] = MappingProxyType(
    {
        Started: "started",
        Planned: "planned",
        InventoryWritten: "inventoryWritten",
        ObjectDone: "object",
        ReadinessReported: "readiness",
        ObjectStuck: "stuck",
        Waiting: "waiting",
        RetryReported: "retry",
        WarningRaised: "warning",
        MismatchFound: "inventoryMismatch",
        PruneBlocked: "pruneBlocked",
        ObjectDiff: "diff",
        ObjectStatus: "objectStatus",
        ApplySetListed: "applySet",
        EntryListed: "inventoryEntry",
        RunListed: "inventoryRun",
        Explanation: "explanation",
        ObjectBelongs: "objectBelongs",
        ArtifactPushed: "artifact",
        InputChecked: "inputChecked",
        ManifestMade: "manifest",
        OwnerFound: "owner",
        ImportEnded: "imported",
        VersionReport: "version",
        ErrorRaised: "error",
        SetsBegan: "sets",
        Finished: "finished",
    }
)
"""The name of each event."""


def _keys_in(shown: str, *, hidden: str = "") -> Mapping[str, str | None]:
    """Return the key of each attribute: ``ATTRIBUTE=KEY``, or one word if they are equal."""
    pairs = (name.partition("=") for name in shown.split())
    return {name: key or name for name, _, key in pairs} | dict.fromkeys(hidden.split())


KEYS: Mapping[type, Mapping[str, str | None]] = MappingProxyType(
    {
        Started: _keys_in("run mode name namespace dry_run=dryRun context server"),
        Planned: _keys_in("plan"),
        InventoryWritten: _keys_in("phase entries generation"),
        # A warning of the run names what is rewritten. The fingerprint is for the controller only:
        # it tells its own writes from those of others.
        ObjectDone: _keys_in("ref outcome origin reason problem", hidden="rewritten fingerprint"),
        ReadinessReported: _keys_in("ref readiness elapsed problem"),
        ObjectStuck: _keys_in("ref readiness elapsed"),
        RetryReported: _keys_in("what message tries=try elapsed reason"),
        Waiting: _keys_in("ref what=condition elapsed timeout reason others count"),
        Pending: _keys_in("ref reason"),
        WarningRaised: _keys_in("problem"),
        MismatchFound: _keys_in("mismatch"),
        # For the repair only: the entry to write, and the live object.
        Mismatch: _keys_in("type repair message ref", hidden="entry live resource owned"),
        PruneBlocked: _keys_in("problem"),
        ObjectDiff: _keys_in("ref fate before after origin not_checked=notChecked drifted drift"),
        Drift: _keys_in("path wanted=desired found=live manager operation time"),
        ObjectStatus: _keys_in(
            "ref readiness ownership age drifted drift name namespace wave events "
            "not_read=notRead logs tree"
        ),
        WarningEvent: _keys_in("about reason message count last"),
        ContainerLog: _keys_in("pod container previous lines problem"),
        TreeNode: _keys_in("ref ready state restarts age owned"),
        ApplySetListed: _keys_in("name namespace objects ready last=lastRun owner holder problem"),
        RunRecord: _keys_in(
            "run number mode who at exit_code=exitCode actor url source is_whole=whole created "
            "changed pruned",
        ),
        RunSource: _keys_in("shown commit differs paths"),
        RunListed: _keys_in("name namespace run objects"),
        ObjectsOfOutcome: _keys_in("count refs"),
        EntryListed: _keys_in("name namespace entry"),
        # For the next run only: what proves that the object is unchanged, what it may take back or
        # remove, what tells a Job that its TTL removed from a deleted one, that the kind is gone.
        InventoryEntry: _keys_in(
            "ref plural version uid_before_apply=uidBeforeApply uid ownership wave "
            "depends_on=dependsOn orphan_reason=orphanReason deleting orphaning",
            hidden="digest stored defaulted fingerprint owned_fields marks job crd changed offered",
        ),
        Explanation: _keys_in("ref verdict reasons origin passed"),
        ObjectBelongs: _keys_in("ref owners applied source managers more"),
        FieldsOfManager: _keys_in("who fields more time"),
        ArtifactPushed: _keys_in("artifact digest objects dry_run=dryRun"),
        InputChecked: _keys_in("objects unknown=unknownKinds sets checksum"),
        ManifestMade: _keys_in("ref tool path manifest"),
        OwnerFound: _keys_in("owner namespace count kinds source"),
        ImportEnded: _keys_in("kinds left_out=leftOut path next"),
        VersionReport: _keys_in("client python platform server"),
        ErrorRaised: _keys_in("problem"),
        SetsBegan: _keys_in("count"),
        Finished: _keys_in("counts exit_code=exitCode elapsed problem"),
        GuardResult: _keys_in("guard verdict message option lifted_by=liftedBy"),
        Consequence: _keys_in("kind ref message count refs certain"),
        ToolRecord: _keys_in("tool owner objects command runs"),
        Problem: _keys_in(
            "kind message location reason hint exit_code=exitCode origin field excerpt marks "
            "conflicts",
            hidden="lasting_reason remedy",
        ),
        Mark: _keys_in("field note origin"),
        ManagerConflict: _keys_in("manager operation subresource time fields"),
        ContestedField: _keys_in("field path ours theirs"),
        Origin: _keys_in("path document line column"),
        Readiness: _keys_in("status message stuck warning", hidden="lasting_message"),
        Ref: _keys_in("group kind namespace name"),
    }
)
"""The key of each shown field; a Plan has a form of its own."""
