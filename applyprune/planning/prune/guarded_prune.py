"""What the guards judge: everything that a run would delete, and the set that it belongs to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from applyprune.model.identity import Ref
from applyprune.model.options import Mode, Options
from applyprune.model.plan import Fate, RemoveStep
from applyprune.planning.prune.cascade import Cascades
from applyprune.values import dataclass, field


@dataclass(frozen=True, slots=True)
class GuardedPrune:
    """A prune as the guards see it."""

    steps: Sequence[RemoveStep]
    """The steps; those with forbidden cascades are refused already."""
    cascades: Cascades
    listed: Collection[Ref]
    """All refs in the inventory."""
    own: Mapping[Ref, str] = field(hash=False)
    """The UIDs of the set's own live objects: owned and adopted entries that exist.

    What goes away without this prune is left out: objects that are being deleted, and Jobs with a
    TTL.
    """
    desired: Collection[Ref]
    """The refs in the input."""
    shares: bool
    """Whether the input and the inventory have an object in common."""
    empty: Sequence[str]
    """The parts of the input without an object."""
    options: Options
    approved: bool = False
    """Whether the user has approved exactly this prune, by its digest."""

    @property
    def limited(self) -> bool:
        """Return whether the deletions follow from an input; ``delete`` is explicit."""
        return self.options.mode in {Mode.APPLY, Mode.PRUNE}

    @property
    def to_delete(self) -> Sequence[Ref]:
        """Return the objects that would be deleted, whether or not they may be."""
        return [step.entry.ref for step in self.steps if step.is_doomed]

    @property
    def refused(self) -> Sequence[Ref]:
        """Return the objects that may not be deleted because of their cascades."""
        return [
            step.entry.ref for step in self.steps if step.is_doomed and step.fate is Fate.REFUSE
        ]

    @property
    def cascaded(self) -> Collection[Ref]:
        """Return the objects that only cascades would delete."""
        doomed = self.to_delete
        return {ref for root in doomed for ref in self.cascades.foreign(root)} - set(doomed)

    @property
    def count(self) -> int:
        """Return how many objects would be deleted, with cascades."""
        return len(self.to_delete) + len(self.cascaded)

    @property
    def own_count(self) -> int:
        """Return how many of the set's own live objects would be deleted."""
        return len({self.own[ref] for ref in (*self.to_delete, *self.cascaded) if ref in self.own})

    @property
    def live(self) -> int:
        """Return how many live objects the set has; two groups may serve the same one."""
        return len(set(self.own.values()))
