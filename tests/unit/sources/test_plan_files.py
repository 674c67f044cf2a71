"""Plan files on the disk: what is read as one, and a write that leaves no half file."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import UsageError
from applyprune.model.identity import SetKey
from applyprune.planning.approval import (
    LARGEST,
    SCHEMA_OF_MANY,
    PlanFile,
    PlanFiles,
    encode_plan_file,
    encode_plan_files,
    sealed,
)
from applyprune.sources.plan_files import read_plan, read_plans, write_plan
from applyprune.values import replace
from tests.support.plan_files import FILE, with_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLAIN = "a plan file must be a plain file"
NO_PLAN = "is not a plan file, or was changed after it was written"
CUT = "was changed or cut off after it was written"


def _bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(50_000_000)))


def _sparse(path: Path) -> None:
    path.write_bytes(encode_plan_file(FILE))
    os.truncate(path, 100_000_000)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _cut(size: int) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(encode_plan_file(FILE)[:size]), None)[1]


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda _: None, "No such file or directory"),
    "folder": (Path.mkdir, "Is a directory"),
    "pipe": (os.mkfifo, PLAIN),
    "socket": (_socket, "cannot be read"),
    "zeros without end": (lambda path: path.symlink_to("/dev/zero"), PLAIN),
    "loop": (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    "empty": (Path.touch, NO_PLAN),
    "gzip bomb": (_bomb, NO_PLAN),
    "100 MB, sparse": (_sparse, f"has more than {LARGEST // 1024**2} MiB"),
    "cut off at once": (_cut(1), NO_PLAN),
    "cut off in the first line": (_cut(60), CUT),
    "cut off in the middle": (_cut(500), CUT),
    "without its last byte": (_cut(-1), CUT),
}


@pytest.mark.parametrize("name", BAD)
def test_other_file_is_refused_by_its_path(tmp_path: Path, name: str) -> None:
    """At once: nothing waits for a writer, and no file is too large for it."""
    make, reason = BAD[name]
    path = tmp_path / "web.plan"
    make(path)
    with pytest.raises(UsageError) as caught:
        read_plan(path)
    assert (reason in str(caught.value), str(path) in str(caught.value)) == (True, True)


OTHER = sealed(replace(FILE, name="api", objects=(), options={"orphan": ("}],[",)}))
OF_MANY: dict[str, tuple[PlanFile, ...]] = {"none": (), "one": (FILE,), "two": (FILE, OTHER)}


@pytest.mark.parametrize("files", OF_MANY.values(), ids=[*OF_MANY])
def test_plans_of_many_sets_are_read_as_they_were_written(
    tmp_path: Path, files: tuple[PlanFile, ...]
) -> None:
    """The file is JSON, and each plan in it is as in a file of its own."""
    removed = tuple(SetKey(one.namespace, f"old-{one.name}") for one in files)
    path, plans = tmp_path / "all.plan", PlanFiles('deploy/"prod"', files, removed)
    write_plan(path, plans)
    assert read_plans(path) == plans
    document = json.loads(path.read_bytes())
    assert document["folder"] == 'deploy/"prod"'
    assert document["plans"] == [json.loads(encode_plan_file(one)) for one in files]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_plan(path, FILE)
    assert read_plans(path) == FILE
    write_plan(path, plans)
    with pytest.raises(UsageError, match="the plans of many sets"):
        read_plan(path)


@pytest.mark.holds("plans-form")
def test_plans_of_many_sets_are_refused_if_one_byte_differs(tmp_path: Path) -> None:
    """Also if a plan is missing, or if one of them was changed with a new checksum around it."""
    path = tmp_path / "all.plan"
    data = encode_plan_files(PlanFiles("deploy", (FILE, OTHER)))
    for at in range(len(data)):
        path.write_bytes(data[:at])
        with pytest.raises(UsageError):
            read_plans(path)
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(UsageError):
            read_plans(path)
    content = data.partition(b"\n")[2]
    forged = {
        b'"fate":"prune"': b'"fate":"leave"',
        b'"folder":"deploy"': b'"folder":7',
        b'"removed":[]': b'"removed":[["shop"]]',
        b'"plans":[': b'"plan":[',
        b"\n]}": b"\n}}",
        b"},\n{": b"}\n{",
        b"\n]}\n": b"\n]} \n",
    }
    for old, new in forged.items():
        assert old in content
        changed = content.replace(old, new, 1)
        path.write_bytes(with_checksum(changed, SCHEMA_OF_MANY))
        with pytest.raises(UsageError, match=r"is not a valid plan file|was changed"):
            read_plans(path)


@pytest.mark.parametrize("path", ["", "a\0b", b"bad\xff".decode("utf-8", "surrogateescape")])
def test_impossible_path_is_refused(tmp_path: Path, path: str) -> None:
    """In reading and in writing; the message can be printed."""
    with pytest.raises(UsageError, match="cannot be read") as caught:
        read_plan(path)
    assert str(caught.value).isprintable()
    with pytest.raises(UsageError, match="cannot be written") as caught:
        write_plan(path and tmp_path / "missing" / path, FILE)
    assert str(caught.value).isprintable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_missing_right_is_named(tmp_path: Path) -> None:
    """A file that may not be read, and a folder that may not be written."""
    path = tmp_path / "web.plan"
    write_plan(path, FILE)
    path.chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        read_plan(path)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="its folder is not writable"):
            write_plan(tmp_path / "other", FILE)
    finally:
        tmp_path.chmod(0o700)


def _manifest(path: Path) -> None:
    path.write_text("kind: ConfigMap\n")


UNWRITABLE: dict[str, tuple[Callable[[Path], None], str]] = {
    "folder": (Path.mkdir, "it is not a plain file"),
    "pipe": (os.mkfifo, "it is not a plain file"),
    "device": (lambda path: path.symlink_to("/dev/full"), "it is not a plain file"),
    "manifest": (_manifest, "another file has this name, and it is not a plan file"),
}


@pytest.mark.holds("keep-other-files", row="manifest")
@pytest.mark.parametrize("name", UNWRITABLE)
def test_other_file_is_not_replaced(tmp_path: Path, name: str) -> None:
    """Least of all the input, by a name that was completed too quickly."""
    make, reason = UNWRITABLE[name]
    path = tmp_path / "web.yaml"
    make(path)
    before = path.lstat()
    with pytest.raises(UsageError, match=reason):
        write_plan(path, FILE)
    assert (path.lstat().st_ino, path.lstat().st_size) == (before.st_ino, before.st_size)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("earlier", ["nothing", "empty", "plan", "link", "dead link"])
def test_plan_file_replaces_an_earlier_one(tmp_path: Path, earlier: str) -> None:
    """It is for its owner only, whatever the mode of the earlier one; a link is replaced."""
    path, other = tmp_path / "web.plan", tmp_path / "other.plan"
    if earlier in {"empty", "plan"}:
        path.write_bytes(
            b"" if earlier == "empty" else encode_plan_file(replace(FILE, name="other"))
        )
        path.chmod(0o644)
    if earlier == "link":
        write_plan(other, replace(FILE, name="other"))
    if earlier in {"link", "dead link"}:
        path.symlink_to(other)
    write_plan(path, FILE)
    assert read_plan(path) == FILE
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert not path.is_symlink()
    if earlier == "link":
        assert read_plan(other).name == "other"


def test_longest_name_of_a_file_is_written(tmp_path: Path) -> None:
    """Also if each of its characters has four bytes; a longer one is refused."""
    path = tmp_path / ("\N{GRINNING FACE}" * 63)
    write_plan(path, FILE)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UsageError, match=r": the plan file cannot be written: File name too long$"):
        write_plan(tmp_path / ("x" * 256), FILE)


@contextmanager
def _disk_with_room_for(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    # The limit would cut the bytecode of what is imported meanwhile, for every later run.
    keeps, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = keeps
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_full_disk_leaves_the_earlier_file(tmp_path: Path) -> None:
    """And nothing else."""
    path = tmp_path / "web.plan"
    write_plan(path, replace(FILE, name="earlier"))
    with _disk_with_room_for(300), pytest.raises(UsageError, match="File too large"):
        write_plan(path, FILE)
    assert read_plan(path).name == "earlier"
    assert list(tmp_path.iterdir()) == [path]


_KILLED = """
import resource, signal, sys
from applyprune.sources.plan_files import write_plan
from tests.support.plan_files import FILE, with_checksum
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
write_plan(sys.argv[1], FILE)
"""


@pytest.mark.parametrize("earlier", [True, False], ids=["earlier file", "no file"])
def test_process_killed_in_the_write_leaves_no_half_file(tmp_path: Path, earlier: bool) -> None:
    """The kernel kills it in the middle of the content: at its limit for the size of a file."""
    path = tmp_path / "web.plan"
    if earlier:
        write_plan(path, replace(FILE, name="earlier"))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run([sys.executable, "-c", _KILLED, path], env=environment, check=False)
    assert ended.returncode == -signal.SIGXFSZ
    assert path.exists() is earlier
    if earlier:
        assert read_plan(path).name == "earlier"
