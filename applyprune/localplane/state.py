"""The state file: the phase of a plane, for processes that did not start it."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path


class Phase(StrEnum):
    """The phase of a plane; STARTING and READY are valid only while the supervisor lives."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class State:
    """The state of a plane, as its supervisor has written it."""

    name: str
    phase: Phase
    pid: int
    """The process id of the supervisor."""
    started: float
    """The start time, in seconds since the epoch."""
    program: str
    """The control plane that the plane was started with."""
    kubectl: str
    """The kubectl that the plane was started with."""
    nodes: int
    """The number of nodes."""
    server: str = ""
    """The URL of the API server; empty until it is known."""
    reason: str = ""
    """Why the plane failed; empty otherwise."""
    audit: bool = False
    """Whether the API server writes an audit log."""


def write_state(path: Path, state: State) -> None:
    """Replace the file atomically, so that no reader sees an incomplete file."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=1))
    new.replace(path)


def read_state(path: Path) -> State | None:
    """Return the state, or None if the file is missing or has another version."""
    try:
        facts = json.loads(path.read_text())
        return State(**facts | {"phase": Phase(facts["phase"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
