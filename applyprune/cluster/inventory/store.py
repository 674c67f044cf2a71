"""Where an inventory is kept: created once, then replaced by compare-and-swap, never upserted."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from applyprune.cluster.inventory.codec import Root, decode, encode, entries_in, entries_left
from applyprune.cluster.inventory.packing import pack
from applyprune.cluster.inventory.shards import Shards
from applyprune.cluster.objects import collection_path, object_path
from applyprune.cluster.transport.message import Request
from applyprune.errors import (
    AccessError,
    AlreadyExists,
    Conflict,
    InventoryError,
    InventoryIncomplete,
    InventoryLocked,
    InventoryTooNew,
    NotFound,
    Unavailable,
    Unreachable,
    UsageError,
)
from applyprune.model.inventory import Inventory
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import SET_ID, applyset_identity, set_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.cluster.inventory.packing import Packed, Shard
    from applyprune.cluster.transport.transport import Transport
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Entry
    from applyprune.planning.applyset import ApplySetIdentity

_TRIES = 5


class ConfigMapStore:
    """The inventory of one set, in its ConfigMap and, when it is large, the shards that it names.

    One run uses one store; a store is not thread-safe.
    """

    def __init__(self, transport: Transport, target: ApplySetIdentity) -> None:
        """Take a transport and the set; nothing is read yet."""
        self._transport = transport
        self._target = target
        self._path = object_path(CONFIG_MAPS, target.inventory)
        self._shards = Shards(transport, target)
        # The shards that the root names now; and what was written last, for renewals write the
        # same entries again and again.
        self._named: tuple[Shard, ...] = ()
        self._written: Mapping[Ref, Entry] | None = None
        self._packed = pack(())
        self._sweeps = False

    def read(self) -> Inventory:
        """Return the inventory; one that does not exist when there is none.

        Raises InventoryError when there is something that cannot be read, InventoryIncomplete when
        a shard is missing or spoiled.
        """
        inventory, missing = self._read()
        if missing:
            raise InventoryIncomplete(
                f"{len(missing)} of the inventory's shards cannot be used",
                location=str(self._target.inventory),
                reason="; ".join(missing[:3]),
                hint="Nothing was applied or pruned. Restore the ConfigMap, or take what it listed "
                f"from the labels: applyprune inventory repair {self._target.arguments}",
            )
        return inventory

    def salvage(self) -> tuple[Inventory, Sequence[str]]:
        """Return what can be read of the inventory, and what cannot: for its repair only."""
        try:
            return self._read()
        except InventoryTooNew:
            raise
        except InventoryError as error:
            body = self._body()
            if body is None:
                raise
            metadata = body["metadata"]
            # Enough to write over it, and no more.
            empty = Inventory(
                self._target.name,
                self._target.namespace,
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
            return empty, (str(error.reason or error.message),)

    def strays(self) -> Sequence[str]:
        """Return the names of shards that the inventory, as read, does not name.

        The next write removes them.
        """
        self._sweeps = True
        there = self._shards.listed()
        return [stray.name for stray in self._shards.spare(there, self._named)]

    def write(self, inventory: Inventory) -> Inventory:
        """Write over what was read and return what is stored now.

        The shards go first; the root, which names them, commits them all at once. Raises
        InventoryLocked when the root is no longer as it was read, InventoryError when there are too
        many entries.
        A reply that got lost is found again by the mark that each write leaves.
        """
        if inventory.entries is not self._written:
            self._packed = pack(inventory.entries.values())
            self._written = inventory.entries
        packed = self._packed
        named = {shard.digest for shard in self._named}
        wanted = {shard.digest for shard in packed.shards}
        there = self._shards.listed() if wanted != named or self._sweeps else {}
        self._shards.put(
            inventory, (shard for shard in packed.shards if shard.digest not in named), there
        )
        stored = self._commit(inventory, packed)
        self._named, self._sweeps = packed.shards, False
        self._shards.remove(self._shards.spare(there, packed.shards))
        return stored

    def _commit(self, inventory: Inventory, packed: Packed) -> Inventory:
        mark = uuid.uuid4().hex
        fresh = replace(inventory, generation=inventory.generation + 1)
        sent = encode(fresh, packed, write=mark)
        body = json.dumps(sent, ensure_ascii=False).encode()
        request = (
            Request("PUT", self._path, body=body, about=self._about)
            if inventory.exists
            else Request(
                "POST",
                collection_path(CONFIG_MAPS, self._target.namespace),
                body=body,
                retry=False,
            )
        )
        try:
            reply: Mapping[str, Any] = self._transport.send(request).body
        except (AlreadyExists, Conflict, NotFound, Unavailable, Unreachable) as error:
            stored = self._body()
            if stored is None or not _is_ours(stored, mark):
                if isinstance(error, AlreadyExists | Conflict | NotFound):
                    raise self._lost() from error
                raise
            reply = stored
        if reply.get("data") != sent["data"] or reply.get("binaryData") != sent.get("binaryData"):
            raise Unavailable(
                f"{self._target.inventory}: the server's reply cannot be believed",
                code=200,
                reason="it is not what was written",
            )
        metadata = reply["metadata"]
        return replace(fresh, uid=metadata["uid"], resource_version=metadata["resourceVersion"])

    def remove(self, inventory: Inventory) -> None:
        """Delete the root, then every shard; InventoryLocked when the root has changed."""
        try:
            there = self._shards.listed()
        except AccessError:
            there = {}  # a shard that is left behind names nothing any more
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {
                "uid": inventory.uid,
                "resourceVersion": inventory.resource_version,  # guard: inventory-removal-version
            },
        }
        try:
            self._transport.send(
                Request("DELETE", self._path, body=json.dumps(options).encode(), about=self._about)
            )
        except NotFound:
            pass
        except Conflict as error:
            raise self._lost() from error
        self._shards.remove(there.values())

    @property
    def _about(self) -> tuple[str, str, str]:
        return (CONFIG_MAPS.group, CONFIG_MAPS.plural, self._target.inventory.name)

    def _read(self) -> tuple[Inventory, Sequence[str]]:
        """Return what could be read, and of each shard that could not be why."""
        for _ in range(_TRIES):
            body = self._body()
            if body is None:
                self._named, self._written = (), None
                return Inventory(self._target.name, self._target.namespace), ()
            root = decode(body)
            self._named, self._written = root.shards, None
            parts: list[bytes] = [root.inline] if root.inline is not None else []
            good: list[Shard] = []
            missing: list[str] = []
            for shard in root.shards:
                try:
                    parts.append(self._shards.read(shard))
                    good.append(shard)
                except NotFound:
                    missing.append(f"the shard {shard.digest[:32]} ({shard.count} objects) is gone")
                except ValueError as error:
                    missing.append(f"the shard {shard.digest[:32]}: {error}")
            if not missing:
                return replace(root.inventory, entries=entries_in(root, parts)), ()
            # Somebody may have replaced the root, and then removed what the old one named.
            now = self._body()
            if now is not None and decode(now).write == root.write:
                self._named = tuple(good)
                return replace(root.inventory, entries=entries_left(root, parts)), missing
        raise InventoryLocked(f"{self._target.inventory} changes faster than it can be read")

    def _body(self) -> Mapping[str, Any] | None:
        try:
            reply = self._transport.send(Request("GET", self._path, about=self._about))
        except NotFound:
            return None
        labels = (reply.body.get("metadata") or {}).get("labels") or {}
        if labels.get(SET_ID) != self._target.id:
            raise InventoryError(
                f"{self._target.inventory} is not this set's inventory",
                reason=f"its label {SET_ID} is {labels.get(SET_ID)!r}, and should be "
                f"{self._target.id!r}",
                hint="Was it copied from another set, or made by something else? "
                "Choose another name for this set, or remove that ConfigMap.",
            )
        return reply.body

    def _lost(self) -> InventoryLocked:
        return InventoryLocked(
            f"the inventory of the set {self._target.name} was changed by another run",
            hint="Run again: the next run goes on from what that one left.",
        )


def _is_ours(body: Mapping[str, Any], mark: str) -> bool:
    try:
        return decode(body).write == mark
    except InventoryError:
        return False


@dataclass(frozen=True, slots=True)
class Entered:
    """One inventory of a list; ``root`` is None when it cannot be read, for the reason given."""

    namespace: str
    name: str
    root: Root | None
    reason: str = ""


def list_inventories(transport: Transport, namespace: str = "") -> Sequence[Entered]:
    """Return every inventory in one namespace or in all; one that cannot be read is no obstacle."""
    found: list[Entered] = []
    token = ""
    while True:
        query = [("labelSelector", SET_ID), ("limit", "50")]
        if token:
            query.append(("continue", token))
        reply = transport.send(
            Request("GET", collection_path(CONFIG_MAPS, namespace), query=tuple(query))
        )
        for item in reply.body.get("items") or ():
            metadata = item["metadata"]
            try:
                owner = applyset_identity(set_name(metadata["name"]), metadata["namespace"])
            except UsageError:
                continue  # another tool's ApplySet parent
            if metadata["name"] != owner.inventory.name or metadata["labels"][SET_ID] != owner.id:
                continue
            try:
                found.append(Entered(owner.namespace, owner.name, decode(item)))
            except InventoryError as error:
                reason = error.reason or error.message
                found.append(Entered(owner.namespace, owner.name, None, reason))
        token = str((reply.body.get("metadata") or {}).get("continue") or "")
        if not token:
            return found
