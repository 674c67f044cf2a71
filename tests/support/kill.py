"""SIGKILL a real process at one request, knowing exactly what the server has seen by then."""

from __future__ import annotations

import json
import signal
import threading
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.support.api import Api
from tests.support.command import start
from tests.support.fault_proxy import faults
from tests.support.renewals import Renewals
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.support.fault_proxy import Exchange, Fault, FaultProxy
    from tests.support.fault_proxy.exchange import Wire


class Moment(StrEnum):
    """When a run is killed: before the server sees the request, or after it has processed it."""

    BEFORE = "before"
    AFTER = "after"


def kill_at(
    proxy: FaultProxy,
    number: int,
    moment: Moment,
    arguments: Sequence[str | Path],
    kubeconfig: Path,
    *,
    counts: Callable[[Exchange], bool] = lambda _: True,
) -> Exchange | None:
    """Start a run, SIGKILL it at the request of that number, and return that request.

    Only what ``counts`` has a number, and no renewal has one: how many there are depends on the
    machine. Return None if the run made fewer such requests and succeeded. The server sees no later
    request, not even on parallel connections. No request is in flight any more when this returns.
    """
    renewals, left = Renewals(), number
    lock = threading.Lock()

    def place(exchange: Exchange) -> int:
        nonlocal left
        with lock:
            if left <= 0:
                return 1
            if renewals.is_sent(exchange) or not counts(exchange):
                return -1
            left -= 1
            return -left

    return _kill(proxy, place, moment, arguments, kubeconfig)


def kill_at_first(
    proxy: FaultProxy,
    is_meant: Callable[[Exchange], bool],
    moment: Moment,
    arguments: Sequence[str | Path],
    kubeconfig: Path,
) -> None:
    """SIGKILL a run at its first request of that sort; it must make one."""
    found: list[int] = []
    lock = threading.Lock()

    def place(exchange: Exchange) -> int:
        with lock:
            if not found and is_meant(exchange):
                found.append(exchange.number)
            return exchange.number - found[0] if found else -1

    killed = _kill(proxy, place, moment, arguments, kubeconfig)
    assert killed is not None, "it made no such request"


def _kill(
    proxy: FaultProxy,
    place: Callable[[Exchange], int],
    moment: Moment,
    arguments: Sequence[str | Path],
    kubeconfig: Path,
) -> Exchange | None:
    """SIGKILL a run at the request whose place is 0; a positive place comes after it."""
    process: list[subprocess.Popen[str]] = []
    started = threading.Event()
    reached: list[Exchange] = []
    before = len(proxy.exchanges)

    def kill(wire: Wire) -> None:
        if moment is Moment.AFTER:
            wire.forward()
        assert started.wait(HANG)
        process[0].kill()
        process[0].wait()
        wire.reset()

    def rule(exchange: Exchange) -> Fault | None:
        at = place(exchange)
        if at < 0:
            return None
        if at > 0:
            return faults.reset()
        reached.append(exchange)
        return kill

    proxy.rule = rule
    with start(*arguments, kubeconfig=kubeconfig) as running:
        process.append(running)
        started.set()
        _, err = running.communicate("", timeout=HANG)
    _drain(proxy)
    proxy.rule = lambda _exchange: None
    assert running.returncode == (-signal.SIGKILL if reached else 0), err
    shorten_leases(proxy, proxy.exchanges[before:])
    return reached[0] if reached else None


def shorten_leases(proxy: FaultProxy, exchanges: Iterable[Exchange]) -> None:
    """End the locks that a killed run holds."""
    api = Api(proxy.plane)
    for path in {_inventory_of(one) for one in exchanges if b'"header"' in one.body}:
        end_lock(api, path)


def end_lock(api: Api, path: str) -> None:
    """Let the lock on an inventory, if any, be over after one look, and not after 15 seconds."""
    status, root = api("GET", path)
    header = json.loads(root["data"]["header"]) if status == 200 else {}
    if header.get("holder"):
        header["holder"]["leaseSeconds"] = 0.01
        root["data"]["header"] = json.dumps(header)
        status, reply = api("PUT", f"{path}?fieldManager=applyprune", root)
        assert status == 200, reply


def _inventory_of(write: Exchange) -> str:
    name = json.loads(write.body)["metadata"]["name"]
    return f"{write.path}/{name}" if write.method == "POST" else write.path


def _drain(proxy: FaultProxy) -> None:
    """Wait for the end of what the process has sent: its connections end once they are read."""
    eventually(lambda: not proxy.open_connections, lambda: "the end of its connections")
