"""What is decided about one object, and what happened to it: one row each, with all its words."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Outcome(StrEnum):
    """The result for one object: its word, what it would be in a forecast, and as a task.

    The last column says whether the object itself was changed, created or deleted.
    """

    CREATED = "created", "would be created", "to create", True
    UPDATED = "updated", "would be updated", "to update", True
    RECREATED = "recreated", "would be recreated", "to recreate", True
    UNCHANGED = "unchanged", "would not change", "unchanged", False
    PRUNED = "pruned", "would be pruned", "to prune", True
    DELETED = "deleted", "would be deleted", "to delete", True
    ORPHANED = "orphaned", "would be orphaned", "to orphan", True
    REPAIRED = "repaired", "would be repaired", "to repair", True
    REMOVED_FROM_INVENTORY = (
        "removed-from-inventory",
        "would be removed from inventory",
        "to remove from inventory",
        False,
    )
    NOT_PRUNED = "not-pruned", "would not be pruned", "not pruned", False
    SKIPPED = "skipped", "would be skipped", "skipped", False
    FAILED = "failed", "is refused", "failed", False

    forecast: str
    """What would happen to the object: ``would be created``."""
    task: str
    """What is to do about the object: ``to create``."""
    is_change: bool
    """Whether the object itself was changed, created or deleted."""

    def __new__(cls, value: str, forecast: str, task: str, is_change: bool) -> Self:
        """Make a member from its row."""
        outcome = str.__new__(cls, value)
        outcome._value_ = value
        outcome.forecast, outcome.task, outcome.is_change = forecast, task, is_change
        return outcome

    @property
    def text(self) -> str:
        """Return the outcome for text output: ``not pruned``."""
        return self.value.replace("-", " ")


class Fate(StrEnum):
    """What is decided about one object, from the plan to the report.

    A row has its word, the outcome that it leads to for an object of the input and for one that has
    left the set (None: such an object never has this fate), and what it does, in words.
    """

    CREATE = "create", Outcome.CREATED, None, "create it"
    CHANGE = "change", Outcome.UPDATED, None, "apply it"
    """Apply it; a check by the server shows whether that changes anything."""
    LEAVE = "leave", Outcome.UNCHANGED, Outcome.NOT_PRUNED, "leave it as it is"
    """Its fields stay as they are: they are as its manifest says, or must not change now."""
    RECREATE = "recreate", Outcome.RECREATED, None, "recreate it"
    """Delete and create it: a field that cannot be changed in place has changed."""
    ADOPT = "adopt", Outcome.UPDATED, None, "adopt it"
    """Apply it, and so take an existing object into the set."""
    ORPHAN = "orphan", None, Outcome.ORPHANED, "orphan it"
    """Keep it in the cluster, without the set's label and field manager."""
    PRUNE = "prune", None, Outcome.PRUNED, "prune it"
    """Delete it, because it has left the set or because the whole set is deleted."""
    REMOVE_FROM_INVENTORY = (
        "remove-from-inventory",
        None,
        Outcome.REMOVED_FROM_INVENTORY,
        "only remove it from the inventory",
    )
    """Only remove its entry; do not change the object."""
    REFUSE = "refuse", Outcome.FAILED, Outcome.FAILED, "refuse it"
    """Do nothing, and report a problem."""

    applied: Outcome | None
    """The outcome for an object of the input."""
    removed: Outcome | None
    """The outcome for an object that has left the set."""
    action: str
    """What it does to the object, in words: ``create it``."""

    def __new__(
        cls,
        value: str,
        applied: Outcome | None = None,
        removed: Outcome | None = None,
        action: str = "",
    ) -> Self:
        """Make a member from its row."""
        fate = str.__new__(cls, value)
        fate._value_ = value
        fate.applied, fate.removed, fate.action = applied, removed, action
        return fate

    @property
    def forecast(self) -> str:
        """Return the words for what would happen: ``would be created``."""
        if self is Fate.ADOPT:
            return "would be adopted"
        outcome = self.applied or self.removed
        return outcome.forecast if outcome is not None else ""

    @property
    def is_applied(self) -> bool:
        """Return whether the manifest is sent."""
        return self in {Fate.CREATE, Fate.CHANGE, Fate.ADOPT, Fate.RECREATE}
