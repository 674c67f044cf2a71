"""The inventory's text: what goes in comes out, and what was touched is never read as less."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.cluster import inventory_format
from applyprune.cluster.inventory_format import (
    MAX_SHARD,
    MAX_TEXT,
    decode_entries,
    decode_root,
    decode_shard,
    encode_root,
    encode_shard,
    entries_in,
    pack_entries,
)
from applyprune.errors import InventoryError
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    LONGEST_LEASE,
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
)
from applyprune.values import replace

# RBAC names may hold nearly everything; 253 characters is the longest name there is.
NAMES = st.text("abcXYZ019-._:@ é☃", min_size=1, max_size=253)
FINGERPRINTS = st.builds(
    ApplyFingerprint,
    st.text("0123456789", min_size=1),
    st.none() | st.integers(0, 2**53),
    st.text("0123456789abcdef", min_size=32, max_size=32),
    st.just("2026-11-21T10:00:00Z"),
    st.none() | st.integers(0, 99),
)
REFS = st.builds(Ref, st.sampled_from(["", "apps", "x.io"]), NAMES, st.just("") | NAMES, NAMES)
ENTRIES = st.builds(
    InventoryEntry,
    ref=REFS,
    plural=NAMES,
    version=st.just("v1"),
    uid_before_apply=st.none() | NAMES,
    uid=st.just("") | NAMES,
    ownership=st.sampled_from(Ownership),
    digest=st.just("") | NAMES,
    fingerprint=st.none() | FINGERPRINTS,
    wave=st.builds(Wave, st.integers(-9, 9), st.integers(0, 9), st.integers(0, 9)),
    depends_on=st.lists(REFS, max_size=3).map(tuple),
    owned_fields=st.sampled_from(["", '{"f:data":{"f:é":{}}}', '{"f:data":{"f:b":{}}}']),
    marks=st.sampled_from([(), ("olm.owner=x",), ("a=b", "c=d")]),
    orphan_reason=st.text(max_size=20),
    deleting=st.booleans(),
    orphaning=st.booleans(),
    offered=st.sampled_from(["", "key"]),
    job=st.none() | st.builds(JobRecord, NAMES, st.integers(0, 2**31), completed=st.booleans()),
)
HOLDER = LockHolder("r1", "me@here", 15.0, 3)


def _entry(number: int) -> InventoryEntry:
    return InventoryEntry(
        Ref("", "ConfigMap", "home", f"c-{number}"), "configmaps", "v1", None, uid="u"
    )


def _inventory(*entries: InventoryEntry, **changes: Any) -> Inventory:
    listed = {entry.ref: entry for entry in entries}
    facts: dict[str, Any] = {"uid": "i1", "resource_version": "5", "generation": 4}
    return Inventory("web", "home", entries=listed, **{**facts, **changes})


def _stored(inventory: Inventory) -> dict[str, Any]:
    """Return the root as the server keeps it."""
    body = encode_root(inventory, pack_entries(inventory.entries.values()), write="w")
    return dict(json.loads(json.dumps(body)))


def _read(body: dict[str, Any]) -> Inventory:
    """Return what a root that holds its own entries says, without the rest of the ConfigMap."""
    root = decode_root(body)
    assert root.inline is not None
    entries = entries_in(root, [root.inline])
    return replace(
        root.inventory, entries=entries, hinted_namespaces=frozenset(), root=StoredRoot()
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(ENTRIES, max_size=8), st.none() | st.just(HOLDER))
def test_inventory_round_trips(entries: list[InventoryEntry], holder: LockHolder | None) -> None:
    """For every legal name, and through JSON as the server keeps it."""
    inventory = _inventory(*entries, holder=holder)
    body = _stored(inventory)
    assert _read(body) == inventory
    assert dict(_read(body).entries) == dict(inventory.entries)
    assert decode_root(body).write == "w"


@pytest.mark.parametrize("done", [True, False])
def test_plan_file_of_the_last_run_round_trips(done: bool) -> None:
    """An inventory without one is read as before."""
    inventory = _inventory(_entry(1), plan=AppliedPlan("sha256:ab", done=done))
    assert _read(_stored(inventory)) == inventory
    plain = _stored(_inventory(_entry(1)))
    assert "plan" not in json.loads(plain["data"]["header"])
    assert _read(plain).plan is None


def test_approved_deletions_round_trip() -> None:
    """An inventory without any is read as before."""
    approved = ApprovedDeletions("sha256:ab", "dGV4dA==")
    inventory = _inventory(_entry(1), approved=approved)
    assert _read(_stored(inventory)) == inventory
    plain = _stored(_inventory(_entry(1)))
    assert "approved" not in json.loads(plain["data"]["header"])
    assert _read(plain).approved is None


RUNS = tuple(RunRecord(f"r{n}", "apply", "me@here", "then", 0, pruned=n) for n in range(1, 10))


def test_history_round_trips_and_an_older_inventory_has_none() -> None:
    """Also the record of a run that has no end yet."""
    source = RunSource("deploy", "abc", differs=True, paths={"filename": ("deploy",)})
    last = RunRecord(
        *("r0", "apply", "me@here", "now", None, "mona", "https://x/1", source, 7),
        is_whole=True,
        created=1,
    )
    inventory = _inventory(_entry(1), last=last, earlier=RUNS, objects_of_runs="any text")
    assert _read(_stored(inventory)) == inventory
    assert inventory.history == (last, *RUNS)
    body = _stored(inventory)
    header = json.loads(body["data"]["header"])
    del header["earlier"]
    header["last"] = {"run": "r0", "mode": "apply", "who": "me@here", "at": "now", "exitCode": 3}
    body["data"]["header"] = json.dumps(header)
    old = _read(body)
    assert (old.earlier, old.last) == ((), RunRecord("r0", "apply", "me@here", "now", 3))
    assert old.history == ()


@pytest.mark.parametrize(
    "forged",
    [
        None,
        {},
        "x",
        7,
        [7],
        [{}],
        [None],
        [{"run": "r", "mode": "m", "who": "w", "at": "t", "exitCode": "0"}],
    ],
    ids=str,
)
def test_forged_history_is_dropped(forged: object) -> None:
    """Nothing depends on it, so it does not make an inventory unreadable."""
    body = _stored(_inventory(_entry(1), earlier=RUNS))
    body["data"]["header"] = json.dumps({**json.loads(body["data"]["header"]), "earlier": forged})
    assert _read(body).earlier == ()


@pytest.mark.parametrize("forged", [None, 7, "x", [], {"shown": 1}, {"paths": {"filename": "a"}}])
def test_forged_source_of_a_run_is_dropped(forged: object) -> None:
    """Even of the last run, without which the inventory would be unreadable."""
    body = _stored(_inventory(_entry(1), last=RUNS[0]))
    header = json.loads(body["data"]["header"])
    body["data"]["header"] = json.dumps({**header, "last": {**header["last"], "source": forged}})
    body["binaryData"] = {"runs.gz": "forged"}
    assert _read(body).last == RUNS[0]


def test_history_leaves_room_for_the_entries() -> None:
    """It is at most ten runs and 16 KiB, whatever somebody has written into it."""
    long = [replace(run, actor="\U0001f40b" * 400, url="y" * 900) for run in RUNS]
    body = _stored(_inventory(_entry(1), earlier=(*long, *long, *long)))
    header = json.loads(body["data"]["header"])
    assert 0 < len(header["earlier"]) < 9
    assert len(body["data"]["header"]) < 20_000
    many = _stored(_inventory(_entry(1), earlier=RUNS * 3))
    assert len(_read(many).earlier) == 10


@pytest.mark.parametrize("plan", ["sha256:ab", {"checksum": "sha256:ab"}, {"checksum": 1}])
def test_unreadable_plan_makes_the_inventory_unreadable(plan: object) -> None:
    """Nothing that an inventory holds is guessed."""
    body = _stored(_inventory(_entry(1)))
    body["data"]["header"] = json.dumps({**json.loads(body["data"]["header"]), "plan": plan})
    with pytest.raises(InventoryError):
        decode_root(body)


@pytest.mark.parametrize(
    "lease",
    [
        pytest.param("1e9", marks=pytest.mark.holds("longest-lease")),
        "1e400",
        "1" + "0" * 400,
        "NaN",
        "Infinity",
        "-Infinity",
        "0",
        "-1",
        "30.5",
    ],
)
def test_impossible_lease_is_the_longest_one(lease: str) -> None:
    """Whoever edits the inventory can block no run for longer than a run itself could."""
    body = _stored(_inventory(_entry(1), holder=HOLDER))
    body["data"]["header"] = body["data"]["header"].replace("15.0", lease)
    holder = _read(body).holder
    assert holder is not None
    assert holder.lease == LONGEST_LEASE
    assert replace(holder, lease=HOLDER.lease) == HOLDER


@pytest.mark.parametrize("lease", [15, 2.5, LONGEST_LEASE])
def test_possible_lease_is_kept(lease: float) -> None:
    body = _stored(_inventory(_entry(1), holder=replace(HOLDER, lease=lease)))
    holder = _read(body).holder
    assert holder is not None
    assert holder.lease == lease


@pytest.mark.parametrize("lease", ['"15"', "true", "null", "[]"])
def test_lease_that_is_no_number_makes_the_inventory_unreadable(lease: str) -> None:
    body = _stored(_inventory(_entry(1), holder=HOLDER))
    body["data"]["header"] = body["data"]["header"].replace("15.0", lease)
    with pytest.raises(InventoryError):
        decode_root(body)


@pytest.mark.parametrize("count", [1, 2_000])
def test_small_inventory_is_readable_and_large_one_is_packed(count: int) -> None:
    """And both come out as they went in."""
    inventory = _inventory(*(_entry(number) for number in range(count)))
    body = _stored(inventory)
    assert ("entries" in body["data"]) == (count == 1)
    assert len(json.dumps(body)) < max(2 * MAX_TEXT, 400 * count)
    assert dict(_read(body).entries) == dict(inventory.entries)


@pytest.fixture
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of the entries in each shard."""
    monkeypatch.setattr(inventory_format, "_PER_SHARD", 128)


@pytest.mark.usefixtures("_small_shards")
def test_change_rewrites_one_shard_only() -> None:
    """Each is one ConfigMap that the server takes, immutable and named by what it holds."""
    many = [_entry(number) for number in range(1_000)]
    inventory = _inventory(*many)
    packed = pack_entries(many)
    assert len(packed.shards) > 1
    assert sum(shard.count for shard in packed.shards) == len(many)
    parts = []
    for shard in packed.shards:
        body = json.loads(json.dumps(encode_shard(inventory, shard)))
        assert body["immutable"] is True
        assert shard.digest.startswith(body["metadata"]["name"].rpartition(".")[2])
        assert len(shard.packed) <= MAX_SHARD
        parts.append(decode_shard(body, shard))
    root = decode_root(_stored(inventory))
    assert root.inline is None
    assert dict(entries_in(root, parts)) == dict(inventory.entries)
    with pytest.raises(InventoryError, match="digest"):
        entries_in(root, parts[1:])

    less = pack_entries(many[:500] + many[501:])
    assert len({shard.digest for shard in less.shards} - {one.digest for one in packed.shards}) == 1


def _field_set(number: int) -> str:
    """Return the canonical text of a field set that has the size of a Deployment's."""
    below: dict[str, Any] = {f"f:field-{index}-{number}": {} for index in range(40)}
    return json.dumps({"f:spec": below}, separators=(",", ":"), sort_keys=True)


@pytest.mark.parametrize("count", [100, 2_000, pytest.param(20_000, marks=pytest.mark.sweep)])
@pytest.mark.usefixtures("_small_shards")
def test_field_set_is_stored_once_for_all_objects_that_share_it(count: int) -> None:
    """Five kinds of objects cost a few bytes for each object; every shard has its own sets."""
    plain = [_entry(number) for number in range(count)]
    owning = [
        replace(entry, owned_fields=_field_set(number % 5)) for number, entry in enumerate(plain)
    ]
    bare, full = _size(plain), _size(owning)
    assert full - bare < 20 * count + 5 * len(_field_set(0)) * max(
        1, len(pack_entries(owning).shards)
    )
    inventory = _inventory(*owning)
    parts = [
        decode_shard(json.loads(json.dumps(encode_shard(inventory, shard))), shard)
        for shard in pack_entries(owning).shards
    ]
    root = decode_root(_stored(inventory))
    found = entries_in(root, parts or [root.inline or b""])
    assert dict(found) == dict(inventory.entries)


def _size(entries: list[InventoryEntry]) -> int:
    """Return the bytes that the entries take in the cluster."""
    packed = pack_entries(entries)
    shards = (shard.packed for shard in packed.shards)
    return sum(map(len, (packed.readable, packed.stream, *shards)))


def test_entry_without_its_field_set_is_an_error() -> None:
    """The number of a set that is not there is damage, never no fields."""
    body = _stored(_inventory(replace(_entry(1), owned_fields=_field_set(1))))
    lines = body["data"]["entries"].splitlines(keepends=True)
    with pytest.raises(KeyError):
        decode_entries("".join(line for line in lines if "fieldSet" not in line).encode())


def test_inventory_without_field_sets_is_read() -> None:
    """As an older version has written it: then nothing is known of the fields."""
    body = _stored(_inventory(_entry(1)))
    assert "ownedFields" not in body["data"]["entries"]
    assert next(iter(_read(body).entries.values())).owned_fields == ""


@pytest.mark.usefixtures("_small_shards")
def test_incompressible_entries_still_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest names that there are, all different: more shards, none too large."""
    names = [hashlib.sha512(str(number).encode()).hexdigest() * 2 for number in range(600)]
    many = [replace(_entry(0), ref=Ref("", "ConfigMap", "home", name[:253])) for name in names]
    usual = max(len(shard.packed) for shard in pack_entries(many).shards)
    monkeypatch.setattr(inventory_format, "MAX_SHARD", usual // 3)
    packed = pack_entries(many)
    assert max(len(shard.packed) for shard in packed.shards) <= usual // 3
    assert sum(shard.count for shard in packed.shards) == len(many)


@pytest.mark.usefixtures("_small_shards")
def test_corrupt_shard_is_not_taken_for_the_named_one() -> None:
    """Another's content under its name, no content, no base64: an error each."""
    one, other = pack_entries(_entry(number) for number in range(1_000)).shards[:2]
    body = encode_shard(_inventory(), one)
    for held in ({"entries.gz": other.packed}, {"entries.gz": "?"}, {}, None):
        with pytest.raises(ValueError, match=r"its contents|its entries|it has no entries"):
            decode_shard({**body, "binaryData": held}, one)


def test_too_many_entries_are_refused_before_any_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one of objects: shards hold any size."""
    monkeypatch.setattr(inventory_format, "MAX_OBJECTS", 100)
    pack_entries(_entry(number) for number in range(100))
    with pytest.raises(InventoryError, match="is too large"):
        pack_entries(_entry(number) for number in range(101))


def test_inventory_with_another_uid_in_its_header_is_a_copy() -> None:
    """A restored backup, or a copy by hand."""
    body = _stored(_inventory(_entry(1)))
    assert not decode_root(body).inventory.copied
    body["metadata"]["uid"] = "i2"
    assert decode_root(body).inventory.copied
    # It stays one, whatever is written, until it is repaired.
    assert decode_root(_stored(_inventory(_entry(1), copied=True))).inventory.copied


OURS = {
    "manager": "applyprune",
    "operation": "Update",
    "time": "2026-11-22T10:00:00Z",
    "fieldsV1": {"f:data": {".": {}, "f:entries": {}, "f:header": {}}},
}
"""What the server records about our create."""


@pytest.mark.parametrize(
    ("record", "copied"),
    [
        ([OURS], False),
        ([{**OURS, "time": "2026-11-22T10:00:25Z"}], False),
        ([{"manager": "kubectl-label", "operation": "Update"}, OURS], False),
        ([{**OURS, "time": "2026-11-22T09:58:59Z"}], True),
        ([{**OURS, "time": "soon"}], True),
        ([{**OURS, "manager": "kubectl-create"}], True),
        ([{**OURS, "operation": "Apply"}], True),
        ([{**OURS, "fieldsV1": {"f:metadata": {}}}], True),
        ([], True),
        (None, True),
    ],
)
def test_first_write_names_no_uid_and_is_judged_by_the_record_of_the_server(
    record: object, copied: bool
) -> None:
    first = _stored(_inventory(_entry(1), uid="", resource_version=""))
    first["metadata"] |= {
        "uid": "i9",
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-22T10:00:00Z",
        "managedFields": record,
    }
    assert decode_root(first).inventory.copied is copied


@pytest.mark.parametrize("count", [3, 2_000])
def test_flipped_byte_is_always_detected(count: int) -> None:
    """Whichever byte of the entries changes, readable or packed: an error, never fewer entries."""
    body = _stored(_inventory(*(_entry(number) for number in range(count))))
    part, key = ("data", "entries") if count == 3 else ("binaryData", "entries.gz")
    text = body[part][key]
    for at in range(0, len(text), max(1, len(text) // 200)):
        torn = deepcopy(body)
        flipped = "A" if text[at] != "A" else "B"
        torn[part][key] = text[:at] + flipped + text[at + 1 :]
        with pytest.raises(InventoryError, match="cannot be read"):
            _read(torn)


HEADERS: dict[str, dict[str, Any]] = {
    "a missing count": {"count": None},
    "a wrong count": {"count": 2},
    "a generation that is text": {"generation": "4"},
    "a generation that is a boolean": {"generation": True},
    "a holder without a lease": {"holder": {"run": "r"}},
    "a wrong digest": {"digest": "0" * 64},
}


@pytest.mark.parametrize("name", HEADERS)
def test_header_is_read_strictly(name: str) -> None:
    """No value of another type, no missing key."""
    body = _stored(_inventory(_entry(1)))
    header = json.loads(body["data"]["header"]) | HEADERS[name]
    body["data"]["header"] = json.dumps(header)
    with pytest.raises(InventoryError, match="cannot be read"):
        _read(body)


@pytest.mark.parametrize("key", ["header", "entries"])
def test_incomplete_inventory_is_an_error(key: str) -> None:
    """Never an empty inventory."""
    body = _stored(_inventory(_entry(1)))
    del body["data"][key]
    with pytest.raises(InventoryError):
        _read(body)


def test_newer_format_is_named() -> None:
    """With what to do about it."""
    body = _stored(_inventory(_entry(1)))
    header = json.loads(body["data"]["header"]) | {"schema": 99}
    body["data"]["header"] = json.dumps(header)
    with pytest.raises(InventoryError, match="format 99") as caught:
        decode_root(body)
    assert "newer" in caught.value.hint


def test_inventory_is_a_valid_applyset_parent() -> None:
    """Label and annotations of KEP-3659, and the guards of a compare-and-swap."""
    entries = [_entry(1), replace(_entry(2), ref=Ref("apps", "Deployment", "b", "x"))]
    metadata = _stored(_inventory(*entries))["metadata"]
    assert metadata["labels"]["applyset.kubernetes.io/id"].startswith("applyset-")
    annotations = metadata["annotations"]
    assert annotations["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap,Deployment.apps"
    assert annotations["applyset.kubernetes.io/additional-namespaces"] == "b"
    assert annotations["applyset.kubernetes.io/tooling"].startswith("applyprune/v")
    assert (metadata["uid"], metadata["resourceVersion"]) == ("i1", "5")
