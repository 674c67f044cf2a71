"""Watches are shared, bounded for each namespace, and ended when nobody wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.many_watches import FailureReport, ListReport, ObjectReport, WatchTarget
from applyprune.controller.reasons import Key
from applyprune.controller.watches import SharedWatches
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

    return SharedWatches(seen, lost, listed, **limits)


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


def test_no_namespace_has_all_watches(told: Told) -> None:
    """Nor do all of them have more than the limit; one that ends makes room."""
    watches = shared(told, most=3, most_of_a_namespace=2)
    wanted = [WatchTarget(USER, CONFIG_MAPS, "shop", name=str(number)) for number in range(4)]
    watches.want(A, wanted[:2])
    watches.want(B, wanted)
    assert watches.count == 2
    watches.want(OTHER, [WatchTarget("u", SECRETS, "blog"), WatchTarget("u", CONFIG_MAPS, "blog")])
    assert watches.count == 3
    # What B shares with A stays open for B, and counts for the namespace.
    watches.want(A, [])
    assert watches.count == 3
    watches.want(B, [])
    watches.want(B, wanted)
    assert watches.count == 3


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
