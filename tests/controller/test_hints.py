"""A mark shows whether others may have changed an object: such a hint brings a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.many_watches import ListReport, ObjectReport, WatchTarget
from applyprune.controller.clients import account_user
from applyprune.controller.hints import GATHER, READY_DELAY, READY_GAP, ObjectHints
from applyprune.controller.queue import WorkQueue
from applyprune.controller.task import ABSENT, AppliedObjects, SeenState, shows_change
from applyprune.controller.watches import Watches
from applyprune.planning.applyset import PART_OF
from applyprune.values import packed, replace
from tests.support.clocks import ManualClock
from tests.support.no_server import client_of_no_server
from tests.support.planning import CONFIG_MAPS, TARGET, body, desired, live, managed, recorded

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.model.live import LiveObject

KEY = ("home", "web")
USERS = frozenset({KEY})
A, B = (desired(body(name=name)).ref for name in "ab")
OBJECTS = AppliedObjects(
    "default",
    TARGET.id,
    TARGET.manager,
    frozenset({(CONFIG_MAPS, "home")}),
    {ref: SeenState.of(live(ref), TARGET.manager) for ref in (A, B)},
)


def hints(objects: AppliedObjects = OBJECTS) -> ObjectHints:
    """Return the hints about one Bundle after its first reconcile."""
    found = ObjectHints(ManualClock())
    found.follow(KEY, objects)
    return found


def changed(version: str = "6", ref: object = A) -> LiveObject:
    """Return an object of which somebody else has taken a field."""
    assert ref in {A, B}
    return live(A if ref == A else B, version=version, entries=[managed(fields="x")])


def due(found: ObjectHints) -> set[str]:
    """Let time pass until the next look is due; return its objects."""
    seconds = found.next_due(KEY)
    assert seconds == pytest.approx(GATHER)
    assert isinstance(found.clock, ManualClock)
    found.clock.advance(GATHER - 0.01)
    assert found.drifted(KEY) == frozenset()
    found.clock.advance(0.02)
    return {ref.name for ref in found.drifted(KEY)}


def test_change_is_a_hint_about_that_object_alone() -> None:
    """Those that come within a moment are looked at together."""
    found = hints()
    assert found.observe(live(A), gone=False, users=USERS) == []
    assert found.next_due(KEY) is None
    for one, gone in ((changed(), False), (live(B, version="7"), True)):
        (look,) = found.observe(one, gone=gone, users=USERS)
        assert (look.key, look.is_whole) == (KEY, False)
        assert look.seconds == pytest.approx(GATHER)
    assert due(found) == {"a", "b"}


@pytest.mark.holds("clock-of-hints")
def test_hints_are_due_by_the_clock_of_the_queue(tmp_path: Path) -> None:
    """All that serves a queue has its clock."""
    with client_of_no_server(tmp_path) as (access, client):
        clock = ManualClock()
        watches = Watches(WorkQueue(clock=clock), client, access, "test")
        watches.follow_objects(KEY, OBJECTS)
        watched = WatchTarget(account_user(KEY[0], "default"), CONFIG_MAPS, "home", PART_OF)
        watches.shared.on_report(ObjectReport(watched, changed()))
        assert watches.drifted(KEY) == frozenset()
        clock.advance(GATHER + 0.01)
        assert watches.drifted(KEY) == {A}
        watches.close()


def test_own_write_is_no_hint_whichever_comes_first() -> None:
    """The reply or its watch event."""
    found = hints()
    ours = replace(OBJECTS, marks={A: SeenState.of(changed(), TARGET.manager)}, is_part=True)
    assert found.observe(changed(), gone=False, users=USERS) != []
    found.follow(KEY, ours)
    assert found.next_due(KEY) is None
    assert found.observe(changed(), gone=False, users=USERS) == []
    # A watch that is behind shows nothing new.
    assert found.observe(live(A), gone=False, users=USERS) == []
    # A change after it is one.
    assert found.observe(changed("8"), gone=False, users=USERS) != []
    found.follow(KEY, ours)
    assert found.next_due(KEY) is not None


@pytest.mark.holds("seen-by-its-account")
def test_strangers_and_other_accounts_give_no_hint() -> None:
    """Whatever label they have."""
    found = hints()
    stranger = desired(body(name="stranger")).ref
    assert found.observe(live(stranger), gone=False, users=USERS) == []
    assert found.observe(changed(), gone=False, users=frozenset()) == []
    found.forget(KEY)
    assert found.observe(changed(), gone=False, users=USERS) == []
    assert (found.objects_of(KEY), found.next_due(KEY)) == (None, None)


def test_object_that_another_set_has_taken_is_a_hint_for_who_lists_it() -> None:
    """Only if its account has seen it; until it lists it no more."""
    found = hints()
    taken = replace(
        changed(), packed_metadata=packed({**changed().metadata, "labels": {PART_OF: "other"}})
    )
    assert found.observe(taken, gone=False, users=frozenset()) == []
    (look,) = found.observe(taken, gone=False, users=USERS)
    assert (look.key, look.is_whole) == (KEY, False)
    assert look.seconds == pytest.approx(GATHER)
    assert due(found) == {"a"}
    found.follow(KEY, replace(OBJECTS, marks={B: OBJECTS.marks[B]}))
    assert found.observe(taken, gone=False, users=USERS) == []
    found.forget(KEY)
    assert found.observe(taken, gone=False, users=USERS) == []


@pytest.mark.holds("strangers-are-bounded")
def test_strangers_are_kept_for_a_moment_only() -> None:
    """However many there are: a reconcile that names them may be about to end."""
    found = hints()
    for number in range(5000):
        one = live(desired(body(name=f"stranger-{number}")).ref)
        assert found.observe(one, gone=False, users=USERS) == []
    assert found.remembered <= 1000


def test_change_before_the_first_reconcile_has_ended_counts() -> None:
    """A watch that others have opened shows it earlier."""
    found = ObjectHints(ManualClock())
    assert found.observe(changed(), gone=False, users=frozenset()) == []
    assert found.observe(live(B), gone=False, users=frozenset()) == []
    found.follow(KEY, OBJECTS)
    assert due(found) == {"a"}
    assert found.remembered == 0


def test_object_that_a_watch_begins_without_is_looked_for_once() -> None:
    """It may be there, and the watch not show it."""
    found = hints()
    watched = WatchTarget("user", CONFIG_MAPS, "home", PART)
    assert found.observe_absence(KEY, ListReport(watched, frozenset({A, B}))) is None
    assert (
        found.observe_absence(KEY, ListReport(replace(watched, namespace="other"), frozenset()))
        is None
    )
    assert (
        found.observe_absence(KEY, ListReport(replace(watched, selector=""), frozenset())) is None
    )
    assert found.observe_absence(KEY, ListReport(watched, frozenset({A}))) is not None
    assert due(found) == {"b"}
    found.follow(KEY, replace(OBJECTS, marks={B: OBJECTS.marks[B]}, is_part=True))
    assert found.next_due(KEY) is None


PART = "applyset.kubernetes.io/part-of"


def test_bundle_that_waits_is_looked_at_as_a_whole() -> None:
    """Any change may be the one that it waits for."""
    clock = ManualClock()
    found = ObjectHints(clock)
    found.follow(KEY, replace(OBJECTS, waits=True))
    delays = []
    for _ in range(3):
        for _ in range(100):
            (look,) = found.observe(live(A), gone=False, users=USERS)
            assert (look.key, look.is_whole) == (KEY, True)
        delays.append(round(look.seconds, 1))
        clock.advance(look.seconds)
    # A hundred changes are one look, and looks have pauses.
    assert delays == [READY_DELAY, READY_GAP, READY_GAP]


def test_object_that_leaves_the_set_is_forgotten() -> None:
    """With its hint; another set under the same Bundle begins again."""
    found = hints()
    found.observe(changed(), gone=False, users=USERS)
    found.follow(KEY, replace(OBJECTS, marks={B: OBJECTS.marks[B]}))
    assert found.next_due(KEY) is None
    assert found.observe(changed(), gone=False, users=USERS) == []
    found = hints()
    assert found.observe(changed(), gone=False, users=USERS) != []
    found.follow(KEY, replace(OBJECTS, applyset="other"))
    assert found.next_due(KEY) is None


def test_fight_is_looked_at_less_and_less_often() -> None:
    """Five times at once, then after one second, two, and at last every half minute."""
    clock, pauses = ManualClock(), []
    found = ObjectHints(clock)
    found.follow(KEY, OBJECTS)
    for number in range(14):
        found.observe(changed(str(6 + number)), gone=False, users=USERS)
        seconds = found.next_due(KEY)
        assert seconds is not None
        clock.advance(seconds)
        assert found.drifted(KEY) == {A}
        pauses.append(round(seconds, 1))
        known = replace(OBJECTS, marks={A: SeenState(str(6 + number), None, "")}, is_part=True)
        found.follow(KEY, known)
    assert pauses[:8] == [0.2, 0.2, 0.2, 0.2, 0.2, 1.0, 2.0, 4.0]
    assert pauses[-1] == 30.0
    clock.advance(61)
    found.observe(changed("99"), gone=False, users=USERS)
    assert found.next_due(KEY) == pytest.approx(0.2)


def test_bundle_in_another_cluster_takes_no_hints_of_a_set_of_the_same_name() -> None:
    """Its objects are not watched, so it names no kinds."""
    found = hints()
    other = ("home", "web-eu")
    for _ in range(2):
        found.follow(other, replace(OBJECTS, kinds=frozenset(), marks={}))
        assert found.observe(changed(), gone=False, users=USERS) != []
    found.forget(other)
    assert found.observe(changed("7"), gone=False, users=USERS) != []


REF = desired().ref
OTHER = managed("kubectl-edit", "g", operation="Update")


def seen(version: str = "6", generation: int | None = 1, **parts: Any) -> LiveObject:
    """Return an object as a watch shows it."""
    entries = [managed(**parts), OTHER]
    found: dict[str, Any] = {} if generation is None else {"generation": generation}
    return live(REF, version=version, entries=entries, **found)


LEFT = live(REF, generation=1)
UNCOUNTED = live(REF)
CASES: dict[str, tuple[LiveObject, LiveObject, bool]] = {
    "the same": (LEFT, LEFT, False),
    "a foreign field or the status": (LEFT, seen(), False),
    "a field of ours": (LEFT, seen(fields="h"), True),
    "another apply as our manager": (LEFT, seen(time="2026-11-21T10:00:01Z"), True),
    "another order of a list": (LEFT, seen(generation=2), True),
    "what our Apply entry was removed from": (LEFT, live(REF, version="6", entries=[]), True),
    "anything, of a kind without generations": (UNCOUNTED, seen(generation=None), True),
    "a watch that is behind": (LEFT, seen("4", generation=2, fields="h"), False),
    "a version that is no number": (LEFT, seen("x", generation=2), True),
    "one more digit": (LEFT, seen("10", generation=2), True),
}


@pytest.mark.parametrize("what", CASES)
def test_change_of_a_field_of_the_set_may_be_drift(what: str) -> None:
    """By its metadata alone."""
    known, now, expected = CASES[what]
    marks = [SeenState.of(one, TARGET.manager) for one in (known, now)]
    assert shows_change(*marks) is expected


def test_deleted_object_has_drifted() -> None:
    """Unless the reconcile has left it so; then one that is back may be somebody else's."""
    known, there = SeenState.of(LEFT, TARGET.manager), SeenState.of(seen(), TARGET.manager)
    assert shows_change(known, SeenState("6", exists=False))
    assert not shows_change(known, SeenState("4", exists=False))
    assert not shows_change(ABSENT, SeenState("6", exists=False))
    assert shows_change(ABSENT, there)


def test_reply_to_an_apply_has_the_mark_of_its_object() -> None:
    """So the watch event of the set's own write is no hint, nor is an unknown reply a proof."""
    fingerprint = recorded(desired(), LEFT).fingerprint
    assert fingerprint is not None
    assert SeenState.applied(fingerprint) == SeenState.of(LEFT, TARGET.manager)
    assert shows_change(SeenState(), SeenState.of(LEFT, TARGET.manager))
