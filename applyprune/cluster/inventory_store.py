"""The inventory in the cluster: created once, then replaced by compare-and-swap, never upserted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.clock import boot_time
from applyprune.cluster.inventory_format import (
    PackedInventory,
    Root,
    Shard,
    UnpackedLines,
    add_lines,
    changed_by_others_only,
    decode_root,
    decode_shard,
    encode_root,
    encode_shard,
    entries_in,
    entries_left,
    is_as_sent,
    pack_entries,
    stored_root,
    unreadable,
    write_in,
)
from applyprune.errors import (
    AccessError,
    AlreadyExists,
    Conflict,
    Denied,
    Forbidden,
    ForeignParent,
    InventoryError,
    InventoryIncomplete,
    InventoryLocked,
    InventoryTooNew,
    NotFound,
    Unavailable,
    Unreachable,
    UsageError,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import CONFIG_MAPS, Absent, LiveObject, is_after
from applyprune.model.plan import DeleteRequest, Precondition
from applyprune.model.text import counted
from applyprune.planning.applyset import (
    SET_ID,
    SHARD_OF,
    WANTED,
    ApplySetIdentity,
    applyset_identity,
    kinds_fault,
    set_name,
    shard_ref,
)
from applyprune.planning.requests import delete_request
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.cluster.client import KubernetesClient


_TRIES = 5


class ConfigMapStore:
    """The inventory of one set, in its ConfigMap and, if it is large, the shards that it names.

    One run uses one store; a store is not thread-safe.
    """

    def __init__(self, client: KubernetesClient, applyset: ApplySetIdentity) -> None:
        """Keep the client and the set; nothing is read yet."""
        self._client = client
        self._applyset = applyset
        self._shards = Shards(client, applyset)
        # The shards that the root names now, and the entries as last written: renewals write the
        # same entries again and again.
        self._stored_shards: tuple[Shard, ...] = ()
        self._written: Mapping[Ref, InventoryEntry] | None = None
        self._packed = pack_entries(())
        self._remove_strays = self._is_new = False

    def read_ahead(self) -> Inventory:
        """Return what ``read`` returns; if none exists, the next ``read`` believes that."""
        inventory = self.read()
        self._is_new = not inventory.exists
        return inventory

    def read(self) -> Inventory:
        """Return the inventory; if none exists, an empty one whose ``exists`` is false.

        Raises InventoryError if it cannot be read, ForeignParent if it is not this set's own,
        InventoryIncomplete if a shard is missing or damaged.
        """
        if self._is_new:
            self._is_new = False
            return Inventory(self._applyset.name, self._applyset.namespace)
        inventory, faults, missing = self._read()
        if faults := (*inventory.root.faults, *faults):  # guard: wrong-group-kinds -> False
            raise InventoryError(
                f"the inventory of the set {self._applyset.name} is not a valid ApplySet parent",
                location=str(self._applyset.inventory),
                reason="; ".join(faults),
                hint="Nothing was applied or pruned. To set its label and annotations again: "
                f"applyprune inventory repair {self._applyset.arguments}",
            )
        if missing:
            raise InventoryIncomplete(
                f"{len(missing)} of the inventory's shards cannot be used",
                location=str(self._applyset.inventory),
                reason="; ".join(missing[:3]),
                hint="Nothing was applied or pruned. Restore the ConfigMap, or rebuild it "
                "from the objects with the set's label: "
                f"applyprune inventory repair {self._applyset.arguments}",
            )
        return inventory

    def others(self, ids: Collection[str]) -> Mapping[str, Inventory | None]:
        """Return the inventories of the sets with these ids; None if there is none; thread-safe.

        A set whose inventory cannot be read is left out. If listing the whole cluster is forbidden,
        only the inventories in this set's namespace are found.
        """
        selector = f"{SET_ID}={next(iter(ids))}" if len(ids) == 1 else SET_ID
        found: dict[str, Inventory | None] = {}
        try:
            roots = self._client.list(CONFIG_MAPS, selector=selector)
            found = dict.fromkeys(ids)
        except Forbidden:
            try:
                home = self._applyset.namespace
                roots = self._client.list(CONFIG_MAPS, namespace=home, selector=selector)
            except AccessError:
                return found
        except AccessError:
            return found
        for live in roots:
            if (owner := set_of_inventory(live)) is None or owner.id not in ids:
                continue
            try:
                found[owner.id] = ConfigMapStore(self._client, owner).read()
            except (AccessError, InventoryError, InventoryLocked):
                found.pop(owner.id, None)
        return found

    def of(self, applyset: ApplySetIdentity) -> Inventory:
        """Return what ``read`` returns for another set; thread-safe."""
        return ConfigMapStore(self._client, applyset).read()

    def salvage(self) -> tuple[Inventory, Sequence[str]]:
        """Return the readable part of the inventory and what is unreadable; only for repair.

        What is wrong with its label and annotations is in its ``root``.
        """
        try:
            inventory, faults, missing = self._read()
        except (ForeignParent, InventoryTooNew):
            raise
        except InventoryError as error:
            live = self._live()
            if live is None:
                raise
            # Just enough to overwrite it.
            empty = Inventory(
                self._applyset.name,
                self._applyset.namespace,
                uid=live.uid,
                resource_version=live.resource_version,
                root=stored_root(live.body or {}),
            )
            return empty, (str(error.reason or error.message),)
        return inventory, (*faults, *missing)

    def strays(self) -> Sequence[str]:
        """Return the names of the shards that the inventory, as read, does not name.

        The next write removes them.
        """
        self._remove_strays = True
        existing = self._shards.listed()
        return [live.ref.name for live in self._shards.unneeded(existing, self._stored_shards)]

    def write(self, inventory: Inventory, *, within: float | None = None) -> Inventory:
        """Replace the inventory that was read and return it as stored now.

        The shards are written first; the root, which names them, commits them all at once. Raises
        InventoryLocked if the root has changed since it was read, InventoryError if there are too
        many entries, or if a reply and a read do not show it as it was sent. If only its label or
        annotations are missing, they are the faults in its ``root``. If the reply is lost, the
        write is recognized by its id. No request is sent again ``within`` seconds after its first
        try.
        """
        try:
            return self._write(inventory, within)
        except Denied as error:
            hint = (
                f"{self._applyset.inventory.short} is the set's inventory. Let the policy or "
                f"webhook except the ConfigMaps that have the label {SET_ID} or {SHARD_OF}."
            )
            error.problem = replace(error.problem, hint=hint)
            raise

    def _write(self, inventory: Inventory, within: float | None) -> Inventory:
        if inventory.entries is not self._written:
            self._packed = pack_entries(inventory.entries.values())
            self._written = inventory.entries
        packed = self._packed
        stored_digests = {shard.digest for shard in self._stored_shards}
        wanted = {shard.digest for shard in packed.shards}
        existing = self._shards.listed() if wanted != stored_digests or self._remove_strays else {}
        self._shards.put(
            inventory,
            (shard for shard in packed.shards if shard.digest not in stored_digests),
            existing,
            within,
        )
        stored = self._commit(inventory, packed, within)
        self._stored_shards, self._remove_strays = packed.shards, False
        self._shards.remove(self._shards.unneeded(existing, packed.shards), within)
        return stored

    def _commit(
        self, inventory: Inventory, packed: PackedInventory, within: float | None
    ) -> Inventory:
        """Write the root, again if only other tools have changed it since."""
        write_id = uuid.uuid4().hex
        fresh = replace(inventory, generation=inventory.generation + 1)
        rest = _time_limit(within)
        for _ in range(_TRIES):
            self._refuse_terminating(fresh)  # guard: terminating-inventory
            sent = encode_root(fresh, packed, write=write_id)
            stored = self._put(fresh, sent, write_id, rest())
            if not isinstance(stored, Inventory):
                break
            fresh = replace(fresh, resource_version=stored.resource_version, root=stored.root)
        else:
            raise self._locked_error()
        body = stored.body or {}
        root = stored_root(body)
        if not is_as_sent(body, sent):
            # By what every reader asks: a webhook may have added what does no harm.
            found = decode_root(body)
            named = kinds_fault(stored.annotations, fresh.entries.keys())
            root = replace(root, faults=(*found.faults, *named))
        return replace(fresh, uid=stored.uid, resource_version=stored.resource_version, root=root)

    def _put(
        self, inventory: Inventory, sent: Mapping[str, Any], write_id: str, within: float | None
    ) -> LiveObject | Inventory:
        """Return the root as stored; or the inventory to write again, if only others changed it."""
        ref = self._applyset.inventory
        try:
            reply = (
                self._client.replace(CONFIG_MAPS, ref, sent, timeout=within)
                if inventory.exists
                else self._client.create(CONFIG_MAPS, ref, sent, retry=False, timeout=within)
            )
        except (AlreadyExists, Conflict, NotFound, Unavailable, Unreachable) as error:
            stored = self._live(within)
            if stored is None or write_in(stored.body or {}) != write_id:
                at = "" if stored is None else stored.resource_version
                if isinstance(error, NotFound) and at == inventory.resource_version:
                    raise self._refused_error(error) from error
                if isinstance(error, Conflict) and stored is not None:
                    return self._unless_locked(inventory, stored)
                if isinstance(error, AlreadyExists | Conflict | NotFound):
                    raise self._locked_error() from error
                raise
            return self._with_data(stored, sent)
        return self._proved(inventory, reply, sent, write_id, within)

    def _proved(
        self,
        inventory: Inventory,
        reply: LiveObject,
        sent: Mapping[str, Any],
        write_id: str,
        within: float | None,
    ) -> LiveObject:
        """Return the root as stored: by the reply if it proves that, else by a read."""
        is_new = inventory.uid in {"", reply.uid} and is_after(reply, inventory.resource_version)
        if is_new and is_as_sent(reply.body or {}, sent):  # guard: inventory-reply always
            return reply
        stored = self._live(within)
        if stored is None or write_in(stored.body or {}) != write_id:
            raise InventoryError(
                f"the inventory of the set {self._applyset.name} was not written",
                location=str(self._applyset.inventory),
                reason="the server answered that it was, but a read does not show it",
                hint="A gateway or proxy may have answered in its place, for example with the "
                "reply of a dry run. Run again.",
            )
        return self._with_data(stored, sent)

    def _with_data(self, stored: LiveObject, sent: Mapping[str, Any]) -> LiveObject:
        """Return a stored root; raise Unavailable if its data are not those of the write."""
        body = stored.body or {}
        if any(body.get(key) != sent.get(key) for key in ("data", "binaryData")):
            raise Unavailable(
                f"{self._applyset.inventory}: invalid response from the server",
                code=200,
                reason="it differs from what was written",
            )
        return stored

    def _unless_locked(self, inventory: Inventory, stored: LiveObject) -> Inventory:
        """Return the inventory of a root that only other tools have changed; InventoryLocked."""
        body = stored.body or {}
        if not changed_by_others_only(inventory, body):  # guard: inventory-own-data never
            raise self._locked_error()
        version = stored.resource_version
        return replace(inventory, resource_version=version, root=stored_root(body))

    def remove(self, inventory: Inventory, *, within: float | None = None) -> Sequence[str]:
        """Delete the root, then every shard; InventoryLocked when the root has changed.

        Return the finalizers of other tools that still hold the root; it lists no object then.
        Raises InventoryError if the root still exists afterwards for another reason.
        """
        try:
            existing = self._shards.listed()
        except AccessError:
            existing = {}  # a leftover shard does no harm
        held_by = self._remove_root(inventory, within)
        self._shards.remove(existing.values(), within)
        return held_by

    def _remove_root(self, inventory: Inventory, within: float | None) -> Sequence[str]:
        rest = _time_limit(within)
        for _ in range(_TRIES):
            if inventory.root.finalizers and inventory.entries:
                # As long as it is held, it would list objects that are gone.
                inventory = self.write(replace(inventory, entries={}, holder=None), within=rest())
            as_read = Precondition(inventory.uid, inventory.resource_version)
            request = DeleteRequest(CONFIG_MAPS, self._applyset.inventory, as_read)
            try:
                self._client.delete(request, timeout=rest())
            except NotFound:
                pass  # it says nothing, as from a webhook
            except Conflict as error:
                stored = self._live(rest())
                if stored is None:
                    raise self._locked_error() from error
                inventory = self._unless_locked(inventory, stored)
                continue
            return self._confirm_removal(inventory)  # guard: inventory-removed -> ()
        raise self._locked_error()

    def _confirm_removal(self, inventory: Inventory) -> Sequence[str]:
        """Read the root after a delete: it must be gone or going, whatever the reply says.

        Return the finalizers that hold it.
        """
        root = self._client.read(CONFIG_MAPS, self._applyset.inventory)
        if isinstance(root, Absent) or root.uid != inventory.uid:
            return ()
        if root.terminating:
            return root.finalizers
        raise InventoryError(
            f"the inventory of the set {self._applyset.name} was not deleted",
            reason=f"the server has not confirmed it, and {self._applyset.inventory} still exists",
            hint="No object of the set is left. An admission webhook may have refused the request, "
            "or a gateway has answered in the server's place. Run again: applyprune delete "
            f"{self._applyset.arguments}",
        )

    def _read(self) -> tuple[Inventory, Sequence[str], Sequence[str]]:
        """Return the readable part, what is wrong with the root, and with each unreadable shard."""
        for _ in range(_TRIES):
            live = self._live()
            if live is None:
                self._stored_shards, self._written = (), None
                return Inventory(self._applyset.name, self._applyset.namespace), (), ()
            root = decode_root(live.body or {})
            self._stored_shards, self._written = root.shards, None
            lines = UnpackedLines()
            if root.inline is not None:
                add_lines(root, lines, root.inline)
            readable: list[Shard] = []
            missing: list[str] = []
            for shard, part in self._shards.read(root.shards):
                name = f"the shard {shard.digest[:32]}"
                if isinstance(part, bytes):
                    add_lines(root, lines, part)
                    readable.append(shard)
                elif isinstance(part, NotFound):
                    missing.append(f"{name} ({counted(shard.count, 'object')}) is gone")
                else:
                    missing.append(f"{name}: {part}")
            if not missing:
                entries = entries_in(root, lines.parts)
                faults = kinds_fault(live.annotations, entries.keys())
                return replace(_with_faults(root), entries=entries), faults, ()
            # Another run may have replaced the root and then removed the shards of the old one.
            now = self._live()
            if now is not None and write_in(now.body or {}) == root.write:
                if not root.is_labelled:
                    raise unreadable(self._applyset, ValueError(), is_labelled=False)
                self._stored_shards = tuple(readable)
                left = entries_left(root, lines.parts)
                return replace(_with_faults(root), entries=left), (), missing
        raise InventoryLocked(f"{self._applyset.inventory} changes faster than it can be read")

    def _live(self, within: float | None = None) -> LiveObject | None:
        ref = self._applyset.inventory
        try:
            return self._client.inventory(ref, timeout=within)
        except NotFound:
            return None

    def _refused_error(self, error: NotFound) -> InventoryError:
        return InventoryError(
            f"the inventory of the set {self._applyset.name} was not written",
            reason=f"the server says {error.message!r}, but it exists, and nothing has changed it",
            hint="An admission webhook may have answered. Run again.",
        )

    def _refuse_terminating(self, inventory: Inventory) -> None:
        """Refuse to write what is lost as soon as another tool removes its finalizer."""
        if not inventory.root.is_terminating:
            return
        held_by = ", ".join(inventory.root.finalizers)
        raise InventoryError(
            f"the inventory of the set {self._applyset.name} is being deleted",
            location=str(self._applyset.inventory),
            reason=f"it still exists only because of its finalizers: {held_by}",
            hint="What is written to it now would be lost. Save it first if it lists objects that "
            f"still exist: kubectl get configmap {self._applyset.inventory.name} -n "
            f"{self._applyset.namespace} -o yaml. Then let the tool that set the finalizers remove "
            "them, and run again.",
        )

    def _locked_error(self) -> InventoryLocked:
        return InventoryLocked(
            f"the inventory of the set {self._applyset.name} was changed by another run",
            hint="Run again: the next run continues from the state that the other run left.",
        )


# Seconds for a request that starts at the end of its time; it is refused before it is sent then.
_LEAST_TIME = 0.001


def _time_limit(within: float | None) -> Callable[[], float | None]:
    """Return what says how many of ``within`` seconds are left for a request."""
    ends = boot_time() + (within or 0.0)
    return lambda: max(_LEAST_TIME, ends - boot_time()) if within else None


def _with_faults(root: Root) -> Inventory:
    inventory = root.inventory
    return replace(inventory, root=replace(inventory.root, faults=root.faults))


# The shards, written before the root that names them. No run can lose one that it still needs:
# those to remove are listed before the root is replaced, so that a run that has created one of them
# and has not committed it will fail to write the root, and each is removed only as it was listed,
# which a run that needs it again changes first.


_SHARD_TRIES = 3


class Shards(Struct, frozen=True):
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

        def slim(live: LiveObject) -> LiveObject:
            # Anybody may add ConfigMaps with the label, and they may be large.
            return live if live.ref.name in wanted else replace(live, packed_body=None)

        try:
            objects, _ = self.client.list_at(
                CONFIG_MAPS,
                namespace=self.applyset.namespace,
                selector=self._selector,
                full=True,
                slim=slim,
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
            listed = existing.get(self._ref(shard).name)
            exists, version = listed is not None, listed.resource_version if listed else ""
            for _ in range(_SHARD_TRIES):
                if (exists and self._reserve(shard, version, within)) or self._create(
                    inventory, shard, within
                ):
                    break
                exists = True
            else:
                raise Unavailable(
                    f"{self._ref(shard)}, a part of the inventory, was not written",
                    code=409,
                    reason="it is created and deleted again and again, or the replies are not true",
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
            live = self.client.create(CONFIG_MAPS, self._ref(shard), body, timeout=within)
        except AlreadyExists:
            return False
        # The reply to a dry run has no resourceVersion, and then the root would name nothing.
        if not live.resource_version or not _contains(live, shard):  # guard: shard-is-stored never
            stored = self.client.read(CONFIG_MAPS, self._ref(shard), full=True)
            return isinstance(stored, LiveObject) and _contains(stored, shard)
        return True

    def _reserve(self, shard: Shard, version: str, within: float | None) -> bool:
        """Change the resourceVersion of a shard; False when it is missing or damaged.

        ``version`` is the one that it had in the list; empty if the list lacked it.
        """
        ref, mark = self._ref(shard), uuid.uuid4().hex
        annotation = {"metadata": {"annotations": {WANTED: mark}}}
        try:
            live = self.client.merge_patch(CONFIG_MAPS, ref, annotation, timeout=within)
        except NotFound:
            return False
        if not (version and is_after(live, version)):
            stored = self.client.read(CONFIG_MAPS, ref, full=True)
            if isinstance(stored, Absent) or stored.annotations.get(WANTED) != mark:
                return False  # guard: shard-is-reserved
            live = stored
        if live.terminating:  # guard: terminating-shard never
            raise InventoryError(
                f"{live.ref}, a part of the inventory, is being deleted",
                reason=f"it still exists only because of its finalizers: "
                f"{', '.join(live.finalizers)}",
                hint="Let the tool that set the finalizers remove them, and run again.",
            )
        if not _contains(live, shard):
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


def _contains(live: LiveObject, shard: Shard) -> bool:
    try:
        decode_shard(live.body or {}, shard)
    except ValueError:
        return False
    return True


# The inventories of a cluster.


# An inventory may be as large as a megabyte.
_INVENTORIES_PER_PAGE = 50


def list_inventories(client: KubernetesClient, namespace: str = "") -> Sequence[ListedInventory]:
    """Return every inventory in one namespace or in all, including unreadable ones."""
    found: list[ListedInventory] = []
    objects = client.list(
        CONFIG_MAPS, namespace=namespace, selector=SET_ID, full=True, page=_INVENTORIES_PER_PAGE
    )
    for live in objects:
        if (owner := set_of_inventory(live)) is None:
            continue
        try:
            found.append(ListedInventory(owner.namespace, owner.name, decode_root(live.body or {})))
        except InventoryError as error:
            reason = error.reason or error.message
            found.append(ListedInventory(owner.namespace, owner.name, None, reason))
    return found


def list_sets(client: KubernetesClient, namespace: str = "") -> Sequence[ApplySetIdentity]:
    """Return every set in one namespace or in all, without reading the inventories."""
    objects = client.list(CONFIG_MAPS, namespace=namespace, selector=SET_ID)
    return [applyset for live in objects if (applyset := set_of_inventory(live)) is not None]


def set_of_inventory(live: LiveObject) -> ApplySetIdentity | None:
    """Return the set of an inventory; None for another tool's ApplySet parent."""
    try:
        applyset = applyset_identity(set_name(live.ref.name), live.ref.namespace)
    except UsageError:
        return None
    is_ours = live.ref == applyset.inventory and live.labels[SET_ID] == applyset.id
    return applyset if is_ours else None


class ListedInventory(Struct, frozen=True):
    """One inventory of a list; ``root`` is None if it cannot be read, for ``reason``."""

    namespace: str
    name: str
    root: Root | None
    reason: str = ""
