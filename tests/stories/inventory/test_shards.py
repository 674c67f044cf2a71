"""Large inventories on a real API server: sharded, read back whole, or refused."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count as numbers

import pytest

from applyprune.cluster import inventory_format
from applyprune.cluster.inventory_format import MAX_OBJECTS, pack_entries
from applyprune.errors import ApplypruneError, InventoryError, InventoryIncomplete, InventoryLocked
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    ApplyFingerprint,
    Inventory,
    InventoryEntry,
    MismatchType,
    Ownership,
)
from applyprune.model.options import Mode
from applyprune.planning.applyset import SHARD_OF, WANTED
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults, first
from tests.support.objects import config_map
from tests.support.stage import Stage

PER_SHARD = 8
"""Entries of a shard, on average, and not 2,048: so 60 entries are as many shards as 15,000 are."""
EMPTY = b'{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []}'
JSON = (("Content-Type", "application/json"),)


@pytest.fixture(autouse=True)
def _small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries need shards, or a stream; in a sweep, as many as for users."""
    if request.node.get_closest_marker("sweep") is not None:
        return
    monkeypatch.setattr(inventory_format, "_PER_SHARD", PER_SHARD)
    monkeypatch.setattr(inventory_format, "MAX_TEXT", 4 * 1024)


def _entry(ref: Ref) -> InventoryEntry:
    """Return an entry of the size that a confirmed apply leaves."""
    mark = hashlib.sha256(repr(ref).encode()).hexdigest()
    fingerprint = ApplyFingerprint(str(int(mark[:6], 16)), 1, mark[:32], "2026-11-21T10:00:00Z")
    uid = str(uuid.UUID(mark[:32]))
    return InventoryEntry(
        ref, "configmaps", "v1", None, uid=uid, digest=mark[32:], fingerprint=fingerprint
    )


def _dead(count: int) -> dict[Ref, InventoryEntry]:
    """Return entries of objects in a namespace that sorts before every other and is not there."""
    refs = (Ref("", "ConfigMap", "a-gone", f"c-{number:06}") for number in range(count))
    return {ref: _entry(ref) for ref in refs}


def _write(stage: Stage, entries: Mapping[Ref, InventoryEntry]) -> Inventory:
    return stage.rewrite(entries=dict(entries))


def _entries(stage: Stage) -> Mapping[Ref, InventoryEntry] | None:
    """Return the entries; None if a part of them is lost."""
    try:
        return dict(stage.inventory().entries)
    except InventoryIncomplete:
        return None


def _shards(api: Api, stage: Stage) -> list[str]:
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps?labelSelector={SHARD_OF}={stage.name}"
    return sorted(item["metadata"]["name"] for item in api.get(path)["items"])


def _remove(api: Api, stage: Stage, names: Iterable[str]) -> None:
    for name in names:
        path = stage.path(name)
        assert api("DELETE", path)[0] == 200


def test_many_shards_are_read_by_one_list(spoiled: Stage, proxy: FaultProxy) -> None:
    """On a far server, a request for each shard would wait for the one before."""
    entries = _dead(60)
    _write(spoiled, entries)
    before = len(proxy.exchanges)
    assert dict(spoiled.inventory().entries) == entries
    sent = [(one.method, one.path.rpartition("/")[2]) for one in proxy.exchanges[before:]]
    assert sent == [("GET", spoiled.target.inventory.name), ("GET", "configmaps")]


@pytest.mark.parametrize(
    "refusal", [faults.status(403, "Forbidden"), faults.answer(200, EMPTY, JSON)]
)
def test_shards_that_no_list_shows_are_read_by_name(
    spoiled: Stage, proxy: FaultProxy, api: Api, refusal: Fault
) -> None:
    """A list may be refused, or incomplete; a shard is missing only if a GET says so."""
    entries = _dead(60)
    _write(spoiled, entries)
    proxy.rule = always(refusal, where=lambda one: one.path.endswith("/configmaps"))
    assert dict(spoiled.inventory().entries) == entries
    _remove(api, spoiled, _shards(api, spoiled)[:1])
    with pytest.raises(InventoryIncomplete, match="1 of the inventory's shards"):
        spoiled.inventory()


@pytest.mark.sweep
def test_hundred_thousand_entries_are_written_read_and_checked(stage: Stage, api: Api) -> None:
    """The limit of objects is the limit: one more is refused before anything is written."""
    entries = _dead(MAX_OBJECTS)
    _write(stage, entries)
    assert dict(stage.inventory().entries) == entries
    shards = _shards(api, stage)
    assert len(shards) > 10
    one_more = Ref("", "ConfigMap", "a-gone", "one-more")
    with pytest.raises(InventoryError, match="is too large"):
        _write(stage, {**entries, one_more: _entry(one_more)})
    assert _shards(api, stage) == shards

    # A change of one entry writes one shard and removes one; the others stay as they are.
    first = next(iter(entries))
    _write(stage, {**entries, first: replace(entries[first], digest="changed")})
    now = _shards(api, stage)
    assert len(set(now) - set(shards)) == len(set(shards) - set(now)) == 1


@pytest.mark.parametrize(
    ("count", "dead"), [(10, 50), pytest.param(500, 49_500, marks=pytest.mark.sweep)]
)
def test_lost_shard_with_all_live_entries_is_repaired_from_labels(
    stage: Stage, api: Api, count: int, dead: int
) -> None:
    """Without it, no prune; repaired from the labels."""
    live = [config_map(f"c-{number:03}", namespace=stage.namespace) for number in range(count)]
    assert stage.run(*live).exit_code == 0
    listed = dict(stage.inventory().entries)
    assert {ref.namespace for ref in listed} == {stage.namespace}
    _write(stage, {**_dead(dead), **listed})
    assert len(stage.inventory().entries) == dead + count
    packed = pack_entries(stage.inventory().entries.values())
    everything = _shards(api, stage)
    assert len(everything) == len(packed.shards)
    # The live ones sort last; the cut depends on names that differ from run to run.
    lost, left = [], count
    for shard in reversed(packed.shards):
        if left > 0:
            lost.append(f"applyprune-web.{shard.digest[:32]}")
            left -= shard.count
    assert len(lost) < len(everything)
    _remove(api, stage, lost)

    for options in ({}, {"mode": Mode.DELETE}, {"mode": Mode.PRUNE}):
        bodies = () if options.get("mode") is Mode.DELETE else live[: count - 10 or 1]
        with pytest.raises(InventoryIncomplete, match="shards cannot be used") as refused:
            stage.run(*bodies, **options)
        assert refused.value.exit_code == 6
        assert "inventory repair web" in refused.value.hint
    path = stage.path()
    names = {item["metadata"]["name"] for item in api.get(path)["items"]}
    assert {f"c-{number:03}" for number in range(count)} <= names

    found = stage.check().found
    assert found["damaged-inventory"] is MismatchType.DAMAGED
    assert len([fault for fault in found.values() if fault is MismatchType.UNLISTED]) == count
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    again = stage.inventory().entries
    assert {ref for ref in again if ref.namespace == stage.namespace} == set(listed)
    # A missing object is removed after one GET each, a minute for so many: not here.
    _write(stage, {ref: entry for ref, entry in again.items() if ref in listed})
    story = stage.run(*live[: count - 2])
    assert story.exit_code == 0, [event for event in story.events if hasattr(event, "problem")][:3]
    pruned = {name for name, outcome in story.outcomes.items() if outcome is Outcome.PRUNED}
    assert pruned == {f"configmap/c-{number:03}" for number in (count - 2, count - 1)}


def test_orphaned_shards_are_found_and_removed(stage: Stage, api: Api) -> None:
    """A run that died between the shards and the root leaves some; a repair takes them away."""
    _write(stage, _dead(60))
    path = stage.path()
    body = api.get(f"{path}/{_shards(api, stage)[0]}")
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        del body["metadata"][key]
    body["metadata"]["name"] = "applyprune-web.0123456789abcdef0123456789abcdef"
    api.create(path, body)
    assert len(stage.inventory().entries) == 60
    assert stage.check().found["stray-shard"] is MismatchType.STRAY_SHARD
    assert stage.repair().exit_code == 0
    assert body["metadata"]["name"] not in _shards(api, stage)
    assert "stray-shard" not in stage.check().found


def test_writer_that_lost_the_race_leaves_the_winners_shards(stage: Stage, api: Api) -> None:
    """Both wrote shards before their roots; the loser's are removed, the winner's are all there."""
    transport, other = stage.transport(), stage.transport()
    mine, theirs = stage.store(transport), stage.store(other)
    _write(stage, _dead(60))
    read, also_read = mine.read(), theirs.read()
    theirs.write(replace(also_read, entries=_dead(70)))
    with pytest.raises(InventoryLocked):
        mine.write(replace(read, entries=_dead(80)))
    assert len(stage.inventory().entries) == 70
    # The next write lists the existing shards, and removes those that the loser has left.
    _write(stage, _dead(71))
    assert len(_shards(api, stage)) == len(pack_entries(_dead(71).values()).shards)
    transport.close()
    other.close()


def test_set_grows_and_shrinks_across_its_formats(stage: Stage, api: Api) -> None:
    """Readable, packed, sharded, and back; the last write leaves no shard behind."""
    root = stage.path(stage.target.inventory.name)
    forms = []
    for count in (5, 15, 60, 15, 5):
        _write(stage, _dead(count))
        assert dict(stage.inventory().entries) == _dead(count)
        forms.append(("binaryData" in api.get(root), bool(_shards(api, stage))))
    readable, packed, sharded = (False, False), (True, False), (False, True)
    assert forms == [readable, packed, sharded, packed, readable]
    assert _shards(api, stage) == []
    _write(stage, _dead(60))
    story = stage.run(mode=Mode.DELETE)
    assert set(story.outcomes.values()) == {Outcome.REMOVED_FROM_INVENTORY}
    assert not stage.inventory().exists
    assert _shards(api, stage) == []


@pytest.mark.holds("terminating-shard")
def test_shard_that_another_tools_finalizer_holds_is_not_used_again(stage: Stage, api: Api) -> None:
    """It goes with the finalizer, and the inventory would be incomplete: the write is refused."""
    _write(stage, _dead(60))
    held = _shards(api, stage)[0]
    path = stage.path(held)
    merge = "application/merge-patch+json"
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    api.patch(path, hold)
    _write(stage, _dead(1))
    assert _shards(api, stage) == [held]
    with pytest.raises(InventoryError, match="is being deleted") as refused:
        _write(stage, _dead(60))
    assert "example.com/hold" in refused.value.reason
    assert len(stage.inventory().entries) == 1
    api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=merge)
    _write(stage, _dead(60))
    assert dict(stage.inventory().entries) == _dead(60)


@pytest.mark.holds("shard-is-stored")
def test_record_is_whole_whatever_a_reply_says(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """Each write in turn: a root that names a shard which is not stored would lose its objects."""
    before, after = _dead(20), _dead(60)
    writes = 0
    while True:
        _write(stage, before)
        seen = numbers()

        def rule(one: Exchange, seen: Iterator[int] = seen, number: int = writes) -> Fault | None:
            is_write = one.method in {"POST", "PUT", "PATCH"}
            return faults.dry_run() if is_write and next(seen) == number else None

        proxy.rule = rule
        wanted = before
        with suppress(ApplypruneError):
            _write(spoiled, after)
            wanted = after
        assert _entries(stage) == wanted
        if next(seen) <= writes:
            break
        writes += 1
    assert writes > 2


@pytest.mark.holds("shard-is-reserved")
def test_shard_is_kept_for_whoever_needs_it(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Another run removes what it has listed, unless that has another resourceVersion by then."""
    _write(stage, _dead(60))
    shards = _shards(api, stage)
    _remove(api, stage, [stage.target.inventory.name])
    proxy.rule = first(1, faults.dry_run(), where=lambda one: one.method == "PATCH")
    _write(spoiled, _dead(60))
    assert _shards(api, stage) == shards
    for name in shards:
        assert WANTED in api.get(stage.path(name))["metadata"].get("annotations", {})
