"""The planes of a machine: start one, find those that run, stop them.

A plane is a supervisor process in a session of its own, and a channel to it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from applyprune.errors import AccessError, UsageError
from applyprune.localplane.build import ensure_built
from applyprune.localplane.cache import Silence, is_locked, planes_folder, try_lock
from applyprune.localplane.plane import (
    Layout,
    Plane,
    PlanePhase,
    PlaneState,
    plane_in,
    read_state,
)
from applyprune.model.text import is_dns_label

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from applyprune.localplane.build import Binaries
    from applyprune.localplane.cache import Progress
    from applyprune.localplane.plane import PlaneSpec


def bring_up(name: str, spec: PlaneSpec, progress: Progress) -> tuple[Plane, bool]:
    """Return the plane with this name, and whether this call started it; it keeps running.

    Its programs are those of ``ensure_built``. Raises AccessError if the plane cannot be started.
    """
    folder = _folder(name)
    try:
        while True:
            status = plane_status(name)
            if status.plane is not None:
                return status.plane, False
            if status.phase not in {PlanePhase.STARTING, PlanePhase.STOPPING}:
                binaries = ensure_built(progress)
                # Another process may have started it first: then wait for that plane.
                with suppress(PlaneRuns):
                    started = start(binaries, spec, folder, name=name, progress=progress)
                    started.detach()
                    return started.plane, True
            progress.tick(f"the plane {name} is {status.phase}: waiting")
            time.sleep(0.2)
    finally:
        progress.clear()


def bring_down(name: str) -> bool:
    """Stop the plane with this name and remove its data; return whether it existed."""
    folder = _folder(name)
    if not folder.is_dir():
        return False
    stop_plane(folder)
    return True


def plane_names() -> tuple[str, ...]:
    folder = planes_folder()
    return tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ()


def plane_status(name: str) -> PlaneStatus:
    folder = _folder(name)
    layout = Layout(folder)
    # Check the locks last: then a plane that stops in between is reported as stopped.
    state = read_state(layout.state)
    if not is_locked(layout.lock):
        return _ended(name, folder, state)
    if state is None:
        return PlaneStatus(name, PlanePhase.STARTING, folder)
    if not is_locked(layout.supervisor_lock):
        return PlaneStatus(name, PlanePhase.STOPPING, folder)
    plane = plane_in(folder, state) if state.phase is PlanePhase.READY else None
    return PlaneStatus(name, state.phase, folder, plane, state.reason)


class PlaneStatus(Struct, frozen=True):
    name: str
    phase: PlanePhase
    folder: Path
    """The folder of the plane; it need not exist."""
    plane: Plane | None = None
    """How to reach the plane; None unless it is ready."""
    reason: str = ""
    """Why the plane failed; empty in any phase but FAILED."""


def _ended(name: str, folder: Path, state: PlaneState | None) -> PlaneStatus:
    if state is None:
        return PlaneStatus(name, PlanePhase.STOPPED, folder)
    if state.phase not in {PlanePhase.STOPPED, PlanePhase.FAILED}:
        # A killed supervisor cannot record the reason.
        return PlaneStatus(name, PlanePhase.FAILED, folder, reason="its supervisor was killed")
    return PlaneStatus(name, state.phase, folder, reason=state.reason)


def name_of(kubeconfig: str) -> str:
    """Return which plane has this kubeconfig, ``default`` if none has it."""
    of = {str(Layout(_folder(name)).kubeconfig): name for name in plane_names()}
    return of.get(kubeconfig, "default")


def running_plane(name: str) -> Plane:
    """Return the ready plane with this name; raises AccessError if it is not ready."""
    status = plane_status(name)
    if status.plane is None:
        named = "" if name == "default" else f" {name}"
        raise AccessError(
            f"the plane {name} is not running",
            reason=f"it is {status.phase}{f': {status.reason}' if status.reason else ''}",
            hint=f"Start it with `applyprune local up{named}`.",
        )
    return status.plane


def _folder(name: str) -> Path:
    # The name becomes the name of a folder and of kubeconfig contexts.
    if not is_dns_label(name):
        raise UsageError(
            f"invalid plane name {name!r}",
            reason="a name has lower-case letters, digits and dashes, at most 63 characters",
            hint="For example: trial-2",
        )
    return planes_folder() / name


# One plane, in any folder.


# Seconds: three stages of stopping take 1 s each; the rest is for a busy machine.
STOP_TIMEOUT = 30.0


def start(
    binaries: Binaries,
    spec: PlaneSpec,
    folder: Path,
    *,
    name: str | None = None,
    progress: Progress | None = None,
) -> StartedPlane:
    """Start a plane in the folder and wait until it is ready (3 to 5 s).

    The folder is created or emptied. ``name`` is the name of the kubeconfig contexts, by default
    the folder's name. Raises PlaneRuns if a plane already runs there, AccessError if the plane does
    not become ready (then the folder keeps the logs), and UsageError for a folder with other
    content. After an interruption, nothing is left.
    """
    progress = progress or Silence()
    folder = folder.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    layout = Layout(folder)
    if not layout.lock.exists() and any(folder.iterdir()):
        raise UsageError(
            "this folder is not empty and does not belong to a plane",
            location=str(folder),
            reason="starting a plane would empty it",
            hint="Use a folder that does not exist yet.",
        )
    lock = try_lock(layout.lock)
    if lock is None:
        raise PlaneRuns(
            "a plane is already running here",
            location=str(folder),
            hint="Stop it first, or use another folder.",
        )
    name = name or folder.name
    try:
        _empty(folder, keep=layout.lock)
        process, channel = _spawn(layout, lock)
    finally:
        # The supervisor has inherited the lock, so it is held at every moment.
        os.close(lock)
    try:
        config = {
            "name": name,
            "program": str(binaries.program),
            "kubectl": str(binaries.kubectl),
            "spec": asdict(spec),
        }
        channel.sendall(f"{json.dumps(config)}\n".encode())
        plane = _follow(channel, layout, name, progress)
        return StartedPlane(plane, process, channel)
    except AccessError:
        channel.close()
        _wait_or_kill(process)
        raise
    except BaseException:
        channel.close()
        _wait_or_kill(process)
        remove_folder(folder)
        raise
    finally:
        progress.clear()


class PlaneRuns(AccessError):
    """A plane is running in the folder, or is being started."""


class StartedPlane:
    """A ready plane that stops with this process, unless it is detached; a context manager."""

    def __init__(
        self, plane: Plane, process: subprocess.Popen[bytes], channel: socket.socket
    ) -> None:
        """Own the process and the channel that ``start`` has opened."""
        self.plane = plane
        self._process = process
        self._channel = channel

    def __enter__(self) -> Plane:
        return self.plane

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the plane, wait for all of its processes, and remove its folder."""
        self._channel.close()
        _wait_or_kill(self._process)
        remove_folder(self.plane.folder)

    def detach(self) -> None:
        """Keep the plane running when this process ends."""
        self._channel.sendall(b"detach\n")
        self._channel.close()


def stop_plane(folder: Path) -> None:
    """Stop the plane in the folder, if it is running, and remove the folder."""
    layout = Layout(folder)
    deadline = time.monotonic() + STOP_TIMEOUT
    signalled: int | None = None
    while is_locked(layout.lock):
        state = read_state(layout.state)
        # The lock proves that the pid is still the supervisor's.
        if state is not None and signalled != state.pid and is_locked(layout.supervisor_lock):
            signalled = state.pid
            with suppress(ProcessLookupError):
                os.kill(signalled, signal.SIGTERM)
        if time.monotonic() > deadline:
            if signalled is None or not is_locked(layout.supervisor_lock):
                raise AccessError(
                    "the plane could not be stopped",
                    location=str(folder),
                    reason="its lock is held by an unknown process",
                    hint=f"Find it with `lsof {layout.lock}`.",
                )
            with suppress(ProcessLookupError):
                os.kill(signalled, signal.SIGKILL)
        time.sleep(0.05)
    remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a plane's folder, unless a plane has been started there in the meantime."""
    layout = Layout(folder)
    if not folder.is_dir():
        return
    # The kernel takes a moment to release the lock of a killed process.
    deadline = time.monotonic() + 5.0
    while (lock := try_lock(layout.lock)) is None:
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)
    try:
        _empty(folder, keep=layout.lock)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _spawn(layout: Layout, lock: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    try:
        with theirs, layout.log("supervisor").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "applyprune.localplane.supervisor",
                    str(layout.folder),
                    str(theirs.fileno()),
                    str(lock),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), lock),
                # Ctrl-C at the starter's terminal must not reach it: a detached plane keeps
                # running.
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return process, ours


def _follow(channel: socket.socket, layout: Layout, name: str, progress: Progress) -> Plane:
    """Read the supervisor's messages until the plane is ready; raise if it fails."""
    start = time.monotonic()
    with channel.makefile("r") as messages:
        for line in messages:
            message = json.loads(line)
            if "waiting_for" in message:
                progress.tick(f"starting the plane {name}: waiting for {message['waiting_for']}")
            elif "failed" in message:
                raise _failure(name, message["failed"], message["log"])
            else:
                progress.step(f"the plane {name} is ready after {time.monotonic() - start:.1f} s")
                state = read_state(layout.state)
                if state is None:
                    raise _failure(name, "its state file is gone", layout.log("supervisor"))
                return plane_in(layout.folder, state)
    raise _failure(name, "its supervisor died", layout.log("supervisor"))


def _failure(name: str, reason: str, log: Path | str) -> AccessError:
    hint = f"For the full log see {log}." if log else ""
    return AccessError(
        f"the plane {name} could not be started", reason=f"{reason}{last_words(log)}", hint=hint
    )


def last_words(log: Path | str) -> str:
    """Return the last line of a log, to append to a message; empty if there is none."""
    if not log:
        return ""
    try:
        with open(log, "rb") as file:  # noqa: PTH123 - a str or a Path
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {last[:500]}" if last else ""


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _empty(folder: Path, keep: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != keep:
            path.unlink()
