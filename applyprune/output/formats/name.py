"""``-o name``: one line ``kind.group/name`` for each object, as ``kubectl -o name`` prints it.

Print every object the run succeeded on, whether changed, unchanged or deleted, like kubectl does: a
script can wait for all of them. Omit an object that failed, was skipped or was not pruned. A diff
prints the objects that would change; a verb that only reads prints all that it read, and a set as
the ConfigMap of its inventory. As with kubectl there is no namespace.
"""

from __future__ import annotations

from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    Event,
    Explanation,
    MismatchFound,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Outcome,
)
from applyprune.model.identity import Ref
from applyprune.model.plan import Fate
from applyprune.model.reports.bundle import BundleStatus
from applyprune.model.resources import BUNDLES
from applyprune.model.text.display import visible
from applyprune.output.printers import OutputTarget
from applyprune.planning.applyset import ApplySetIdentity

_OMITTED = frozenset({Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_PRUNED})


class NamePrinter:
    """Writes the name of each object once, as soon as its result is known."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output."""
        self._out = target.out
        self._printed: set[Ref] = set()

    def show(self, event: Event) -> None:
        """Write a line if the event is the result of an object."""
        ref = _ref_of(event)
        if ref is not None and ref not in self._printed:
            self._printed.add(ref)
            self._out(visible(ref.short))

    def close(self) -> None:
        """Do nothing: each line was written with its event."""


def _ref_of(event: Event) -> Ref | None:
    match event:
        case ObjectDone(outcome=outcome) if outcome in _OMITTED:
            return None
        case ObjectDiff(fate=Fate.LEAVE):
            return None
        case (
            ObjectDone(ref=ref) | ObjectDiff(ref=ref) | ObjectStatus(ref=ref) | Explanation(ref=ref)
        ):
            return ref
        case EntryListed(entry=entry):
            return entry.ref
        case MismatchFound(mismatch=mismatch):
            return mismatch.ref
        case BundleStatus(name=name, namespace=namespace):
            return Ref(BUNDLES.group, BUNDLES.kind, namespace, name)
        case ApplySetListed(name=name, namespace=namespace):
            return ApplySetIdentity(name, namespace).inventory
        case _:
            return None
