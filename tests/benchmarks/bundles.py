"""Rows about Bundles: a controller that serves many of them, of four objects of four kinds each."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.sources import read
from applyprune.values import replace
from tests.benchmarks.requests import count, table
from tests.benchmarks.rows import OURS, Measured
from tests.support.api import Api, AuditTrail
from tests.support.controller import BUNDLE_CRD, Controller, Tenant, controller, tenants
from tests.support.git_servers import git_site
from tests.support.objects import config_map, of_kind, text
from tests.support.processes import family, proportional_size
from tests.support.remote_bundles import LOOPBACK, git_credentials, git_source, set_value
from tests.support.waiting import eventually
from tests.support.workloads import workload

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from applyprune.localplane import Plane
    from tests.benchmarks.programs import Programs
    from tests.benchmarks.rows import Figures, Results, Row

OBJECTS = 4
NAMESPACES = 50
INTERVAL = 150.0
"""Seconds between two looks at a Bundle."""
LEASE = 15.0
_QUIET = 10.0
"""Seconds after which everything that was caused is over."""
_LOOK = 5
"""Seconds between two looks at a repository."""
_IDLE = 60.0
_CHANGES, _COMMITS = 50, 5

Bundles = list[tuple[Tenant, str]]


def manifests(name: str, value: str = "info") -> list[dict[str, Any]]:
    """Return four objects of four kinds."""
    service = {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}
    return [
        config_map(name, value),
        of_kind("ServiceAccount", name),
        of_kind("Service", name, spec=service),
        workload("Deployment", name),
    ]


def make_bundles(
    teams: Sequence[Tenant],
    number: int,
    interval: str,
    source: Callable[[str], Mapping[str, Any]] = lambda name: {"inline": text(*manifests(name))},
) -> Bundles:
    """Create Bundles, spread over the namespaces of the teams."""
    made = [(teams[one % len(teams)], f"app-{one}") for one in range(number)]
    _each(made, lambda team, name: team.bundle(name, source=source(name), interval=interval))
    return made


def _each(bundles: Bundles, call: Callable[[Tenant, str], object]) -> None:
    """Call it for each Bundle, some at a time."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: call(*one), bundles))


def measure(rows: Sequence[Row], rounds: int, programs: Programs) -> Results:
    """Measure rows; one round is all, because each has many Bundles."""
    wanted, number = {row.name for row in rows}, programs.bundles
    results: Results = {}

    def keep(name: str, *samples: Figures) -> None:
        click.echo(f"{name}: {len(samples)} samples", err=True)
        if name in wanted:
            results[name] = {OURS: Measured(list(samples))}

    if wanted - {"commit"}:
        with _site(programs, "bundles") as (plane, api), ExitStack() as running:
            lease = f"lease={LEASE:.0f}"
            log = programs.folder / "bundles"
            leader = running.enter_context(
                controller(plane.kubeconfig, log / "leader", lease, verbose=False)
            )
            audit = AuditTrail(plane, api)
            teams = _teams(api, running)
            made, figures = _first(leader, audit, teams, number)
            keep("bundles", figures)
            if "bundles-again" in wanted:
                keep("bundles-again", _again(leader, audit, made))
            if "bundles-drift" in wanted:
                keep("bundles-drift", *_drift(made))
            if "bundles-takeover" in wanted:
                # It logs each look, also where nothing has changed.
                other = running.enter_context(controller(plane.kubeconfig, log / "other", lease))
                keep("bundles-takeover", _takeover(leader, other, number))
    if "commit" in wanted:
        with _site(programs, "git") as (plane, api):
            keep("commit", *_follow(plane, api, programs.folder / "git", number))
    return results


@contextmanager
def _site(programs: Programs, name: str) -> Iterator[tuple[Plane, Api]]:
    """Start a plane of the API server and etcd only, with the CRD."""
    folder = programs.folder / name
    folder.mkdir()
    spec = replace(API_SERVER_ONLY, audit=True)
    with (
        start(programs.binaries, spec, folder / "plane") as plane,
        closing(Api(plane)) as api,
    ):
        (crd,) = read([str(BUNDLE_CRD)])
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.body)
        eventually(lambda: api("GET", "/apis/applyprune.dev/v1alpha1/bundles")[0] == 200)
        yield plane, api


def _teams(api: Api, stack: ExitStack) -> list[Tenant]:
    make = stack.enter_context(tenants(api))
    return [make() for _ in range(NAMESPACES)]


def _first(
    running: Controller, audit: AuditTrail, teams: Sequence[Tenant], number: int
) -> tuple[Bundles, Figures]:
    """Create Bundles, and measure until all are applied."""
    assert running.address
    audit.restart()
    began, before = time.monotonic(), _cpu(running)
    made = make_bundles(teams, number, "1h")
    figures = {"memory": _served(running, number), "seconds": time.monotonic() - began}
    _rest(audit)
    figures["cpu"] = _cpu(running) - before
    found = count(audit.ours())
    click.echo(f"requests for each of {number} Bundles\n{table(found, number)}", err=True)
    figures["requests"] = (_sent(found) - found["objects"]) / number
    return made, figures


def _again(running: Controller, audit: AuditTrail, made: Bundles) -> Figures:
    """Measure a time in which nothing changes: each Bundle is looked at once."""
    _each(made, lambda team, name: team.patch(name, interval=f"{INTERVAL:.0f}s"))
    time.sleep(1.1 * INTERVAL)
    audit.restart()
    before = _cpu(running)
    time.sleep(1.1 * INTERVAL)
    cpu, found = _cpu(running) - before, count(audit.ours())
    each = max(1, found["reconciles"])
    click.echo(f"requests for each of {each} reconciles\n{table(found, each)}", err=True)
    return {
        "seconds": cpu / each,
        "writes": float(found["writes"]),
        "lists": found["lists"] / each,
        "reads": found["reads"] / each,
    }


def _drift(made: Bundles) -> Iterator[Figures]:
    """Change objects from outside, and measure how long each takes to be reverted."""
    for tenant, name in random.sample(made, min(_CHANGES, len(made))):
        set_value(tenant, name, "theirs")
        began = time.monotonic()
        eventually(lambda: tenant.value(name) == "info", lambda: f"{name} reverted")  # noqa: B023
        yield {"seconds": time.monotonic() - began}


def _takeover(leader: Controller, other: Controller, number: int) -> Figures:
    """Kill the replica that leads; measure until the other one has looked at all Bundles."""
    assert other.address
    leader.kill()
    began = time.monotonic()
    _served(other, number)
    return {"seconds": time.monotonic() - began}


def _follow(plane: Plane, api: Api, folder: Path, number: int) -> Iterator[Figures]:
    """Let each Bundle follow a folder of one repository; measure commits to one, and then none."""
    with (
        git_site(folder, login="me:password") as git,
        controller(plane.kubeconfig, folder / "log", *LOOPBACK, verbose=False) as running,
        ExitStack() as stack,
    ):
        repository = git.repository("apps")

        def commit(names: Sequence[str], value: str) -> str:
            files = {f"{name}/all.yaml": text(*manifests(name, value)) for name in names}
            return f"main@sha1:{repository.commit(files)}"

        def source(name: str) -> Mapping[str, Any]:
            return git_source(git, "apps", path=name, interval=f"{_LOOK}s")

        commit([f"app-{one}" for one in range(number)], "info")
        teams = _teams(api, stack)
        for tenant in teams:
            git_credentials(tenant, git)
        made = make_bundles(teams, number, "1h", source)
        _served(running, number)
        audit = AuditTrail(plane, api)
        _rest(audit)
        for turn in range(_COMMITS):
            tenant, name = made[turn * number // _COMMITS]
            audit.restart()
            since = len(git.requests)
            tenant.applied(name, commit([name], f"of {turn}"))
            # The first request after the commit is the look that sees it.
            seconds = time.monotonic() - git.times[since]
            _rest(audit)
            events = audit.ours()
            reconciles = count(events)["reconciles"]
            yield {
                "seconds": seconds,
                "reconciles": float(reconciles),
                "others": _others(events, name),
            }
        audit.restart()
        time.sleep(_IDLE)
        yield {"idle": float(_sent(count(audit.ours())))}


def _rest(audit: AuditTrail) -> None:
    """Wait until a controller has sent nothing for a while."""
    before = -1
    while (now := _sent(count(audit.ours()))) != before:
        before = now
        time.sleep(_QUIET)


def _sent(found: Counter[str]) -> int:
    """Return how many requests there were, without those that many Bundles share."""
    return found["requests"] - found["shared"]


def _others(events: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return how many requests were about another Bundle, its inventory or its objects."""
    names = [
        (one.get("objectRef") or {}).get("name", "") for one in events if one["verb"] != "watch"
    ]
    about = [one.removeprefix("applyprune-").partition(".")[0] for one in names]
    return float(sum(one.startswith("app-") and one != name for one in about))


def _served(running: Controller, number: int) -> float:
    """Wait until a controller has logged a reconcile of so many Bundles; return its most MB."""
    most, done = 0.0, 0
    while done < number:
        assert running.process.poll() is None
        time.sleep(0.5)
        most = max(most, _memory(running))
        told = [line for line in running.lines if line["message"] == "bundle reconciled"]
        done = len({(line["namespace"], line["bundle"]) for line in told})
    return most


def _cpu(running: Controller) -> float:
    """Return the CPU seconds of a controller's processes, with those that have ended."""
    ticks = 0
    for process in family(running.process.pid):
        with suppress(OSError):
            stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory(running: Controller) -> float:
    """Return the MB of a controller's processes; what they share counts once."""
    found = 0
    for process in family(running.process.pid):
        with suppress(OSError):
            found += proportional_size(process)
    return found / 1e6
