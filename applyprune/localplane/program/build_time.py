"""How long the last build of a module took on this machine: measured, for the next message."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from applyprune.localplane.folders import cache_folder
from applyprune.localplane.program.step_progress import clock

if TYPE_CHECKING:
    from pathlib import Path


def cpu_seconds() -> float:
    """Return the CPU seconds of all ended processes that this one has started."""
    times = os.times()
    return times.children_user + times.children_system


def remember(module: str, seconds: float, cpu: float) -> str:
    """Store how long a build took, and return it: ``4:40 on 2 cores, 540 CPU seconds``."""
    measured = {"seconds": round(seconds, 1), "cpu": round(cpu, 1), "cores": _cores()}
    with suppress(OSError):
        path = _path(module)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measured))
    return _shown(measured)


def last_build(module: str) -> str:
    """Return how long the last build took here; empty if none is known."""
    try:
        return _shown(json.loads(_path(module).read_text()))
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _shown(measured: Any) -> str:
    cores = int(measured["cores"])
    return (
        f"{clock(float(measured['seconds']))} on {cores} core{'' if cores == 1 else 's'},"
        f" {float(measured['cpu']):.0f} CPU seconds"
    )


def _cores() -> int:
    """Return how many cores this process may use, where the system says it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _path(module: str) -> Path:
    return cache_folder() / "build-times" / f"{module}.json"
