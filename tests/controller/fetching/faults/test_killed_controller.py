"""A controller that is killed during its fetches or moves: the next one leaves nothing undone."""

from __future__ import annotations

import os
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

import pytest

from applyprune.controller.fetch import SourceCache
from tests.support.controller import controller
from tests.support.fault_proxy import FaultProxy, faults
from tests.support.git_servers import git_site
from tests.support.hanging_fetches import FETCH_WORKERS, HangingFetches
from tests.support.kill import Moment, shorten_leases
from tests.support.moves import MOVED, begin, commit, follow, has_left, layout, lists, own, uids
from tests.support.namespaces import kill_all_inside, kill_inside
from tests.support.processes import family, is_running, name_of, working_in
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials, git_source
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Controller, Tenant
    from tests.support.fault_proxy import Exchange, Fault
    from tests.support.fault_proxy.exchange import Wire
    from tests.support.git_servers import HttpsSite

PROGRAMS = ("git ", "git-remote-https", "ssh ", "sleep 301", "sleep 302")


def of_applyprune(private: Path) -> list[Path]:
    """Return what a controller has in its folder for temporary files."""
    return sorted(private.glob("applyprune-*"))


def left_in(folder: Path) -> list[str]:
    """Return the names of private folders and of unfinished files in a cache folder."""
    # It is removed meanwhile, which rglob does not bear.
    names = [name for _, *found in os.walk(folder) for one in found for name in one]
    return [name for name in names if name.startswith(("applyprune-", "tmp_", "."))]


def check_whole(cache: SourceCache) -> None:
    """Fail unless each artifact is one that was written to its end; there must be one."""
    names = [path.name for path in cache.artifacts.iterdir()]
    assert names
    assert [name for name in names if not cache.read(name)] == []


@pytest.mark.parametrize(
    "kill",
    # Whoever is killed with all that it has started has nobody left who could fail to end.
    [kill_inside, pytest.param(kill_all_inside, marks=pytest.mark.sweep)],
    ids=["alone", "with all"],
)
def test_killed_controller_leaves_nothing_of_its_fetches(
    site: Plane,
    new_tenant: Callable[[], Tenant],
    components: Components,
    private: Path,
    tmp_path: Path,
    kill: Callable[[subprocess.Popen[str]], None],
) -> None:
    """Killed alone, or with all that it has started; the next one applies every Bundle.

    Slow: what hangs for a killed controller ends 20 seconds later.
    """
    tenant = new_tenant()
    arguments = ("lease=0", *LOOPBACK, f"fetch_workers={FETCH_WORKERS}")
    with (
        git_site(tmp_path / "git", login="me:hunter2") as git,
        HangingFetches(tmp_path, components, tenant) as fetches,
    ):
        git.repository().commit({"web/a.yaml": file_of("good")})
        git_credentials(tenant, git)
        tenant.bundle("good", source=git_source(git, path="web", interval="1h"), interval="1h")
        fetches.begin()
        within = ("env", f"TMPDIR={private}", f"PATH={fetches.search_path}")
        run = partial(controller, site.kubeconfig, within=within)
        with run(tmp_path / "killed", *arguments) as killed:
            tenant.reconciled("good", "killed")
            fetches.wait(killed.process.pid)
            started = family(killed.process.pid)
            names = [name_of(one) for one in started]
            assert [one for one in PROGRAMS if not any(one in name for name in names)] == []
            kill(killed.process)
            eventually(lambda: not working_in(private), lambda: "the end of what works for it")
            eventually(lambda: not any(map(is_running, started)), lambda: "the end of all")
        (folder,) = private.glob("applyprune-controller-*")
        check_whole(SourceCache(folder / "sources", 1 << 30))
        fetches.reset()
        fetches.release()
        with run(tmp_path / "last", *arguments):
            for name in fetches.hangs:
                tenant.ready(name)
                assert tenant.value(name) == "1"
            tenant.reconciled("good", "last")
            assert tenant.condition("good")[:2] == ("True", "Applied")
            eventually(lambda: len(of_applyprune(private)) == 1, lambda: "the removal of the rest")
            (own,) = of_applyprune(private)
            assert own != folder
            check_whole(SourceCache(own / "sources", 1 << 30))
            eventually(lambda: left_in(own) == [], lambda: "the removal of private files")


NAMES = [body["metadata"]["name"] for body in MOVED.values()]


def test_killed_controller_loses_no_object_that_moves(
    site: Plane, git: HttpsSite, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Killed as soon as a commit is there, or has moved something; the next one knows nothing.

    Slow: five controllers are started one after the other.
    """
    tenant = new_tenant()
    git_credentials(tenant, git)
    repository = git.repository()
    begin(repository)
    before: dict[str, str] = {}
    for number, (giver, taker) in enumerate((("a", "b"), ("b", "a")) * 2):
        log = tmp_path / f"log-{number}"
        with controller(site.kubeconfig, log, "lease=0", *LOOPBACK) as one:
            before = before or follow(tenant, git, "a", "b")
            for name in ("a", "b"):
                tenant.ready(name)
            repository.commit(layout(taker))
            if number % 2:
                moved_or_offered(Stage(site.kubeconfig, tenant.namespace, name=giver))
            one.kill()
        assert uids(tenant) == before
    with controller(site.kubeconfig, tmp_path / "last", "lease=0", *LOOPBACK):
        commit(tenant, repository, {"b/own.yaml": file_of(*own("b"), value="2")}, "b")
        has_left(site.kubeconfig, tenant, giver)
        assert uids(tenant) == before


@pytest.mark.sweep
@pytest.mark.parametrize("moment", Moment)
def test_controller_that_is_killed_at_each_write_loses_no_object(
    site: Plane, git: HttpsSite, new_tenant: Callable[[], Tenant], tmp_path: Path, moment: Moment
) -> None:
    """Whoever has sent it, giver or taker: no object is gone or has two owners, then or after."""
    tenant = new_tenant()
    git_credentials(tenant, git)
    repository = git.repository()
    begin(repository)
    with controller(site.kubeconfig, tmp_path / "first", "lease=0", *LOOPBACK):
        before = follow(tenant, git, "a", "b")
    giver, taker = "a", "b"
    for number in count(1):
        with FaultProxy(site) as proxy:
            kubeconfig = proxy.kubeconfig(tmp_path, namespace=tenant.namespace)
            log = tmp_path / f"killed-{number}"
            with controller(kubeconfig, log, "lease=0", *LOOPBACK) as one:
                killed = Killed(proxy, tenant, number, moment, one)
                revision = f"main@sha1:{repository.commit(layout(taker))}"
                eventually(
                    lambda: killed.at or _is_moved(site, tenant, giver, revision),  # noqa: B023
                    lambda: f"the move: {tenant.condition('a')}, {tenant.condition('b')}",
                )
        shorten_leases(proxy, proxy.exchanges)
        assert uids(tenant) == before
        given, taken = (lists(site.kubeconfig, tenant, one) for one in (giver, taker))
        assert given.keys() | taken.keys() == {*NAMES}, killed.at
        assert all(given[name] for name in given.keys() & taken.keys()), killed.at
        with controller(site.kubeconfig, tmp_path / f"next-{number}", "lease=0", *LOOPBACK):
            for name in ("a", "b"):
                tenant.applied(name, revision)
            has_left(site.kubeconfig, tenant, giver)
            assert lists(site.kubeconfig, tenant, taker) == dict.fromkeys(NAMES, False)
            assert uids(tenant) == before
        if killed.at is None:
            break
        giver, taker = taker, giver
    # An offer, four adoptions, the inventories before and after them, and two statuses at least.
    assert number > 9


class Killed:
    """Kills a controller at its write of that number about a tenant; Events do not count."""

    def __init__(
        self, proxy: FaultProxy, tenant: Tenant, number: int, moment: Moment, one: Controller
    ) -> None:
        """Count from now on."""
        self.at: Exchange | None = None
        self._tenant, self._left, self._moment, self._one = tenant, number, moment, one
        self._lock = Lock()
        proxy.rule = self._rule

    def _rule(self, exchange: Exchange) -> Fault | None:
        with self._lock:
            if self._left > 0 and not self._counts(exchange):
                return None
            self._left -= 1
            if self._left > 0:
                return None
            return faults.reset() if self._left < 0 else partial(self._kill, exchange)

    def _counts(self, exchange: Exchange) -> bool:
        is_write = exchange.method != "GET" and "dryRun" not in exchange.query
        path = exchange.path
        return is_write and f"/{self._tenant.namespace}/" in path and "/events" not in path

    def _kill(self, exchange: Exchange, wire: Wire) -> None:
        if self._moment is Moment.AFTER:
            wire.forward()
        kill_all_inside(self._one.process)
        wire.reset()
        self.at = exchange


def _is_moved(site: Plane, tenant: Tenant, giver: str, revision: str) -> bool:
    """Return whether both Bundles say so, and the giver lists nothing of it."""
    statuses = [tenant.get(name)["status"] for name in ("a", "b")]
    if any(status.get("lastAppliedRevision") != revision for status in statuses):
        return False
    return not lists(site.kubeconfig, tenant, giver)


def moved_or_offered(giver: Stage) -> None:
    """Wait until a set offers something, or no longer has it."""

    def begun() -> bool:
        entries = giver.inventory().entries
        return {ref.name for ref in entries} == {*own(giver.name)} or any(
            one.offered for one in entries.values()
        )

    eventually(begun, lambda: "an offer")
