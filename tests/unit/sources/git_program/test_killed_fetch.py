"""A killed git, or a killed caller, leaves no process, no credential and no partial content."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.address import FoundRef
from applyprune.sources.git_program import MEMORY, GitProgram
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import Deadline, FetchFailed, SourceTooLarge
from applyprune.system.processes import ProcessLimits
from tests.support.git_servers import HttpsSite
from tests.support.git_servers.reads import read_path
from tests.support.processes import family, is_running, name_of, working_in
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = {"a/x.yaml": "x", "b/y.yaml": "".join(f"{number}\n" for number in range(5000))}
# The program of a caller, which has nothing but a fetch to do.
CALLER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from applyprune.sources.address import FoundRef, GitRef
    from applyprune.sources.address import GitSource
    from applyprune.sources.git_store import GitStore
    from applyprune.sources.tree import SourceCredentials
    url, commit, store, ca = sys.argv[1:]
    credentials = SourceCredentials(ca=Path(ca).read_bytes(), username="me", password="hunter2")
    source = GitSource(url, GitRef(commit=commit), credentials)
    GitStore(Path(store)).fetch(source, FoundRef("", commit, commit))
    """
)


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the private folders are made: nobody else's are in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def start(site: HttpsSite, commit: str, store: Path) -> subprocess.Popen[bytes]:
    ca = store.with_name("ca.pem")
    ca.write_bytes(site.ca)
    return subprocess.Popen(
        [sys.executable, "-c", CALLER, site.url("web"), commit, str(store), str(ca)],
        stderr=subprocess.PIPE,
    )


def has_ended(process: int) -> bool:
    return not is_running(process)


def test_killed_caller_leaves_nothing(site: HttpsSite, tmp_path: Path, private: Path) -> None:
    """In each request of a fetch, while the server has sent half of its reply."""
    commit = site.repository().commit(FILES)
    store = GitStore(tmp_path / "store")
    for request in range(1, 9):
        site.hold, site.hold_at, site.held = threading.Event(), request, threading.Event()
        site.replies = 0
        with start(site, commit, tmp_path / "store") as caller:
            eventually(
                lambda: site.held.is_set() or caller.poll() is not None, lambda: "half a reply"
            )
            if caller.poll() is not None:
                assert caller.returncode == 0, caller.stderr and caller.stderr.read()
                break
            started = family(caller.pid)
            assert any("git-remote-https" in name_of(one) for one in started)
            # The caller has it in its program; nothing that it has started has it.
            assert not any("hunter2" in name_of(one) for one in started[1:])
            assert any(private.iterdir())
            caller.kill()
            caller.wait()
            eventually(lambda: not working_in(private), lambda: "the end of all processes")
            for one in started:
                eventually(partial(has_ended, one), lambda: "its end")
            # What was private is removed too.
            eventually(lambda: not any(private.iterdir()), lambda: "an empty folder")
            site.hold.set()
            assert not store.has(commit)
    else:
        pytest.fail("it never ended")
    assert request > 1
    assert read_path(store, commit, "a")["a/x.yaml"] == b"x"
    assert [one.name for one in (tmp_path / "store").rglob("*") if "tmp_" in one.name] == []


@pytest.mark.sweep
def test_git_killed_at_any_moment_leaves_nothing_partial(
    site: HttpsSite, tmp_path: Path, private: Path
) -> None:
    """SIGKILL of every git at each hundredth of a second of a fetch."""
    commit = site.repository().commit(FILES)
    for number in range(100):
        folder = tmp_path / f"store-{number}"
        with start(site, commit, folder) as caller:
            with suppress(subprocess.TimeoutExpired):
                caller.wait(number / 100)
            for one in working_in(private):
                try:
                    if "git" in name_of(one).split()[0]:
                        os.kill(one, signal.SIGKILL)
                except (OSError, IndexError):
                    continue
            caller.wait(HANG)
        assert working_in(private) == []
        assert list(private.iterdir()) == []
        store = GitStore(folder)
        found = FoundRef("refs/heads/main", commit, commit, "main")
        if not caller.returncode:
            assert read_path(store, commit, "a")["a/x.yaml"] == b"x"
        store.fetch(site.source(), found)
        assert read_path(store, commit, "a")["a/x.yaml"] == b"x"
        assert [one.name for one in folder.rglob("*") if one.name.startswith("tmp_")] == []


def test_leftovers_of_a_killed_git_are_removed(site: HttpsSite, store: GitStore) -> None:
    """Also locks, which would hold up every later fetch."""
    repository = site.repository()
    commit = repository.commit(FILES)
    store.fetch(site.source(), FoundRef("", commit, commit))
    inside = store._folder / "repository"
    leftovers = [
        *("shallow.lock", "config.lock", "HEAD.lock", f"refs/commits/{commit}.lock", "shallow_x1"),
        *("objects/pack/tmp_pack_x1", "objects/pack/pack-0123.pack", "objects/12/tmp_obj_x"),
        *("objects/pack/pack-0123.keep", "objects/tmp_objdir-incoming-x/pack/x.pack"),
    ]
    for name in leftovers:
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text("x")
    commit = repository.commit({"a/x.yaml": "new"})
    store.fetch(site.source(), FoundRef("", commit, commit))
    assert read_path(store, commit, "a") == {"a/x.yaml": b"new"}
    assert [name for name in leftovers if (inside / name).exists()] == []


def test_half_created_repository_is_created_again(site: HttpsSite, store: GitStore) -> None:
    commit = site.repository().commit(FILES)
    (store._folder / "repository/refs").mkdir(parents=True)
    (store._folder / "repository/HEAD").write_text("")
    with pytest.raises(FetchFailed, match="nothing was fetched yet"):
        read_path(store, commit, "a")
    store.fetch(site.source(), FoundRef("", commit, commit))
    assert read_path(store, commit, "a") == {"a/x.yaml": b"x"}


def test_store_is_used_by_one_writer(site: HttpsSite, store: GitStore) -> None:
    """The others wait, and find that nothing is left to do."""
    commit = site.repository().commit(FILES)
    found = FoundRef("", commit, commit)
    threads = [threading.Thread(target=store.fetch, args=(site.source(), found)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_path(store, commit, "a") == {"a/x.yaml": b"x"}
    assert len(site.requests) == 2


def test_writer_is_waited_for_in_time_only(site: HttpsSite, store: GitStore) -> None:
    commit = site.repository().commit(FILES)
    site.hold = threading.Event()
    found = FoundRef("", commit, commit)
    first = threading.Thread(target=store.fetch, args=(site.source(), found))
    first.start()
    assert site.held.wait(HANG)
    with pytest.raises(FetchFailed, match="not read in time"):
        store.fetch(site.source(timeout=0.3), found)
    site.hold.set()
    first.join()


@pytest.fixture
def program(private: Path) -> Iterator[GitProgram]:
    with GitProgram("place", Deadline(HANG), 1_000_000) as running:
        yield running


def test_processes_have_limits(program: GitProgram) -> None:
    """Of memory, time and file size, and without core files."""
    _, shown, _ = program.try_run("/proc/self/limits", program="cat")
    found = {line[:26].strip(): line[26:].split()[:2] for line in shown.decode().splitlines()}
    assert found["Max address space"] == [str(MEMORY)] * 2
    assert found["Max file size"] == ["1000000"] * 2
    assert found["Max core file size"] == ["0"] * 2
    assert int(found["Max cpu time"][1]) <= 2 * HANG + 2


def test_private_folder_is_private(program: GitProgram, private: Path) -> None:
    (folder,) = private.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert program.write("x", b"x").stat().st_mode & 0o777 == 0o600
    _, shown, _ = program.try_run("-0", program="env")
    environ = shown.decode().split("\0")
    assert f"HOME={folder.resolve()}/home" in environ
    assert not any(line.startswith(("PWD=", "USER=", "SSH_")) for line in environ)


@pytest.mark.parametrize("end", ["exception", "deadline", "limit"])
def test_ended_run_leaves_no_process(private: Path, end: str) -> None:
    """Nor what its process has started."""
    script = "sleep 3600 & sleep 3600 & yes" if end == "limit" else "sleep 3600 & sleep 3600"
    seconds = 0.5 if end == "deadline" else HANG
    expected = {"deadline": FetchFailed, "limit": SourceTooLarge}.get(end, KeyboardInterrupt)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        eventually(lambda: [*map(name_of, working_in(private))].count("sleep 3600 ") == 2)
        signal.pthread_kill(main, signal.SIGINT)

    if end == "exception":
        threading.Thread(target=interrupt).start()
    with (
        pytest.raises(expected),
        GitProgram("place", Deadline(seconds), 1_000_000) as program,
    ):
        program.try_run("-c", script, program="sh", limit=1000)
    # What its process has started is killed, but nobody here waits for its end.
    eventually(lambda: not working_in(private), lambda: "the end of all processes")
    assert list(private.iterdir()) == []


def test_machine_without_the_programs_runs_without_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ProcessLimits().command() == []
