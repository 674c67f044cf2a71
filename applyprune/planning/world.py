"""What a plan is made from: the set, what was asked, the input, the inventory and the cluster.

A run reads it once. After a reply or a refusal, the new state of an object takes the place of the
old one, and the same functions decide again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from applyprune.model.identity import GroupKind, Ref, SetKey
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import LiveObject, Registrations, Resource, ResourceMap, State
from applyprune.model.options import Options
from applyprune.model.plan import Desired
from applyprune.model.problem import Manifest, Problem
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.own_namespace import HOLDS_INVENTORY
from applyprune.planning.ownership import OtherSet
from applyprune.planning.prune_waits import PodUse

_NO_KINDS = ResourceMap({}, {})


class ControllerUse(Struct, frozen=True):
    """Who still needs the controller, if a prune would take it away."""

    parts: frozenset[Ref] = frozenset()
    """What would be deleted that the controller needs, or that contains such an object."""
    bundles: tuple[Ref, ...] = ()
    """The Bundles with the controller's finalizer: nobody else can end them."""
    unread: str = ""
    """Why the Bundles could not be read; empty if they were."""


class CascadeContents(Struct, frozen=True):
    """The contents of a Namespace or a CRD, or what an object owns."""

    objects: tuple[LiveObject, ...]
    uncounted: str = ""
    """What could not be read, and why; empty if all was read."""
    lacks_rights: bool = False
    """Whether only missing rights keep it from being counted."""
    unlisted: tuple[str, ...] = ()
    """The kinds that the account may not list, where that refuses nothing."""
    is_passing: bool = False
    """Whether it can be counted in a moment: somebody adds or removes kinds."""


class BundleUse(Struct, frozen=True):
    """The Bundles of a set that stay, read if one of its Bundles is pruned."""

    staying: int = 0
    """How many stay."""
    objects: int = 0
    """How many objects their inventories list."""


class Siblings(Struct, frozen=True):
    """The sets with which a set may exchange objects: those of the same source and account."""

    key: str
    """What only they have in common: an offer is for them."""
    undecided: tuple[str, ...] = ()
    """Those that may still take what leaves this set, in words; nothing is pruned meanwhile."""
    takes: bool = True
    """Whether this set takes what is offered to it."""


class CommandSets(Struct, frozen=True):
    """What a run of one of the sets of a command knows of the others."""

    own: SetKey = SetKey("", "")
    claims: Mapping[Ref, tuple[SetKey, ...]] = field(default_factory=dict)
    """The sets whose input has each object."""
    givers: frozenset[str] = frozenset()
    """The ids of the sets that give what their input does not have any more."""
    coming: tuple[Manifest, ...] = ()
    """The Namespaces and CRDs that other sets bring before this one is applied."""
    prunes_after: str = ""
    """Why nothing is pruned in this run; another one follows."""

    def others_with(self, ref: Ref) -> tuple[SetKey, ...]:
        """Return the other sets whose input has an object."""
        return tuple(key for key in self.claims.get(ref, ()) if key != self.own)

    def gives(self, label: str, ref: Ref) -> bool:
        """Return whether the set of a label gives an object to this one."""
        # guard: claimed-by-giver -> label in self.givers
        return label in self.givers and self.claims.get(ref) == (self.own,)


class World(Struct, frozen=True):
    """The set, what was asked, and all that was read before the plan."""

    applyset: ApplySetIdentity
    inventory: Inventory
    """The inventory, or the part of it that the run is about."""
    options: Options = Options()
    desired: Sequence[Desired] = ()
    """The objects of the input, in the order of the apply."""
    left_out: Mapping[Ref, str] = field(default_factory=dict)
    """The objects of the input with which nothing is done: chart hooks, each with its events and
    its place, and those of late kinds, without such words."""
    ignored: Mapping[Ref, str] = field(default_factory=dict)
    """Which ignore rule leaves out the manifest of an object, and where that is."""
    empty_inputs: Sequence[str] = ()
    """The parts of the input without an object."""
    new_namespace: str = ""
    """The Namespace that the run creates for the inventory; empty if it exists."""
    resource_map: ResourceMap = _NO_KINDS
    """What the server serves."""
    states: Mapping[Ref, State] = field(default_factory=dict)
    """The state of every desired object and every entry.

    Also of other objects of a recorded kind with the set's label and field manager.
    """
    now: datetime | None = None
    """The time of the server's last reply, by its own clock; None if it has given none.

    None too if no Job is recorded: parsing a date takes longer than planning ten objects.
    """
    schemas: Mapping[GroupKind, int | None] = field(default_factory=dict)
    """The generation of the CRD of each custom kind; None where it could not be read."""
    resources: Mapping[GroupKind, Resource] = field(default_factory=dict)
    """The endpoint of each recorded kind that is still served."""
    occupied: Mapping[str, Problem | None] = field(default_factory=dict)
    """The namespaces that contain another set's inventory, or may: then why it is unknown."""
    own_namespace_stays: str = HOLDS_INVENTORY
    """Why this run never deletes the Namespace of the set's inventory; empty if it may."""
    contents: Mapping[Ref, CascadeContents] = field(default_factory=dict)
    """The contents of each Namespace, CRD and Bundle that has left the set."""
    bundles: BundleUse = BundleUse()
    dependants: Mapping[Ref, CascadeContents] = field(default_factory=dict)
    """What the garbage collector deletes with each deleted object, of the guarded kinds."""
    controller: ControllerUse = ControllerUse()
    marked: tuple[LiveObject, ...] = ()
    """Objects with the set's label and field manager; read only if there is no inventory."""
    unseen: tuple[str, ...] = ()
    """What could not be read in the search for ``marked``, in words."""
    others: Mapping[str, OtherSet] = field(default_factory=dict)
    """The set of each foreign label that a listed object has, by the label."""
    withheld: Mapping[str, str] | None = None
    """Why no object may be adopted from a set, by its label; empty for a set that gives objects.

    None if every set does.
    """
    siblings: Siblings | None = None
    """The sets with which objects may be exchanged; None if there are none."""
    command: CommandSets = CommandSets()
    """The other sets of the same command."""
    autoscalers: tuple[Mapping[str, Any], ...] = ()
    """The HorizontalPodAutoscalers that may target objects of the input, in full."""
    unread_autoscalers: Mapping[str, Problem] = field(default_factory=dict)
    """Why they could not be read, by the namespace in which they may be."""
    going: frozenset[tuple[Ref, str]] = frozenset()
    """The objects of the set that this run deletes, each with its UID: they keep nothing."""
    pod_use: PodUse = PodUse()
    """The live Pods where an object has left the set that Pods may use."""
    registered: Registrations | None = None
    """The CRDs and APIServices; None if nothing needed them, or they could not be read."""
    shown: Mapping[Ref, LiveObject] = field(default_factory=dict)
    """Objects in full that are so only to say how they are: no decision depends on that."""

    @property
    def manager(self) -> str:
        """Return the name of the set's field manager."""
        return self.applyset.manager

    @property
    def live_objects(self) -> Iterator[LiveObject]:
        """Return the objects of the plan that exist."""
        return (state for state in self.states.values() if isinstance(state, LiveObject))

    @property
    def recorded(self) -> Iterator[tuple[InventoryEntry, LiveObject]]:
        """Return each entry of the inventory whose object exists, with that."""
        entries = self.inventory.entries.items()
        return ((entry, live) for ref, entry in entries if (live := self.live(ref)) is not None)

    def live(self, ref: Ref) -> LiveObject | None:
        """Return an object of the plan, if it exists."""
        state = self.states[ref]
        return state if isinstance(state, LiveObject) else None
