"""Fixtures that stand on a real control plane: one for the whole run, or a fresh one for a test."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from contextlib import ExitStack
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from applyprune.localplane import FULL, Binaries, Plane, PlaneSpec, progress_on, start
from tests.components import Components, ensure_components
from tests.support.api import Api, AuditTrail, temporary_namespace
from tests.support.durations import CpuMeter, Recorder, longest_first
from tests.support.golden import GoldenFile
from tests.support.holders import ANY, holders
from tests.support.plane import server_version
from tests.support.targets import add_marks
from tests.versions.releases import ensure_release, is_older, release_named

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from tests.support.plane import FreshPlane, Kubectl


# A user's Python keeps its bytecode; without it each command that a test starts would compile the
# whole program first.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell starts background jobs with SIGINT ignored; the commands of the tests would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and current_thread() is main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


# `kubectl` starts the run's plane by itself when a test gives it none. A test that asks for a
# registry by its name names `components` too: pytest cannot know what it will ask for.
METER: pytest.StashKey[CpuMeter] = pytest.StashKey()
NEEDS_A_SERVER = {"binaries", "kubectl", "components"}
GIT_SERVERS = {"git_server", "site", "ssh"}
"""Servers of one test or file: `--fast` leaves them out, they cost as much as all that it runs."""


# A pause of the machine is no failure of a property, and a run is the same as the one before.
settings.register_profile(
    "gate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("sweep", deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this project."""
    parser.addoption(
        "--fast",
        action="store_true",
        help="run only the tests that need no server and install nothing",
    )
    parser.addoption(
        "--kubernetes",
        metavar="VERSION",
        default="",
        help="run only the tests that need a control plane, on this version of Kubernetes",
    )
    parser.addoption(
        "--holds",
        metavar="GUARD",
        default="",
        help=f"run only the tests that hold a guard; `{ANY}`: those that hold one",
    )
    parser.addoption(
        "--release",
        metavar="FOLDER",
        default="",
        help="test the files that `make release` has written there, and build none",
    )
    parser.addoption(
        "--write-formats",
        action="store_true",
        help="write what this version writes to fixtures/formats",
    )
    parser.addoption(
        "--write-pods",
        action="store_true",
        help="write what failing Pods of real nodes have written to fixtures/pods",
    )
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write how long each file takes to tests/durations.json",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the examples of properties; reject a version that is not known."""
    settings.load_profile("sweep" if config.getoption("markexpr") == "sweep" else "gate")
    if config.getoption("--record-durations"):
        config.stash[METER] = CpuMeter()
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Recorder())
    try:
        release_named(config.getoption("--kubernetes"))
    except ValueError as unknown:
        raise pytest.UsageError(str(unknown)) from None


def pytest_report_header(config: pytest.Config) -> str:
    """Name the version of the control plane; the fixtures of planes ask the server for it."""
    return f"Kubernetes: {release_named(config.getoption('--kubernetes'))}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its target, and bring long files to the front.

    Keep what ``--fast``, ``--kubernetes`` or ``--holds`` ask for.
    """
    add_marks(items, _needs_a_server)
    longest_first(items)
    if guard := config.getoption("--holds"):
        held = set(holders(items, guard))
        _keep(config, items, held.__contains__)
    if config.getoption("--fast"):
        _keep(config, items, _is_fast)
    if config.getoption("--kubernetes"):
        _keep(config, items, _needs_a_server)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Begin to count what tests use."""
    if (meter := session.config.stash.get(METER, None)) is not None:
        meter.begin()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test on a server that lacks what the test needs."""
    version = release_named(item.config.getoption("--kubernetes"))
    for mark in item.iter_markers("since_kubernetes"):
        first, reason = mark.args
        if is_older(version, first):
            pytest.skip(f"Kubernetes {version}: {reason} since {first}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skipped test of a sweep fail: its case would look proved, and is not."""
    report = yield
    if (meter := item.config.stash.get(METER, None)) is not None:
        meter.note(report)
    is_skipped = report.skipped and not hasattr(report, "wasxfail")
    if is_skipped and item.get_closest_marker("sweep") is not None:
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Make a skipped file fail in a sweep: nobody can know which of its tests are in it."""
    report = yield
    if report.skipped and collector.config.getoption("markexpr") == "sweep":
        _fail(report)
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Change a skip to a failure that names its reason."""
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"a sweep must not be skipped, because it would prove nothing: {why}"


def _keep(
    config: pytest.Config, items: list[pytest.Item], is_wanted: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[one for one in items if not is_wanted(one)])
    items[:] = [one for one in items if is_wanted(one)]


def _needs_a_server(item: pytest.Item) -> bool:
    return not NEEDS_A_SERVER.isdisjoint(_fixtures(item))


def _is_fast(item: pytest.Item) -> bool:
    installs = item.get_closest_marker("installs") is not None
    return not installs and (NEEDS_A_SERVER | GIT_SERVERS).isdisjoint(_fixtures(item))


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def _is_not_fast(config: pytest.Config) -> None:
    assert not config.getoption("--fast"), "this test needs a server, and pytest did not know it"


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """A file below ``fixtures``: ``assert text == golden(name="output/stream.json")``."""
    return snapshot.use_extension(GoldenFile)


@pytest.fixture(scope="session")
def kubernetes(request: pytest.FixtureRequest) -> str:
    """The version of the control plane, as its server says it: ``v1.36.3``."""
    return release_named(request.config.getoption("--kubernetes"))


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest, kubernetes: str) -> Binaries:
    """The control plane; if it has to be built, once, that takes minutes and shows its progress."""
    _is_not_fast(request.config)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        found = ensure_release(kubernetes, progress_on(sys.stderr))
    # Many fixtures start planes of their own: the program itself must be of the version.
    command = [str(found.program), "kube-apiserver", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"Kubernetes {kubernetes}\n"
    return found


@pytest.fixture(scope="session")
def components(request: pytest.FixtureRequest) -> Components:
    """The built registries, sops and age-keygen; building them, once, takes minutes as well."""
    _is_not_fast(request.config)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return ensure_components(progress_on(sys.stderr))


@pytest.fixture(scope="session")
def plane(
    binaries: Binaries, kubernetes: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    """The run's plane, with everything, one node and an audit log; keep it clean for others."""
    with start(binaries, FULL, tmp_path_factory.mktemp("planes") / "shared") as running:
        assert server_version(running) == kubernetes
        yield running


@pytest.fixture
def fresh_plane(binaries: Binaries, kubernetes: str, tmp_path: Path) -> Iterator[FreshPlane]:
    """A factory of planes that a test may poison: CRDs, webhooks, APIServices."""
    with ExitStack() as planes:

        def start_one(spec: PlaneSpec = FULL) -> Plane:
            name = f"fresh-{secrets.token_hex(3)}"
            running = planes.enter_context(start(binaries, spec, tmp_path / name))
            assert server_version(running) == kubernetes
            return running

        yield start_one


@pytest.fixture(scope="session")
def api(plane: Plane) -> Iterator[Api]:
    """Plain requests to the run's plane."""
    with_plane = Api(plane)
    yield with_plane
    with_plane.close()


@pytest.fixture
def audit(plane: Plane, api: Api) -> AuditTrail:
    """The audit events of the run's plane since the test began."""
    return AuditTrail(plane, api)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A new namespace on the run's plane; its deletion is not waited for."""
    with temporary_namespace(api) as name:
        yield name


@pytest.fixture
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    """The embedded kubectl, on the run's plane unless told ``plane=``."""

    def run(
        *arguments: str | Path,
        stdin: str | None = None,
        plane: Plane | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        # The run's plane is started only for a test that needs it.
        where: Plane = plane or request.getfixturevalue("plane")
        command: Sequence[str | Path] = (
            where.kubectl,
            "--kubeconfig",
            where.kubeconfig,
            *arguments,
        )
        reply = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(env or {})},
        )
        assert reply.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {reply.stderr}"
        return reply.stdout

    return run
