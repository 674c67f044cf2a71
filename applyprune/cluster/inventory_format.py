"""The format of an inventory: a header of JSON and the entries, in one ConfigMap or in shards.

Decoding is strict: an unreadable inventory is never taken for an empty one, nor a part for the
whole. Few entries are stored as text, more as one gzip stream, and many in shards.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from io import BytesIO
from sys import intern
from typing import Any, TypeVar

from msgspec import Struct, field

from applyprune._version import __version__
from applyprune.cluster.messages import json_value
from applyprune.errors import InventoryError, InventoryTooNew
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    MOST_RUNS,
    AppliedPlan,
    ApplyFingerprint,
    ApprovedDeletions,
    Inventory,
    InventoryEntry,
    JobRecord,
    LockHolder,
    Ownership,
    RunRecord,
    RunSource,
    StoredRoot,
    Wave,
    valid_lease,
)
from applyprune.model.live import items, mapping, one_line, text
from applyprune.model.text import time_of
from applyprune.planning.applyset import (
    OWN_ANNOTATIONS,
    OWN_LABELS,
    SET_ID,
    SHARD_OF,
    TOOL,
    ApplySetIdentity,
    applyset_annotations,
    applyset_identity,
    foreign_parent,
    hinted_namespaces,
    parent_faults,
    set_name,
    shard_ref,
    without_label,
)
from applyprune.planning.normalize import canonical_text
from applyprune.values import encode, hiding


class Root(Struct, frozen=True):
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
    """What is wrong with the label and the annotations of the ConfigMap."""
    is_labelled: bool = True
    """Whether it has the set's label; only its UID and its contents prove that it is the set's."""


_SCHEMA = 2
_HEADER, _ENTRIES, _STREAM = "header", "entries", "entries.gz"
_RUNS = "runs.gz"
"""The objects of the recorded runs; whatever it holds, the entries are readable."""


def encode_root(inventory: Inventory, packed: PackedInventory, *, write: str) -> dict[str, Any]:
    """Return the root ConfigMap; ``packed`` are its entries, ``write`` is the id of the write."""
    applyset = applyset_identity(inventory.name, inventory.namespace)
    header = {
        "schema": _SCHEMA,
        "generation": inventory.generation,
        "uid": inventory.uid,
        "copied": inventory.copied,
        "write": write,
        "count": packed.count,
        "digest": packed.digest,
        "shards": [[shard.digest, shard.count] for shard in packed.shards],
        "holder": _encode_holder(inventory.holder),
        "last": _encode_run(inventory.last),
        "earlier": _encode_earlier(inventory.earlier),
        "owner": inventory.owner,
    }
    if inventory.plan is not None:
        header["plan"] = {"checksum": inventory.plan.checksum, "done": inventory.plan.done}
    if (approved := inventory.approved) is not None:
        header["approved"] = {"digest": approved.digest, "text": approved.packed}
    metadata: dict[str, Any] = {
        "name": applyset.inventory.name,
        "namespace": inventory.namespace,
        "labels": {SET_ID: applyset.id},
        "annotations": dict(
            applyset_annotations(
                inventory.entries,
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
    streams = {_STREAM: packed.stream, _RUNS: inventory.objects_of_runs}
    if any(streams.values()):
        body["binaryData"] = {name: stream for name, stream in streams.items() if stream}
    if not (packed.stream or packed.shards):
        body["data"][_ENTRIES] = packed.readable
    return with_foreign_metadata(body, inventory.root)  # guard: foreign-metadata-kept -> body


def _encode_holder(holder: LockHolder | None) -> dict[str, Any] | None:
    if holder is None:
        return None
    return {
        "run": holder.run,
        "who": holder.who,
        "leaseSeconds": holder.lease,
        "renewals": holder.renewals,
    }


def with_foreign_metadata(body: dict[str, Any], root: StoredRoot) -> dict[str, Any]:
    """Return a root to write, with what other tools have added to the stored one."""
    metadata: dict[str, Any] = dict(body["metadata"])
    metadata["labels"] = {**root.labels, **metadata["labels"]}
    metadata["annotations"] = {**root.annotations, **metadata["annotations"]}
    if root.owner_references:
        metadata["ownerReferences"] = list(root.owner_references)
    if root.finalizers:
        metadata["finalizers"] = list(root.finalizers)
    return {**body, "metadata": metadata}


_UNREADABLE = (KeyError, TypeError, ValueError, EOFError, OSError, RecursionError)


def decode_root(body: Mapping[str, Any]) -> Root:
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
    is_labelled = SET_ID in labels
    try:
        header = json.loads((body.get("data") or {})[_HEADER])
        if (schema := _typed(int, header["schema"])) != _SCHEMA:
            raise _other_format(applyset, schema, is_labelled=is_labelled)
        is_copy = _is_copy(header["uid"], metadata)
        if is_copy and not is_labelled:  # guard: unlabelled-copy never
            raise without_label(applyset, "no record of its UID shows that it is")
        shards = _decode_shards(header["shards"])
        inventory = Inventory(
            name=applyset.name,
            namespace=applyset.namespace,
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            generation=_typed(int, header["generation"]),
            holder=_decode_holder(header["holder"]),
            copied=_typed(bool, header["copied"]) or is_copy,
            last=_decode_run(header["last"]),
            earlier=_decode_earlier(header.get("earlier")),
            owner=_typed(str, header["owner"]),
            objects_of_runs=_objects_of_runs(body),
            plan=_decode_plan(header.get("plan")),
            approved=_decode_approved(header.get("approved")),
            hinted_namespaces=hinted_namespaces(annotations),
            root=stored_root(body),
        )
        return Root(
            inventory=inventory,
            write=_typed(str, header["write"]),
            count=_decode_count(header["count"]),
            digest=_typed(str, header["digest"]),
            inline=None if shards else _inline(body),
            shards=shards,
            faults=parent_faults(labels, annotations),
            is_labelled=is_labelled,
        )
    except _UNREADABLE as error:
        raise unreadable(applyset, error, is_labelled=is_labelled) from error


def write_in(body: Mapping[str, Any]) -> str:
    """Return the id of the write that a ConfigMap says it comes from; empty if it says none."""
    with suppress(*_UNREADABLE):
        return _typed(str, json.loads(body["data"][_HEADER])["write"])
    return ""


def _other_format(applyset: ApplySetIdentity, schema: int, *, is_labelled: bool) -> InventoryError:
    if schema > _SCHEMA:
        return InventoryTooNew(
            "the inventory was written by a newer applyprune",
            location=str(applyset.inventory),
            reason=f"it has format {schema}, and applyprune {__version__} reads format {_SCHEMA}",
            hint="Use the version of applyprune that wrote it, or a newer one.",
        )
    if not is_labelled:
        return without_label(applyset, f"it has format {schema}")
    # No class of its own: like a damaged inventory, a repair may overwrite it.
    return InventoryError(
        "the inventory was written by a development version of applyprune",
        location=str(applyset.inventory),
        reason=f"it has format {schema}, and applyprune {__version__} reads format {_SCHEMA}",
        hint=f"Nothing was applied or pruned. Rebuild it{_by_repair(applyset)}",
    )


def _decode_shards(raw: Sequence[tuple[object, object]]) -> tuple[Shard, ...]:
    """Return the shards that a header names; a forged one must not be read many times."""
    shards = tuple(Shard(_hexadecimal(digest), _typed(int, count)) for digest, count in raw)
    seen: set[str] = set()
    for shard in shards:
        if shard.digest in seen:  # guard: shard-named-twice never
            raise ValueError(f"it names the shard {shard.digest[:32]} twice")
        seen.add(shard.digest)
    if len(shards) > MAX_SHARDS:  # guard: most-shards never
        raise ValueError(f"it names {len(shards)} shards, and {MAX_SHARDS} are allowed")
    return shards


def _hexadecimal(digest: object) -> str:
    # It becomes part of a name, and so of a URL path.
    if not re.fullmatch(r"[0-9a-f]{64}", text := _typed(str, digest)):
        raise ValueError("the name of a shard is not a digest")
    return text


def _decode_holder(raw: Mapping[str, Any] | None) -> LockHolder | None:
    if raw is None:
        return None
    lease = raw["leaseSeconds"]
    if not isinstance(lease, int | float) or isinstance(lease, bool):
        raise TypeError(f"not a number of seconds: {lease!r}")
    return LockHolder(
        run=_typed(str, raw["run"]),
        who=one_line(_typed(str, raw["who"])),
        # A holder that does not renew blocks nobody for longer.
        lease=valid_lease(lease),  # guard: longest-lease -> 1e9
        renewals=_typed(int, raw["renewals"]),
    )


# A create that names no field manager gets the program of its User-Agent.
_MANAGER = "applyprune"
# The creation and the record of its fields are two times of one request; webhooks may run between
# them, each for at most 30 seconds.
_ONE_REQUEST = timedelta(minutes=1)


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
    return not is_ours  # guard: first-write-copied -> False


def _decode_plan(raw: Mapping[str, Any] | None) -> AppliedPlan | None:
    if raw is None:
        return None
    return AppliedPlan(checksum=_typed(str, raw["checksum"]), done=_typed(bool, raw["done"]))


def _decode_approved(raw: Mapping[str, Any] | None) -> ApprovedDeletions | None:
    if raw is None:
        return None
    return ApprovedDeletions(digest=_typed(str, raw["digest"]), packed=_typed(str, raw["text"]))


def _decode_count(raw: object) -> int:
    count = _typed(int, raw)
    if not 0 <= count <= MAX_OBJECTS:
        raise ValueError(f"it says that it lists {count} objects, and {MAX_OBJECTS} are allowed")
    return count


def _inline(body: Mapping[str, Any]) -> bytes:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    if (_ENTRIES in data) == (_STREAM in binary):
        raise ValueError("it must have either entries or entries.gz")
    if _ENTRIES in data:
        return _typed(str, data[_ENTRIES]).encode()
    return _unpack(_typed(str, binary[_STREAM]))


def _objects_of_runs(body: Mapping[str, Any]) -> str:
    stored = (body.get("binaryData") or {}).get(_RUNS, "")
    return stored if isinstance(stored, str) else ""


_OWN_FIELDS = ("data", "binaryData", "immutable")


def stored_root(body: Mapping[str, Any]) -> StoredRoot:
    """Return the part of a root ConfigMap that is not in the inventory itself."""
    metadata = mapping(body.get("metadata"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    own = {
        **{name: body[name] for name in _OWN_FIELDS if name in body},
        "labels": {key: labels[key] for key in OWN_LABELS & labels.keys()},
        "annotations": {key: annotations[key] for key in OWN_ANNOTATIONS & annotations.keys()},
    }
    canonical = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return StoredRoot(
        own=hashlib.sha256(canonical.encode()).hexdigest(),
        labels={key: value for key, value in labels.items() if key not in OWN_LABELS},
        annotations={
            key: value for key, value in annotations.items() if key not in OWN_ANNOTATIONS
        },
        owner_references=tuple(items(metadata, "ownerReferences")),
        finalizers=tuple(map(str, items(metadata, "finalizers"))),
        is_terminating=bool(text(metadata, "deletionTimestamp")),
    )


def is_as_sent(body: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Return whether a root has all that applyprune has sent, so that each reader accepts it."""
    return stored_root(body).own == stored_root(sent).own


def changed_by_others_only(inventory: Inventory, body: Mapping[str, Any]) -> bool:
    """Return whether the stored root has applyprune's own data as they were read or written."""
    uid = text(mapping(body.get("metadata")), "uid")
    return inventory.exists and uid == inventory.uid and stored_root(body).own == inventory.root.own


# The entries of a root, from its own lines and those of its shards.


def add_lines(root: Root, lines: UnpackedLines, part: bytes) -> None:
    """Add the lines of a shard to those of a root; raise InventoryError if they are too many."""
    try:
        lines.add(part)
    except ValueError as error:
        raise _unreadable(root, error) from error


def entries_in(root: Root, parts: Sequence[bytes]) -> Mapping[Ref, InventoryEntry]:
    """Return the entries of a root from the lines in ``parts``; raise InventoryError."""
    try:
        if lines_digest(*parts) != root.digest:
            raise ValueError("its digest does not match its entries")
        # One part after the other: all lines at once would need twice the memory.
        entries = [entry for part in parts for entry in decode_entries(part)]
        found = {entry.ref: entry for entry in entries}
        if not len(found) == len(entries) == root.count:
            raise ValueError(f"it should list {root.count} objects")
    except _UNREADABLE as error:
        raise _unreadable(root, error) from error
    return found


def entries_left(root: Root, parts: Sequence[bytes]) -> Mapping[Ref, InventoryEntry]:
    """Return the entries in the remaining shards; never the whole inventory."""
    try:
        return {entry.ref: entry for part in parts for entry in decode_entries(part)}
    except _UNREADABLE as error:
        raise _unreadable(root, error) from error


def _unreadable(root: Root, error: Exception) -> InventoryError:
    applyset = ApplySetIdentity(root.inventory.name, root.inventory.namespace)
    return unreadable(applyset, error, is_labelled=root.is_labelled)


def unreadable(
    applyset: ApplySetIdentity, error: Exception, *, is_labelled: bool
) -> InventoryError:
    """Return the error for an inventory that cannot be read; ForeignParent if it has no label."""
    if not is_labelled:  # guard: unlabelled-and-damaged never
        return without_label(applyset, "its contents cannot be read")
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


# Shards: immutable ConfigMaps, named by the digest of their contents. So a shard cannot be half
# written, changed, or taken for another.


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
    lines = _unpack(stream)
    if lines_digest(lines) != shard.digest:
        raise ValueError("its contents do not match its name")
    return lines


# The entries packed: as text, as a gzip stream, or in shards.


MAX_TEXT = 64 * 1024
"""Bytes of entries that the root stores as text; about 150 objects."""
_MAX_STREAM = 256 * 1024
"""Bytes of a gzip stream that the root stores; every renewal of the lock writes it again."""
MAX_SHARD = 1_000_000
"""Bytes that a shard may have; the server's own limit for one ConfigMap is 1,048,576."""
MAX_OBJECTS = 100_000
"""Objects that one set may have."""
MAX_SHARDS = 1000
"""Shards that one set may have; 100,000 objects have about 50."""
_UNPACKED_LIMIT = 16 * 1024 * 1024
# A shard has this many entries on average, and at most four times as many.
_PER_SHARD = 2048


def pack_entries(entries: Iterable[InventoryEntry]) -> PackedInventory:
    """Return entries in the form to store; raise InventoryError if they are too many."""
    lines = _entry_lines(entries)
    if len(lines) > MAX_OBJECTS:
        raise _too_large(len(lines), f"a set may have at most {MAX_OBJECTS} objects")
    # Only if it may fit: compressing all of a large inventory would be wasted.
    if len(lines) <= 2 * _PER_SHARD:
        whole = _entry_block(lines)
        if len(whole) <= MAX_TEXT:
            return PackedInventory(len(lines), lines_digest(whole), readable=whole.decode())
        if len(whole) <= _UNPACKED_LIMIT and len(stream := _packed(whole)) <= _MAX_STREAM:
            return PackedInventory(len(lines), lines_digest(whole), stream=stream)
    blocks = [block for part in _cut(lines) for block in _blocks(part)]
    if len(blocks) > MAX_SHARDS:
        raise _too_large(len(lines), f"it would take {len(blocks)} shards of {MAX_SHARDS}")
    # What no run could read again is not written.
    unpacked = UnpackedLines()
    try:
        for block, _ in blocks:
            unpacked.add(block)
    except ValueError as error:
        raise _too_large(len(lines), str(error)) from error
    return PackedInventory(
        len(lines),
        lines_digest(*(block for block, _ in blocks)),
        shards=tuple(shard for _, shard in blocks),
    )


def _too_large(count: int, reason: str) -> InventoryError:
    return InventoryError(
        f"an inventory of {count} objects is too large",
        reason=reason,
        hint="Split the set in two.",
    )


def _cut(lines: Sequence[_EntryLine]) -> Iterator[Sequence[_EntryLine]]:
    # Each cut depends only on the entry before it: a new entry makes one new shard, and keeps the
    # others.
    part: list[_EntryLine] = []
    for line in lines:
        part.append(line)
        ref = line.ref
        name = f"{ref.group}\0{ref.kind}\0{ref.namespace}\0{ref.name}"
        if zlib.crc32(name.encode()) % _PER_SHARD == 0 or len(part) == 4 * _PER_SHARD:
            yield part
            part = []
    if part:
        yield part


def _blocks(part: Sequence[_EntryLine]) -> Iterator[tuple[bytes, Shard]]:
    """Yield the block and the shard of a part; more if it does not compress well enough."""
    block = _entry_block(part)
    stream = _packed(block) if len(block) <= _UNPACKED_LIMIT else ""
    if stream and len(stream) <= MAX_SHARD:
        yield block, Shard(lines_digest(block), len(part), stream)
        return
    if len(part) == 1:
        raise InventoryError("one entry of the inventory is larger than a ConfigMap")
    half = len(part) // 2
    yield from _blocks(part[:half])
    yield from _blocks(part[half:])


def _packed(lines: bytes) -> str:
    return base64.b64encode(gzip.compress(lines, compresslevel=6, mtime=0)).decode()


def _unpack(stream: str) -> bytes:
    """Return the lines in a stream; raise ValueError if it is invalid or unpacks to too much."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(base64.b64decode(stream, validate=True))) as opened:
            lines = opened.read(_UNPACKED_LIMIT + 1)
    except binascii.Error as error:
        raise ValueError("its entries are not base64") from error
    except (zlib.error, EOFError, OSError) as error:
        raise ValueError("its entries cannot be unpacked") from error
    if len(lines) > _UNPACKED_LIMIT:
        raise ValueError("its unpacked entries are too large")
    return lines


def lines_digest(*blocks: bytes) -> str:
    """Return the digest of all lines in some blocks."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


class PackedInventory(Struct, frozen=True):
    """The entries in one of the three forms; ``digest`` is the digest of all lines."""

    count: int
    digest: str
    readable: str = ""
    stream: str = ""
    shards: tuple[Shard, ...] = ()

    __repr__ = hiding("readable", "stream")


class Shard(Struct, frozen=True):
    """A part of the entries: the digest of its lines, their number, and their gzip stream."""

    digest: str
    count: int
    packed: str = ""

    __repr__ = hiding("packed")


_MOST_UNPACKED = 128 * 1024 * 1024
"""Bytes that the lines of all shards may have; those of 100,000 objects are about 50 MB."""
_MOST_VALUES = 8_000_000
"""Values that all lines may have: in memory, the shortest one takes ten times its bytes."""


class UnpackedLines(Struct):
    """The lines of one inventory, no more than fit into memory.

    A small stream may unpack to a thousand times its size, and many shards to many times that.
    """

    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    values: int = 0

    def add(self, part: bytes) -> None:
        """Add the lines of one shard; raise ValueError if there are too many."""
        self.size += len(part)
        self.values += part.count(b",")
        if self.size > _MOST_UNPACKED:  # guard: unpacked-in-total never
            raise ValueError(f"its unpacked entries are larger than {_MOST_UNPACKED >> 20} MiB")
        if self.values > _MOST_VALUES:  # guard: values-in-total never
            raise ValueError(f"its entries have more than {_MOST_VALUES} values")
        self.parts.append(part)


# The entries as lines of JSON.


def _entry_lines(entries: Iterable[InventoryEntry]) -> list[_EntryLine]:
    """Return a line for each entry, in the order of the refs."""
    # A tuple compares many times faster than a dataclass, and a set may have 100,000 entries.
    ordered = sorted(
        entries,
        key=lambda entry: (entry.ref.group, entry.ref.kind, entry.ref.namespace, entry.ref.name),
    )
    return [
        _EntryLine(
            entry.ref,
            encode(_encode_entry(entry)).decode()[:-1],
            entry.owned_fields,
        )
        for entry in ordered
    ]


def _encode_entry(entry: InventoryEntry) -> dict[str, Any]:
    out: dict[str, Any] = {
        **_encode_ref(entry.ref),
        "plural": entry.plural,
        "version": entry.version,
        "uidBeforeApply": entry.uid_before_apply,
        "uid": entry.uid,
        "ownership": str(entry.ownership),
        "digest": entry.digest,
        "fingerprint": None,
        "wave": list(entry.wave),
        "dependsOn": [_encode_ref(ref) for ref in entry.depends_on],
        "orphanReason": entry.orphan_reason,
        "deleting": entry.deleting,
        "orphaning": entry.orphaning,
    }
    if entry.marks:
        out["marks"] = list(entry.marks)
    if entry.stored:
        out["stored"] = entry.stored
    if entry.crd:
        out["crd"] = entry.crd
    if entry.defaulted:
        out["defaulted"] = entry.defaulted
    if entry.changed:
        out["changed"] = True
    if entry.offered:
        out["offered"] = entry.offered
    if (fingerprint := entry.fingerprint) is not None:
        out["fingerprint"] = {
            "resourceVersion": fingerprint.resource_version,
            "generation": fingerprint.generation,
            "managedFields": fingerprint.managed_fields,
            "time": fingerprint.time,
            "schema": fingerprint.schema,
        }
    if (job := entry.job) is not None:
        out["job"] = {"created": job.created, "ttl": job.ttl, "completed": job.completed}
    return out


def _encode_ref(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _entry_block(lines: Sequence[_EntryLine]) -> bytes:
    """Return lines as they are stored, after the distinct field sets that their entries own.

    Most objects of a kind own the same fields. So each set is stored once, and an entry has its
    number in the block.
    """
    numbers: dict[str, int] = {}
    texts = []
    for line in lines:
        number = ""
        if line.owned_fields:
            index = numbers.setdefault(line.owned_fields, len(numbers))
            number = f',"ownedFields":{index}'
        texts.append(f"{line.text}{number}}}\n")
    sets = (f'{{"fieldSet":{fields},"number":{index}}}\n' for fields, index in numbers.items())
    return "".join([*sets, *texts]).encode()


class _EntryLine(Struct, frozen=True):
    """The line of one entry, without the number of its field set."""

    ref: Ref
    text: str
    """The JSON text of the entry, without its closing brace."""
    owned_fields: str
    """The JSON text of its field set; empty if there is none."""


# In memory, a line may take twenty times its bytes. The server's limit for an object is 1.5 MiB.
_LONGEST_LINE = 8 * 1024 * 1024


def decode_entries(lines: bytes) -> list[InventoryEntry]:
    """Return the entries in one or more blocks.

    Raises ValueError, TypeError or KeyError for anything else.
    """
    field_sets: dict[int, str] = {}
    found = []
    # Only a newline ends a line: splitlines would also split at other characters in names.
    for line in lines.split(b"\n"):
        if not line:
            continue
        if len(line) > _LONGEST_LINE:  # guard: longest-line never
            raise ValueError(f"an entry is larger than {_LONGEST_LINE >> 20} MiB")
        raw = json_value(line)
        if "fieldSet" in raw:
            # Each block has its own numbers.
            field_sets[_typed(int, raw["number"])] = canonical_text(_typed(dict, raw["fieldSet"]))
        else:
            found.append(_decode_entry(raw, field_sets))
    return found


def _decode_entry(raw: Mapping[str, Any], field_sets: Mapping[int, str]) -> InventoryEntry:
    number = raw.get("ownedFields")
    stored = raw["fingerprint"]
    fingerprint = (
        None
        if stored is None
        else ApplyFingerprint(
            resource_version=_typed(str, stored["resourceVersion"]),
            generation=_maybe_int(stored["generation"]),
            managed_fields=_common(stored["managedFields"]),
            time=_common(stored["time"]),
            schema=_maybe_int(stored["schema"]),
        )
    )
    return InventoryEntry(
        ref=_decode_ref(raw),
        plural=_common(raw["plural"]),
        version=_common(raw["version"]),
        uid_before_apply=None if (before := raw["uidBeforeApply"]) is None else _typed(str, before),
        uid=_typed(str, raw["uid"]),
        ownership=Ownership(raw["ownership"]),
        digest=_typed(str, raw["digest"]),
        stored=_typed(str, raw.get("stored", "")),
        defaulted=_typed(str, raw.get("defaulted", "")),
        fingerprint=fingerprint,
        owned_fields="" if number is None else field_sets[_typed(int, number)],
        marks=tuple(_typed(str, mark) for mark in _typed(list, raw.get("marks", []))),
        wave=_decode_wave(raw["wave"]),
        depends_on=tuple(_decode_ref(ref) for ref in raw["dependsOn"]),
        orphan_reason=_typed(str, raw["orphanReason"]),
        deleting=_typed(bool, raw["deleting"]),
        orphaning=_typed(bool, raw["orphaning"]),
        job=_decode_job(raw.get("job")),
        crd=_typed(str, raw.get("crd", "")),
        changed=_typed(bool, raw.get("changed", False)),
        offered=_typed(str, raw.get("offered", "")),
    )


def _maybe_int(value: object) -> int | None:
    return None if value is None else _typed(int, value)


def _decode_ref(raw: Mapping[str, Any]) -> Ref:
    group, kind, namespace = (_common(raw[key]) for key in ("group", "kind", "namespace"))
    ref = Ref(group, kind, namespace, _typed(str, raw["name"]))
    if not ref.kind or not ref.name:
        raise ValueError("an entry does not name an object")
    return ref


def _common(value: object) -> str:
    """Return a text that many entries have: they share it."""
    return intern(_typed(str, value))


_wave = lru_cache(64)(Wave)


def _decode_wave(raw: object) -> Wave:
    wave, rank, depth = (_typed(int, part) for part in _typed(list, raw))
    return _wave(wave, rank, depth)


def _decode_job(raw: Mapping[str, Any] | None) -> JobRecord | None:
    if raw is None:
        return None
    return JobRecord(
        _typed(str, raw["created"]),
        _typed(int, raw["ttl"]),
        completed=_typed(bool, raw["completed"]),
    )


# The records of runs, in the header.


_OPTIONAL: Mapping[str, type] = {
    "actor": str,
    "url": str,
    "number": int,
    "created": int,
    "changed": int,
    "pruned": int,
}
"""The fields of a run that are stored unless they are empty."""


def _encode_run(record: RunRecord | None) -> dict[str, Any] | None:
    """Return a record as it is stored."""
    if record is None:
        return None
    return {
        "run": record.run,
        "mode": record.mode,
        "who": record.who,
        "at": record.at,
        "exitCode": record.exit_code,
        **{key: value for key in _OPTIONAL if (value := getattr(record, key))},
        **({"whole": True} if record.is_whole else {}),
        **({"source": source} if (source := _encode_source(record.source)) else {}),
    }


def _encode_source(source: RunSource) -> dict[str, Any]:
    paths = {key: list(paths) for key, paths in source.paths.items()}
    parts = {
        "shown": source.shown,
        "commit": source.commit,
        "differs": source.differs,
        "paths": paths if len(json.dumps(paths)) <= _MOST_BYTES_OF_PATHS else {},
    }
    return {key: value for key, value in parts.items() if value}


_MOST_BYTES_OF_PATHS = 1024


def _decode_source(raw: Any) -> RunSource:
    """Return where the input of a run came from; nothing depends on it, so anything is readable."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        paths = {
            _typed(str, key): tuple(_typed(str, path) for path in _typed(list, paths))
            for key, paths in raw.get("paths", {}).items()
        }
        return RunSource(
            one_line(_typed(str, raw.get("shown", ""))),
            one_line(_typed(str, raw.get("commit", ""))),
            _typed(bool, raw.get("differs", False)),
            paths,
        )
    return RunSource()


def _decode_run(raw: Mapping[str, Any] | None) -> RunRecord | None:
    """Return a stored record; raise KeyError, TypeError or ValueError if it is unreadable."""
    if raw is None:
        return None
    code = raw["exitCode"]
    return RunRecord(
        run=_typed(str, raw["run"]),
        mode=_typed(str, raw["mode"]),
        who=one_line(_typed(str, raw["who"])),
        at=_typed(str, raw["at"]),
        exit_code=None if code is None else _typed(int, code),
        is_whole=_typed(bool, raw.get("whole", False)),
        source=_decode_source(raw.get("source")),
        **{key: _typed(kind, raw[key]) for key, kind in _OPTIONAL.items() if key in raw},
    )


_MOST_BYTES_OF_RUNS = 16 * 1024


def _encode_earlier(records: Sequence[RunRecord]) -> list[dict[str, Any] | None]:
    """Return the newest records, as many as fit: they must not use the room of the entries."""
    found: list[dict[str, Any] | None] = []
    size = 0
    for record in records[:MOST_RUNS]:
        found.append(_encode_run(record))
        size += len(json.dumps(found[-1]))
        if size > _MOST_BYTES_OF_RUNS:
            return found[:-1]
    return found


def _decode_earlier(raw: object) -> tuple[RunRecord, ...]:
    """Return the readable records: nothing depends on them, so none makes an inventory unreadable.

    An older version has written none.
    """
    found: list[RunRecord] = []
    for part in raw if isinstance(raw, list) else ():
        with suppress(KeyError, TypeError, ValueError):
            if (record := _decode_run(part)) is not None:
                found.append(record)
    return tuple(found[:MOST_RUNS])


T = TypeVar("T")
_LONGEST_SHOWN = 100


def _typed(kind: type[T], value: object) -> T:
    """Return the value if it has exactly that type; raise TypeError otherwise."""
    if type(value) is not kind:
        raise TypeError(f"{repr(value)[:_LONGEST_SHOWN]} is not of type {kind.__name__}")
    return value
