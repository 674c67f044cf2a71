"""Where an inventory is kept: created once, then replaced by compare-and-swap, never upserted."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.cluster.inventory_codec import Stored, decode, encode
from applyprune.cluster.paths import collection_path, object_path
from applyprune.cluster.request import Request
from applyprune.errors import (
    AlreadyExists,
    Conflict,
    InventoryError,
    LostRace,
    NotFound,
    Unavailable,
    Unreachable,
)
from applyprune.model.builtin import CONFIG_MAPS
from applyprune.model.inventory import Inventory
from applyprune.planning.tracking import SET_ID, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.cluster.transport import Transport
    from applyprune.planning.tracking import SetIdentity


class ConfigMapStore:
    """The inventory of one set, in its ConfigMap."""

    def __init__(self, transport: Transport, target: SetIdentity) -> None:
        """Take a transport and the set; nothing is read yet."""
        self._transport = transport
        self._target = target
        self._path = object_path(CONFIG_MAPS, target.inventory)

    def read(self) -> Inventory:
        """Return the inventory; one that does not exist when there is none.

        Raises InventoryError when there is something that cannot be read.
        """
        stored = self._stored()
        if stored is None:
            return Inventory(self._target.name, self._target.namespace)
        return stored.inventory

    def write(self, inventory: Inventory) -> Inventory:
        """Write over what was read and return what is stored now.

        Raises LostRace when it is no longer as it was read, InventoryError when it does not fit.
        A reply that got lost is found again by the mark that each write leaves.
        """
        mark = uuid.uuid4().hex
        fresh = replace(inventory, generation=inventory.generation + 1, copied=False)
        body = json.dumps(encode(fresh, write=mark), ensure_ascii=False).encode()
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
            reply = self._transport.send(request)
        except (AlreadyExists, Conflict, NotFound, Unavailable, Unreachable) as error:
            stored = self._stored()
            if stored is not None and stored.write == mark:
                return stored.inventory
            if isinstance(error, AlreadyExists | Conflict | NotFound):
                raise self._lost() from error
            raise
        return self._believed(decode(reply.body), mark)

    def remove(self, inventory: Inventory) -> None:
        """Delete the ConfigMap just as it was read; LostRace when it has changed."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {
                "uid": inventory.uid,
                "resourceVersion": inventory.resource_version,
            },
        }
        try:
            self._transport.send(
                Request("DELETE", self._path, body=json.dumps(options).encode(), about=self._about)
            )
        except NotFound:
            return
        except Conflict as error:
            raise self._lost() from error

    @property
    def _about(self) -> tuple[str, str, str]:
        return (CONFIG_MAPS.group, CONFIG_MAPS.plural, self._target.inventory.name)

    def _stored(self) -> Stored | None:
        try:
            reply = self._transport.send(Request("GET", self._path, about=self._about))
        except NotFound:
            return None
        labels = (reply.body.get("metadata") or {}).get("labels") or {}
        if labels.get(SET_ID) != self._target.id:
            raise InventoryError(
                f"{self._target.inventory} is not this set's inventory",
                why=f"its label {SET_ID} is {labels.get(SET_ID)!r}, and should be "
                f"{self._target.id!r}",
                hint="Was it copied from another set, or made by something else? "
                "Choose another name for this set, or remove that ConfigMap.",
            )
        return decode(reply.body)

    def _believed(self, stored: Stored, mark: str) -> Inventory:
        if stored.write != mark:
            raise Unavailable(
                f"{self._target.inventory}: the server's reply cannot be believed",
                code=200,
                why="it is not what was written",
            )
        return stored.inventory

    def _lost(self) -> LostRace:
        return LostRace(
            f"the inventory of the set {self._target.name} was changed by another run",
            hint="Run again: the next run goes on from what that one left.",
        )


def list_inventories(transport: Transport, namespace: str = "") -> Sequence[Inventory]:
    """Return every inventory of applyprune, in one namespace or in all; raises InventoryError."""
    found: list[Inventory] = []
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
            name = metadata["name"]
            if not name.startswith("applyprune-"):
                continue  # another tool's ApplySet parent
            owner = identity(name.removeprefix("applyprune-"), metadata["namespace"])
            if metadata["labels"][SET_ID] == owner.id:
                found.append(decode(item).inventory)
        token = str((reply.body.get("metadata") or {}).get("continue") or "")
        if not token:
            return found
