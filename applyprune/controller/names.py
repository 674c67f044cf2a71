"""What the controller writes and reads by name: annotations, the finalizer, conditions, reasons.

Reasons are part of the API: alerts and scripts compare them.
"""

from __future__ import annotations

from enum import StrEnum

RECONCILE_NOW = "applyprune.dev/reconcile-now"
"""An annotation whose every new value asks for a pass at once."""
APPROVE_PRUNE = "applyprune.dev/approve-prune"
"""An annotation that holds the digest of the one refused prune that may be carried out."""
FINALIZER = "applyprune.dev/finalizer"
"""On a Bundle: the controller has not removed yet what the Bundle has applied."""
COMPONENT = "applyprune-controller"
"""Who the controller says it is: in Events, and as the name of its Lease."""


class Condition(StrEnum):
    """The types of a Bundle's conditions; every Bundle that was looked at has all four."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    PRUNE_BLOCKED = "PruneBlocked"


class Reason(StrEnum):
    """Why a condition is as it is."""

    APPLIED = "Applied"
    NOTHING_TO_DO = "NothingToDo"
    PROGRESSING = "Progressing"
    RETRYING = "Retrying"
    SUSPENDED = "Suspended"
    INVALID_SPEC = "InvalidSpec"
    INVALID_SOURCE = "InvalidSource"
    SOURCE_NOT_FOUND = "SourceNotFound"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    DEPENDENCY_NOT_READY = "DependencyNotReady"
    FORBIDDEN = "Forbidden"
    UNREACHABLE = "Unreachable"
    API_ERROR = "ApiError"
    APPLY_FAILED = "ApplyFailed"
    CONFLICTS = "Conflicts"
    NOT_READY = "NotReady"
    PRUNE_REFUSED = "PruneRefused"
    INVENTORY_OWNED = "InventoryOwned"
    INVENTORY_HELD = "InventoryHeld"
    INVENTORY_UNREADABLE = "InventoryUnreadable"
    REMOVAL_FAILED = "RemovalFailed"
    REMOVED = "Removed"
    REMOVAL_INCOMPLETE = "RemovalIncomplete"


STALLING = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.INVALID_SOURCE,
        Reason.PRUNE_REFUSED,
        Reason.INVENTORY_OWNED,
        Reason.INVENTORY_UNREADABLE,
    }
)
"""The reasons for which trying again helps nothing until somebody changes something."""
