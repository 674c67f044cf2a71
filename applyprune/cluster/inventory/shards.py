"""Store the shards of an inventory: they are written before the root that names them.

No run can lose a shard that it still needs. Shards to remove are listed before the root is
replaced: a run that has created one of them, but has not committed it yet, will fail to write the
root. A shard is removed only in the state in which it was listed: a run that needs it again first
changes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.cluster.inventory.codec import decode_shard, encode_shard
from applyprune.cluster.inventory.packing import Shard
from applyprune.errors import (
    AccessError,
    AlreadyExists,
    InventoryError,
    NotFound,
    Unavailable,
    Unreachable,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import SHARD_OF, WANTED, ApplySetIdentity, shard_ref
from applyprune.planning.requests import delete_request
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.cluster.client import KubernetesClient
    from applyprune.model.live import LiveObject

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of one set."""

    client: KubernetesClient
    applyset: ApplySetIdentity

    def read(
        self, shards: Sequence[Shard]
    ) -> Iterator[tuple[Shard, bytes | NotFound | ValueError]]:
        """Yield each shard with its lines; or with why there are none, ValueError if damaged."""
        # One list instead of up to a thousand requests, one after the other.
        found = self._bodies(shards) if len(shards) > 1 else {}
        for shard in shards:
            lines: bytes | NotFound | ValueError
            try:
                # A list does not prove that one is gone.
                live = found.pop(self._ref(shard).name, None) or self.client.get(
                    CONFIG_MAPS, self._ref(shard), full=True
                )
                lines = decode_shard(live.body or {}, shard)
            except (NotFound, ValueError) as error:
                lines = error
            yield shard, lines

    def _bodies(self, shards: Sequence[Shard]) -> dict[str, LiveObject]:
        """Return the shards that a list finds; none if it fails."""
        wanted = {self._ref(shard).name for shard in shards}

        def keep(live: LiveObject) -> LiveObject:
            # Anybody may add ConfigMaps with the label, and they may be large.
            return live if live.ref.name in wanted else replace(live, packed_body=None)

        try:
            objects, _ = self.client.list_at(
                CONFIG_MAPS,
                namespace=self.applyset.namespace,
                selector=self._selector,
                full=True,
                keep=keep,
            )
        except Unreachable:
            raise
        except AccessError:
            return {}
        return {live.ref.name: live for live in objects if live.ref.name in wanted}

    def listed(self) -> Mapping[str, LiveObject]:
        """Return every existing shard of the set by its name, whether a root names it or not."""
        objects = self.client.list(
            CONFIG_MAPS,
            namespace=self.applyset.namespace,
            selector=self._selector,
        )
        prefix = f"{self.applyset.inventory.name}."
        return {live.ref.name: live for live in objects if live.ref.name.startswith(prefix)}

    def put(
        self,
        inventory: Inventory,
        shards: Iterable[Shard],
        existing: Mapping[str, LiveObject],
        within: float | None,
    ) -> None:
        """Make sure that each shard exists, and that no run that has listed it removes it.

        ``within`` is in seconds and limits all tries of one request.
        """
        for shard in shards:
            exists = self._ref(shard).name in existing
            for _ in range(_TRIES):
                if (exists and self._reserve(shard, within)) or self._create(
                    inventory, shard, within
                ):
                    break
                exists = True
            else:
                raise Unavailable(
                    f"{self._ref(shard)} is created and deleted again and again", code=409
                )

    def remove(self, shards: Iterable[LiveObject], within: float | None) -> None:
        """Remove shards that no root names, each only in the state in which it was listed."""
        for shard in shards:
            try:
                self._delete(shard, within)
            except AccessError:
                continue  # gone, needed again, or not deletable now: a later write removes it

    def unneeded(
        self, existing: Mapping[str, LiveObject], needed: Iterable[Shard]
    ) -> Sequence[LiveObject]:
        """Return the ``existing`` shards that are not ``needed``."""
        names = {self._ref(shard).name for shard in needed}
        return [live for name, live in existing.items() if name not in names]

    def _create(self, inventory: Inventory, shard: Shard, within: float | None) -> bool:
        body = encode_shard(inventory, shard)
        try:
            self.client.create(CONFIG_MAPS, self._ref(shard), body, timeout=within)
        except AlreadyExists:
            return False
        return True

    def _reserve(self, shard: Shard, within: float | None) -> bool:
        """Change the resourceVersion of a shard; False when it is missing or damaged."""
        annotation = {"metadata": {"annotations": {WANTED: uuid.uuid4().hex}}}
        try:
            live = self.client.merge_patch(
                CONFIG_MAPS, self._ref(shard), annotation, timeout=within
            )
        except NotFound:
            return False
        if live.terminating:  # guard: terminating-shard
            raise InventoryError(
                f"{live.ref}, a part of the inventory, is being deleted",
                reason=f"it still exists only because of its finalizers: "
                f"{', '.join(live.finalizers)}",
                hint="Let the tool that set the finalizers remove them, and run again.",
            )
        try:
            decode_shard(live.body or {}, shard)
        except ValueError:
            self._delete(live, within)
            return False
        return True

    def _delete(self, live: LiveObject, within: float | None) -> None:
        self.client.delete(delete_request(CONFIG_MAPS, live), timeout=within)

    @property
    def _selector(self) -> str:
        return f"{SHARD_OF}={self.applyset.name}"

    def _ref(self, shard: Shard) -> Ref:
        return shard_ref(self.applyset.name, self.applyset.namespace, shard.digest)
