"""Check the preconditions of a run: an input, an existing set, a namespace for its inventory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from applyprune.errors import (
    EmptyInput,
    Forbidden,
    InventoryError,
    NotFound,
    OwnedByBundle,
    RunFailed,
    UsageError,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory
from applyprune.model.live import NAMESPACES, namespace_ref
from applyprune.model.options import DryRun, Mode, Options
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.desired import labels_of
from applyprune.planning.names import unlisted
from applyprune.planning.recovery import may_lose_objects

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Manifest, Problem
    from applyprune.planning.recovery import ClusterSnapshot


def refuse_run(
    inventory: Inventory,
    manifests: Sequence[Manifest],
    context: RunContext,
    owner: str,
    *,
    takes_over: bool,
) -> bool:
    """Refuse a run as a whole; or return whether it must create the namespace of its inventory.

    ``manifests`` are those of the set; see ``refuse_owned`` for ``owner`` and ``takes_over``.
    """
    options = context.options
    # guard: set-owner
    refuse_owned(inventory, owner, options, takes_over=takes_over)
    refuse_empty(inventory, options, manifests)
    if inventory.exists or options.mode is not Mode.APPLY or owner:
        return False  # a Bundle is in the namespace of its inventory
    return needs_namespace(context.cluster, context.applyset, options)


def refuse_empty(inventory: Inventory, options: Options, manifests: Sequence[Manifest]) -> None:
    """Refuse an empty input for a set without objects: a missing mount looks just like it.

    If the set lists objects, the plan names those that would be pruned, and its guard refuses it.
    A selector that matches nothing is refused for any set: a typing error looks just like it.
    """
    if options.mode not in {Mode.APPLY, Mode.PRUNE} or options.prune.allow_empty:
        return
    if not manifests and not inventory.entries:
        raise EmptyInput(
            "there is no object in the input", hint="If this is intended, use --allow-empty."
        )
    selector = options.apply.selector
    if selector and not any(selector.matches(labels_of(manifest)) for manifest in manifests):
        raise EmptyInput(
            f"-l {selector.text} matches none of the {len(manifests)} objects in the input",
            reason="it is compared with metadata.labels of the manifests",
            hint="If this is intended, use --allow-empty.",
        )


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
    if missing := unlisted(names, refs):
        if not refs:
            raise no_such_set(applyset)
        raise UsageError(
            f"the set {applyset.name} does not list {', '.join(missing)}",
            hint=f"To see what it lists: applyprune inventory show {applyset.arguments}",
        )


def refuse_without_inventory(
    snapshot: ClusterSnapshot, applyset: ApplySetIdentity, mode: Mode
) -> None:
    """Refuse to remove objects without an inventory, and to prune a set that does not exist."""
    if mode is Mode.APPLY:
        return
    if snapshot.marked:
        raise InventoryError(
            f"the set {applyset.name} has no inventory, but {len(snapshot.marked)} objects have "
            "its label and field manager",
            reason="without an inventory, nobody can know which of them the set created",
            hint="Rebuild it, with a dry run first: "
            f"applyprune inventory repair {applyset.arguments} --dry-run",
        )
    if mode is not Mode.DELETE:
        raise no_such_set(applyset)


def refuse_removal_of_set(
    unlisted: Problem,
    desired: Sequence[Desired],
    inventory: Inventory,
    snapshot: ClusterSnapshot,
    options: Options,
) -> None:
    """Refuse to remove a whole set while it has, or may have, objects that are not listed.

    Nothing else names them.
    """
    if options.removes_set and may_lose_objects(desired, inventory, snapshot):
        raise InventoryError(
            f"the set {inventory.name} was not removed: {unlisted.message}",
            reason=unlisted.reason,
            hint=unlisted.hint,
        )


def no_such_set(applyset: ApplySetIdentity) -> UsageError:
    """Return the error for a set that does not exist."""
    return UsageError(
        f"there is no set {applyset.name} in namespace {applyset.namespace}",
        hint="To list all sets: applyprune list -A",
    )


def needs_namespace(cluster: Cluster, applyset: ApplySetIdentity, options: Options) -> bool:
    """Return whether the namespace of a new inventory must be created first.

    Raises UsageError if it does not exist and may not be created.
    """
    if namespace_exists(cluster, applyset):
        return False
    if not options.apply.create_namespace:
        raise UsageError(
            f"the namespace {applyset.namespace} does not exist",
            reason="the inventory of the set belongs there",
            hint="Create it with --create-namespace (deleting the set keeps it), "
            "or name another one with -n.",
        )
    return True


def namespace_exists(cluster: Cluster, applyset: ApplySetIdentity) -> bool:
    """Return whether the namespace of an inventory exists; true if it must not be read."""
    try:
        cluster.get(NAMESPACES, namespace_ref(applyset.namespace))
    except NotFound:
        return False
    except Forbidden:
        return True  # unknown; if it is missing, the write of the inventory fails
    return True
