"""Runs that are refused as a whole, before a plan: no input, no inventory, another owner."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from applyprune.errors import (
    EmptyInput,
    InventoryError,
    NoSuchSet,
    OwnedByBundle,
    RunFailed,
    UsageError,
)
from applyprune.model.options import DryRun, Mode
from applyprune.model.text import counted
from applyprune.planning.desired import labels_of
from applyprune.planning.marks import is_disabled
from applyprune.planning.names import unmatched_names
from applyprune.planning.recovery import may_lose_objects

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory
    from applyprune.model.options import Options
    from applyprune.model.problem import Manifest, Problem
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.world import World

_SHOWN = 3


def refuse_run(
    inventory: Inventory,
    manifests: Sequence[Manifest],
    options: Options,
    owner: str = "",
    *,
    takes_over: bool = False,
) -> None:
    """Refuse a run as a whole.

    ``manifests`` are those of the set; see ``refuse_owned`` for ``owner`` and ``takes_over``.
    """
    # guard: set-owner
    refuse_owned(inventory, owner, options, takes_over=takes_over)
    _refuse_empty(inventory, options, manifests)


def refuse_owned(
    inventory: Inventory, owner: str, options: Options, *, takes_over: bool = False
) -> None:
    """Refuse to change a set that belongs to a Bundle, unless the run is that Bundle's own.

    Two appliers of one set would undo each other's work. A dry run is always allowed. A Bundle
    takes over a set without an owner only if ``takes_over`` is set, only to apply it, and never to
    remove it: having the same name is not consent.
    """
    if inventory.owner == owner or options.dry_run is not DryRun.OFF:
        return
    if inventory.owner:
        raise OwnedByBundle(
            f"the set {inventory.name} belongs to {inventory.owner}",
            reason="the controller applies it, and would undo all other changes",
            hint="Change the Bundle. To take the set back, suspend the Bundle first, then: "
            f"applyprune inventory release {inventory.name} -n {inventory.namespace}",
        )
    if inventory.exists and not (takes_over and options.mode is Mode.APPLY):
        raise OwnedByBundle(
            f"the set {inventory.name} does not belong to {owner}",
            reason="it was applied, or released from a Bundle, on the command line; with "
            f"spec.inventoryName: {inventory.name} the Bundle would take it over",
        )


def _refuse_empty(inventory: Inventory, options: Options, manifests: Sequence[Manifest]) -> None:
    """Refuse an empty input for a set without objects: a missing mount looks just like it.

    A manifest that a mark leaves out does not count as an object of the input.
    If the set lists objects, the plan names those that would be pruned, and its guard refuses it.
    A selector that matches nothing is refused for any set: a typing error looks just like it.
    """
    if options.mode not in {Mode.APPLY, Mode.PRUNE} or options.prune.allow_empty:
        return
    # guard: left-out-new-set -> not manifests and not inventory.entries
    if all(map(is_disabled, manifests)) and not inventory.entries:
        raise EmptyInput(
            "there is no object in the input",
            reason="a mark leaves out each of its manifests" if manifests else "",
            hint="If this is intended, use --allow-empty.",
        )
    selector = options.apply.selector
    if selector and not any(selector.matches(labels_of(manifest)) for manifest in manifests):
        raise EmptyInput(
            f"-l {selector.text} matches no object of the input "
            f"({counted(len(manifests), 'object')})",
            reason="it is compared with metadata.labels of the manifests",
            hint="If this is intended, use --allow-empty.",
        )


def refuse_copied(inventory: Inventory) -> None:
    """Refuse to change who owns the objects of an inventory that does not fit the cluster."""
    if inventory.copied:
        raise RunFailed(
            f"the inventory of the set {inventory.name} is a copy, or was restored",
            hint="First: applyprune inventory repair "
            f"{inventory.name} -n {inventory.namespace} --dry-run",
        )


def refuse_unlisted(
    names: Collection[str], refs: Collection[Ref], applyset: ApplySetIdentity
) -> None:
    """Refuse names that a set does not list: a typing error must not look like success."""
    if missing := unmatched_names(names, refs):
        if not refs:
            raise no_such_set(applyset)
        raise UsageError(
            f"the set {applyset.name} does not list {', '.join(missing)}",
            hint=f"To see what it lists: applyprune inventory show {applyset.arguments}",
        )


def refuse_without_inventory(world: World) -> None:
    """Refuse to remove objects without an inventory, and to prune a set that does not exist."""
    applyset, mode = world.applyset, world.options.mode
    if mode is Mode.APPLY:
        return
    if world.marked:
        raise InventoryError(
            f"the set {applyset.name} has no inventory, but "
            f"{counted(len(world.marked), 'object', 'has', 'have')} "
            "its label and field manager",
            reason="without an inventory, it is impossible to know which of them the set created",
            hint="Rebuild it, with a dry run first: "
            f"applyprune inventory repair {applyset.arguments} --dry-run",
        )
    if mode is not Mode.DELETE:
        raise no_such_set(applyset)


def refuse_removal_of_set(unlisted: Problem, world: World) -> None:
    """Refuse to remove a whole set while it has, or may have, objects that are not listed.

    Nothing else names them.
    """
    if world.options.removes_set and may_lose_objects(world):
        raise InventoryError(
            f"the set {world.applyset.name} was not removed: {unlisted.message}",
            reason=unlisted.reason,
            hint=unlisted.hint,
        )


def no_such_set(applyset: ApplySetIdentity, unseen: Sequence[str] = ()) -> NoSuchSet:
    """Return the error for a set that does not exist; ``unseen`` is what was not searched."""
    return NoSuchSet(
        f"there is no set {applyset.name} in namespace {applyset.namespace}",
        reason=f"not searched: {'; '.join(unseen[:_SHOWN])}" if unseen else "",
        hint="To list all sets: applyprune list -A",
    )
