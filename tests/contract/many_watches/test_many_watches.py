"""Many watches on one thread, of the real API server: what they see, and how they go on."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.credentials import Identity, Issued, RenewableCredentials
from applyprune.cluster.many_watches import (
    FailureReport,
    ListReport,
    ManyWatches,
    ObjectReport,
    WatchReport,
    WatchTarget,
)
from applyprune.model.live import CONFIG_MAPS, SECRETS
from applyprune.values import replace
from tests.support.fault_proxy import always, faults, first
from tests.support.fault_proxy.faults import head
from tests.support.listening import listening, tunnel
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.cluster.access import ClusterAccess
    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import Fault, FaultProxy
    from tests.support.fault_proxy.exchange import Exchange, Wire

SETTLED = 0.5
"""Seconds without an event after which a watch has shown what it begins with."""


@dataclass
class Told:
    """What the watches have told, in order."""

    news: list[WatchReport] = field(default_factory=list)

    def seen(self, watched: WatchTarget | None = None) -> list[str]:
        """Return the names of what was seen; those of what is gone with a minus."""
        return [
            f"{'-' if one.gone else ''}{one.live.ref.name}"
            for one in self.news
            if isinstance(one, ObjectReport) and (watched is None or one.watched == watched)
        ]

    def begun(self) -> list[set[str]]:
        """Return what the watches have begun with."""
        found = [one.refs for one in self.news if isinstance(one, ListReport)]
        return [{ref.name for ref in refs} for refs in found]

    def complete(self) -> set[WatchTarget]:
        """Return the watches that have shown what they begin with."""
        return {one.watched for one in self.news if isinstance(one, ListReport)}

    def codes(self) -> list[int]:
        """Return the codes of the failures."""
        return [one.code for one in self.news if isinstance(one, FailureReport)]


class HeldLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still until the test advances it, or releases it."""

    def __init__(self) -> None:
        """Hold the time."""
        super().__init__()
        self.held = 1000.0
        self.is_released = False
        self.pauses: list[float] = []
        """The pauses between two sessions, in seconds."""

    def time(self) -> float:
        """Return the time in seconds."""
        return self.held + super().time() if self.is_released else self.held

    def advance(self, seconds: float) -> None:
        """Let time pass, once all that can be done without is done; thread-safe."""
        self.call_soon_threadsafe(self._pass, seconds)

    def end_pause(self, number: int) -> None:
        """Let the time of a pause pass, once it has begun."""
        eventually(lambda: len(self.pauses) >= number)
        self.advance(self.pauses[number - 1])

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, **more: Any
    ) -> asyncio.TimerHandle:
        """Take note of what ``asyncio.sleep`` waits for."""
        if getattr(callback, "__name__", "") == "_set_result_unless_cancelled":
            self.pauses.append(delay)
        return super().call_later(delay, callback, *args, **more)

    def _pass(self, seconds: float) -> None:
        self.held += seconds


def settle(loop: HeldLoop, found: Callable[[], bool]) -> None:
    """Let time pass, again and again, until a watch has shown all that it begins with.

    A watch begins to wait after the last name that it has told; nobody sees when.
    """

    def look() -> bool:
        loop.advance(SETTLED)
        return found()

    eventually(look)


@contextmanager
def running(
    access: ClusterAccess, loop: HeldLoop | None = None
) -> Iterator[tuple[ManyWatches, Told]]:
    """Watch a server, and end it."""
    told = Told()
    watches = ManyWatches(access, "test", told.news.append, loop or asyncio.new_event_loop())
    watches.start()
    try:
        yield watches, told
    finally:
        if loop is not None:
            loop.is_released = True
        watches.close()
        assert not watches.is_alive


@pytest.fixture
def access(plane: Plane) -> ClusterAccess:
    """The way to the plane."""
    return cluster_access(kubeconfig=str(plane.kubeconfig), environ={})


@pytest.fixture
def proxied(proxy: FaultProxy, tmp_path: Path) -> ClusterAccess:
    """The way to the plane through the fault proxy."""
    return cluster_access(kubeconfig=str(proxy.kubeconfig(tmp_path)), environ={})


@pytest.fixture
def maps(api: Api, namespace: str) -> Callable[..., None]:
    """A writer of ConfigMaps."""

    def write(method: str, name: str, **metadata: Any) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"probe": "yes"}, **metadata},
        }
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        to = path if method == "POST" else f"{path}/{name}"
        status, reply = api(method, to, None if method == "DELETE" else body)
        assert status in {200, 201}, reply

    return write


def of(namespace: str, **options: Any) -> WatchTarget:
    """Return a watch of our ConfigMaps."""
    return WatchTarget("", CONFIG_MAPS, namespace, **{"selector": "probe=yes", **options})


def watching(exchange: Exchange) -> bool:
    """Return whether a request is a watch."""
    return exchange.query.get("watch") == "true"


def test_watches_see_what_exists_and_what_changes(
    access: ClusterAccess, namespace: str, maps: Callable[..., None]
) -> None:
    """By their metadata only, each by its scope, until it is ended; all on one thread."""
    maps("POST", "a")
    everything, one = of(namespace), of(namespace, selector="", name="b")
    threads = threading.enumerate()
    with running(access) as (watches, told):
        for watched in (everything, everything, one):
            watches.watch(watched)
        # One that begins later would see nothing of what exists for a moment.
        eventually(lambda: {everything, one} == told.complete())
        eventually(lambda: told.seen(everything) == ["a"])
        maps("POST", "b")
        maps("PUT", "a", annotations={"changed": "yes"})
        maps("DELETE", "b")
        eventually(lambda: told.seen(everything) == ["a", "b", "a", "-b"])
        eventually(lambda: told.seen(one) == ["b", "-b"])
        found = [news.live for news in told.news if isinstance(news, ObjectReport)]
        assert {live.body for live in found} == {None}
        assert all(live.managed_fields for live in found)
        watches.end(everything)
        maps("DELETE", "a")
        maps("POST", "b")
        eventually(lambda: told.seen(one) == ["b", "-b", "b"])
        assert told.seen(everything) == ["a", "b", "a", "-b"]
        # The credentials are read on threads of their own.
        new = [one for one in threading.enumerate() if one not in threads]
        assert [one.name for one in new if not one.name.startswith("asyncio_")] == [
            "applyprune-watches"
        ]
    assert told.codes() == []
    watches.watch(everything)  # nothing happens, and nothing fails


def test_watch_goes_on_where_it_was_cut_off(
    proxy: FaultProxy, proxied: ClusterAccess, namespace: str, maps: Callable[..., None]
) -> None:
    """Cut, refused, and back: what came in between is seen, and what was seen is not repeated."""
    with running(proxied, loop := HeldLoop()) as (watches, told):
        watches.watch(of(namespace))
        maps("POST", "a")
        eventually(lambda: told.seen() == ["a"])
        settle(loop, lambda: told.begun() == [{"a"}])
        proxy.refuse_connections()
        loop.end_pause(1)
        # The first failure is that of the connection that was cut.
        eventually(lambda: len(told.codes()) == 2, lambda: "a refused connection")
        maps("POST", "b")
        maps("DELETE", "a")
        proxy.accept_connections()
        loop.end_pause(2)
        eventually(lambda: told.seen() == ["a", "b", "-a"])
        assert set(told.codes()) == {0}
        assert len(told.begun()) == 1


def test_deletion_before_a_watch_has_shown_everything_is_seen(
    proxy: FaultProxy, proxied: ClusterAccess, namespace: str, maps: Callable[..., None]
) -> None:
    """It begins again then, and what is missing was deleted."""
    maps("POST", "a")
    maps("POST", "b")
    with running(proxied, loop := HeldLoop()) as (watches, told):
        watches.watch(of(namespace))
        eventually(lambda: told.seen() == ["a", "b"])
        proxy.refuse_connections()
        maps("DELETE", "a")
        proxy.accept_connections()
        loop.end_pause(1)
        eventually(lambda: told.seen() == ["a", "b", "b"])
        assert told.begun() == []
        settle(loop, lambda: told.begun() == [{"b"}])


def gone(wire: Wire) -> None:
    """Answer a watch with the event of an expired resourceVersion."""
    event = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
    wire.send(head(200, [("Content-Type", "application/json"), ("Connection", "close")]) + event)
    wire.close()


@pytest.mark.parametrize(
    "fault",
    [pytest.param(gone, marks=pytest.mark.holds("expired-watch")), faults.status(410, "Expired")],
    ids=["event", "status"],
)
def test_expired_version_starts_the_watch_again(
    proxy: FaultProxy,
    proxied: ClusterAccess,
    namespace: str,
    maps: Callable[..., None],
    fault: Fault,
) -> None:
    """With all that exists: what is missing was deleted in between."""
    maps("POST", "a")
    proxy.rule = first(1, fault, where=lambda one: watching(one) and "resourceVersion" in one.query)
    with running(proxied, loop := HeldLoop()) as (watches, told):
        watches.watch(of(namespace))
        eventually(lambda: told.seen() == ["a"])
        settle(loop, lambda: told.begun() == [{"a"}])
        # Cut off once, so that it goes on from its resourceVersion.
        proxy.refuse_connections()
        maps("POST", "b")
        maps("DELETE", "a")
        proxy.accept_connections()
        loop.end_pause(1)
        loop.end_pause(2)
        eventually(lambda: "b" in told.seen())
        settle(loop, lambda: told.begun() == [{"a"}, {"b"}])
        maps("POST", "c")
        eventually(lambda: "c" in told.seen())
        assert told.begun() == [{"a"}, {"b"}]
        assert told.seen() == ["a", "b", "c"]
        assert told.codes()[-1] == 410


def test_server_that_expires_for_ever_is_asked_seldom(
    proxy: FaultProxy, proxied: ClusterAccess, namespace: str
) -> None:
    """The pauses double: a second, two, four."""
    proxy.rule = always(gone, where=watching)
    with running(proxied, loop := HeldLoop()) as (watches, told):
        watches.watch(of(namespace))
        for number in range(1, 4):
            loop.end_pause(number)
        eventually(lambda: len(loop.pauses) == 4)
        assert told.codes() == [410] * 4
        assert len(proxy.exchanges) == 4
        for pause, seconds in zip(loop.pauses, (1, 2, 4, 8), strict=True):
            assert 0.8 * seconds <= pause <= 1.2 * seconds


STRANGE: dict[str, bytes] = {
    "no JSON": b"<html>\n",
    "no object": b'{"type":"ADDED"}\n',
    "another kind": b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}\n',
    "deep": b"[" * 50_000 + b"\n",
    "no end": b'{"type":"ADDED"',
}


@pytest.mark.parametrize("what", STRANGE)
def test_strange_answer_does_not_end_a_watch(
    proxy: FaultProxy,
    proxied: ClusterAccess,
    namespace: str,
    maps: Callable[..., None],
    what: str,
) -> None:
    """It is tried again, and others are not disturbed."""

    def answer(wire: Wire) -> None:
        wire.send(head(200, [("Content-Type", "application/json"), ("Connection", "close")]))
        wire.send(STRANGE[what])
        wire.close()

    maps("POST", "a")
    proxy.rule = first(1, answer, where=watching)
    with running(proxied, loop := HeldLoop()) as (watches, told):
        watches.watch(of(namespace))
        loop.end_pause(1)
        eventually(lambda: told.seen() == ["a"])
        assert watches.is_alive


def test_trailer_of_a_watch_is_no_other_answer(
    proxy: FaultProxy, proxied: ClusterAccess, namespace: str, maps: Callable[..., None]
) -> None:
    """It neither refuses the watch nor begins it again."""

    def answer(wire: Wire) -> None:
        headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        wire.send(head(200, headers) + b"0\r\nHTTP/1.1 500: x\r\nA: b\r\n\r\n")
        wire.close()

    maps("POST", "a")
    proxy.rule = first(1, answer, where=watching)
    with running(proxied, loop := HeldLoop()) as (watches, told):
        watches.watch(of(namespace))
        loop.end_pause(1)
        eventually(lambda: told.seen() == ["a"])
        settle(loop, lambda: told.begun() != [])
        assert told.begun() == [{"a"}]
        assert told.codes() == []


def test_huge_object_hides_no_other(
    access: ClusterAccess, namespace: str, maps: Callable[..., None]
) -> None:
    """The server escapes what JSON in HTML needs: 400 KB of metadata become 2.4 MB."""
    with running(access) as (watches, told):
        watches.watch(of(namespace))
        maps("POST", "a")
        maps("POST", "huge", finalizers=[], annotations={"x": "<" * 200_000})
        eventually(lambda: told.seen() == ["a", "huge"])
        huge = [f"example.com/{'a' * 50}{number}" for number in range(13_000)]
        maps("PUT", "huge", finalizers=huge, annotations={"x": "<" * 240_000})
        maps("POST", "b")
        eventually(lambda: told.seen() == ["a", "huge", "b"])
        maps("PUT", "huge", finalizers=[])
        eventually(lambda: told.seen() == ["a", "huge", "b", "huge"])


def test_refused_watch_is_reported(access: ClusterAccess, api: Api, namespace: str) -> None:
    """With the user that it impersonates; others go on."""
    user = f"system:serviceaccount:{namespace}:default"
    refused = WatchTarget(user, SECRETS, namespace)
    with running(access) as (watches, told):
        watches.watch(refused)
        watches.watch(WatchTarget("", CONFIG_MAPS, namespace, name="kube-root-ca.crt"))
        eventually(lambda: told.codes() == [403])
        eventually(lambda: told.seen() == ["kube-root-ca.crt"])
        assert told.news[0].watched in {
            refused,
            WatchTarget("", CONFIG_MAPS, namespace, name="kube-root-ca.crt"),
        }
    assert api is not None


def test_refused_token_is_renewed(plane: Plane, access: ClusterAccess, namespace: str) -> None:
    """As after a rotation: the next try has the new one."""
    tokens = chain(["outdated"], repeat(plane.token))
    issued = RenewableCredentials(lambda: Issued(Identity(token=next(tokens))))
    with running(replace(access, credentials=issued), loop := HeldLoop()) as (watches, told):
        watches.watch(WatchTarget("", CONFIG_MAPS, namespace, name="kube-root-ca.crt"))
        loop.end_pause(1)
        # A refused account is tried again after minutes.
        assert loop.pauses[0] <= 1.2
        eventually(lambda: told.seen() == ["kube-root-ca.crt"])
        assert told.codes() == [401]


def test_watch_goes_through_a_proxy(access: ClusterAccess, namespace: str) -> None:
    """As all requests do; one that refuses is told."""
    root = WatchTarget("", CONFIG_MAPS, namespace, name="kube-root-ca.crt")
    with listening(tunnel(access.server)) as port:
        for login, codes, names in (("u:pass", [], ["kube-root-ca.crt"]), ("u:no", [0], [])):
            with running(replace(access, proxy=f"http://{login}@127.0.0.1:{port}")) as (
                watches,
                told,
            ):
                watches.watch(root)
                eventually(partial(list, told.news))
                assert (told.codes(), told.seen()) == (codes, names)


def test_watches_share_a_connection_and_its_loss(
    access: ClusterAccess, namespace: str, maps: Callable[..., None]
) -> None:
    """Each goes on where it was, on another one."""
    names = ["a", "b", "c"]
    opened: list[socket.socket] = []
    with listening(tunnel(access.server, opened)) as port:
        proxied = replace(access, proxy=f"http://u:pass@127.0.0.1:{port}")
        with running(proxied) as (watches, told):
            targets = {of(namespace, name=name): name for name in names}
            for watched in targets:
                watches.watch(watched)
            eventually(lambda: told.complete() == targets.keys())
            for name in names:
                maps("POST", name)
            eventually(lambda: sorted(told.seen()) == names)
            assert len(opened) == 1
            opened[0].shutdown(socket.SHUT_RDWR)
            for name in names:
                maps("DELETE", name)
            eventually(
                lambda: sorted(told.seen()) == sorted((*names, *(f"-{one}" for one in names)))
            )
            assert told.codes() == [0, 0, 0]
            assert len(told.begun()) == len(names)
            assert len(opened) == 2
