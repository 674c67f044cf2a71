"""The plan file's text: what goes in comes out, and a file that was touched is refused."""

from __future__ import annotations

import gzip
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.errors import PlanOutdated, UsageError
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.plan import Cascaded
from applyprune.planning.approval import (
    LARGEST,
    PlanFile,
    decode_plan_file,
    encode_plan_file,
    refuse_expired,
    sealed,
)
from applyprune.planning.digests import PlannedObject
from applyprune.values import replace
from tests.support.plan_files import FILE, with_checksum

NAMES = st.text('abcXYZ019-._:@ é☃"\\\n\u2028', max_size=80)
REFS = st.builds(Ref, st.sampled_from(["", "apps", "x.io"]), NAMES, NAMES, NAMES)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64).map(lambda text: f"sha256:{text}")
TIMES = st.integers(0, 4_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC))
OBJECTS = st.builds(
    PlannedObject,
    ref=REFS,
    fate=st.sampled_from(Fate),
    manifest=NAMES,
    uid=NAMES,
    state=NAMES,
    applied=NAMES,
    cascade=st.lists(st.builds(Cascaded, REFS, NAMES), max_size=2).map(tuple),
)
FILES = st.builds(
    PlanFile,
    name=NAMES,
    namespace=NAMES,
    cluster=st.dictionaries(NAMES, NAMES, max_size=2),
    inventory_uid=NAMES,
    generation=st.integers(0, 2**53),
    options=st.dictionaries(
        NAMES, st.booleans() | NAMES | st.lists(NAMES, max_size=3).map(tuple), max_size=3
    ),
    created=TIMES,
    expires=TIMES,
    digest=DIGESTS,
    deletions=st.just("") | DIGESTS,
    objects=st.lists(OBJECTS, max_size=4, unique_by=lambda planned: planned.ref).map(tuple),
    recovered=st.lists(st.tuples(REFS, NAMES), max_size=2).map(tuple),
    input=st.dictionaries(NAMES, st.lists(NAMES, max_size=3).map(tuple), max_size=2),
    created_by=NAMES,
)


def _decode(data: bytes) -> PlanFile:
    return decode_plan_file(data, source="web.plan")


@given(FILES)
def test_plan_file_comes_out_as_it_went_in(file: PlanFile) -> None:
    """Also its checksum, and always with the same bytes."""
    data = encode_plan_file(file)
    found = _decode(data)
    assert found == sealed(file)
    assert encode_plan_file(found) == data


def test_plan_file_is_json_with_a_line_for_each_object() -> None:
    """A person can read it, and so can jq."""
    data = encode_plan_file(FILE)
    raw = json.loads(data)
    assert (raw["schema"], raw["checksum"]) == ("applyprune.dev/plan/v1", FILE.checksum)
    assert raw["set"] == {"name": "web", "namespace": "shop"}
    assert b'\n{"fate":"create","manifest":"m1","object":["","ConfigMap","shop","a"]},\n' in data
    assert data.isascii()


def test_plan_file_with_any_byte_changed_is_invalid() -> None:
    """Whichever byte it is, and whatever it becomes; so is one with a byte less or more."""
    data = encode_plan_file(FILE)
    for place, byte in enumerate(data):
        for other in {byte ^ 1, byte ^ 32, 0, 255} - {byte}:
            with pytest.raises(UsageError, match=r"^web\.plan: the (plan )?file "):
                _decode(data[:place] + bytes([other]) + data[place + 1 :])
        for changed in (data[:place], data[:place] + data[place + 1 :], data + b"\n"):
            with pytest.raises(UsageError, match="the file "):
                _decode(changed)


@settings(max_examples=30)
@given(FILES, st.data())
def test_plan_file_with_one_bit_flipped_is_invalid(file: PlanFile, data: st.DataObject) -> None:
    """For any plan."""
    whole = bytearray(encode_plan_file(file))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(UsageError):
        _decode(bytes(whole))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"apiVersion: v1\n",
        gzip.compress(encode_plan_file(FILE)),
        bytes(9999),
        b'{"schema":"',
    ],
    ids=["empty", "json", "yaml", "gzip", "zeros", "cut off"],
)
def test_other_file_is_not_a_plan_file(data: bytes) -> None:
    """It says so, and how to make one."""
    with pytest.raises(UsageError, match="is not a plan file") as caught:
        _decode(data)
    assert "applyprune plan --out" in caught.value.hint


def test_plan_file_of_a_newer_schema_is_refused() -> None:
    """With the schema that this version reads, however different the rest is."""
    newer = encode_plan_file(FILE)[:60].replace(b"plan/v1", b"plan/v2")
    with pytest.raises(UsageError, match="schema v2") as caught:
        _decode(newer)
    assert "reads v1" in caught.value.reason


def _with_checksum(raw: dict[str, object], deep: bytes = b"") -> bytes:
    """Return a plan file with a right checksum, and with other content."""
    rows = ",\n".join(f"{json.dumps(key)}:{_json(value)}" for key, value in raw.items())
    content = f"{rows}}}\n".encode().replace(b'"DEEP"', deep)
    return with_checksum(content)


def _json(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    is_rows = isinstance(value, list) and value and isinstance(value[0], dict)
    rows = text[1:-1].replace("},{", "},\n{")
    return f"[\n{rows}\n]" if is_rows else text


def _raw() -> dict[str, object]:
    raw = json.loads(encode_plan_file(FILE))
    return {key: value for key, value in raw.items() if key not in {"schema", "checksum"}}


@pytest.mark.parametrize(
    "changed",
    [
        {"objects": "all"},
        {"objects": [{"object": ["", "ConfigMap", "shop"], "fate": "create"}]},
        {"objects": [{"object": ["", "ConfigMap", "shop", "a"], "fate": "destroy"}]},
        {"objects": [{"object": ["", "ConfigMap", "shop", "a"], "fate": "leave"}] * 2},
        {"set": None},
        {"created": "yesterday"},
        {"digest": "sha256:abc"},
        {"deletions": 0},
        {"inventory": {"uid": "i1", "generation": "4"}},
        {"options": {"adopt": 1}},
        {"cluster": [["kube-system", "k1"]]},
        {"recovered": [["x"]]},
        pytest.param({"unknown": 1}, marks=pytest.mark.holds("plan-file-form")),
        {"set": {"name": "web", "namespace": "shop", "uid": "u"}},
        {"created": "2026-1-1T0:0:0Z"},
        {"set": {"name": "\ud800", "namespace": "shop"}},
        {"inventory": {"uid": "i1", "generation": float("nan")}},
        {"inventory": {"uid": "i1", "generation": 4.0}},
        {"inventory": {"uid": "i1", "generation": True}},
    ],
    ids=str,
)
def test_plan_file_with_right_checksum_is_still_read_strictly(changed: dict[str, object]) -> None:
    """A checksum is no signature: anybody can make one."""
    assert replace(_decode(_with_checksum(_raw())), checksum=FILE.checksum) == FILE
    with pytest.raises(UsageError, match="is not a valid plan file"):
        _decode(_with_checksum({**_raw(), **changed}))


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"9" * 100_000,
        b"1e999999999",
        b"-Infinity",
        b'{"kube-system":"k1","kube-system":"k1"}',
        b'{ "kube-system":"k1"}',
        b'{"kube-syste\\u006d":"k1"}',
        b'"' + b"x" * 1_000_000 + b'"',
    ],
    ids=lambda bomb: bomb[:9].decode(),
)
def test_plan_file_of_unusual_json_is_refused(bomb: bytes) -> None:
    """In a few words, instead of a crash, or of another plan than a reader would see."""
    found = _decode(_with_checksum({**_raw(), "cluster": "DEEP"}, b'{"kube-system":"k1"}'))
    assert replace(found, checksum=FILE.checksum) == FILE
    with pytest.raises(UsageError, match="is not a valid plan file") as caught:
        _decode(_with_checksum({**_raw(), "cluster": "DEEP"}, bomb))
    assert len(str(caught.value)) < 400


def test_plan_file_expires() -> None:
    """At the very second."""
    refuse_expired(FILE, FILE.expires - timedelta(seconds=1))
    with pytest.raises(PlanOutdated, match="expired at 2026-11-28T10:00:00Z") as caught:
        refuse_expired(FILE, FILE.expires)
    assert caught.value.exit_code == 8


def test_plan_file_of_ten_thousand_objects_is_small_and_quick() -> None:
    """At most 5 MB, written and read in less than a second of this process each."""
    objects = tuple(
        PlannedObject(
            Ref("apps", "Deployment", f"namespace-{number % 50}", f"deployment-{number}"),
            Fate.CREATE,
            manifest=f"{number:032x}",
        )
        for number in range(10_000)
    )
    file = replace(FILE, objects=objects)
    began = time.process_time()
    data = encode_plan_file(file)
    written = time.process_time()
    assert len(_decode(data).objects) == 10_000
    read = time.process_time()
    assert len(data) < 5_000_000 < LARGEST
    # Seconds of computing: they take a tenth, and what is quadratic would take minutes.
    assert (written - began < 10, read - written < 10) == (True, True)
