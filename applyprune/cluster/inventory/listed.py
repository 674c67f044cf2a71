"""List the inventories of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from applyprune.cluster.inventory.codec import Root, decode
from applyprune.errors import InventoryError, UsageError
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import SET_ID, ApplySetIdentity, applyset_identity, set_name
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.cluster.client import KubernetesClient
    from applyprune.model.live import LiveObject

# An inventory may be as large as a megabyte.
_INVENTORIES_PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class ListedInventory:
    """One inventory of a list; ``root`` is None if it cannot be read, for ``reason``."""

    namespace: str
    name: str
    root: Root | None
    reason: str = ""


def list_inventories(client: KubernetesClient, namespace: str = "") -> Sequence[ListedInventory]:
    """Return every inventory in one namespace or in all, including unreadable ones."""
    found: list[ListedInventory] = []
    objects = client.list(
        CONFIG_MAPS, namespace=namespace, selector=SET_ID, full=True, page=_INVENTORIES_PER_PAGE
    )
    for live in objects:
        if (owner := set_of(live)) is None:
            continue
        try:
            found.append(ListedInventory(owner.namespace, owner.name, decode(live.body or {})))
        except InventoryError as error:
            reason = error.reason or error.message
            found.append(ListedInventory(owner.namespace, owner.name, None, reason))
    return found


def list_sets(client: KubernetesClient, namespace: str = "") -> Sequence[ApplySetIdentity]:
    """Return every set in one namespace or in all, without reading the inventories."""
    objects = client.list(CONFIG_MAPS, namespace=namespace, selector=SET_ID)
    return [applyset for live in objects if (applyset := set_of(live)) is not None]


def set_of(live: LiveObject) -> ApplySetIdentity | None:
    """Return the set of an inventory; None for another tool's ApplySet parent."""
    try:
        applyset = applyset_identity(set_name(live.ref.name), live.ref.namespace)
    except UsageError:
        return None
    is_ours = live.ref == applyset.inventory and live.labels[SET_ID] == applyset.id
    return applyset if is_ours else None
