"""The shards of an inventory in the cluster: written before the root that names them.

Nobody who still needs a shard can lose it. What may be removed is listed before the root is
replaced: whoever made one of these and has not committed it yet loses the race for the root. And
it is removed only as it was listed: whoever wants one of them again touches it first.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.cluster.inventory.codec import decode_shard, encode_shard
from applyprune.cluster.objects import collection_path, object_path
from applyprune.cluster.transport.message import Request
from applyprune.errors import AccessError, AlreadyExists, NotFound, Unavailable
from applyprune.model.identity import Ref
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import SHARD_OF, WANTED, shard_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.cluster.inventory.packing import Shard
    from applyprune.cluster.transport.transport import Transport
    from applyprune.model.inventory import Inventory
    from applyprune.planning.applyset import ApplySetIdentity

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Stray:
    """A shard as it was listed: its UID and resourceVersion guard its removal."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of one set."""

    transport: Transport
    target: ApplySetIdentity

    def read(self, shard: Shard) -> bytes:
        """Return the lines of one shard; NotFound when it is missing, ValueError when spoiled."""
        ref = self._ref(shard)
        reply = self.transport.send(
            Request("GET", object_path(CONFIG_MAPS, ref), about=("", CONFIG_MAPS.plural, ref.name))
        )
        return decode_shard(reply.body, shard)

    def listed(self) -> Mapping[str, Stray]:
        """Return every shard of the set that is there, by name, named by a root or not."""
        selector = f"{SHARD_OF}={self.target.name}"
        found: dict[str, Stray] = {}
        token = ""
        while True:
            query = [("labelSelector", selector), ("limit", "500")]
            if token:
                query.append(("continue", token))
            reply = self.transport.send(
                Request("GET", self._collection, query=tuple(query), accept=_METADATA)
            )
            for item in reply.body.get("items") or ():
                stray = _stray(item["metadata"])
                if stray.name.startswith(f"{self.target.inventory.name}."):
                    found[stray.name] = stray
            token = str((reply.body.get("metadata") or {}).get("continue") or "")
            if not token:
                return found

    def put(
        self, inventory: Inventory, shards: Iterable[Shard], there: Mapping[str, Stray]
    ) -> None:
        """See that each of ``shards`` is there, and that nobody who has listed it may remove it."""
        for shard in shards:
            known = self._ref(shard).name in there
            for _ in range(_TRIES):
                if (known and self._claimed(shard)) or self._created(inventory, shard):
                    break
                known = True
            else:
                raise Unavailable(f"{self._ref(shard)} comes and goes", code=409)

    def remove(self, strays: Iterable[Stray]) -> None:
        """Remove shards that no root names, each just as it was listed, the others left alone."""
        for stray in strays:
            try:
                self._delete(stray)
            except AccessError:
                continue  # gone, wanted again, or not to be deleted now: a later write finds it

    def spare(self, there: Mapping[str, Stray], needed: Iterable[Shard]) -> Sequence[Stray]:
        """Return those that are ``there`` and not ``needed``."""
        names = {self._ref(shard).name for shard in needed}
        return [stray for name, stray in there.items() if name not in names]

    def _created(self, inventory: Inventory, shard: Shard) -> bool:
        body = json.dumps(encode_shard(inventory, shard)).encode()
        try:
            self.transport.send(Request("POST", self._collection, body=body))
        except AlreadyExists:
            return False
        return True

    def _claimed(self, shard: Shard) -> bool:
        """Move the resourceVersion of a shard; False when it is missing or spoiled."""
        ref = self._ref(shard)
        mark = {"metadata": {"annotations": {WANTED: uuid.uuid4().hex}}}
        try:
            body = self.transport.send(
                Request(
                    "PATCH",
                    object_path(CONFIG_MAPS, ref),
                    body=json.dumps(mark).encode(),
                    content_type="application/merge-patch+json",
                    about=("", CONFIG_MAPS.plural, ref.name),
                )
            ).body
        except NotFound:
            return False
        try:
            decode_shard(body, shard)
        except ValueError:
            self._delete(_stray(body["metadata"]))
            return False
        return True

    def _delete(self, stray: Stray) -> None:
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {"uid": stray.uid, "resourceVersion": stray.resource_version},
        }
        ref = Ref("", CONFIG_MAPS.kind, self.target.namespace, stray.name)
        self.transport.send(
            Request(
                "DELETE",
                object_path(CONFIG_MAPS, ref),
                body=json.dumps(options).encode(),
                about=("", CONFIG_MAPS.plural, ref.name),
            )
        )

    @property
    def _collection(self) -> str:
        return collection_path(CONFIG_MAPS, self.target.namespace)

    def _ref(self, shard: Shard) -> Ref:
        return shard_ref(self.target.name, self.target.namespace, shard.digest)


def _stray(metadata: Mapping[str, str]) -> Stray:
    return Stray(metadata["name"], metadata["uid"], metadata["resourceVersion"])
