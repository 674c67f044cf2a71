"""``-o name``: ``kind.group/name``, a line an object, as ``kubectl -o name`` prints it.

Every object of the set that the run has come to terms with is named, changed or not, deleted ones
too: so does kubectl, and what a script waits for is in the list whether or not it was there before.
What failed, was skipped or was not pruned is not. A diff names what would change, verbs that only
look all that they show, a set by its inventory's ConfigMap. No namespace, as with kubectl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.display import visible
from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    Explanation,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Outcome,
)
from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from applyprune.model.identity import Ref
    from applyprune.output.printers import OutputTarget

_NOT_DONE = frozenset({Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_PRUNED})


class NamePrinter:
    """Writes the name of each object once, when it is dealt with."""

    def __init__(self, screen: OutputTarget) -> None:
        """Take where the lines go."""
        self._out = screen.out
        self._named: set[Ref] = set()

    def show(self, event: Event) -> None:
        """Write a line when the event tells that an object is dealt with."""
        ref = _named(event)
        if ref is not None and ref not in self._named:
            self._named.add(ref)
            self._out(visible(ref.short))

    def close(self) -> None:
        """Nothing is left: each line was written as its event came."""


def _named(event: Event) -> Ref | None:
    match event:
        case ObjectDone(outcome=outcome) if outcome in _NOT_DONE:
            return None
        case ObjectDiff(outcome=Outcome.UNCHANGED):
            return None
        case (
            ObjectDone(ref=ref) | ObjectDiff(ref=ref) | ObjectStatus(ref=ref) | Explanation(ref=ref)
        ):
            return ref
        case EntryListed(entry=entry):
            return entry.ref
        case MismatchFound(mismatch=mismatch):
            return mismatch.ref
        case ApplySetListed(name=name, namespace=namespace):
            return ApplySetIdentity(name, namespace).inventory
        case _:
            return None
