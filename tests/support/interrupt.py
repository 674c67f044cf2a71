"""Signal a real process at one request, and go on when it has taken note of that."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from applyprune.output.progress import INTERRUPTED
from tests.support.command import Ended, start
from tests.support.waiting import HANG

if TYPE_CHECKING:
    import signal
    import subprocess
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.fault_proxy import Exchange, FaultProxy


def interrupt_at(
    proxy: FaultProxy,
    is_meant: Callable[[Exchange], bool],
    number: signal.Signals,
    arguments: Sequence[str | Path],
    kubeconfig: Path,
) -> Ended:
    """Start a run, signal it at its first request of that sort, and return what it said.

    No reply arrives between the signal and the run's word that it stops. Without that, a busy
    machine delivers the signal when all is done.
    """
    process: list[subprocess.Popen[str]] = []
    started, signalled, go_on = threading.Event(), threading.Event(), threading.Event()
    # A second signal would end the run at once.
    first = threading.Lock()

    def hook(exchange: Exchange) -> None:
        if is_meant(exchange) and first.acquire(blocking=False):
            assert started.wait(HANG)
            signalled.set()
            process[0].send_signal(number)
        if signalled.is_set():
            go_on.wait(HANG)

    proxy.before_reply = hook
    said: list[str] = []
    with start(*arguments, kubeconfig=kubeconfig) as running:
        process.append(running)
        started.set()
        assert running.stderr is not None
        for line in running.stderr:
            said.append(line)
            if line.rstrip() == INTERRUPTED:
                break
        go_on.set()
        out, err = running.communicate("", timeout=HANG)
    assert signalled.is_set(), "it made no such request"
    return Ended(running.returncode, out, "".join(said) + err)
