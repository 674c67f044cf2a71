"""Bundles that follow Git repositories: what a commit costs, what none costs, and the memory."""

from __future__ import annotations

import os
import socket
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from tests.benchmarks.controller.jobs import MIB, Figure, Readiness
from tests.benchmarks.controller.processes import PeakMemory
from tests.benchmarks.controller.requests import AuditLog
from tests.benchmarks.controller.site import (
    BUNDLES,
    Running,
    Site,
    manifests,
    seconds_until,
    watching,
)
from tests.support.controller import Tenant
from tests.support.git_servers import HttpsSite, git_site
from tests.support.listening import listening
from tests.support.remote_bundles import file_of, git_credentials, git_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.git_servers import Repository

LOOPBACK = "--allow-source-cidr=127.0.0.0/8", "--allow-source-cidr=::1/128"
_PATIENCE = 3600.0
_QUIET = 10.0
"""Seconds after which everything that a job has started is over."""
_OF_GIT = ("git", "setpriv", "prlimit")
"""What git's own processes are called, also before they become git."""
_FILE = 10**6
_FOLDERS = 10


def files(number: int, value: str = "info") -> dict[str, str]:
    """Return the files of one folder, with an object each."""
    parts = manifests(f"app-{number}", value).split("\n---\n")
    return {f"apps/app-{number}/{at}.json.yaml": part for at, part in enumerate(parts)}


@dataclass(slots=True)
class Followed:
    """A repository, and the Bundles that follow a folder of it each."""

    site: Site
    git: HttpsSite
    repository: Repository
    count: int
    interval: int
    applied: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The revision that each Bundle has applied last, and when this was seen."""

    def see(self, bundle: dict[str, Any]) -> None:
        """Take note of a Bundle."""
        revision = (bundle.get("status") or {}).get("lastAppliedRevision", "")
        name = bundle["metadata"]["name"]
        if revision and self.applied.get(name, ("",))[0] != revision:
            self.applied[name] = (revision, time.monotonic())

    def has(self, name: str, commit: str) -> bool:
        """Return whether a Bundle has applied a commit."""
        return self.applied.get(name, ("",))[0].endswith(commit)

    def looks(self, since: int) -> int:
        """Return how often the controller has asked for references since a position in the log."""
        return sum(path.startswith("GET ") for path in self.git.paths()[since:])


@contextmanager
def monorepo(
    site: Site,
    folder: Path,
    count: int,
    namespaces: int,
    interval: int,
    arguments: tuple[str, ...],
) -> Iterator[tuple[Followed, list[Figure]]]:
    """Yield a repository with a folder for each of the Bundles, once all of them are applied."""
    job = f"{count:,} Bundles of one repository"
    with git_site(folder / "git", login="me:password") as git:
        repository = git.repository("apps")
        repository.commit(
            {path: text for number in range(count) for path, text in files(number).items()}
        )
        followed = Followed(site, git, repository, count, interval)
        teams = site.make_namespaces(namespaces)
        for team in teams:
            git_credentials(Tenant(site.api, team), git)
        running = Running(site.plane, folder / "log", *LOOPBACK, *arguments)

        def source(number: int) -> dict[str, Any]:
            return git_source(git, "apps", path=f"apps/app-{number}", interval=f"{interval}s")

        seen = Readiness(set(), {})
        with (
            PeakMemory([running.pid], _OF_GIT) as peak,
            watching(site.plane, BUNDLES, seen.see),
            watching(site.plane, BUNDLES, followed.see),
        ):
            audit, began = AuditLog(site.plane), time.monotonic()
            site.make_bundles(count, teams, "1h", source)
            everything = set(site.keys)
            seconds = seconds_until(lambda: seen.ready >= everything, within=_PATIENCE, began=began)
            time.sleep(_QUIET)
            found = audit.requests()
            first = [
                Figure(job, "all applied first", f"{seconds:.0f} s"),
                Figure(job, "requests to the API server", f"{found.total / count:.1f} each"),
                Figure(job, "requests to the Git server", str(len(git.requests))),
                Figure(job, "memory without git's", f"{peak.most / MIB:.0f} MiB"),
            ]
            click.echo(f"{job}: requests for each\n{found.table(count)}", err=True)
            yield followed, first
        running.stop()


def commit(followed: Followed, rounds: int) -> Iterator[Figure]:
    """Commit to one folder, and see which Bundles are reconciled, and how soon."""
    job = f"a commit to 1 of {followed.count:,} folders"
    audit = AuditLog(followed.site.plane)
    times, reconciles, others, at_git = [], [], [], []
    for turn in range(rounds):
        number = followed.count // 2 + turn
        name, log = f"app-{number}", followed.git
        audit.skip()
        since = len(log.requests)
        oid = followed.repository.commit(files(number, f"value-{turn}"))
        began = time.monotonic()
        while not followed.has(name, oid):
            assert time.monotonic() - began < _PATIENCE, f"{name} is not at {oid}"
            time.sleep(0.01)
        times.append(followed.applied[name][1] - log.times[since])
        at_git.append(len(log.requests) - since)
        time.sleep(_QUIET)
        found = audit.requests()
        reconciles.append(found.reconciles)
        others.append(
            sum(n for one, n in found.names.items() if one.startswith("app-") and one != name)
        )
        click.echo(f"{job}: requests\n{found.table(1)}", err=True)
    seconds = statistics.median(times)
    shown = ", ".join(f"{one:.2f}" for one in sorted(times))
    yield Figure(job, "reconciles", _each(reconciles), "1", set(reconciles) == {1})
    yield Figure(job, "requests about the others", str(max(others)), "0", not any(others))
    yield Figure(job, "seen to applied", f"{seconds:.2f} s", "≤ 2 s", seconds <= 2)
    yield Figure(job, "of each round", f"{shown} s")
    yield Figure(job, "requests to the Git server", _each(at_git))


def unchanged(followed: Followed, looks: int) -> Iterator[Figure]:
    """Count the looks in a time in which nothing is new."""
    job = f"{followed.count:,} Bundles, nothing new"
    audit, since = AuditLog(followed.site.plane), len(followed.git.requests)
    seconds = float(looks * followed.interval)
    time.sleep(seconds)
    found, seen = audit.requests(), followed.looks(since)
    # The interval varies by a tenth, and a look may just be under way at both ends.
    most = looks / 0.9 + 1
    what = f"looks in {seconds:.0f} s at {followed.interval} s"
    yield Figure(job, what, str(seen), f"≤ {most:.0f}", 0 < seen <= most)
    sent = found.total - found.watches
    yield Figure(job, "requests to the API server", str(sent), "0", sent == 0)


def memory(
    site: Site, folder: Path, repositories: int, size: int, arguments: tuple[str, ...]
) -> Iterator[Figure]:
    """Let Bundles follow large repositories, which are fetched as a whole."""
    count = repositories * _FOLDERS
    job = f"{repositories} repositories of {size} MB, {count} Bundles"
    with git_site(folder / "git", login="me:password") as git:
        large = [_large(git, f"r{number}", number, size) for number in range(repositories)]
        teams = site.make_namespaces(repositories)
        for team in teams:
            git_credentials(Tenant(site.api, team), git)
        running = Running(site.plane, folder / "log", *LOOPBACK, *arguments)

        def source(number: int) -> dict[str, Any]:
            path = f"apps/app-{number}"
            return git_source(git, f"r{number // _FOLDERS}", path=path, interval="5s")

        seen = Readiness(set(), {})
        with PeakMemory([running.pid], _OF_GIT) as peak, watching(site.plane, BUNDLES, seen.see):
            began = time.monotonic()
            site.make_bundles(count, teams, "1h", source)
            everything = set(site.keys)
            seconds = seconds_until(lambda: seen.ready >= everything, within=_PATIENCE, began=began)
            # A commit to each, so that the memory of later fetches is in it too.
            for number, repository in enumerate(large):
                repository.commit(files(number * _FOLDERS, "debug"))
            time.sleep(2 * _QUIET)
        running.stop()
    most = peak.most / MIB
    yield Figure(job, "memory without git's", f"{most:.0f} MiB", "≤ 200 MiB", most <= 200)
    yield Figure(job, "of each process", " ".join(f"{part / MIB:.0f}" for part in peak.parts))
    yield Figure(job, "all applied", f"{seconds:.0f} s")


def order(site: Site, folder: Path, rounds: int, arguments: tuple[str, ...]) -> Iterator[Figure]:
    """Commit, and see what a request for a reconcile ends with, and in which order is applied."""
    job = f"{rounds} commits to a Bundle and to one that depends on it"
    with git_site(folder / "git", login="me:password") as git:
        running = Running(site.plane, folder / "log", *LOOPBACK, *arguments)
        (team,) = site.make_namespaces(1)
        tenant = Tenant(site.api, team)
        git_credentials(tenant, git)
        repository = git.repository("both")

        def change(value: str) -> str:
            parts = {f"{name}/a.yaml": file_of(name, value=value) for name in ("db", "web")}
            return f"main@sha1:{repository.commit(parts)}"

        first = change("first")
        spec = {"interval": "1h", "serviceAccountName": "deployer"}
        tenant.bundle("db", source=git_source(git, "both", path="db", interval="1h"), **spec)
        web = git_source(git, "both", path="web", interval="1h")
        tenant.bundle("web", source=web, dependsOn=[{"name": "db"}], **spec)
        tenant.applied("web", first)
        told = ordered = 0
        for turn in range(rounds):
            commit = change(f"of {turn}")
            tenant.reconciled("db", f"turn {turn}")
            told += tenant.get("db")["status"]["lastAppliedRevision"] == commit
            tenant.applied("web", commit)
            versions = [
                int(site.api.get(tenant.path("configmaps", name))["metadata"]["resourceVersion"])
                for name in ("db", "web")
            ]
            ordered += versions == sorted(versions)
        running.stop()
    what = "reconcile-now is handled with the new commit"
    yield Figure(job, what, f"{told} of {rounds}", f"{rounds}", told == rounds)
    what = "the dependency is applied first"
    yield Figure(job, what, f"{ordered} of {rounds}", f"{rounds}", ordered == rounds)


def silent(
    site: Site,
    folder: Path,
    shape: tuple[int, int],
    timeout: str,
    rounds: int,
    arguments: tuple[str, ...],
) -> Iterator[Figure]:
    """Commit to repositories of one host, while others are on a host that never answers.

    ``shape`` is how many namespaces have silent sources, and how many each.
    """
    namespaces, each = shape
    job = f"{namespaces} namespaces with {each} silent sources each, timeout {timeout}"
    with git_site(folder / "git", login="me:password") as git, listening(_say_nothing) as port:
        running = Running(site.plane, folder / "log", *LOOPBACK, *arguments)
        *teams, victim = site.make_namespaces(namespaces + 1)
        for team in teams:
            tenant = Tenant(site.api, team)
            for number in range(each):
                url = f"https://127.0.0.1:{port}/r{number}.git"
                given = {"url": url, "interval": "5s", "timeout": timeout}
                tenant.bundle(f"r{number}", source={"git": given}, serviceAccountName="deployer")
        tenant = Tenant(site.api, victim)
        git_credentials(tenant, git)
        repository = git.repository("web")
        repository.commit(files(0))
        source = git_source(git, path="apps/app-0")
        tenant.bundle("web", source=source, interval="1h", serviceAccountName="deployer")
        tenant.ready("web")
        times = []
        for turn in range(rounds):
            oid = repository.commit(files(0, f"value-{turn}"))
            began = time.monotonic()
            tenant.applied("web", f"main@sha1:{oid}")
            times.append(time.monotonic() - began)
        running.stop()
    worst = max(times)
    what = f"commit to applied, interval 1 s, the slowest of {rounds}"
    yield Figure(job, what, f"{worst:.1f} s", "≤ 3 s", worst <= 3)
    yield Figure(job, "the median", f"{statistics.median(times):.1f} s")


def _say_nothing(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def _large(git: HttpsSite, name: str, number: int, size: int) -> Repository:
    repository = git.repository(name)
    repository.set("core.compression", "0")
    first = number * _FOLDERS
    texts: dict[str, str | bytes] = {}
    for one in range(first, first + _FOLDERS):
        texts.update(files(one))
    texts.update({f"assets/{part}.bin": os.urandom(_FILE) for part in range(size)})
    repository.commit(texts)
    return repository


def _each(values: list[int]) -> str:
    """Return a number that every round has, or all of them."""
    return str(values[0]) if len(set(values)) == 1 else ", ".join(map(str, values))
