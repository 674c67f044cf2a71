"""What a run is going to do, decided before it does any of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry, Wave
    from applyprune.model.live import LiveObject
    from applyprune.model.manifest import Origin
    from applyprune.model.problem import Problem
    from applyprune.model.resources import Resource


class OnConflict(StrEnum):
    """What a manifest asks for where other managers own its fields."""

    FAIL = "fail"
    FORCE = "force"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Desired:
    """A manifest with every question about it answered: endpoint, namespace, label, wave.

    ``body`` is what is sent, but for the guard; ``digest`` stands for it in the inventory.
    ``once`` marks a Job with a TTL, which may be gone because it has done its work. ``depends_on``
    are the objects of the set that its manifest says it depends on, ``needs`` those that it names.
    ``recreate`` says that its manifest lets it be deleted and created anew. ``ignored`` are the
    JSON pointers of what is sent at creation only. ``wait`` is "skip" or "started", and
    ``ready_when`` a CEL expression by which it is ready.
    """

    ref: Ref
    resource: Resource
    body: Mapping[str, Any] = field(hash=False, repr=False)
    digest: str
    wave: Wave
    orphan_reason: str
    once: bool
    origin: Origin
    depends_on: tuple[Ref, ...] = ()
    needs: frozenset[Ref] = frozenset()
    recreate: bool = False
    conflicts: OnConflict = OnConflict.FAIL
    ignored: tuple[str, ...] = ()
    wait: str = ""
    ready_when: str = ""


class Action(StrEnum):
    """What is to be done about one object.

    An orphaned object stays in the cluster without the set's marks. One that is only removed from
    the inventory is not touched at all. One that is left stays, and stays listed.
    """

    CREATE = "create"
    UPDATE = "update"
    NOTHING = "nothing"
    DELETE = "delete"
    ORPHAN = "orphan"
    REMOVE_FROM_INVENTORY = "remove-from-inventory"
    LEAVE = "leave"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One object of the input: CREATE, UPDATE, NOTHING or REFUSE.

    ``entry`` is what the union write records of it; ``live`` what the read found. ``fence`` says
    that a run which was cut off may have sent a delete that is still on its way; ``migrate`` names
    the field managers whose fields are to become ours first.
    """

    desired: Desired
    action: Action
    entry: InventoryEntry
    live: LiveObject | None = None
    reason: str = ""
    problem: Problem | None = None
    fence: bool = False
    migrate: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RemoveStep:
    """One entry that has left the set: DELETE, ORPHAN, REMOVE_FROM_INVENTORY, LEAVE
    or REFUSE."""

    entry: InventoryEntry
    resource: Resource | None
    action: Action
    live: LiveObject | None = None
    reason: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one run means to do, in order.

    ``removals`` are in the order of deletion. ``no_prune`` says why nothing of them may be done
    in this run, empty when they may; ``refusal`` is the guard's word when one forbids it.
    ``recovered`` are entries for what bears the set's marks and no inventory lists. ``restored``
    says that the inventory is a copy, or lists other objects than those that are there.
    ``approval`` stands for a prune that was refused, and for no other: each object by its UID, and
    what it takes along. Empty where nothing was refused, or where nobody may approve it.
    """

    applies: tuple[ApplyStep, ...]
    removals: tuple[RemoveStep, ...]
    no_prune: str = ""
    refusal: Problem | None = None
    recovered: tuple[InventoryEntry, ...] = ()
    restored: bool = False
    approval: str = ""

    @property
    def writes(self) -> bool:
        """Return whether any of it needs a request that changes something."""
        return (
            bool(self.recovered)
            or any(step.action in {Action.CREATE, Action.UPDATE} for step in self.applies)
            or (
                not self.no_prune
                and any(step.action not in {Action.REFUSE, Action.LEAVE} for step in self.removals)
            )
        )
