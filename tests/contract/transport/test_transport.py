"""What the wire does to a client (failures.md §1.6), each in front of the real API server."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from applyprune.cluster.messages import ApiRequest
from applyprune.errors import (
    ApplypruneError,
    Expired,
    NotFound,
    NotServed,
    Unavailable,
    Unreachable,
)
from applyprune.http import FIRST_WAIT
from tests.support.clocks import HeldClock, ManualClock
from tests.support.fault_proxy import always, faults, first
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from applyprune.model.events import RetryReported
    from tests.support.fault_proxy import Fault, FaultProxy
    from tests.support.plane import OpenTransport

VERSION = ApiRequest("GET", "/version")
APPLY = "application/apply-patch+yaml"


def config_map(namespace: str, value: str = "one") -> bytes:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "probe", "namespace": namespace},
            "data": {"value": value},
        }
    ).encode()


def path_in(namespace: str, name: str = "probe") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def apply(namespace: str, value: str = "one") -> ApiRequest:
    return ApiRequest(
        "PATCH",
        path_in(namespace),
        query=(("fieldManager", "test"),),
        body=config_map(namespace, value),
        content_type=APPLY,
        about=("", "configmaps", "probe"),
    )


def create(namespace: str) -> ApiRequest:
    return ApiRequest(
        "POST",
        f"/api/v1/namespaces/{namespace}/configmaps",
        body=config_map(namespace),
        retry=False,
    )


def read(namespace: str) -> ApiRequest:
    return ApiRequest("GET", path_in(namespace), about=("", "configmaps", "probe"))


# Write reply lost: was it done?


@pytest.mark.parametrize("fault", [faults.lose_reply(), faults.close_before_reply()])
def test_apply_is_retried_after_a_lost_reply(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    proxy.rule = first(1, fault)

    reply = open_transport().send(apply(namespace))

    assert reply.body["data"] == {"value": "one"}
    # The first try did it: the second one finds the object there.
    assert [seen.server_status for seen in proxy.exchanges] == [201, 200]


def test_delete_is_retried_after_a_lost_reply_and_proves_absence(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    transport = open_transport()
    transport.send(apply(namespace))
    proxy.rule = first(1, faults.lose_reply())
    request = ApiRequest("DELETE", path_in(namespace), about=("", "configmaps", "probe"))

    with pytest.raises(NotFound):
        transport.send(request)
    assert [seen.server_status for seen in proxy.exchanges] == [201, 200, 404]


@pytest.mark.parametrize(
    "fault",
    [
        faults.lose_reply(),
        faults.close_before_reply(),
        faults.truncate(0.5),
        faults.truncate_headers(),
        faults.text(502, "bad gateway"),
        faults.text(503, "unavailable"),
        faults.web_page(),
        faults.reset(),
    ],
)
def test_create_after_a_lost_reply_is_left_to_the_caller(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    proxy.rule = always(fault)

    with pytest.raises((Unreachable, Unavailable)):
        open_transport().send(create(namespace))
    assert len(proxy.exchanges) == 1


def test_rejected_create_is_retried(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    proxy.rule = first(2, faults.text(429, "later"))

    assert open_transport().send(create(namespace)).status == 201
    assert [seen.status for seen in proxy.exchanges] == [429, 429, 201]


def test_unsent_create_is_retried(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    clock = ManualClock(lambda _: proxy.accept_connections() if len(clock.waits) == 2 else None)
    proxy.refuse_connections()

    assert open_transport(clock=clock).send(create(namespace)).status == 201
    assert len(clock.waits) == 3
    assert [seen.server_status for seen in proxy.exchanges] == [201]


# Hang.


@pytest.mark.parametrize(
    "fault",
    [
        lambda passes: faults.calling(partial(passes, 31), faults.hang()),
        lambda passes: faults.calling(partial(passes, 31), faults.hang(forward=True)),
        lambda passes: faults.drip(partial(passes, 4)),
        lambda passes: faults.drip(partial(passes, 4), headers=True),
    ],
    ids=["silence", "silence-after-the-fact", "one-byte-at-a-time", "header-bytes-at-a-time"],
)
def test_endless_server_times_out(
    open_transport: OpenTransport,
    proxy: FaultProxy,
    fault: Callable[[Callable[[float], None]], Fault],
) -> None:
    clock = ManualClock()
    proxy.rule = always(fault(clock.advance))

    with pytest.raises(Unreachable, match=r"no complete response in time.* in 30 s"):
        open_transport(retry_budget=0, clock=clock).send(VERSION)


def test_hang_is_retried(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    clock = ManualClock()
    proxy.rule = first(1, faults.calling(partial(clock.advance, 31), faults.hang()))

    assert open_transport(clock=clock).send(VERSION).status == 200
    assert len(clock.waits) == 1


@pytest.mark.holds("try-clock")
def test_missing_reply_is_given_up_by_the_clock_of_the_transport(
    open_transport: OpenTransport, proxy: FaultProxy
) -> None:
    proxy.rule = always(faults.hang())
    clock = ManualClock()

    def stop() -> bool:
        clock.advance(5 if proxy.exchanges else 0)
        return False

    with pytest.raises(Unreachable, match="no complete response in time"):
        open_transport(retry_budget=0, clock=clock).stream(
            ApiRequest("GET", "/version", timeout=5), stop
        )
    assert clock.passed == 5


def test_expired_request_is_over_including_retries(
    open_transport: OpenTransport, proxy: FaultProxy
) -> None:
    clock = ManualClock()
    transport = open_transport(retry_budget=60, clock=clock)
    transport.send(VERSION)
    proxy.rule = always(faults.calling(partial(clock.advance, 4.5), faults.hang()))

    # The third try has what two tries and two pauses have left.
    with pytest.raises(Unreachable, match=r"in 0\.[78]\d* s\b.*tried 3 times"):
        transport.send(ApiRequest("GET", "/version", timeout=4, within=10))
    assert len(proxy.exchanges) == 4


# The API server rolls.


def test_restarting_server_is_waited_for(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    hooks = {0: proxy.refuse_connections, 3: proxy.accept_connections}
    clock = ManualClock(lambda _: hooks.get(len(clock.waits), lambda: None)())
    transport = open_transport(clock=clock)
    transport.send(VERSION)
    proxy.rule = first(1, faults.reset())

    assert transport.send(apply(namespace)).status == 201
    assert len(clock.waits) == 4


def test_idle_closed_connection_costs_nothing(
    open_transport: OpenTransport, proxy: FaultProxy
) -> None:
    lines: list[str] = []
    transport = open_transport(trace=lines.append)
    transport.send(VERSION)
    proxy.refuse_connections()
    proxy.accept_connections()

    assert transport.send(VERSION).status == 200
    assert [line.split()[2] for line in lines] == ["200", "200"]


@pytest.mark.parametrize("fault", [faults.reset(), faults.not_http(), faults.truncate_headers()])
def test_broken_connection_is_retried(
    open_transport: OpenTransport, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.rule = first(2, fault)

    assert open_transport().send(VERSION).status == 200
    assert len(proxy.exchanges) == 3


# 429 and the others that pass.


@pytest.mark.parametrize(
    ("retry_after", "at_least"),
    [
        ("", 0),
        ("0", 0),
        ("1", 1),
        ("soon", 0),
        ("-7", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
    ],
)
def test_429_delay_is_obeyed(
    open_transport: OpenTransport,
    proxy: FaultProxy,
    retry_after: str,
    at_least: int,
) -> None:
    headers = (("Retry-After", retry_after),) if retry_after else ()
    proxy.rule = first(1, faults.status(429, "TooManyRequests", headers=headers))
    clock = ManualClock()

    assert open_transport(clock=clock).send(VERSION).status == 200
    (waited,) = clock.waits
    assert at_least <= waited <= at_least + FIRST_WAIT


def test_429_date_is_obeyed(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    date = "Wed, 21 Oct 2099 07:28:00 GMT"
    clock = ManualClock()
    transport = open_transport(retry_budget=1e10, clock=clock)
    # A server that has never answered is not waited for so long.
    transport.send(VERSION)
    proxy.rule = first(1, faults.text(429, headers=(("Retry-After", date),)))

    assert transport.send(VERSION).status == 200
    (waited,) = clock.waits
    assert 1e9 < waited < 1e10


@pytest.mark.parametrize("wish", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_429_beyond_our_patience_fails_at_once(
    open_transport: OpenTransport, proxy: FaultProxy, wish: str
) -> None:
    proxy.rule = always(faults.text(429, "later", (("Retry-After", wish),)))
    clock = ManualClock()

    with pytest.raises(Unavailable, match=r"later.*asks to retry in \d+ s"):
        open_transport(clock=clock).send(VERSION)
    assert clock.waits == []
    assert len(proxy.exchanges) == 1


@pytest.mark.holds("report-clock")
def test_repeated_429s_are_survived_and_reported(
    open_transport: OpenTransport, proxy: FaultProxy
) -> None:
    proxy.rule = first(5, faults.status(429, "TooManyRequests"))
    told: list[tuple[float, Sequence[RetryReported]]] = []
    clock = ManualClock(lambda passed: told.append((passed, transport.unanswered())))
    transport = open_transport(clock=clock)

    assert transport.send(VERSION).status == 200
    assert [[one.tries for one in reports] for _, reports in told] == [[], [], [4], [5], [6]]
    elapsed = [reports[0].elapsed for _, reports in told[2:]]
    assert elapsed == pytest.approx([passed for passed, _ in told[2:]])
    assert transport.unanswered() == []


@pytest.mark.parametrize(
    "fault",
    [
        faults.text(429, "later"),
        faults.text(500, "oops"),
        faults.text(502, "bad gateway"),
        faults.text(503, "service unavailable"),
        faults.status(503, "ServiceUnavailable", "shutting down"),
        faults.text(504, "gateway timeout"),
        faults.status(500, "InternalError", 'failed calling webhook "w": connection refused'),
        faults.status(500, "", "etcdserver: leader changed"),
    ],
)
def test_permanent_fault_fails_within_the_budget(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    clock = ManualClock()
    transport = open_transport(retry_budget=0.5, clock=clock)
    transport.send(VERSION)
    proxy.rule = always(fault)

    with pytest.raises(Unavailable, match=r"tried [3-9] times") as raised:
        transport.send(apply(namespace))
    # The number of tries is no part of what a status compares.
    assert raised.value.reason.startswith(f"{raised.value.problem.lasting_reason}; tried ")
    assert clock.passed <= 0.5


def test_schema_error_is_not_retried(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    bad = ApiRequest(
        "PATCH",
        path_in(namespace),
        query=(("fieldManager", "test"),),
        body=config_map(namespace).replace(b'"data"', b'"dato"'),
        content_type=APPLY,
    )

    with pytest.raises(Exception, match="field not declared in schema") as caught:
        open_transport().send(bad)
    assert type(caught.value).__name__ == "Invalid"
    assert [seen.server_status for seen in proxy.exchanges] == [500]


# Truncated and garbage replies.


@pytest.mark.parametrize(
    "fault",
    [
        faults.truncate(0),
        faults.truncate(0.5),
        faults.truncate(1, less=1),
        faults.unterminated_chunks(),
        faults.shortened(0),
        faults.shortened(40),
        faults.garbage(),
        faults.web_page(),
        faults.answer(200, b"[]"),
        faults.answer(200, b"null"),
        faults.answer(200, b'{"a": NaN}'),
        faults.answer(200, b"[" * 100_000),
        faults.answer(200, b'{"a": ' + b"9" * 5000 + b"}"),
        faults.answer(200, b'{"kind": "ConfigMap"}', (("Content-Encoding", "br"),)),
        faults.answer(204),
        faults.answer(206, b'{"kind": "ConfigMap"}'),
        faults.answer(304),
    ],
)
def test_invalid_reply_is_never_returned(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    transport = open_transport(retry_budget=0.2, clock=ManualClock())
    transport.send(apply(namespace))
    proxy.rule = always(fault)

    with pytest.raises((Unavailable, Unreachable)):
        transport.send(read(namespace))
    proxy.rule = first(1, fault)
    assert transport.send(read(namespace)).body["data"] == {"value": "one"}


def test_captive_portal_is_recognised(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    proxy.rule = always(faults.web_page())

    with pytest.raises(Unreachable, match="did not answer as an API server: it sent a web page"):
        open_transport(retry_budget=0.2).send(VERSION)


def test_compression_bomb_is_not_unpacked(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    proxy.rule = always(faults.answer(200, bomb, (("Content-Encoding", "gzip"),)))

    with pytest.raises(Unavailable, match="encoded as gzip, which was not requested"):
        open_transport(retry_budget=0.1).send(VERSION)
    assert proxy.exchanges[0].header("Accept-Encoding") == "identity"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirect_is_never_followed(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, code: int
) -> None:
    elsewhere = (("Location", f"{proxy.server}/version"),)
    proxy.rule = always(faults.answer(code, headers=elsewhere))

    with pytest.raises(Unreachable, match="is not an API server: it redirects"):
        open_transport().send(apply(namespace))
    assert len(proxy.exchanges) == 1


# LIST pages: 410. And what is no proof of absence.


def test_expired_continue_token_is_recognised(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    proxy.rule = always(faults.status(410, "Expired", "The provided continue parameter is too old"))

    with pytest.raises(Expired):
        open_transport().send(ApiRequest("GET", f"/api/v1/namespaces/{namespace}/configmaps"))
    assert len(proxy.exchanges) == 1


@pytest.mark.parametrize(
    "fault",
    [
        faults.text(404, "404 page not found\n"),
        faults.web_page(404),
        faults.status(404, "NotFound", "no", name="other", kind="configmaps"),
        faults.status(404, "NotFound", "no", name="probe", kind="secrets"),
        faults.status(404, "NotFound", "no", name="probe", kind="configmaps", group="x.io"),
        faults.status(404, "", "no", name="probe", kind="configmaps"),
        faults.status(404, "NotFound", "no"),
    ],
)
def test_absence_is_proved_only_by_a_status_that_names_the_object(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    transport = open_transport()
    with pytest.raises(NotFound):
        transport.send(read(namespace))
    proxy.rule = always(fault)

    with pytest.raises(NotServed):
        transport.send(read(namespace))


# Names on the wire.


def test_request_line_is_exactly_the_request(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    transport = open_transport()
    names = [
        "a",
        "a.b-c",
        "A%41",
        "x?dryRun=All",
        "a/b",
        "..x",
        "ü",
        "a b",
        "a:b",
        "a;b",
        "%2e",
        "#",
    ]
    requests = [
        ApiRequest("GET", path_in(namespace, quote(name, safe="")), query=(("k", name),))
        for name in names
    ]

    for request in requests:
        with contextlib.suppress(ApplypruneError):
            transport.send(request)
    assert [seen.target for seen in proxy.exchanges] == [request.target for request in requests]


# Memory and threads.


def test_many_requests_leave_nothing_behind(
    open_transport: OpenTransport, proxy: FaultProxy
) -> None:
    transport = open_transport(pool_size=2)
    proxy.rule = first(5, faults.truncate(0.5))
    before = threading.active_count()

    workers = [
        threading.Thread(target=lambda: [transport.send(VERSION) for _ in range(10)])
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    # Two connections for four threads, and a new one for each that a fault has cost.
    assert len({seen.connection for seen in proxy.exchanges}) <= 7
    assert len(proxy.exchanges) == 45
    transport.close()
    eventually(lambda: threading.active_count() <= before)


def test_closing_wakes_waiting_retries(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    clock = HeldClock()
    transport = open_transport(retry_budget=60, clock=clock)
    transport.send(VERSION)
    proxy.rule = always(faults.text(429, "later", (("Retry-After", "30"),)))
    failed = threading.Event()

    def send() -> None:
        with pytest.raises(Unavailable):
            transport.send(VERSION)
        failed.set()

    sender = threading.Thread(target=send)
    sender.start()
    eventually(lambda: clock.waiting)
    transport.close()
    assert failed.wait(HANG)
    sender.join()
    with pytest.raises(Unreachable, match="closed"):
        transport.send(VERSION)
