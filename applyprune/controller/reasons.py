"""Names in the API: conditions and reasons; and the controller's log.

Reasons are part of the API: alerts and scripts compare them.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a Bundle."""
COMPONENT = "applyprune-controller"
"""The controller's name in Events."""
RUN = "applyprune.dev/run"
"""On an Event: the ID of the run that it is about."""
RETRY_BUDGET = 10.0
"""Seconds after its first failure in which a request may be sent again."""


class ConditionType(StrEnum):
    """The types of a Bundle's conditions; after its first reconcile a Bundle has all five."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    PRUNE_BLOCKED = "PruneBlocked"
    DRIFTED = "Drifted"


class Reason(StrEnum):
    """Why a condition has its status."""

    APPLIED = "Applied"
    NOTHING_TO_DO = "NothingToDo"
    PROGRESSING = "Progressing"
    FETCHING = "Fetching"
    RETRYING = "Retrying"
    SUSPENDED = "Suspended"
    INVALID_SPEC = "InvalidSpec"
    INVALID_SOURCE = "InvalidSource"
    SOURCE_NOT_FOUND = "SourceNotFound"
    FETCH_FAILED = "FetchFailed"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    VERIFICATION_FAILED = "VerificationFailed"
    PATH_NOT_FOUND = "PathNotFound"
    SOURCE_TOO_LARGE = "SourceTooLarge"
    DECRYPTION_FAILED = "DecryptionFailed"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    KIND_NOT_FOUND = "KindNotFound"
    DEPENDENCY_NOT_READY = "DependencyNotReady"
    FORBIDDEN = "Forbidden"
    UNREACHABLE = "Unreachable"
    INVALID_KUBE_CONFIG = "InvalidKubeConfig"
    KUBE_CONFIG_NOT_FOUND = "KubeConfigNotFound"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    CLUSTER_CHANGED = "ClusterChanged"
    NAMESPACE_NOT_FOUND = "NamespaceNotFound"
    API_ERROR = "ApiError"
    APPLY_FAILED = "ApplyFailed"
    CONFLICTS = "Conflicts"
    NOT_READY = "NotReady"
    PRUNE_REFUSED = "PruneRefused"
    PENDING_APPROVAL = "PendingApproval"
    INVENTORY_OWNED = "InventoryOwned"
    INVENTORY_LOCKED = "InventoryLocked"
    INVENTORY_UNREADABLE = "InventoryUnreadable"
    REMOVAL_FAILED = "RemovalFailed"
    REMOVED = "Removed"
    REMOVAL_INCOMPLETE = "RemovalIncomplete"
    SERVER_WARNING = "ServerWarning"
    RECONCILE_LIMIT_EXCEEDED = "ReconcileLimitExceeded"
    NO_DRIFT = "NoDrift"
    DRIFT_DETECTED = "DriftDetected"
    DRIFT_IGNORED = "DriftIgnored"
    NOT_WATCHED = "NotWatched"
    CONTENDED = "Contended"
    CHANGED_BY_ADMISSION = "ChangedByAdmission"


class Limit(StrEnum):
    """A limit of one reconcile; its value is the word in conditions and metrics."""

    MEMORY = "memory"
    CPU = "cpu"
    TIME = "time"
    CRASH = "crash"
    """No limit of the controller: its process has ended, and nobody knows why."""


STALLED_REASONS = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.INVALID_SOURCE,
        Reason.INVALID_KUBE_CONFIG,
        Reason.CLUSTER_CHANGED,
        Reason.PRUNE_REFUSED,
        Reason.INVENTORY_OWNED,
        Reason.INVENTORY_UNREADABLE,
        Reason.CONTENDED,
    }
)
"""The reasons for which a retry cannot help until someone changes something."""
MISSING_REASONS = frozenset(
    {
        Reason.SOURCE_NOT_FOUND,
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.KIND_NOT_FOUND,
        Reason.FORBIDDEN,
        Reason.KUBE_CONFIG_NOT_FOUND,
        Reason.CLUSTER_UNREACHABLE,
        Reason.NAMESPACE_NOT_FOUND,
    }
)
"""The reasons that end when somebody creates what is missing, perhaps where no watch shows it."""
NO_CLUSTER = frozenset(
    {
        Reason.INVALID_KUBE_CONFIG,
        Reason.KUBE_CONFIG_NOT_FOUND,
        Reason.CLUSTER_UNREACHABLE,
        Reason.CLUSTER_CHANGED,
        Reason.NAMESPACE_NOT_FOUND,
    }
)
"""The reasons for which nobody reaches the objects of a Bundle in another cluster."""


class DriftPolicy(StrEnum):
    """What happens to what others have changed since the last apply."""

    CORRECT = "Correct"
    REPORT = "Report"
    IGNORE = "Ignore"


# The controller's log: JSON lines with constant messages; all details are in fields.


LOG = logging.getLogger("applyprune.controller")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, message and the fields of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            # Without the error's message: it may quote a Secret.
            kind, _, frames = record.exc_info
            line["error"] = kind.__name__ if kind is not None else ""
            line["traceback"] = "".join(traceback.format_tb(frames))
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: str) -> None:
    """Send the log to standard error, from ``level`` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOG.handlers[:] = [handler]
    LOG.setLevel(level.upper())
    LOG.propagate = False


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the ``extra`` argument of a logging call; empty values are left out."""
    return {"fields": {key: value for key, value in values.items() if value or value == 0}}
