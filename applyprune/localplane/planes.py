"""Manage named planes, which outlive the command that started them: ``applyprune local``."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.errors import AccessError, UsageError
from applyprune.localplane.folders import planes_folder
from applyprune.localplane.layout import Layout
from applyprune.localplane.locks import is_locked
from applyprune.localplane.plane import Plane, plane_in
from applyprune.localplane.program.build import ensure_built
from applyprune.localplane.starter import PlaneRuns, start, stop_plane
from applyprune.localplane.state import Phase, State, read_state
from applyprune.model.text.names import is_dns_label
from applyprune.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane.plane import PlaneSpec
    from applyprune.localplane.program.mirror import PlaneOrigin
    from applyprune.localplane.program.step_progress import Progress


@dataclass(frozen=True, slots=True)
class PlaneStatus:
    """The status of a named plane."""

    name: str
    phase: Phase
    folder: Path
    """The folder of the plane; it need not exist."""
    plane: Plane | None = None
    """How to reach the plane; None unless it is ready."""
    reason: str = ""
    """Why the plane failed; empty in any phase but FAILED."""


def bring_up(
    name: str, spec: PlaneSpec, progress: Progress, origin: PlaneOrigin | None = None
) -> tuple[Plane, bool]:
    """Return the plane with this name, and whether this call started it; it keeps running.

    Its programs are those of ``ensure_built``. Raises AccessError if the plane cannot be started.
    """
    folder = _folder(name)
    try:
        while True:
            status = plane_status(name)
            if status.plane is not None:
                return status.plane, False
            if status.phase not in {Phase.STARTING, Phase.STOPPING}:
                binaries = ensure_built(progress, origin=origin)
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
    """Return the names of all planes, running or not, in order."""
    folder = planes_folder()
    return tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ()


def plane_status(name: str) -> PlaneStatus:
    """Return the status of the plane with this name."""
    folder = _folder(name)
    layout = Layout(folder)
    # Check the locks last: then a plane that stops in between is reported as stopped.
    state = read_state(layout.state)
    if not is_locked(layout.lock):
        return _ended(name, folder, state)
    if state is None:
        return PlaneStatus(name, Phase.STARTING, folder)
    if not is_locked(layout.supervisor_lock):
        return PlaneStatus(name, Phase.STOPPING, folder)
    plane = plane_in(folder, state) if state.phase is Phase.READY else None
    return PlaneStatus(name, state.phase, folder, plane, state.reason)


def running_plane(name: str) -> Plane:
    """Return the ready plane with this name; raises AccessError if it is not ready."""
    status = plane_status(name)
    if status.plane is None:
        option = "" if name == "default" else f" --name {name}"
        raise AccessError(
            f"the plane {name} is not running",
            reason=f"it is {status.phase}{f': {status.reason}' if status.reason else ''}",
            hint=f"Start it with `applyprune local up{option}`.",
        )
    return status.plane


def _ended(name: str, folder: Path, state: State | None) -> PlaneStatus:
    if state is None:
        return PlaneStatus(name, Phase.STOPPED, folder)
    if state.phase not in {Phase.STOPPED, Phase.FAILED}:
        # A killed supervisor cannot record the reason.
        return PlaneStatus(name, Phase.FAILED, folder, reason="its supervisor was killed")
    return PlaneStatus(name, state.phase, folder, reason=state.reason)


def _folder(name: str) -> Path:
    # The name becomes the name of a folder and of kubeconfig contexts.
    if not is_dns_label(name):
        raise UsageError(
            f"invalid plane name {name!r}",
            reason="a name has lower-case letters, digits and dashes, at most 63 characters",
            hint="For example: --name trial-2",
        )
    return planes_folder() / name
