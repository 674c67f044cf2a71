"""What may still be deleted of an approved prune that has not come to its end."""

from __future__ import annotations

import base64
import json
import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from applyprune.errors import ApplypruneError
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import ApprovedDeletions
from applyprune.model.live import Absent, LiveObject
from applyprune.model.options import Approval, Mode, Options
from applyprune.model.plan import Plan
from applyprune.planning.approval import missing_approval, with_approval
from applyprune.planning.approved_deletions import MOST, after_run, is_rest, record_of
from applyprune.planning.digests import (
    CASCADE,
    deletion_row,
    digest_of_text,
    ref_parts,
    without_state,
)
from applyprune.planning.plan import make_plan
from applyprune.planning.world import CascadeContents
from applyprune.sources import Input
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import (
    NAMESPACES,
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    recorded,
    world,
)
from tests.unit.planning.generated_worlds import SET, Generated, later
from tests.unit.planning.generated_worlds import world as generated

ALL = {name: desired(body(name=name, data={"k": "v"})) for name in "abcd"}
THERE: dict[str, LiveObject] = {name: live(one.ref, uid=f"uid-{name}") for name, one in ALL.items()}
BOTH = [Approval.PRUNE, Approval.ALWAYS]


def _options(approval: Approval, digest: str = "", **more: Any) -> Options:
    given = {"approval": approval, "approved": digest, "approved_plan": digest, **more}
    return options_of(**{"allow_empty": True, **given})


def _made(
    wanted: str,
    there: dict[str, LiveObject] | None = None,
    *,
    listed: str = "abcd",
    generation: int = 3,
    options: Options,
) -> Plan:
    """Return the plan of a set whose input has these objects, before an approval is judged.

    What is ``listed`` in capitals has the UID that it has now.
    """
    states = THERE if there is None else there
    snapshot = cluster({one.ref: states.get(name, Absent()) for name, one in ALL.items()})
    entries = [
        recorded(ALL[one.lower()], (THERE if one.islower() else states)[one.lower()])
        for one in listed
    ]
    stored = inventory(*entries, generation=generation)
    return make_plan(world([ALL[one] for one in wanted], stored, snapshot, options))


def _approved(approval: Approval, wanted: str = "a", **more: Any) -> ApprovedDeletions:
    """Return what the run records that somebody has approved, with this input."""
    asked = _options(approval, **more)
    plan = with_approval(_made(wanted, options=asked), TARGET, asked)
    digest = plan.digest if approval is Approval.ALWAYS else plan.deletions
    record = record_of(plan, TARGET, _options(approval, digest, **more), None)
    assert record is not None
    assert record.digest == digest
    return record


def _left(*gone: str) -> dict[str, LiveObject]:
    return {name: one for name, one in THERE.items() if name not in gone}


def _other(name: str) -> LiveObject:
    return live(ALL[name].ref, uid="another")


GOING = live(ALL["c"].ref, uid="uid-c", deletionTimestamp="2026-11-21T11:00:00Z")
# The input, what is there, what is listed, and whether that is the rest of b, c and d. Capitals:
# the listed object is the one that is there now.
RESTS: dict[str, tuple[str, dict[str, LiveObject], str, bool]] = {
    "nothing is done": ("a", THERE, "abcd", True),
    "one is gone": ("a", _left("b"), "acd", True),
    "one is gone, and still listed": ("a", _left("b"), "abcd", True),
    "one is going": ("a", {**_left("b"), "c": GOING}, "acd", True),
    "one has come back with another UID": ("a", {**THERE, "b": _other("b")}, "aBcd", False),
    "one has come back, and is refused": ("a", {**THERE, "b": _other("b")}, "abcd", True),
    "one is back in the input": ("ac", _left("b"), "acd", False),
    "one is back in the input with another UID": ("ab", {**THERE, "b": _other("b")}, "acd", True),
    "one more has left the input": ("", _left("b"), "acd", False),
    "another one has left it instead": ("b", _left("b"), "acd", False),
}


@pytest.mark.holds("approved-and-staying", row="one is back in the input-Prune")
@pytest.mark.holds("approved-object", row="one has come back with another UID-Prune")
@pytest.mark.parametrize("approval", BOTH)
@pytest.mark.parametrize("case", RESTS)
def test_rest_of_an_approved_prune_is_approved(case: str, approval: Approval) -> None:
    """And nothing else: another object, another UID, or another plan in between."""
    wanted, there, listed, expected = RESTS[case]
    record = _approved(approval)
    options = _options(approval, record.digest)
    plan = _made(wanted, there, listed=listed, generation=9, options=options)
    if approval is Approval.ALWAYS and (set(wanted) - {"a"} or "refused" in case):
        expected = False  # it is about more than deletions
    assert is_rest(plan, record, TARGET, options) is expected
    judged = with_approval(plan, TARGET, options, continues=expected)
    assert judged.refusal is None or not expected
    if not judged.no_prune or expected:
        assert (missing_approval(judged, options, takes_set=False) == "") is expected


@pytest.mark.parametrize("approval", BOTH)
def test_record_stays_until_all_of_it_is_done(approval: Approval) -> None:
    """A run that prunes nothing leaves it, and one with another plan ends it."""
    record = _approved(approval)
    options = _options(approval, record.digest)
    rest = replace(_made("a", _left("b"), listed="acd", options=options), continues=True)
    assert record_of(rest, TARGET, options, record) == record
    other = with_approval(_made("ac", listed="acd", options=options), TARGET, options)
    assert record_of(other, TARGET, options, record) is None
    for part in ({"prune": False}, {"only": frozenset({"configmap/a"})}):
        assert record_of(other, TARGET, _options(approval, record.digest, **part), record) == record
    entries = {ALL[one].ref: recorded(ALL[one], THERE[one]) for one in "ad"}
    assert after_run(record, entries) == record
    again = {ALL["d"].ref: replace(entries[ALL["d"].ref], uid="another")}
    assert after_run(record, again) is None
    assert after_run(None, entries) is None


@pytest.mark.holds("only-approved-is-recorded")
def test_approval_of_something_else_records_nothing() -> None:
    """Nor do none at all, and deletions that are too many for one inventory."""
    asked = _options(Approval.PRUNE)
    plan = with_approval(_made("a", options=asked), TARGET, asked)
    for given in ("", "sha256:" + "0" * 64, plan.digest):
        assert record_of(plan, TARGET, _options(Approval.PRUNE, given), None) is None
    random = Random(1)  # noqa: S311
    step = plan.removals[0]
    assert step.live is not None
    many = []
    for number in range(20_000):
        ref = Ref("", "ConfigMap", "home", f"{number:05}")
        there = replace(step.live, ref=ref, uid=f"{random.getrandbits(128):032x}")
        many.append(replace(step, entry=replace(step.entry, ref=ref), live=there))
    for count, fits in ((10_000, True), (20_000, False)):
        large = replace(plan, removals=tuple(many[:count]))
        large = with_approval(large, TARGET, asked)
        record = record_of(large, TARGET, _options(Approval.PRUNE, large.deletions), None)
        assert (record is not None) is fits
        assert record is None or len(record.packed) < MOST


CASCADES = {"the same": "xy", "a part of it": "x", "nothing": "", "more": "xyz", "another": "xz"}


@pytest.mark.holds("approved-cascade", row="more")
@pytest.mark.parametrize("case", CASCADES)
def test_cascade_may_only_get_smaller(case: str) -> None:
    """What is in a Namespace may be gone by now; what is new in it was not approved."""
    home = desired(body("Namespace", "gone"), NAMESPACES)
    there = live(home.ref, uid="u")

    def plan(inside: str, options: Options) -> Plan:
        contents = CascadeContents(
            tuple(live(desired(body(name=one, namespace="gone")).ref, uid=one) for one in inside)
        )
        snapshot = cluster({home.ref: there}, contents={home.ref: contents})
        return make_plan(world((), inventory(recorded(home, there)), snapshot, options))

    asked = _options(Approval.AUTOMATIC, mode=Mode.PRUNE)
    first = with_approval(plan("xy", asked), TARGET, asked)
    given = _options(Approval.AUTOMATIC, first.deletions, mode=Mode.PRUNE)
    record = record_of(first, TARGET, given, None)
    assert record is not None
    rest = plan(CASCADES[case], given)
    expected = set(CASCADES[case]) <= set("xy")
    assert is_rest(rest, record, TARGET, given) is expected
    judged = with_approval(rest, TARGET, given, continues=expected)
    assert (judged.no_prune == "") is expected


@pytest.mark.parametrize(
    "change",
    [{"source": "another"}, {"recreate": True}, {"max_prune": None, "mode": Mode.PRUNE}],
    ids=["another source", "other options", "another mode"],
)
def test_whole_plan_is_of_its_source_and_its_options(change: dict[str, Any]) -> None:
    """Also of what no digest shows: values of Secrets."""
    record = _approved(Approval.ALWAYS)
    options = _options(Approval.ALWAYS, record.digest)
    plan = partial(_made, "a", _left("b"), listed="acd")
    assert is_rest(plan(options=options), record, TARGET, options)
    other = _options(Approval.ALWAYS, record.digest, **change)
    assert not is_rest(plan(options=other), record, TARGET, other)


# Whoever may write the inventory may write any record.


def _packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text)).decode()


def _rows(plan: Plan) -> list[Any]:
    """Return the rows of everything that a plan deletes, and that is not going already."""
    found = [without_state(step) for step in plan.removals if step.is_doomed and not step.is_going]
    found += [without_state(step) for step in plan.applies if step.fate is Fate.RECREATE]
    return list(map(deletion_row, found))


def _forged(record: ApprovedDeletions, plan: Plan, random: Random) -> Iterator[ApprovedDeletions]:
    """Yield records for a plan that a tenant might write into the inventory."""
    text = json.dumps(_rows(plan), separators=(",", ":")).encode()
    yield replace(record, packed=_packed(text))
    yield ApprovedDeletions(digest_of_text(text), _packed(text))
    known = zlib.decompress(base64.b64decode(record.packed))
    read = json.loads(known)
    rows = read if isinstance(read, list) else read["objects"]
    rows += _rows(plan)
    random.shuffle(rows)
    yield replace(record, packed=_packed(json.dumps(read).encode()))
    yield replace(record, packed=_packed(known + b" "))
    yield replace(record, packed=record.packed[:-4])
    yield replace(record, packed="")


def _with(one: Generated, options: Options) -> Generated:
    return replace(one, read=replace(one.read, options=options))


def _some_time_later(one: Generated, random: Random) -> Generated:
    """Return a world in which a part is deleted, another input is given, or both."""
    found = later(one, random.randrange(10**6)) if random.random() < 0.5 else one
    states, entries = dict(found.read.states), dict(found.read.inventory.entries)
    for ref in sorted(states):
        chance = random.random()
        if chance < 0.3:
            states[ref] = Absent()
        if chance < 0.15:
            entries.pop(ref, None)
    stored = replace(found.read.inventory, entries=entries)
    manifests = [one for one in found.manifests if random.random() < 0.7]
    given = Input(tuple(manifests)) if random.random() < 0.7 else found.manifests
    return replace(
        found, manifests=given, read=replace(found.read, states=states, inventory=stored)
    )


def _deletes_no_more(plan: Plan, approved: Sequence[list[Any]]) -> bool:
    """Return whether each deletion is an approved one, with no larger cascade."""
    known = {tuple(map(str, row[:CASCADE])): row[CASCADE] for row in approved}
    found = [(tuple(map(str, row[:CASCADE])), row[CASCADE]) for row in _rows(plan)]
    return all(row in known and all(one in known[row] for one in cascade) for row, cascade in found)


@pytest.mark.parametrize("approval", [*BOTH, Approval.AUTOMATIC])
def test_no_record_lets_more_go_than_was_approved(approval: Approval) -> None:
    """In generated worlds, whatever has happened since, and whoever has written the record."""
    random, rests, refused = Random(7), 0, 0  # noqa: S311
    for seed in range(250):
        try:
            one = generated(seed)
            options = replace(one.read.options, approval=approval)
            first = _with(one, options).plan()
        except (ApplypruneError, KeyError):
            continue
        if not first.deletions:
            continue
        digest = first.digest if approval is Approval.ALWAYS else first.deletions
        prune = replace(options.prune, approved=digest)
        given = replace(options, approved_plan=digest, prune=prune)
        record = record_of(first, SET, given, None)
        assert record is not None
        approved = _rows(first)
        for _ in range(3):
            try:
                second = _with(_some_time_later(one, random), given).plan()
            except (ApplypruneError, KeyError):
                continue
            if is_rest(second, record, SET, given):
                rests += 1
                assert _deletes_no_more(second, approved), seed
            else:
                refused += 1
            for forged in _forged(record, second, random):
                if is_rest(second, forged, SET, given):
                    assert is_rest(second, record, SET, given), seed
                    assert _deletes_no_more(second, approved), seed
    assert min(rests, refused) > 10, (rests, refused)


@pytest.mark.holds("forged-approval")
def test_forged_record_approves_nothing() -> None:
    """Not even if it names the digest that is approved."""
    record = _approved(Approval.PRUNE)
    options = _options(Approval.PRUNE, record.digest)
    plan = _made("", options=options)
    forged = replace(record, packed=_packed(json.dumps(_rows(plan)).encode()))
    assert not is_rest(plan, forged, TARGET, options)


def test_large_record_is_not_unpacked() -> None:
    """It would take the memory of a worker."""
    record = _approved(Approval.PRUNE)
    options = _options(Approval.PRUNE, record.digest)
    plan = _made("a", options=options)
    text = zlib.decompress(base64.b64decode(record.packed))
    assert is_rest(plan, replace(record, packed=_packed(text)), TARGET, options)
    bomb = replace(record, packed=_packed(b" " * 2**27))
    tracemalloc.start()
    assert not is_rest(plan, bomb, TARGET, options)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_row_of_a_deletion_has_its_cascade_where_it_is_looked_for() -> None:
    """The digest of the deletions and the record agree about their rows."""
    asked = _options(Approval.PRUNE)
    (step, *_) = _made("a", options=asked).removals
    row = deletion_row(without_state(step))
    assert tuple(row[:4]) == ref_parts(step.entry.ref)
    assert row[4:6] == ["prune", step.live.uid if step.live else ""]
    assert isinstance(row[CASCADE], list)
