"""Names in the API: the finalizer, conditions and reasons.

Reasons are part of the API: alerts and scripts compare them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a Bundle."""

FINALIZER = "applyprune.dev/finalizer"
"""On a Bundle: the controller has not yet removed the Bundle's objects."""
COMPONENT = "applyprune-controller"
"""The controller's name in Events, and the name of its Lease."""

RUN = "applyprune.dev/run"
"""On an Event: the ID of the run that it is about."""


class Condition(StrEnum):
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
    RETRYING = "Retrying"
    SUSPENDED = "Suspended"
    INVALID_SPEC = "InvalidSpec"
    INVALID_SOURCE = "InvalidSource"
    SOURCE_NOT_FOUND = "SourceNotFound"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    KIND_NOT_FOUND = "KindNotFound"
    DEPENDENCY_NOT_READY = "DependencyNotReady"
    FORBIDDEN = "Forbidden"
    UNREACHABLE = "Unreachable"
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
    NO_DRIFT = "NoDrift"
    DRIFT_DETECTED = "DriftDetected"
    DRIFT_IGNORED = "DriftIgnored"
    CONTENDED = "Contended"
    CHANGED_BY_ADMISSION = "ChangedByAdmission"


STALLING = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.INVALID_SOURCE,
        Reason.PRUNE_REFUSED,
        Reason.INVENTORY_OWNED,
        Reason.INVENTORY_UNREADABLE,
        Reason.CONTENDED,
    }
)
"""The reasons for which a retry cannot help until someone changes something."""
MISSING = frozenset(
    {
        Reason.SOURCE_NOT_FOUND,
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.KIND_NOT_FOUND,
        Reason.FORBIDDEN,
    }
)
"""The reasons that end when somebody creates what is missing, perhaps where no watch shows it."""
