"""A controller that serves nobody for a minute says so at ``/healthz``, until it serves again.

Each one here has another reason, and all have the same minute: a process counts it itself.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.controller import controller, served
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant

MINUTE = 60
WHAT = (
    "the Bundles cannot be listed or watched",
    "its Lease could not be renewed",
    "no reconcile has ended",
)
WELL = (200, "ok\n")


@dataclass(slots=True)
class Cut:
    """A controller whose requests for one kind get no answer as long as it is cut off."""

    proxy: FaultProxy
    running: Controller
    plural: str

    def off(self) -> None:
        """Cut it off; its watches end too."""
        self.proxy.rule = always(faults.reset(), where=lambda seen: f"/{self.plural}" in seen.path)
        self.proxy.refuse_connections()
        self.proxy.accept_connections()

    def over(self) -> None:
        """Let its requests pass."""
        self.proxy.rule = lambda _seen: None


def send(signal_number: signal.Signals, processes: list[int]) -> None:
    """Send a signal to each process."""
    for one in processes:
        os.kill(one, signal_number)


def reason(running: Controller) -> str:
    """Return why it is not healthy; empty if it is."""
    status, said = running.ask("/healthz")
    assert (status, said) == WELL or status == 503
    return "" if status == 200 else said


def is_well(running: Controller) -> bool:
    """Return whether it is healthy."""
    return running.ask("/healthz") == WELL


@pytest.mark.sweep
def test_controller_that_serves_nobody_for_a_minute_says_it(
    site: Plane, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """It cannot list the Bundles, has no Lease, or its workers do not go on; a fourth is well."""
    blind, idle, busy, well = tenants = [new_tenant() for _ in range(4)]
    beside = new_tenant()
    with ExitStack() as ends:

        def run(
            *those: Tenant, through: FaultProxy | None = None, more: Sequence[str] = ("lease=0",)
        ) -> Controller:
            folder = tmp_path / those[0].namespace
            folder.mkdir()
            kubeconfig = through.kubeconfig(folder) if through is not None else site.kubeconfig
            names = ",".join(one.namespace for one in those)
            one = controller(kubeconfig, folder / "log", "--watch-namespaces", names, *more)
            return ends.enter_context(one)

        proxies = [ends.enter_context(FaultProxy(site)) for _ in range(2)]
        lease = ("lease=4", "-n", idle.namespace)
        cut = [
            Cut(proxies[0], run(blind, through=proxies[0]), "bundles"),
            Cut(proxies[1], run(idle, through=proxies[1], more=lease), "leases"),
        ]
        stopped = run(busy, beside, more=("lease=0", "--workers", "2"))
        other = run(well)
        running = [*(one.running for one in cut), stopped, other]
        for tenant in tenants:
            tenant.bundle("first", config_map("first"))
        for tenant, one in zip(tenants, running, strict=True):
            tenant.ready("first")
            assert one.ask("/healthz") == WELL

        for each in cut:
            each.off()
        hung = stopped.workers()
        assert len(hung) == 2
        send(signal.SIGSTOP, hung)
        for tenant, name in ((busy, "one"), (beside, "two"), (busy, "three")):
            tenant.bundle(name, config_map(name))
        eventually(
            lambda: stopped.metric("applyprune_queue_depth") == 1, lambda: "no worker is left"
        )
        # Not at once: it may serve them soon.
        assert [one.ask("/healthz") for one in running] == [WELL] * 4
        said = [eventually(partial(reason, one), lambda: "the reason") for one in running[:3]]
        for told, what in zip(said, WHAT, strict=True):
            found = re.search(rf"{what} for (\d+)", told)
            assert found is not None, told
            assert int(found[1]) >= MINUTE
        assert "Bundles due: 1, being reconciled: 2" in said[2]
        assert [one.metric("applyprune_healthy") for one in running] == [0, 0, 0, 1]
        assert [one.ask("/readyz")[0] for one in running] == [503, 503, 200, 200]
        # A restart helps none of them.
        assert [one.ask("/livez")[0] for one in running] == [200] * 4
        served(well, other, "meanwhile")

        for each in cut:
            each.over()
        send(signal.SIGCONT, hung)
        for one in running:
            eventually(partial(is_well, one), lambda: "health")
        for tenant, name in ((busy, "one"), (beside, "two"), (busy, "three")):
            tenant.ready(name)
        eventually(lambda: cut[1].running.ask("/readyz") == WELL, lambda: "its Lease")
        for tenant, one in zip(tenants, running, strict=True):
            served(tenant, one, "after")
