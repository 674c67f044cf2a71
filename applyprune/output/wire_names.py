"""The names on the wire: each event's, and the key of each field, whatever the code calls them.

This is the contract ``applyprune.dev/output/v1``. A class or an attribute may get another name in
the code; what stands here on the right stays. A field whose key is None is never shown.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from applyprune.model.events import (
    Assessed,
    Compared,
    Done,
    Drift,
    Enrolled,
    Explained,
    Failed,
    Finished,
    Found,
    Listed,
    Pending,
    Planned,
    Recorded,
    Refused,
    Standing,
    Started,
    Versions,
    Waiting,
    Warned,
)
from applyprune.model.findings import Finding
from applyprune.model.inventory import Entry, LastRun
from applyprune.model.manifests import Origin
from applyprune.model.problems import ContestedField, ManagerConflict, Mark, Problem
from applyprune.model.readiness import Readiness
from applyprune.model.refs import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

EVENT_NAMES: Mapping[type, str] = MappingProxyType(
    {
        Started: "started",
        Planned: "planned",
        Recorded: "inventoryWritten",
        Done: "object",
        Assessed: "readiness",
        Waiting: "waiting",
        Warned: "warning",
        Found: "inventoryMismatch",
        Refused: "pruneBlocked",
        Compared: "diff",
        Standing: "objectStatus",
        Enrolled: "applySet",
        Listed: "inventoryEntry",
        Explained: "explanation",
        Versions: "version",
        Failed: "error",
        Finished: "finished",
    }
)
"""The word of each event."""

KEYS: Mapping[type, Mapping[str, str | None]] = MappingProxyType(
    {
        Started: {
            "run": "run",
            "mode": "mode",
            "name": "name",
            "namespace": "namespace",
            "dry_run": "dryRun",
        },
        Planned: {"plan": "plan"},
        Recorded: {"phase": "phase", "entries": "entries", "generation": "generation"},
        Done: {
            "ref": "ref",
            "outcome": "outcome",
            "origin": "origin",
            "reason": "reason",
            "problem": "problem",
        },
        Assessed: {
            "ref": "ref",
            "readiness": "readiness",
            "elapsed": "elapsed",
            "problem": "problem",
        },
        Waiting: {
            "ref": "ref",
            "what": "condition",
            "elapsed": "elapsed",
            "timeout": "timeout",
            "why": "reason",
            "others": "others",
            "count": "count",
        },
        Pending: {"ref": "ref", "why": "reason"},
        Warned: {"problem": "problem"},
        Found: {"finding": "mismatch"},
        Finding: {
            "fault": "type",
            "remedy": "repair",
            "what": "message",
            "ref": "ref",
            # For the repair only: what it is to write, and the live object.
            "entry": None,
            "live": None,
            "resource": None,
        },
        Refused: {"problem": "problem"},
        Compared: {
            "ref": "ref",
            "outcome": "outcome",
            "before": "before",
            "after": "after",
            "origin": "origin",
            "weaker": "notChecked",
            "drifted": "drifted",
            "drift": "drift",
        },
        Drift: {
            "path": "path",
            "wanted": "desired",
            "found": "live",
            "manager": "manager",
            "operation": "operation",
            "time": "time",
        },
        Standing: {
            "ref": "ref",
            "readiness": "readiness",
            "ownership": "ownership",
            "age": "age",
            "drifted": "drifted",
            "drift": "drift",
        },
        Enrolled: {
            "name": "name",
            "namespace": "namespace",
            "objects": "objects",
            "ready": "ready",
            "last": "lastRun",
            "owner": "owner",
            "holder": "holder",
            "problem": "problem",
        },
        LastRun: {
            "run": "run",
            "mode": "mode",
            "who": "who",
            "at": "at",
            "exit_code": "exitCode",
        },
        Listed: {"name": "name", "namespace": "namespace", "entry": "entry"},
        Entry: {
            "ref": "ref",
            "plural": "plural",
            "version": "version",
            "uid_before_apply": "uidBeforeApply",
            "uid": "uid",
            "ownership": "ownership",
            # For the next run only: by these it knows that nothing has changed.
            "digest": None,
            "fingerprint": None,
            "wave": "wave",
            "depends_on": "dependsOn",
            "orphan_reason": "orphanReason",
            "deleting": "deleting",
            "orphaning": "orphaning",
        },
        Explained: {
            "ref": "ref",
            "verdict": "verdict",
            "reasons": "reasons",
            "origin": "origin",
        },
        Versions: {
            "client": "client",
            "python": "python",
            "platform": "platform",
            "server": "server",
        },
        Failed: {"problem": "problem"},
        Finished: {
            "counts": "counts",
            "exit_code": "exitCode",
            "elapsed": "elapsed",
            "problem": "problem",
        },
        Problem: {
            "kind": "kind",
            "what": "message",
            "where": "location",
            "why": "reason",
            "hint": "hint",
            "exit_code": "exitCode",
            "origin": "origin",
            "field": "field",
            "excerpt": "excerpt",
            "marks": "marks",
            "conflicts": "conflicts",
        },
        Mark: {"field": "field", "note": "note", "origin": "origin"},
        ManagerConflict: {
            "manager": "manager",
            "operation": "operation",
            "subresource": "subresource",
            "time": "time",
            "fields": "fields",
        },
        ContestedField: {
            "field": "field",
            "path": "path",
            "ours": "ours",
            "theirs": "theirs",
        },
        Origin: {"path": "path", "document": "document", "line": "line", "column": "column"},
        Readiness: {"status": "status", "message": "message"},
        Ref: {"group": "group", "kind": "kind", "namespace": "namespace", "name": "name"},
    }
)
"""The key of each field of all that is shown; a Plan has a shape of its own."""
