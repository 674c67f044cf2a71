"""The fault proxy itself: what the sweeps over crashes and faults build on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.messages import ApiRequest
from applyprune.errors import Unreachable
from tests.support.fault_proxy import FaultProxy, faults, first, number
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.plane import Kubectl, OpenTransport

VERSION = ApiRequest("GET", "/version")


def test_proxy_records_every_request(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    proxy.rule = number(2, faults.text(503))
    transport = open_transport()
    transport.send(VERSION)
    transport.send(ApiRequest("GET", "/api/v1/namespaces", query=(("limit", "1"),)))

    seen = proxy.exchanges
    assert [exchange.number for exchange in seen] == [1, 2, 3]
    assert [exchange.path for exchange in seen] == ["/version", *["/api/v1/namespaces"] * 2]
    assert seen[1].query == {"limit": "1"}
    assert [exchange.forwarded for exchange in seen] == [True, False, True]
    assert [exchange.server_status for exchange in seen] == [200, None, 200]
    assert [exchange.status for exchange in seen] == [200, 503, 200]
    assert len({exchange.connection for exchange in seen}) == 1


def test_proxy_calls_its_hooks_in_order(open_transport: OpenTransport, proxy: FaultProxy) -> None:
    called: list[tuple[str, int, int | None]] = []
    proxy.before_forward = lambda seen: called.append(("forward", seen.number, seen.server_status))
    proxy.before_reply = lambda seen: called.append(("reply", seen.number, seen.server_status))
    proxy.after_reply = lambda seen: called.append(("after", seen.number, seen.server_status))
    transport = open_transport()
    transport.send(VERSION)
    transport.send(VERSION)

    assert called[:3] == [("forward", 1, None), ("reply", 1, 200), ("after", 1, 200)]
    assert called[3] == ("forward", 2, None)


def test_proxy_holds_a_request_until_the_test_releases_it(
    open_transport: OpenTransport, proxy: FaultProxy
) -> None:
    pause = faults.Pause()
    proxy.rule = first(1, pause)
    transport = open_transport()
    sender = threading.Thread(target=transport.send, args=(VERSION,))
    sender.start()

    assert pause.reached.wait(HANG)
    assert [seen.forwarded for seen in proxy.exchanges] == [False]
    pause.go_on.set()
    sender.join(HANG)
    assert [seen.status for seen in proxy.exchanges] == [200]


def test_error_in_a_rule_fails_the_test(
    plane: Plane, open_transport: OpenTransport, tmp_path: Path
) -> None:
    def broken(_exchange: object) -> None:
        raise LookupError("broken rule")

    own = FaultProxy(plane)
    own.rule = broken
    with pytest.raises(Unreachable):
        open_transport(own.kubeconfig(tmp_path), retry_budget=0).send(VERSION)

    with pytest.raises(LookupError, match="broken rule"):
        own.__exit__(None, None, None)


def test_kubectl_works_through_the_proxy(proxy: FaultProxy, plane: Plane, kubectl: Kubectl) -> None:
    assert kubectl("--server", proxy.server, "get", "namespace", "default", "-o", "name") == (
        "namespace/default\n"
    )
    assert proxy.exchanges
