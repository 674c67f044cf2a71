"""Encode an inventory as its root ConfigMap, and decode it.

Decoding is strict: an unreadable inventory is never taken for an empty one. The header, one line of
JSON, has the number of entries and their digest, so part of an inventory is never taken for the
whole. The entries are stored beside it, readable with ``kubectl get -o yaml`` while they are few,
or in the shards that the header names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from applyprune._version import __version__
from applyprune.cluster.inventory.entries import entries_of, typed
from applyprune.cluster.inventory.packing import (
    MOST,
    MOST_SHARDS,
    Packed,
    Shard,
    UnpackedLines,
    digest_of,
    unpack,
)
from applyprune.cluster.inventory.runs import earlier_in, earlier_out, run_in, run_out
from applyprune.cluster.inventory.stored_root import stored_root, with_foreign_metadata
from applyprune.errors import InventoryError, InventoryTooNew
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    AppliedPlan,
    Inventory,
    InventoryEntry,
    LockHolder,
    valid_lease,
)
from applyprune.model.text.display import time_of
from applyprune.planning.applyset import (
    SET_ID,
    SHARD_OF,
    TOOL,
    ApplySetIdentity,
    applyset_annotations,
    applyset_identity,
    hinted_kinds,
    hinted_namespaces,
    set_name,
    shard_ref,
)
from applyprune.planning.inventory.parent import foreign_parent, parent_faults
from applyprune.values import dataclass

SCHEMA = 2

# The server takes it from our User-Agent.
_MANAGER = "applyprune"
# Both times are the server's; webhooks may run between them, each for at most 30 seconds.
_ONE_REQUEST = timedelta(minutes=1)
_HEADER, _ENTRIES, _STREAM = "header", "entries", "entries.gz"


@dataclass(frozen=True, slots=True)
class Root:
    """A root ConfigMap as it was read: an inventory without the entries that are in shards."""

    inventory: Inventory
    """The inventory, without any entry."""
    write: str
    """The id of the last write."""
    count: int
    """The number of entries."""
    digest: str
    """The digest of all lines."""
    inline: bytes | None
    """The lines in the ConfigMap; None if they are in ``shards``."""
    shards: tuple[Shard, ...]
    """The shards that the header names."""
    faults: tuple[str, ...]
    """What is wrong with the annotations of the ConfigMap."""


def encode(inventory: Inventory, packed: Packed, *, write: str) -> dict[str, Any]:
    """Return the root ConfigMap; ``packed`` are its entries, ``write`` is the id of the write."""
    applyset = applyset_identity(inventory.name, inventory.namespace)
    header = {
        "schema": SCHEMA,
        "generation": inventory.generation,
        "uid": inventory.uid,
        "copied": inventory.copied,
        "write": write,
        "count": packed.count,
        "digest": packed.digest,
        "shards": [[shard.digest, shard.count] for shard in packed.shards],
        "holder": _holder_out(inventory.holder),
        "last": run_out(inventory.last),
        "earlier": earlier_out(inventory.earlier),
        "owner": inventory.owner,
    }
    if inventory.plan is not None:
        header["plan"] = {"checksum": inventory.plan.checksum, "done": inventory.plan.done}
    metadata: dict[str, Any] = {
        "name": applyset.inventory.name,
        "namespace": inventory.namespace,
        "labels": {SET_ID: applyset.id},
        "annotations": dict(
            applyset_annotations(
                inventory.entries,
                inventory.hidden_kinds,  # guard: hidden-kinds-kept
                namespace=inventory.namespace,
                tooling=f"{TOOL}/v{__version__}",
            )
        ),
    }
    if inventory.uid:
        metadata["uid"] = inventory.uid  # guard: inventory-uid
        metadata["resourceVersion"] = inventory.resource_version  # guard: inventory-version
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {_HEADER: json.dumps(header, sort_keys=True)},
    }
    if packed.stream:
        body["binaryData"] = {_STREAM: packed.stream}
    elif not packed.shards:
        body["data"][_ENTRIES] = packed.readable
    return with_foreign_metadata(body, inventory.root)  # guard: foreign-metadata-kept


def decode(body: Mapping[str, Any]) -> Root:
    """Return the root that a ConfigMap contains; raise InventoryError if it is unreadable.

    Raises ForeignParent if it is not the inventory that its name says.
    """
    metadata = body["metadata"]
    applyset = ApplySetIdentity(set_name(metadata["name"]), metadata["namespace"])
    annotations = metadata.get("annotations") or {}
    labels, has_header = metadata.get("labels") or {}, _HEADER in (body.get("data") or {})
    foreign = foreign_parent(labels, annotations, applyset, has_header=has_header)
    if foreign is not None:
        raise foreign
    try:
        header = json.loads((body.get("data") or {})[_HEADER])
        if (schema := typed(int, header["schema"])) != SCHEMA:
            raise _other_format(applyset, schema)
        shards = _shards_in(header["shards"])
        inventory = Inventory(
            name=applyset.name,
            namespace=applyset.namespace,
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            generation=typed(int, header["generation"]),
            holder=_holder_in(header["holder"]),
            copied=typed(bool, header["copied"]) or _is_copy(header["uid"], metadata),
            last=run_in(header["last"]),
            earlier=earlier_in(header.get("earlier")),
            owner=typed(str, header["owner"]),
            plan=_plan_in(header.get("plan")),
            hidden_kinds=hinted_kinds(annotations),
            hinted_namespaces=hinted_namespaces(annotations),
            root=stored_root(body),
        )
        return Root(
            inventory=inventory,
            write=typed(str, header["write"]),
            count=_count_in(header["count"]),
            digest=typed(str, header["digest"]),
            inline=None if shards else _inline(body),
            shards=shards,
            faults=parent_faults(annotations),
        )
    except _UNREADABLE as error:
        raise _unreadable(applyset, error) from error


def _is_copy(recorded: object, metadata: Mapping[str, Any]) -> bool:
    """Return whether the header was written into another ConfigMap than this one.

    The first write cannot know the UID; every later one has it. Until then, the server's own record
    must show that our create wrote the header, when the ConfigMap was created: somebody else's
    create has another manager, and a restored record has an older time.
    """
    if recorded:
        return bool(recorded != metadata["uid"])
    created = time_of(str(metadata.get("creationTimestamp") or ""))
    is_ours = any(
        (entry.get("manager"), entry.get("operation")) == (_MANAGER, "Update")
        and f"f:{_HEADER}" in ((entry.get("fieldsV1") or {}).get("f:data") or {})
        and created is not None
        and (written := time_of(str(entry.get("time") or ""))) is not None
        and abs(written - created) <= _ONE_REQUEST
        for entry in metadata.get("managedFields") or ()
    )
    return not is_ours  # guard: first-write-copied


def add_lines(root: Root, lines: UnpackedLines, part: bytes) -> None:
    """Add the lines of a shard to those of a root; raise InventoryError if they are too many."""
    try:
        lines.add(part)
    except ValueError as error:
        raise _unreadable(_applyset_of(root), error) from error


def entries_in(root: Root, parts: Sequence[bytes]) -> Mapping[Ref, InventoryEntry]:
    """Return the entries of a root from the lines in ``parts``; raise InventoryError."""
    try:
        if digest_of(*parts) != root.digest:
            raise ValueError("its digest does not match its entries")
        # One part after the other: all lines at once would need twice the memory.
        entries = [entry for part in parts for entry in entries_of(part)]
        found = {entry.ref: entry for entry in entries}
        if not len(found) == len(entries) == root.count:
            raise ValueError(f"it should list {root.count} objects")
    except _UNREADABLE as error:
        raise _unreadable(_applyset_of(root), error) from error
    return found


def entries_left(root: Root, parts: Sequence[bytes]) -> Mapping[Ref, InventoryEntry]:
    """Return the entries in the remaining shards; never the whole inventory."""
    try:
        return {entry.ref: entry for part in parts for entry in entries_of(part)}
    except _UNREADABLE as error:
        raise _unreadable(_applyset_of(root), error) from error


def encode_shard(inventory: Inventory, shard: Shard) -> dict[str, Any]:
    """Return the immutable ConfigMap of one shard."""
    ref = shard_ref(inventory.name, inventory.namespace, shard.digest)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {SHARD_OF: inventory.name},
        },
        "immutable": True,
        "binaryData": {_STREAM: shard.packed},
    }


def decode_shard(body: Mapping[str, Any], shard: Shard) -> bytes:
    """Return the lines of a shard; raise ValueError if they do not match its digest."""
    stream = (body.get("binaryData") or {}).get(_STREAM)
    if not isinstance(stream, str):
        raise ValueError("it has no entries")  # noqa: TRY004 - what is stored, not a call
    lines = unpack(stream)
    if digest_of(lines) != shard.digest:
        raise ValueError("its contents do not match its name")
    return lines


def _applyset_of(root: Root) -> ApplySetIdentity:
    return ApplySetIdentity(root.inventory.name, root.inventory.namespace)


def _other_format(applyset: ApplySetIdentity, schema: int) -> InventoryError:
    if schema > SCHEMA:
        return InventoryTooNew(
            "the inventory was written by a newer applyprune",
            location=str(applyset.inventory),
            reason=f"it has format {schema}, and applyprune {__version__} reads format {SCHEMA}",
            hint="Use the version of applyprune that wrote it, or a newer one.",
        )
    # No class of its own: like a damaged inventory, a repair may overwrite it.
    return InventoryError(
        "the inventory was written by a development version of applyprune",
        location=str(applyset.inventory),
        reason=f"it has format {schema}, and applyprune {__version__} reads format {SCHEMA}",
        hint=f"Nothing was applied or pruned. Rebuild it{_by_repair(applyset)}",
    )


def _unreadable(applyset: ApplySetIdentity, error: Exception) -> InventoryError:
    return InventoryError(
        "the inventory cannot be read",
        location=str(applyset.inventory),
        reason=f"it has no {error}" if isinstance(error, KeyError) else str(error),
        hint="Nothing was applied or pruned. Restore the ConfigMap from a backup, or rebuild "
        f"it{_by_repair(applyset)}",
    )


def _by_repair(applyset: ApplySetIdentity) -> str:
    """Return how to rebuild an inventory, with what a later prune or delete does then."""
    return (
        " from the objects that have the set's label: applyprune inventory repair "
        f"{applyset.arguments}. They are recorded as adopted, and no prune deletes them; if the "
        "set created all of them, add --record-as owned."
    )


_UNREADABLE = (KeyError, TypeError, ValueError, EOFError, OSError, RecursionError)


def _shards_in(raw: Sequence[tuple[object, object]]) -> tuple[Shard, ...]:
    """Return the shards that a header names; a forged one must not be read many times."""
    shards = tuple(Shard(_hexadecimal(digest), typed(int, count)) for digest, count in raw)
    seen: set[str] = set()
    for shard in shards:
        if shard.digest in seen:  # guard: shard-named-twice
            raise ValueError(f"it names the shard {shard.digest[:32]} twice")
        seen.add(shard.digest)
    if len(shards) > MOST_SHARDS:  # guard: most-shards
        raise ValueError(f"it names {len(shards)} shards, and {MOST_SHARDS} are allowed")
    return shards


def _count_in(raw: object) -> int:
    count = typed(int, raw)
    if not 0 <= count <= MOST:
        raise ValueError(f"it says that it lists {count} objects, and {MOST} are allowed")
    return count


def _hexadecimal(digest: object) -> str:
    # It becomes part of a name, and so of a URL path.
    if not re.fullmatch(r"[0-9a-f]{64}", text := typed(str, digest)):
        raise ValueError("the name of a shard is not a digest")
    return text


def _inline(body: Mapping[str, Any]) -> bytes:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    if (_ENTRIES in data) == (_STREAM in binary):
        raise ValueError("it must have either entries or entries.gz")
    if _ENTRIES in data:
        return typed(str, data[_ENTRIES]).encode()
    return unpack(typed(str, binary[_STREAM]))


def _holder_out(holder: LockHolder | None) -> dict[str, Any] | None:
    if holder is None:
        return None
    return {
        "run": holder.run,
        "who": holder.who,
        "host": holder.host,
        "process": holder.process,
        "leaseSeconds": holder.lease,
        "renewals": holder.renewals,
    }


def _holder_in(raw: Mapping[str, Any] | None) -> LockHolder | None:
    if raw is None:
        return None
    lease = raw["leaseSeconds"]
    if not isinstance(lease, int | float) or isinstance(lease, bool):
        raise TypeError(f"not a number of seconds: {lease!r}")
    return LockHolder(
        run=typed(str, raw["run"]),
        who=typed(str, raw["who"]),
        host=typed(str, raw["host"]),
        process=typed(str, raw["process"]),
        # A holder that does not renew blocks nobody for longer.
        lease=valid_lease(lease),  # guard: longest-lease
        renewals=typed(int, raw["renewals"]),
    )


def _plan_in(raw: Mapping[str, Any] | None) -> AppliedPlan | None:
    if raw is None:
        return None
    return AppliedPlan(checksum=typed(str, raw["checksum"]), done=typed(bool, raw["done"]))
