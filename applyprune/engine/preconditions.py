"""What must hold before a run plans anything: an input, a set that there is, a home for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import EmptyInput, Forbidden, InventoryError, NotFound, UsageError
from applyprune.model.builtin import NAMESPACES
from applyprune.model.options import DryRun, Mode
from applyprune.model.refs import Ref
from applyprune.planning.moving import unlisted

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.inventory import Inventory
    from applyprune.model.options import Options
    from applyprune.planning.tracking import SetIdentity
    from applyprune.planning.world import World


def refuse_empty(inventory: Inventory, options: Options, *, empty: bool) -> None:
    """Refuse an input without objects for a set without any: a missing mount looks just like it.

    Where the set lists objects, the plan tells which would go, and the guard refuses it.
    """
    applies = options.mode in {Mode.APPLY, Mode.PRUNE}
    if empty and applies and not options.allow_empty and not inventory.entries:
        raise EmptyInput("there is no object in the input", hint="If that is meant: --allow-empty.")


def refuse_unlisted(inventory: Inventory, options: Options, target: SetIdentity) -> None:
    """Refuse names that the inventory does not list: a typing error must not pass for done."""
    if missing := unlisted(options.select, inventory.entries):
        raise UsageError(
            f"the set {target.name} does not list {', '.join(missing)}",
            hint=f"What it lists: applyprune inventory show {target.arguments}",
        )


def refuse_unrecorded(world: World, target: SetIdentity, mode: Mode) -> None:
    """Refuse to remove objects of a set that has no inventory, or to prune a set that is not."""
    if mode is Mode.APPLY:
        return
    if world.marked:
        raise InventoryError(
            f"the set {target.name} has no inventory, and {len(world.marked)} objects bear its "
            "marks",
            why="without it nobody can say which of them the set created",
            hint="Make it anew, dry run first: "
            f"applyprune inventory repair {target.arguments} --dry-run",
        )
    if mode is not Mode.DELETE:
        raise no_set(target)


def no_set(target: SetIdentity) -> UsageError:
    """Return what is to be said of a set that is not there."""
    return UsageError(
        f"there is no set {target.name} in namespace {target.namespace}",
        hint="`applyprune inventory list -A` lists those that there are.",
    )


def ensure_home(cluster: Cluster, target: SetIdentity, options: Options) -> None:
    """See that the namespace of a new inventory is there."""
    home = target.namespace
    try:
        cluster.get(NAMESPACES, Ref("", "Namespace", "", home))
    except NotFound:
        if not options.create_namespace:
            raise UsageError(
                f"the namespace {home} does not exist",
                why="it is to hold the inventory of the set",
                hint="Create it with --create-namespace (deleting the set keeps it), "
                "or name another one with -n.",
            ) from None
        if options.dry_run is DryRun.OFF:
            cluster.create_namespace(home)
    except Forbidden:
        return  # without the right to look, the write of the inventory will tell
