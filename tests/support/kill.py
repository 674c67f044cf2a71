"""SIGKILL at one request of a real process, with what the server has seen by then known exactly."""

from __future__ import annotations

import signal
import threading
import time
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING

from tests.support.command import start
from tests.support.fault_proxy import faults

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.fault_proxy import Exchange, Fault, FaultProxy
    from tests.support.fault_proxy.exchange import Wire


class Moment(StrEnum):
    """When a run is killed: the server has not seen the request, or has done all it asked."""

    BEFORE = "before"
    AFTER = "after"


def kill_at(
    proxy: FaultProxy,
    number: int,
    moment: Moment,
    arguments: Sequence[str | Path],
    kubeconfig: Path,
) -> Exchange | None:
    """Run, SIGKILL at the request of that number, and return it.

    None when the run made fewer requests, and came to a good end. Of the requests that come later,
    on connections side by side, the server sees none: what it has seen is what came first, and
    nothing is on its way any more when this returns.
    """
    before = len(proxy.exchanges)
    process: list[subprocess.Popen[str]] = []
    started = threading.Event()
    reached: list[Exchange] = []

    def kill(wire: Wire) -> None:
        if moment is Moment.AFTER:
            wire.forward()
        assert started.wait(60)
        process[0].kill()
        process[0].wait(60)
        wire.reset()

    def rule(exchange: Exchange) -> Fault | None:
        if exchange.number - before < number:
            return None
        if exchange.number - before > number:
            return faults.reset()
        reached.append(exchange)
        return kill

    proxy.rule = rule
    with start(*arguments, kubeconfig=kubeconfig) as running:
        process.append(running)
        started.set()
        _, err = running.communicate("", timeout=300)
    _drain(proxy)
    proxy.rule = lambda _exchange: None
    assert running.returncode == (-signal.SIGKILL if reached else 0), err
    return reached[0] if reached else None


def kill_at_patch(proxy: FaultProxy, arguments: Sequence[str | Path], kubeconfig: Path) -> None:
    """Run and SIGKILL before the first JSON patch, run after run until one comes so far.

    What comes before it must leave things as they are: each run begins anew.
    """
    killed: Exchange | None = None
    for number in count(1):
        killed = kill_at(proxy, number, Moment.BEFORE, arguments, kubeconfig)
        assert killed is not None, "it made no JSON patch"
        if "json-patch" in killed.header("content-type"):
            return


def _drain(proxy: FaultProxy) -> None:
    """Wait for the end of what the process has sent: its connections end once they are read."""
    deadline = time.monotonic() + 60
    while proxy._open:
        assert time.monotonic() < deadline, "the proxy still serves a process that has ended"
        time.sleep(0.002)
