"""The state file: how far a plane is, for whoever did not start it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Phase(StrEnum):
    """How far a plane is; STARTING and READY are true only while the supervisor lives."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class State:
    """What the supervisor has written down about its plane.

    ``pid`` is the supervisor's own, ``started`` is seconds since the epoch, ``reason`` says why a
    plane failed, ``program`` and ``kubectl`` are those that it was started with.
    """

    name: str
    phase: Phase
    pid: int
    started: float
    program: str
    kubectl: str
    nodes: int
    server: str = ""
    reason: str = ""
    audit: bool = False


def write_state(path: Path, state: State) -> None:
    """Replace the file as a whole, so that no reader sees half of it."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=1))
    new.replace(path)


def read_state(path: Path) -> State | None:
    """Return what the file says, or None when there is none or it is of another version."""
    try:
        facts = json.loads(path.read_text())
        return State(**facts | {"phase": Phase(facts["phase"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
