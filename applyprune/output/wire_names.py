"""The wire names: the name of each event and the key of each field in the JSON output.

This is the contract ``applyprune.dev/output/v1``. A class or an attribute may be renamed in the
code; its wire name, on the right, never changes. A field whose key is None is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    ErrorRaised,
    Explanation,
    Finished,
    InventoryWritten,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    ObjectStuck,
    Pending,
    Planned,
    PruneBlocked,
    ReadinessReported,
    RetryReported,
    RunListed,
    Started,
    VersionReport,
    Waiting,
    WarningRaised,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Mismatch, RunRecord
from applyprune.model.manifest import Origin
from applyprune.model.plan_values.consequence import Consequence
from applyprune.model.plan_values.drifted_field import Drift
from applyprune.model.plan_values.guard_result import GuardResult
from applyprune.model.problem import ContestedField, ManagerConflict, Mark, Problem
from applyprune.model.readiness_state import ContainerLog, Readiness, TreeNode, WarningEvent

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
        VersionReport: "version",
        ErrorRaised: "error",
        Finished: "finished",
    }
)
"""The name of each event."""

KEYS: Mapping[type, Mapping[str, str | None]] = MappingProxyType(
    {
        Started: {
            "run": "run",
            "mode": "mode",
            "name": "name",
            "namespace": "namespace",
            "dry_run": "dryRun",
            "context": "context",
            "server": "server",
        },
        # For the question on a terminal only: whether it is the second part.
        Planned: {"plan": "plan", "is_second_part": None},
        InventoryWritten: {"phase": "phase", "entries": "entries", "generation": "generation"},
        ObjectDone: {
            "ref": "ref",
            "outcome": "outcome",
            "origin": "origin",
            "reason": "reason",
            "problem": "problem",
            # A warning of the run names them.
            "rewritten": None,
        },
        ReadinessReported: {
            "ref": "ref",
            "readiness": "readiness",
            "elapsed": "elapsed",
            "problem": "problem",
        },
        ObjectStuck: {"ref": "ref", "readiness": "readiness", "elapsed": "elapsed"},
        RetryReported: {
            "what": "what",
            "message": "message",
            "tries": "try",
            "elapsed": "elapsed",
            "reason": "reason",
        },
        Waiting: {
            "ref": "ref",
            "what": "condition",
            "elapsed": "elapsed",
            "timeout": "timeout",
            "reason": "reason",
            "others": "others",
            "count": "count",
        },
        Pending: {"ref": "ref", "reason": "reason"},
        WarningRaised: {"problem": "problem"},
        MismatchFound: {"mismatch": "mismatch"},
        Mismatch: {
            "type": "type",
            "repair": "repair",
            "message": "message",
            "ref": "ref",
            # For the repair only: the entry to write, and the live object.
            "entry": None,
            "live": None,
            "resource": None,
            "owned": None,
        },
        PruneBlocked: {"problem": "problem"},
        ObjectDiff: {
            "ref": "ref",
            "fate": "fate",
            "before": "before",
            "after": "after",
            "origin": "origin",
            "not_checked": "notChecked",
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
        ObjectStatus: {
            "ref": "ref",
            "readiness": "readiness",
            "ownership": "ownership",
            "age": "age",
            "drifted": "drifted",
            "drift": "drift",
            "name": "name",
            "namespace": "namespace",
            "wave": "wave",
            "events": "events",
            "not_read": "notRead",
            "logs": "logs",
            "tree": "tree",
        },
        WarningEvent: {
            "about": "about",
            "reason": "reason",
            "message": "message",
            "count": "count",
            "last": "last",
        },
        ContainerLog: {
            "pod": "pod",
            "container": "container",
            "previous": "previous",
            "lines": "lines",
            "problem": "problem",
        },
        TreeNode: {
            "ref": "ref",
            "ready": "ready",
            "state": "state",
            "restarts": "restarts",
            "age": "age",
            "owned": "owned",
        },
        ApplySetListed: {
            "name": "name",
            "namespace": "namespace",
            "objects": "objects",
            "ready": "ready",
            "last": "lastRun",
            "owner": "owner",
            "holder": "holder",
            "problem": "problem",
        },
        RunRecord: {
            "run": "run",
            "mode": "mode",
            "who": "who",
            "at": "at",
            "exit_code": "exitCode",
            "actor": "actor",
            "commit": "commit",
            "url": "url",
            "created": "created",
            "changed": "changed",
            "pruned": "pruned",
        },
        RunListed: {"name": "name", "namespace": "namespace", "run": "run"},
        EntryListed: {"name": "name", "namespace": "namespace", "entry": "entry"},
        InventoryEntry: {
            "ref": "ref",
            "plural": "plural",
            "version": "version",
            "uid_before_apply": "uidBeforeApply",
            "uid": "uid",
            "ownership": "ownership",
            # For the next run only: they prove that the object is unchanged.
            "digest": None,
            "stored": None,
            "fingerprint": None,
            # For the next apply only: what it may take back or remove.
            "owned_fields": None,
            "marks": None,
            "wave": "wave",
            "depends_on": "dependsOn",
            "orphan_reason": "orphanReason",
            "deleting": "deleting",
            "orphaning": "orphaning",
            # For the next run only: it tells a Job that its TTL removed from a deleted one.
            "job": None,
            # For the next run only: it proves that the kind is gone.
            "crd": None,
        },
        Explanation: {
            "ref": "ref",
            "verdict": "verdict",
            "reasons": "reasons",
            "origin": "origin",
        },
        VersionReport: {
            "client": "client",
            "python": "python",
            "platform": "platform",
            "server": "server",
        },
        ErrorRaised: {"problem": "problem"},
        Finished: {
            "counts": "counts",
            "exit_code": "exitCode",
            "elapsed": "elapsed",
            "problem": "problem",
        },
        GuardResult: {
            "guard": "guard",
            "verdict": "verdict",
            "message": "message",
            "option": "option",
            "lifted_by": "liftedBy",
        },
        Consequence: {
            "kind": "kind",
            "ref": "ref",
            "message": "message",
            "count": "count",
            "refs": "refs",
            "certain": "certain",
        },
        Problem: {
            "kind": "kind",
            "message": "message",
            "location": "location",
            "reason": "reason",
            "lasting_reason": None,
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
        Readiness: {
            "status": "status",
            "message": "message",
            "stuck": "stuck",
            "warning": "warning",
            "lasting_message": None,
        },
        Ref: {"group": "group", "kind": "kind", "namespace": "namespace", "name": "name"},
    }
)
"""The key of each shown field; a Plan has a form of its own."""
