"""Watches are shared, shared out evenly between namespaces, and end when nobody wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.many_watches import FailureReport, ListReport, ObjectReport, WatchTarget
from applyprune.controller.reasons import Key
from applyprune.controller.task import Unwatched
from applyprune.controller.watches import SharedWatches, WaitingBundles
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, SECRETS, LiveObject

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

A: Key = ("shop", "a")
B: Key = ("shop", "b")
OTHER: Key = ("blog", "a")
USER = "system:serviceaccount:shop:default"
MAPS = WatchTarget(USER, CONFIG_MAPS, "shop")
SECRET = WatchTarget(USER, SECRETS, "shop", name="s")
MARKED = WatchTarget(USER, CONFIG_MAPS, "shop", selector="part-of")


@dataclass
class Told:
    """What the watches have told."""

    seen: list[tuple[set[Key], str]] = field(default_factory=list)
    lost: list[tuple[set[Key], WatchTarget]] = field(default_factory=list)
    listed: list[tuple[set[Key], set[str]]] = field(default_factory=list)
    moved: list[set[Key]] = field(default_factory=list)


def found(version: str = "1", name: str = "a") -> LiveObject:
    """Return an object."""
    return LiveObject.of(Ref("", "ConfigMap", "shop", name), "1", version, {})


@pytest.fixture
def told() -> Told:
    """What is told."""
    return Told()


def shared(told: Told, **limits: Any) -> SharedWatches:
    """Return watches that tell."""

    def seen(users: Container[Key], live: LiveObject, gone: bool) -> None:
        told.seen.append(
            ({one for one in (A, B, OTHER) if one in users}, f"{live.ref.name} {gone}")
        )

    def lost(users: Iterable[Key], watched: WatchTarget) -> None:
        told.lost.append((set(users), watched))

    def listed(users: Iterable[Key], found: ListReport) -> None:
        told.listed.append((set(users), {ref.name for ref in found.refs}))

    def moved(keys: Iterable[Key]) -> None:
        if keys:
            told.moved.append(set(keys))

    return SharedWatches(seen, lost, listed, moved, **limits)


def test_watch_is_open_as_long_as_somebody_wants_it(told: Told) -> None:
    """Once for all; what nobody wants any longer is told to nobody."""
    watches = shared(told)
    assert not watches.want(A, [MAPS, SECRET])
    assert watches.want(B, [MAPS])
    assert not watches.want(B, [MAPS])
    assert watches.count == 2
    watches.on_report(ObjectReport(MAPS, found()))
    watches.want(A, [SECRET])
    watches.on_report(ObjectReport(MAPS, found("2"), gone=True))
    watches.want(A, [])
    watches.want(B, [])
    assert watches.count == 0
    watches.on_report(ObjectReport(MAPS, found("3")))
    watches.on_report(FailureReport(MAPS, 403, "no"))
    assert told.seen == [({A, B}, "a False"), ({B}, "a True")]
    assert told.lost == []


def targets(namespace: str, count: int) -> list[WatchTarget]:
    """Return watches of objects for the Bundles of a namespace."""
    return [WatchTarget(namespace, CONFIG_MAPS, f"n{number}", "s") for number in range(count)]


def unwatched(watches: SharedWatches, *keys: Key) -> list[str | None]:
    """Return why each Bundle is not watched."""
    return [watches.unwatched(key) for key in keys]


def none_free(watches: SharedWatches, *keys: Key) -> list[bool]:
    """Return of each Bundle whether it lacks watches."""
    return [watches.unwatched(key) == Unwatched.NONE_FREE for key in keys]


def test_namespace_has_all_watches_as_long_as_nobody_else_wants_any(told: Told) -> None:
    """Its newest one is the first to go, and none goes to a namespace that has as many."""
    watches = shared(told, most=4)
    wanted = targets("shop", 6)
    watches.want(A, wanted[:3])
    watches.want(B, wanted)
    assert (watches.count, watches.waiting) == (4, 2)
    assert none_free(watches, A, B) == [False, True]
    watches.want(OTHER, targets("blog", 4))
    assert (watches.count, watches.waiting) == (4, 6)
    assert none_free(watches, A, B, OTHER) == [True, True, True]
    assert told.moved == [{A, B}]
    # Nobody gains by asking again.
    watches.want(A, wanted[:2])
    watches.want(A, wanted[:3])
    assert none_free(watches, A, OTHER) == [True, True]
    watches.want(A, wanted[:2])
    assert none_free(watches, A, B) == [False, True]


@pytest.mark.holds("share-of-watches")
def test_five_namespaces_leave_the_sixth_its_share(told: Told) -> None:
    """However many they want, and whoever comes first."""
    watches = shared(told, most=500)
    for number in range(5):
        watches.want((f"greedy-{number}", "web"), targets(f"greedy-{number}", 300))
    assert (watches.count, watches.waiting) == (500, 1000)
    watches.want(OTHER, targets("blog", 83))
    assert none_free(watches, OTHER) == [False]
    watches.want(OTHER, targets("blog", 90))
    assert none_free(watches, OTHER) == [True]
    assert watches.count == 500


def test_watch_that_ends_makes_room_for_who_has_the_fewest(told: Told) -> None:
    """Without another reconcile; what is open by then is told as such."""
    watches = shared(told, most=2)
    third: Key = ("third", "a")
    watches.want(A, targets("shop", 1))
    watches.want(OTHER, targets("blog", 2))
    watches.want(third, targets("third", 1))
    assert none_free(watches, A, OTHER, third) == [False, True, True]
    told.moved.clear()
    watches.want(A, [])
    assert none_free(watches, A, OTHER, third) == [False, True, False]
    assert told.moved == [{third}]
    watches.want(third, [])
    assert none_free(watches, OTHER) == [False]
    assert (watches.count, watches.waiting) == (2, 0)


def test_bundle_is_watched_once_all_its_objects_are_listed(told: Told) -> None:
    """Until then nobody knows; a refusal is one until the watch works again."""
    watches = shared(told)
    other = WatchTarget(USER, SECRETS, "shop", selector="part-of")
    watches.want(A, [MAPS, MARKED, other])
    assert unwatched(watches, A) == [None]
    watches.on_report(ListReport(MARKED, frozenset()))
    assert unwatched(watches, A) == [None]
    watches.on_report(FailureReport(other, 403, "no"))
    assert unwatched(watches, A) == [Unwatched.REFUSED]
    # A source says nothing of the objects, and neither does a server that is away.
    watches.on_report(FailureReport(MAPS, 403, "no"))
    watches.on_report(FailureReport(MARKED, 0, "ConnectionResetError"))
    watches.on_report(ListReport(other, frozenset()))
    assert unwatched(watches, A) == [""]
    assert told.moved == [{A}] * 4
    watches.on_report(FailureReport(other, 403, "no"))
    assert unwatched(watches, A) == [Unwatched.REFUSED]
    assert unwatched(watches, B) == [None]


def test_refused_watch_is_reported_once(told: Told) -> None:
    """And again when it has worked in between."""
    watches = shared(told)
    watches.want(A, [MAPS])
    for _ in range(3):
        watches.on_report(FailureReport(MAPS, 403, "no"))
    assert told.lost == [({A}, MAPS)]
    watches.on_report(ObjectReport(MAPS, found()))
    watches.on_report(FailureReport(MAPS, 0, "ConnectionResetError"))
    watches.on_report(FailureReport(MAPS, 403, "no"))
    assert len(told.lost) == 2


def test_list_of_a_watch_that_begins_reaches_all_that_share_it(told: Told) -> None:
    """What is missing there was deleted before."""
    watches = shared(told)
    watches.want(A, [MAPS])
    watches.want(B, [MAPS])
    watches.on_report(FailureReport(MAPS, 410, "Gone"))
    watches.on_report(ListReport(MAPS, frozenset({found().ref})))
    assert told.listed == [({A, B}, {"a"})]


def test_version_seen_lately_is_known(told: Told) -> None:
    """Of sources only, and not without end."""
    watches = shared(told)
    ref = found().ref
    assert watches.recent(USER, ref) is None
    watches.on_report(ObjectReport(MAPS, found("7")))
    assert (watches.recent(USER, ref), watches.recent("other", ref)) == ("7", None)
    watches.on_report(ObjectReport(MAPS, found("8"), gone=True))
    assert watches.recent(USER, ref) == ""
    watches.on_report(ObjectReport(MARKED, found("9", "marked")))
    assert watches.recent(USER, found(name="marked").ref) is None
    for number in range(5000):
        watches.on_report(ObjectReport(MAPS, found("1", str(number))))
    assert watches.recent(USER, ref) is None
    assert watches.recent(USER, found(name="4999").ref) == "1"


FIRST, SECOND, THIRD = ("shop", "a"), ("shop", "b"), ("shop", "c")


def test_bundle_waits_for_what_it_named_last() -> None:
    """And says so once for each."""
    waiting = WaitingBundles()
    assert waiting.wait(THIRD, frozenset({FIRST, SECOND}))
    assert waiting.wait(SECOND, frozenset({FIRST}))
    assert waiting.waiting_for(FIRST) == {SECOND, THIRD}
    assert not waiting.wait(THIRD, frozenset({SECOND}))
    assert waiting.waiting_for(FIRST) == {SECOND}
    assert waiting.waiting_for(SECOND) == {THIRD}
    assert waiting.wait(THIRD, frozenset({FIRST, SECOND}))
    assert not waiting.wait(THIRD, frozenset())
    assert not waiting.wait(SECOND, frozenset())
    assert waiting == WaitingBundles()
