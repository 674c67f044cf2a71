"""The shards of an inventory in the cluster: written before the root that names them.

No run can lose a shard that it still needs. Shards to remove are listed before the root is
replaced: a run that has created one of them, and has not committed it yet, loses the race for the
root. A shard is removed only in the state in which it was listed: a run that needs it again changes
it first.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.cluster.inventory.codec import decode_shard, encode_shard
from applyprune.errors import AccessError, AlreadyExists, NotFound, Unavailable
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import SHARD_OF, WANTED, shard_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.cluster.client import KubernetesClient
    from applyprune.cluster.inventory.packing import Shard
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory
    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of one set."""

    client: KubernetesClient
    target: ApplySetIdentity

    def read(self, shard: Shard) -> bytes:
        """Return the lines of one shard; raises NotFound, and ValueError if it is damaged."""
        live = self.client.get(CONFIG_MAPS, self._ref(shard), full=True)
        return decode_shard(live.body or {}, shard)

    def listed(self) -> Mapping[str, LiveObject]:
        """Return every existing shard of the set by its name, whether a root names it or not."""
        lives = self.client.list(
            CONFIG_MAPS,
            namespace=self.target.namespace,
            selector=f"{SHARD_OF}={self.target.name}",
        )
        prefix = f"{self.target.inventory.name}."
        return {live.ref.name: live for live in lives if live.ref.name.startswith(prefix)}

    def put(
        self, inventory: Inventory, shards: Iterable[Shard], there: Mapping[str, LiveObject]
    ) -> None:
        """Make each of ``shards`` exist, and keep every run that has listed it from removing it."""
        for shard in shards:
            known = self._ref(shard).name in there
            for _ in range(_TRIES):
                if (known and self._claimed(shard)) or self._created(inventory, shard):
                    break
                known = True
            else:
                raise Unavailable(
                    f"{self._ref(shard)} is created and deleted again and again", code=409
                )

    def remove(self, shards: Iterable[LiveObject]) -> None:
        """Remove shards that no root names, each only in the state in which it was listed."""
        for shard in shards:
            try:
                self._delete(shard)
            except AccessError:
                continue  # gone, needed again, or not deletable now: a later write finds it

    def unneeded(
        self, there: Mapping[str, LiveObject], needed: Iterable[Shard]
    ) -> Sequence[LiveObject]:
        """Return the shards that are ``there`` and not ``needed``."""
        names = {self._ref(shard).name for shard in needed}
        return [live for name, live in there.items() if name not in names]

    def _created(self, inventory: Inventory, shard: Shard) -> bool:
        try:
            self.client.create(CONFIG_MAPS, self._ref(shard), encode_shard(inventory, shard))
        except AlreadyExists:
            return False
        return True

    def _claimed(self, shard: Shard) -> bool:
        """Change the resourceVersion of a shard; False when it is missing or damaged."""
        mark = {"metadata": {"annotations": {WANTED: uuid.uuid4().hex}}}
        try:
            live = self.client.merge_patch(CONFIG_MAPS, self._ref(shard), mark)
        except NotFound:
            return False
        try:
            decode_shard(live.body or {}, shard)
        except ValueError:
            self._delete(live)
            return False
        return True

    def _delete(self, live: LiveObject) -> None:
        self.client.delete(
            CONFIG_MAPS, live.ref, uid=live.uid, resource_version=live.resource_version
        )

    def _ref(self, shard: Shard) -> Ref:
        return shard_ref(self.target.name, self.target.namespace, shard.digest)
