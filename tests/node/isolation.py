"""Processes, mounts and networks that are gone when their starter is, whatever has ended it.

``isolated`` starts a keeper in a session of its own. The keeper holds a folder and its lock, and
runs the command in new PID, mount and network namespaces. At the end of the command, or of the
starter, it kills what is left, and removes the folder, the cgroups, and what a kubelet has set in
the kernel. If the keeper is killed as well, the kernel ends the processes with it; `remove_left`
removes the rest before the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane import kill_group
from applyprune.localplane.cache import is_locked, try_lock, user_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "applyprune-node-"
"""The beginning of the name of each run, and of its cgroups."""
KERNEL = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""What a kubelet sets, and no namespace holds (k8s.io/kubernetes/pkg/kubelet/cm)."""
CNI_CACHE = Path("/var/lib/cni")
HIDDEN = (Path("/run"), Path("/var/log"), Path("/var/lib/containers"), CNI_CACHE)
"""Where the programs of a node write, whatever is configured."""
_SET_CHILD_SUBREAPER = 36


def runs_folder() -> Path:
    return user_cache_folder() / "node" / "runs"


def isolated(command: Sequence[str]) -> int:
    """Run the command, with its run's folder as its last argument, and return its exit code.

    That is 130 after Ctrl-C.
    """
    folder = runs_folder() / f"{PREFIX}{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    read_end, write_end = os.pipe()
    keeper = subprocess.Popen(
        [sys.executable, "-m", __spec__.name, "keep", str(read_end), str(folder), *command],
        pass_fds=(read_end,),
        stdin=subprocess.DEVNULL,
        # Ctrl-C reaches the starter only, whose end the keeper sees.
        start_new_session=True,
    )
    os.close(read_end)
    try:
        return keeper.wait()
    except KeyboardInterrupt:
        return 130
    finally:
        os.close(write_end)
        keeper.wait()


# The keeper.


def keep(lifeline: int, folder: Path, command: Sequence[str]) -> int:
    lock = try_lock(folder / "lock")
    assert lock is not None, "a new folder is nobody's"
    made = [one for one in HIDDEN if not one.exists()]
    before = {name: (Path("/proc/sys") / name).read_text() for name in KERNEL if _is_set(name)}
    (folder / "before.json").write_text(json.dumps({"kernel": before, "made": [*map(str, made)]}))
    for one in made:
        one.mkdir(parents=True)
    try:
        return _run_until_end(lifeline, folder, command)
    finally:
        remove(folder)


def _is_set(name: str) -> bool:
    return (Path("/proc/sys") / name).exists()


def _run_until_end(lifeline: int, folder: Path, command: Sequence[str]) -> int:
    """Return the exit code of the command; 137 if the starter ended before it."""
    # What a killed `unshare` leaves becomes a child of the keeper, who can wait for it.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    own = ("--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    enter = ("setpriv", "--pdeathsig", "KILL", "unshare", *own)
    within = (sys.executable, "-m", __spec__.name, "inside", str(folder), *command)
    code = kill_group.main([str(lifeline), *enter, *within])
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    return code


def remove(folder: Path) -> None:
    """Remove a run's cgroups and folder, and set the kernel back; nothing of it runs any more."""
    with contextlib.suppress(OSError, ValueError):
        before = json.loads((folder / "before.json").read_text())
        for name, value in before["kernel"].items():
            with contextlib.suppress(OSError):
                (Path("/proc/sys") / name).write_text(value)
        for made in before["made"]:
            with contextlib.suppress(OSError):
                Path(made).rmdir()
    for cgroup in _cgroups(folder.name):
        for path, _, _ in os.walk(cgroup, topdown=False):
            Path(path).rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _cgroups(name: str) -> Iterator[Path]:
    """Yield the topmost cgroups of a run: one in cgroup v2, one for each hierarchy of v1."""
    for pattern in (f"{name}*", f"*/{name}*"):
        for path in CGROUPS.glob(pattern):
            if not path.parent.is_symlink():
                yield path


def remove_left() -> None:
    """Remove what is left of runs whose keeper was killed."""
    for folder in runs_folder().glob(f"{PREFIX}*"):
        # The keeper takes the lock first: a folder without one is about to be used.
        if (folder / "lock").exists() and not is_locked(folder / "lock"):
            remove(folder)


# Inside.


def inside(folder: Path, command: Sequence[str]) -> int:
    """Run the command as process 1 of its namespace must: wait for each orphan."""
    names = Path("/etc/resolv.conf")
    resolvers = names.read_bytes() if names.exists() else b""
    _mount("-t", "proc", "proc", "/proc")
    for path in HIDDEN:
        _mount("-t", "tmpfs", "tmpfs", str(path))
    if resolvers and not names.exists():
        # It was a link to one of the hidden folders.
        names.resolve().parent.mkdir(parents=True, exist_ok=True)
        names.resolve().write_bytes(resolvers)
    child = subprocess.Popen([command[0], *command[1:], str(folder)])
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        sys.exit(keep(int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
    sys.exit(inside(Path(sys.argv[2]), sys.argv[3:]))
