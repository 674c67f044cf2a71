"""The API server and the inventory's store, as small as the run needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory
    from applyprune.model.live import LiveObject, WatchEvent
    from applyprune.model.options import Propagation
    from applyprune.model.resources import Resource, ResourceMap


class Cluster(Protocol):
    """An API server; every call raises the errors of ``applyprune.errors`` and is thread-safe."""

    def resource_map(self) -> ResourceMap:
        """Return what the server serves now."""

    def list(
        self, resource: Resource, *, namespace: str = "", selector: str = "", full: bool = False
    ) -> Sequence[LiveObject]:
        """Return all objects, complete or an error; metadata only unless ``full``."""

    def list_at(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = False,
    ) -> tuple[Sequence[LiveObject], str]:
        """Return what ``list`` does, and the resourceVersion from which to watch on."""

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = True,
        resource_version: str,
        stop: Callable[[], bool],
        seconds: float,
    ) -> Iterator[WatchEvent]:
        """Yield what happens from a resourceVersion on, until server, ``stop`` or time ends it."""

    def get(self, resource: Resource, ref: Ref, *, full: bool = False) -> LiveObject:
        """Return one object; NotFound is the proof that there is none."""

    def apply(
        self,
        resource: Resource,
        ref: Ref,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool,
        dry_run: bool,
    ) -> tuple[LiveObject, bool]:
        """Server-side apply; return the object as replied, and whether it was created."""

    def delete(
        self,
        resource: Resource,
        ref: Ref,
        *,
        uid: str,
        resource_version: str,
        propagation: Propagation,
        dry_run: bool,
        timeout: float,
    ) -> bool:
        """Delete this very object in this very state; return whether it is gone already."""

    def patch(
        self, resource: Resource, ref: Ref, operations: Sequence[Mapping[str, Any]]
    ) -> LiveObject:
        """Apply a JSON patch, whose test operations guard it."""

    def serves(self, resource: Resource) -> bool:
        """Return whether the endpoint of a resource answers."""

    def schema(self, resource: Resource) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the OpenAPI v3 schema of a kind, and those it refers to; empty if unknown."""

    def create_namespace(self, name: str) -> None:
        """Create a namespace that belongs to no set; it may exist already."""


class Readable(Protocol):
    """What an inventory can be read from."""

    def read(self) -> Inventory:
        """Return the inventory, an empty one that does not exist when there is none."""


class Store(Readable, Protocol):
    """Where the inventory of one set is kept; every write is compare-and-swap."""

    def write(self, inventory: Inventory) -> Inventory:
        """Replace what was read, return it as stored; InventoryLocked when that has changed."""

    def remove(self, inventory: Inventory) -> None:
        """Delete the ConfigMap, as read."""


class DamagedStore(Store, Protocol):
    """A store whose inventory may be damaged."""

    def salvage(self) -> tuple[Inventory, Sequence[str]]:
        """Return what can be read of the inventory, and what cannot."""

    def strays(self) -> Sequence[str]:
        """Return the names of parts that the inventory, as read, does not name."""
