"""The guards of a prune, and what each says."""

from __future__ import annotations

from enum import StrEnum

from applyprune.values import dataclass


class Guard(StrEnum):
    """What is checked before a prune as a whole."""

    EMPTY_INPUT = "empty-input"
    """Every part of the input contains an object."""
    ORPHAN_NAMES = "orphan-names"
    """Every ``--orphan`` option matches an object."""
    INPUT_INSIDE = "input-inside"
    """Nothing would be deleted that contains objects of the input."""
    NOTHING_IN_COMMON = "nothing-in-common"
    """The input and the inventory have an object in common."""
    OTHER_NAMESPACE = "other-namespace"
    """The input does not have the deleted objects in another namespace."""
    MORE_THAN_HALF = "more-than-half"
    """At least half of the set's own live objects stay."""
    MAX_PRUNE = "max-prune"
    """The number of deletions, with cascades, is within the limit."""
    GUARDED_KIND = "guarded-kind"
    """No object of a kind that contains data or other objects would be deleted."""
    CASCADE = "cascade"
    """No deletion cascades to objects that must stay."""
    RESTORED_INVENTORY = "restored-inventory"
    """The inventory is neither a copy nor restored from a backup."""


class GuardVerdict(StrEnum):
    """What a guard says about a prune."""

    PASSED = "passed"
    LIFTED = "lifted"
    """It would refuse the prune, but the user has allowed exactly that."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class GuardResult:
    """The result of one guard for the prune of a plan."""

    guard: Guard
    verdict: GuardVerdict
    message: str
    """What the guard has found, in words."""
    option: str = ""
    """The option that would allow exactly this; empty if it passed, or if no option can."""
    lifted_by: str = ""
    """The option, or the approval, that has lifted it; empty if nothing has."""

    def __str__(self) -> str:
        """Return the result in one line: ``guard max-prune lifted by --max-prune 9: …``."""
        by = f" by {self.lifted_by}" if self.lifted_by else ""
        return f"guard {self.guard} {self.verdict}{by}: {self.message}"
