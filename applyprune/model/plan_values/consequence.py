"""What a plan causes beyond the changes of the objects themselves."""

from __future__ import annotations

from enum import StrEnum

from applyprune.model.identity import Ref
from applyprune.values import dataclass


class ConsequenceKind(StrEnum):
    """What a plan causes beyond the changes of the objects themselves."""

    ROLLOUT = "rollout"
    """The Pods of a workload are replaced, a few at a time."""
    RESTART = "restart"
    """All Pods of a workload stop, then start."""
    ON_DELETE = "on-delete"
    """The Pods of a workload only change when they are deleted."""
    PAUSED = "paused"
    """The Pods of a workload only change when its rollout is resumed."""
    READ_BY = "read-by"
    """Workloads of the set read a ConfigMap or Secret whose values change."""
    OLD_VALUE = "old-value"
    """Workloads of the set keep old values until their Pods restart."""
    NO_PODS = "no-pods"
    """The selector of a Service matches no Pod."""
    VOLUME_DELETED = "volume-deleted"
    """The volume of a deleted PersistentVolumeClaim is deleted or wiped, with its data."""
    VOLUME_KEPT = "volume-kept"
    """The volume of a deleted PersistentVolumeClaim stays, with its data."""
    CASCADE = "cascade"
    """Other objects are deleted with a deleted one."""
    KEPT = "kept"
    """Objects that belong to a deleted one stay."""
    FIELDS_KEPT = "fields-kept"
    """An adopted object keeps fields of other managers that its manifest does not contain."""
    VERSION_REFUSED = "version-refused"
    """The server rejects a CRD without a version in which objects may be stored."""
    VERSION_NOT_SERVED = "version-not-served"
    """A version in which objects may be stored is no longer served."""
    VERSION_NOT_STORED = "version-not-stored"
    """Objects are stored in another version, but only once they are written again."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """One thing that a plan causes beyond the change of the object itself."""

    kind: ConsequenceKind
    ref: Ref
    """The object of the plan that causes it, or that it happens to."""
    message: str
    """What happens, in words."""
    count: int | None = None
    """How many Pods, volumes or other objects it happens to; None if that is unknown."""
    refs: tuple[Ref, ...] = ()
    """The other objects that it happens to."""
    certain: bool = True
    """Whether it is known; otherwise something was not read or not checked by the server."""
