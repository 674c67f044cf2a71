"""Watches of the real API server, and what the wire may do to them."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from applyprune import http
from applyprune.cluster import client
from applyprune.cluster import watch as watching
from applyprune.cluster.client import KubernetesClient
from applyprune.errors import Expired, Forbidden, NotServed, Unavailable, Unreachable
from applyprune.model.live import CONFIG_MAPS, NAMESPACES, Resource, WatchEvent, WatchEventType
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import always, faults, first
from tests.support.fault_proxy.faults import head
from tests.support.relay import Relay
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from applyprune.cluster.transport import Transport
    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.fault_proxy import Fault, FaultProxy
    from tests.support.fault_proxy.exchange import Exchange, Wire
    from tests.support.plane import OpenTransport

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
MINE = "probe=yes"
HEAD = head(200, [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")])


@pytest.fixture
def server(open_transport: OpenTransport) -> KubernetesClient:
    """The API server through the proxy."""
    return KubernetesClient(open_transport(), "test")


class Maps:
    """ConfigMaps of one namespace, written past the proxy."""

    def __init__(self, api: Api, namespace: str) -> None:
        """Take the oracle's own way to the server."""
        self._api = api
        self._namespace = namespace

    def __call__(self, method: str, name: str, value: str = "", **labels: str) -> None:
        """Create, replace or delete one; it is labelled unless told otherwise."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels or {"probe": "yes"}},
            "data": {"value": value},
        }
        path = f"/api/v1/namespaces/{self._namespace}/configmaps"
        if method == "POST":
            status, reply = self._api(method, path, body)
        else:
            status, reply = self._api(method, f"{path}/{name}", body if method == "PUT" else None)
        assert status in {200, 201}, reply


@pytest.fixture
def maps(api: Api, namespace: str) -> Maps:
    """A writer of ConfigMaps."""
    return Maps(api, namespace)


@pytest.fixture
def relay(plane: Plane) -> Iterator[Relay]:
    """A relay in front of the run's plane."""
    with Relay(urlsplit(plane.server).port or 0) as running:
        yield running


@pytest.fixture
def relayed(
    open_transport: OpenTransport, proxy: FaultProxy, relay: Relay, tmp_path: Path
) -> Callable[..., Transport]:
    """Opens a transport through the relay."""
    path = proxy.kubeconfig(tmp_path)
    path.write_text(path.read_text().replace(str(proxy.port), str(relay.port)))
    return partial(open_transport, path)


def never() -> bool:
    return False


def until(seen: list[WatchEvent], count: int) -> Callable[[], bool]:
    return lambda: len(seen) >= count


def follow(changes: Iterable[WatchEvent], seen: list[WatchEvent]) -> None:
    """Add the changes one by one: `stop` looks at them meanwhile, and a test after an error."""
    for change in changes:
        seen.append(change)  # noqa: PERF402


def start(server: KubernetesClient, namespace: str, **options: Any) -> Iterator[WatchEvent]:
    """Watch our ConfigMaps of the namespace from now on."""
    settings = {"selector": MINE, "stop": never, "seconds": 3600.0, **options}
    if "resource_version" not in settings:
        settings["resource_version"] = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    return server.watch(CONFIG_MAPS, namespace=namespace, **settings)


@dataclass
class Looks:
    """A ``stop`` that is looked at; its looks count from the moment at which ``since`` is true."""

    since: Callable[[], object]
    stops_at: int = 0
    """The look at which it returns true; 0 for never."""
    clock: ManualClock | None = None
    passes: float = 0.0
    """Seconds that pass on the clock at each look."""
    made: int = 0

    def __call__(self) -> bool:
        """Look."""
        if not self.since():
            return False
        self.made += 1
        if self.clock is not None:
            self.clock.advance(self.passes)
        return self.made == self.stops_at


def timed(
    transport: Transport, namespace: str, looks: Looks, *, seconds: float = 3600.0, version: str
) -> Iterator[WatchEvent]:
    """Watch our ConfigMaps by the clock of the looks."""
    assert looks.clock is not None
    return watching.watch(
        transport,
        CONFIG_MAPS,
        watching.Selection(namespace, MINE),
        resource_version=version,
        stop=looks,
        seconds=seconds,
        clock=looks.clock,
    )


def told(changes: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(str(change.kind), change.live.ref.name) for change in changes]


def event(change: str, name: str = "a", namespace: str = "n", **other: Any) -> bytes:
    item = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"probe": "yes"},
        },
    }
    return json.dumps({"type": change, "object": {**item, **other}}).encode() + b"\n"


def speaks(*chunks: bytes, end: str = "well", said: Callable[[], object] = lambda: None) -> Fault:
    """Answer a watch with these chunks, call ``said``, and end it so: well, cut, reset, silence."""

    def fault(wire: Wire) -> None:
        wire.send(HEAD)
        for chunk in chunks:
            wire.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        said()
        if end == "silence":
            while wire.wait(3600):
                pass
        elif end == "reset":
            wire.reset()
        else:
            if end == "well":
                wire.send(b"0\r\n\r\n")
            wire.close()

    return fault


def is_watch(exchange: Exchange) -> bool:
    return "watch" in exchange.query


def watches_at(proxy: FaultProxy) -> list[Exchange]:
    return [one for one in proxy.exchanges if is_watch(one)]


# The real thing.


def test_watch_yields_events_in_order(server: KubernetesClient, maps: Maps, namespace: str) -> None:
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    maps("POST", "a", "one")
    maps("PUT", "a", "two")
    seen: list[WatchEvent] = []
    looks = Looks(since=until(seen, 2))

    def stop() -> bool:
        looks()
        # Nothing came between two looks: the watch waits.
        if looks.made == 2:
            maps("POST", "b")
            maps("DELETE", "a")
        return len(seen) >= 4

    follow(start(server, namespace, resource_version=version, stop=stop), seen)

    assert told(seen) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert [change.live.body and change.live.body["data"] for change in seen[:2]] == [
        {"value": "one"},
        {"value": "two"},
    ]
    assert len({change.live.uid for change in seen if change.live.ref.name == "a"}) == 1
    versions = [int(change.live.resource_version) for change in seen]
    assert versions == sorted(set(versions))
    assert int(version) < versions[0]


@pytest.mark.parametrize(("seconds", "asked"), [(0.3, "1"), (7.5, "8"), (3600.0, "30")])
def test_watch_request_has_a_server_timeout(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, seconds: float, asked: str
) -> None:
    transport = open_transport()
    version = KubernetesClient(transport, "test").list_at(CONFIG_MAPS, namespace=namespace)[1]
    looks = Looks(lambda: watches_at(proxy), clock=ManualClock(), passes=3600)
    assert list(timed(transport, namespace, looks, seconds=seconds, version=version)) == []

    (seen,) = watches_at(proxy)
    assert seen.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": asked,
        "labelSelector": MINE,
    }


def test_object_leaving_the_selection_arrives_as_deleted(
    server: KubernetesClient, maps: Maps, namespace: str
) -> None:
    # What the docstrings warn of.
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    maps("POST", "a")
    maps("PUT", "a", probe="no")
    seen: list[WatchEvent] = []
    follow(start(server, namespace, resource_version=version, stop=until(seen, 2)), seen)

    assert told(seen) == [("ADDED", "a"), ("DELETED", "a")]
    live = server.list(CONFIG_MAPS, namespace=namespace, selector="probe=no")
    assert [one.uid for one in live] == [seen[1].live.uid]


def test_bookmark_carries_the_resource_version(
    server: KubernetesClient, maps: Maps, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server sends one some two seconds before it ends a watch, if it feels like it: not while
    # nothing at all happens to the kind.
    monkeypatch.setattr(watching, "_SESSION", 4)
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    maps("POST", "other", probe="no")
    values = map(str, count())

    def one_watch() -> list[WatchEvent]:
        seen: list[WatchEvent] = []

        def stop() -> bool:
            maps("PUT", "other", next(values), probe="no")
            return bool(seen)

        follow(start(server, namespace, resource_version=version, stop=stop), seen)
        return seen

    seen = eventually(one_watch)

    assert {change.kind for change in seen} == {WatchEventType.BOOKMARK}
    assert int(seen[0].live.resource_version) > int(version)
    assert (seen[0].live.ref.name, seen[0].live.uid) == ("", "")


@pytest.mark.parametrize("straight", [True, False])
def test_watch_returns_when_the_server_ends_it(
    open_transport: OpenTransport,
    plane: Plane,
    namespace: str,
    straight: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "_SESSION", 1)
    server = KubernetesClient(open_transport(plane.kubeconfig if straight else None), "test")
    changes = start(server, namespace)

    assert [change for change in changes if change.kind is not WatchEventType.BOOKMARK] == []


def test_watch_ends_at_its_timeout(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    transport, clock = open_transport(), ManualClock()
    version = KubernetesClient(transport, "test").list_at(CONFIG_MAPS, namespace=namespace)[1]
    looks = Looks(lambda: watches_at(proxy), clock=clock, passes=0.5)

    assert list(timed(transport, namespace, looks, seconds=1.5, version=version)) == []
    assert clock.passed == 1.5


def test_missing_permission_is_reported(
    open_transport: OpenTransport,
    proxy: FaultProxy,
    plane: Plane,
    namespace: str,
    tmp_path: Path,
) -> None:
    user = {"token": plane.token, "as": "nobody-knows"}
    server = KubernetesClient(open_transport(proxy.kubeconfig(tmp_path, user=user)), "test")

    with pytest.raises(Forbidden, match='"nobody-knows" cannot watch') as caught:
        list(start(server, namespace, resource_version="1"))
    assert f"the right to watch configmaps in namespace {namespace}" in caught.value.hint


def test_unserved_kind_is_recognised(server: KubernetesClient) -> None:
    missing = Resource("none.example.org", "v1", "None", "nones", namespaced=False)

    with pytest.raises(NotServed):
        list(server.watch(missing, resource_version="1", stop=never, seconds=3600))


def test_rotated_token_is_read_at_once_after_a_401(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, namespace: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"tokenFile": str(token)}))
    token.write_text(plane.token)
    version = KubernetesClient(open_transport(plane.kubeconfig), "test").list_at(NAMESPACES)[1]
    stop = Looks(lambda: len(proxy.exchanges) > 1 and proxy.exchanges[1].status, stops_at=1)

    list(start(KubernetesClient(transport, "test"), namespace, resource_version=version, stop=stop))
    assert [seen.status for seen in proxy.exchanges] == [401, 200]


# From which version on.


def test_watch_starts_at_the_first_page_of_a_list(
    server: KubernetesClient,
    proxy: FaultProxy,
    maps: Maps,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_PAGE", 2)
    for name in "abcde":
        maps("POST", name)

    def between(exchange: Exchange) -> None:
        if "continue" in exchange.query:
            proxy.before_forward = lambda _: None
            maps("POST", "meanwhile")

    proxy.before_forward = between
    listed, version = server.list_at(CONFIG_MAPS, namespace=namespace, selector=MINE, full=True)
    seen: list[WatchEvent] = []
    follow(start(server, namespace, resource_version=version, stop=until(seen, 1)), seen)

    assert [live.ref.name for live in listed] == [*"abcde"]
    assert listed[0].body is not None
    assert told(seen) == [("ADDED", "meanwhile")]


def test_list_without_version_cannot_be_watched(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    proxy.rule = always(faults.answer(200, b'{"kind":"ConfigMapList","items":[]}'))

    assert server.list_at(CONFIG_MAPS) == ([], "")
    with pytest.raises(Unavailable, match="no resourceVersion to start from"):
        list(start(server, namespace, resource_version=""))


# Stopping.


@pytest.mark.parametrize(
    "fault",
    [
        None,
        faults.hang(),
        faults.text(429, "later", (("Retry-After", "3600"),)),
        speaks(event("ADDED", namespace="n")[:10], end="silence"),
    ],
    ids=["nothing-happens", "no-reply", "told-to-wait", "half-an-event"],
)
def test_watch_stops_at_the_next_look(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault | None
) -> None:
    server = KubernetesClient(open_transport(retry_budget=7200), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    if fault:
        proxy.rule = always(fault)
    looks = Looks(lambda: watches_at(proxy), stops_at=3)
    changes = start(server, namespace, resource_version=version, stop=looks)

    assert [change for change in changes if change.kind is not WatchEventType.BOOKMARK] == []
    assert looks.made == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_watch_stops_while_connecting(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, tmp_path: Path, host: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        path = proxy.kubeconfig(tmp_path)
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://{host}:{mute.getsockname()[1]}"
        path.write_text(json.dumps(config))
        looks = Looks(lambda: True, clock=ManualClock(), passes=0.5)

        assert list(timed(open_transport(path), namespace, looks, seconds=1.5, version="1")) == []
        assert looks.made == 3


def test_closing_the_transport_ends_its_watches(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    transport = open_transport()
    server = KubernetesClient(transport, "test")
    looks = Looks(since=lambda: watches_at(proxy))

    def stop() -> bool:
        looks()
        if looks.made == 2:
            transport.close()
        return False

    changes = start(server, namespace, stop=stop)

    assert [change for change in changes if change.kind is not WatchEventType.BOOKMARK] == []
    assert looks.made == 2
    with pytest.raises(Unreachable, match="closed"):
        list(start(server, namespace, resource_version="1"))


def test_stopped_watch_yields_no_more_events(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    names = [f"m{number}" for number in range(9)]
    proxy.rule = always(
        speaks(b"".join(event("ADDED", name, namespace) for name in names)), where=is_watch
    )
    seen: list[WatchEvent] = []
    follow(start(server, namespace, stop=until(seen, 3)), seen)

    assert [change.live.ref.name for change in seen] == names[:3]


# Connections.


def test_watches_do_not_starve_other_requests(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    server = KubernetesClient(open_transport(pool_size=1), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    fault = speaks(event("ADDED", "a", namespace), end="silence")
    proxy.rule = always(fault, where=is_watch)
    watches = [start(server, namespace, resource_version=version) for _ in range(5)]
    for changes in watches:
        assert next(changes).kind is WatchEventType.ADDED

    assert server.list(CONFIG_MAPS, namespace=namespace) is not None
    lists = {seen.connection for seen in proxy.exchanges if not is_watch(seen)}
    assert len(lists) == 1
    assert len({seen.connection for seen in proxy.exchanges}) == 6
    # A watch that is left is closed, however it is left.
    while watches:
        changes = watches.pop()
        if len(watches) % 2:
            changes.close()  # type: ignore[attr-defined]  # it is a generator
    del changes
    eventually(lambda: proxy.open_connections == 1)


def test_failed_watch_is_closed_while_its_error_is_kept(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    # The error's traceback holds whatever the watch held.
    proxy.rule = always(speaks(b"what?\n", end="silence"), where=is_watch)
    changes = start(server, namespace)

    with pytest.raises(Unavailable) as caught:
        next(changes)
    eventually(lambda: proxy.open_connections == 1)
    assert caught.value.retryable


def test_many_watches_leave_nothing_behind(
    open_transport: OpenTransport, plane: Plane, namespace: str
) -> None:
    server = KubernetesClient(open_transport(plane.kubeconfig), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]

    def held() -> tuple[int, int]:
        return len(os.listdir("/dev/fd")), threading.active_count()  # noqa: PTH208

    def some(number: int) -> None:
        for _ in range(number):
            # The second look comes when the server is connected, or soon.
            looks = Looks(lambda: True, stops_at=2)
            list(start(server, namespace, resource_version=version, stop=looks))
        # A thread ends a moment after what it was for.
        eventually(lambda: "connect" not in {one.name for one in threading.enumerate()})

    some(2)
    files, threads = held()
    some(10)
    eventually(lambda: held()[0] <= files and held()[1] <= threads)


# What the wire does.


def test_events_survive_any_chunking(
    relay: Relay,
    relayed: Callable[..., Transport],
    maps: Maps,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a TLS record, half a chunk's head, half a character: each later than the last look."""
    monkeypatch.setattr(http, "TICK", 0.01)
    server = KubernetesClient(relayed(), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    seen: list[WatchEvent] = []
    looked = threading.Event()

    def stop() -> bool:
        looked.set()
        return len(seen) >= 4

    def between() -> None:
        looked.clear()
        looked.wait(HANG)

    changes = start(server, namespace, resource_version=version, stop=stop)
    maps("POST", "first")
    seen.append(next(changes))
    relay.piece, relay.between = 211, between
    maps("POST", "a", "ü" * 100)
    maps("PUT", "a", "é" * 100)
    maps("DELETE", "a")
    seen.extend(changes)

    assert told(seen)[1:] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_cut_connection_is_an_error(
    relay: Relay, relayed: Callable[..., Transport], maps: Maps, namespace: str
) -> None:
    changes = start(KubernetesClient(relayed(), "test"), namespace)
    maps("POST", "a")
    assert next(changes).kind is WatchEventType.ADDED
    relay.cut()

    with pytest.raises(Unreachable, match=r"cut off|broke") as caught:
        next(changes)
    assert "in time" not in str(caught.value)


@pytest.mark.parametrize("end", ["cut", "reset"])
@pytest.mark.parametrize("rest", [b"", b'{"type":"DELETED","object":{'])
def test_complete_events_before_a_cut_count(
    server: KubernetesClient, proxy: FaultProxy, namespace: str, end: str, rest: bytes
) -> None:
    seen: list[WatchEvent] = []
    chunks = [event("ADDED", "a", namespace), *([rest] if rest else [])]
    # A reset throws away what was sent and is not read yet.
    cut = speaks(*chunks, end=end, said=lambda: eventually(lambda: seen))
    proxy.rule = always(cut, where=is_watch)

    with pytest.raises((Unreachable, Unavailable)):
        follow(start(server, namespace), seen)
    assert told(seen) == [("ADDED", "a")]


@pytest.mark.parametrize(
    "chunks",
    [pytest.param((), marks=pytest.mark.holds("stream-clock")), (b"[", b"{")],
    ids=["at-once", "after-a-byte"],
)
def test_half_open_connection_is_detected(
    open_transport: OpenTransport,
    proxy: FaultProxy,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    chunks: tuple[bytes, ...],
) -> None:
    monkeypatch.setattr(watching, "_SESSION", 1)
    monkeypatch.setattr(watching, "_GRACE", 2.5)
    clock, silent = ManualClock(), threading.Event()
    transport = open_transport(clock=clock)
    version = KubernetesClient(transport, "test").list_at(CONFIG_MAPS, namespace=namespace)[1]
    proxy.rule = always(speaks(*chunks, end="silence", said=silent.set), where=is_watch)
    looks = Looks(silent.is_set, clock=clock, passes=2)

    with pytest.raises(Unreachable, match=r"no complete response in time"):
        list(timed(transport, namespace, looks, version=version))
    # Two looks at the silence. There may be one more before each read of what was said.
    assert 2 <= looks.made <= 2 + 1 + len(chunks)


def test_half_open_connection_to_the_real_server_is_detected(
    relay: Relay, relayed: Callable[..., Transport], maps: Maps, namespace: str
) -> None:
    clock = ManualClock()
    transport = relayed(clock=clock)
    version = KubernetesClient(transport, "test").list_at(CONFIG_MAPS, namespace=namespace)[1]
    looks = Looks(lambda: not relay.delivers.is_set(), clock=clock, passes=20)
    changes = timed(transport, namespace, looks, version=version)
    maps("POST", "a")
    assert next(changes).kind is WatchEventType.ADDED
    relay.delivers.clear()

    with pytest.raises(Unreachable, match=r"no complete response in time"):
        next(changes)
    assert looks.made == 2


def test_silent_server_times_out(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    server = KubernetesClient(open_transport(retry_budget=0), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    proxy.rule = always(faults.reset())

    with pytest.raises(Unreachable):
        list(start(server, namespace, resource_version=version))


def test_rejected_watch_is_retried(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    proxy.rule = first(2, faults.text(429, "later"), where=is_watch)
    stop = Looks(lambda: [one.status for one in watches_at(proxy)][2:] == [200], stops_at=1)

    list(start(server, namespace, resource_version=version, stop=stop))
    assert [seen.status for seen in proxy.exchanges if is_watch(seen)] == [429, 429, 200]


BAD = {
    "bytes": b"\xff\x00!\n",
    "a web page": b"<!DOCTYPE html>\n<html></html>\n",
    "a number": b"1\n",
    "a list": b"[]\n",
    "null": b"null\n",
    "NaN": b'{"type":"ADDED","object":{"a":NaN}}\n',
    "a very deep one": b"[" * 100_000 + b"\n",
    "no type": event("ADDED").replace(b'"type"', b'"typo"'),
    "an unknown type": event("REMOVED"),
    "a type that is a list": event("ADDED").replace(b'"ADDED"', b'["DELETED"]'),
    "no object": b'{"type":"DELETED"}\n',
    "an object that is a text": b'{"type":"DELETED","object":"a"}\n',
    "another kind": event("DELETED", kind="Secret"),
    "another version": event("DELETED", apiVersion="apps/v1"),
    "no kind": event("DELETED", kind=None),
    "only metadata": event("DELETED", kind="PartialObjectMetadata"),
    "no metadata": event("DELETED", metadata=None),
    "no UID": event("DELETED", metadata={"name": "a", "namespace": "n", "resourceVersion": "1"}),
    "no version": event("DELETED", metadata={"name": "a", "namespace": "n", "uid": "u"}),
    "another namespace": event("DELETED", namespace="elsewhere"),
    "a bookmark without a version": event("BOOKMARK", metadata={}),
    "a bookmark of another kind": event("BOOKMARK", kind="Secret"),
    "a line without an end": event("DELETED").rstrip(b"\n"),
    "an error that is no Status": event("ERROR"),
    "an error without anything": b'{"type":"ERROR","object":{}}\n',
}


@pytest.mark.parametrize("case", BAD)
def test_foreign_event_ends_the_watch(
    server: KubernetesClient, proxy: FaultProxy, namespace: str, case: str
) -> None:
    bad = BAD[case].replace(b'"namespace": "n"', b'"namespace": "%b"' % namespace.encode())
    proxy.rule = always(speaks(event("ADDED", "a", namespace) + bad), where=is_watch)
    seen: list[WatchEvent] = []

    with pytest.raises(Unavailable):
        follow(start(server, namespace), seen)
    assert told(seen) == [("ADDED", "a")]


def test_events_of_the_foreign_event_cases_are_otherwise_valid(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    # Else the test above would prove nothing.
    kinds = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    proxy.rule = always(
        speaks(b"".join(event(kind, "a", namespace) for kind in kinds)), where=is_watch
    )

    assert [str(change.kind) for change in start(server, namespace)] == kinds


def test_object_outside_the_selector_is_dropped(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    other = event("ADDED", "other", namespace).replace(b'"yes"', b'"no"')
    proxy.rule = always(speaks(other + event("ADDED", "a", namespace)), where=is_watch)

    assert told(list(start(server, namespace))) == [("ADDED", "a")]


@pytest.mark.parametrize(
    "fault",
    [
        faults.answer(200, b'{"kind":"ConfigMapList"}', (("Content-Type", "application/json"),)),
        faults.answer(200, b'{"kind":"Status"}\n', (("Content-Type", "application/json"),)),
        faults.answer(200, event("ADDED"), (("Content-Type", "text/plain"),)),
        faults.answer(
            200,
            event("ADDED"),
            (("Content-Type", "application/json"), ("Content-Encoding", "br")),
        ),
        faults.answer(201, event("ADDED"), (("Content-Type", "application/json"),)),
        faults.answer(204),
        faults.garbage(),
        faults.text(500, "oops"),
        faults.web_page(),
        faults.not_http(),
    ],
)
def test_non_watch_reply_is_never_a_watch(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    server = KubernetesClient(open_transport(retry_budget=0.1), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    proxy.rule = always(fault, where=is_watch)

    with pytest.raises((Unavailable, Unreachable)):
        list(start(server, namespace, resource_version=version))


def status(code: int, reason: str, message: str) -> bytes:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return json.dumps({"type": "ERROR", "object": body}).encode() + b"\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (status(410, "Expired", "too old resource version: 1 (2)"), Expired),
        (status(410, "Gone", "gone"), Expired),
        (status(500, "InternalError", "etcd event received with PrevKv=nil"), Unavailable),
        (status(403, "Forbidden", "no more"), Forbidden),
        (status(404, "NotFound", "no more"), NotServed),
        (status(200, "", "fine"), Unavailable),
    ],
)
def test_error_event_raises_the_error_of_its_status(
    server: KubernetesClient,
    proxy: FaultProxy,
    namespace: str,
    said: bytes,
    expected: type[Exception],
) -> None:
    proxy.rule = always(speaks(event("ADDED", "a", namespace), said), where=is_watch)
    seen: list[WatchEvent] = []

    with pytest.raises(expected, match="ended with"):
        follow(start(server, namespace), seen)
    assert told(seen) == [("ADDED", "a")]
    assert len([one for one in proxy.exchanges if is_watch(one)]) == 1


def test_410_reply_means_expired(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    proxy.rule = always(faults.status(410, "Expired", "too old resource version"), where=is_watch)

    with pytest.raises(Expired):
        list(start(server, namespace))


def test_large_object_survives_any_chunking(
    server: KubernetesClient, proxy: FaultProxy, namespace: str
) -> None:
    value = secrets.token_hex(800_000)
    content = event("ADDED", "a", namespace, data={"value": value}) + event(
        "DELETED", "a", namespace
    )
    sizes = (1, 7, 4096, 65536, 65537, 300_000)
    chunks: list[bytes] = []
    while content:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(content[:size])
        content = content[size:]
    proxy.rule = always(speaks(*chunks), where=is_watch)
    seen = list(start(server, namespace))

    assert told(seen) == [("ADDED", "a"), ("DELETED", "a")]
    assert seen[0].live.body is not None
    assert seen[0].live.body["data"] == {"value": value}


def test_large_object_of_the_real_server_is_complete(
    open_transport: OpenTransport, plane: Plane, maps: Maps, namespace: str
) -> None:
    server = KubernetesClient(open_transport(plane.kubeconfig), "test")
    version = server.list_at(CONFIG_MAPS, namespace=namespace)[1]
    value = secrets.token_hex(500_000)
    maps("POST", "large", value)
    changes = start(server, namespace, resource_version=version)
    with closing(changes):  # type: ignore[type-var]  # it is a generator
        body = next(changes).live.body

    assert body is not None
    assert body["data"] == {"value": value}


CANARY = "c4n4ryc4n4ryc4n4ry"


@pytest.mark.parametrize(
    "said",
    [
        f'{{"type":"ADDED","object":{{"data":"{CANARY}"}}}}\n'.encode(),
        f"{CANARY}\n".encode(),
        f'{{"type":"{CANARY}"}}\n'.encode(),
        f'{{"type":"ERROR","object":{{"data":"{CANARY}"}}}}\n'.encode(),
        status(500, "InternalError", f"cannot decode {CANARY}"),
        CANARY.encode(),
    ],
)
def test_error_quotes_no_secret_value(
    server: KubernetesClient, proxy: FaultProxy, namespace: str, said: bytes
) -> None:
    proxy.rule = always(speaks(said), where=is_watch)

    with pytest.raises(Unavailable) as caught:
        next(
            server.watch(
                SECRETS, namespace=namespace, resource_version="1", stop=never, seconds=3600
            )
        )
    error: BaseException | None = caught.value
    while error is not None:
        assert CANARY not in f"{error!s} {error!r} {vars(error)}"
        error = error.__cause__ or error.__context__


def test_repr_of_a_change_shows_no_secret(
    open_transport: OpenTransport, plane: Plane, api: Api, namespace: str
) -> None:
    server = KubernetesClient(open_transport(plane.kubeconfig), "test")
    version = server.list_at(SECRETS, namespace=namespace)[1]
    body = {"metadata": {"name": "s"}, "stringData": {"k": CANARY}}
    assert api("POST", f"/api/v1/namespaces/{namespace}/secrets", body)[0] == 201
    changes = server.watch(
        SECRETS, namespace=namespace, resource_version=version, stop=never, seconds=3600
    )
    change = next(changes)

    assert change.live.body is not None
    assert change.live.body["data"] == {"k": "YzRuNHJ5YzRuNHJ5YzRuNHJ5"}
    assert "YzRuNHJ5" not in repr(change)
