"""The limits of one reconcile: memory, CPU time, and time. Worker processes exist for them."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path

from applyprune.controller.constants import Limit
from applyprune.system.processes import Resource, lower_limit
from applyprune.values import dataclass

MIB = 1 << 20
_VICTIM = 500
"""How much sooner the kernel kills a worker than its parent when the machine has no memory left."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one reconcile may use."""

    memory: int = 256 * MIB
    """Bytes, beyond those of an idle worker process; the stacks of its threads count too."""
    cpu: float = 120.0
    """Seconds of CPU time."""
    time: float = 180.0
    """Seconds after which it is asked to end; what is left is done by the next reconcile."""
    grace: float = 20.0
    """Seconds that it then has to finish its requests in flight, and to record them."""

    def describe(self, limit: Limit) -> str:
        """Return the limit in words."""
        match limit:
            case Limit.MEMORY:
                return f"{self.memory // MIB} MiB of memory"
            case Limit.CPU:
                return f"{self.cpu:g} s of CPU time"
            case Limit.TIME:
                return f"{self.time:g} s"
            case Limit.CRASH:
                return "an unknown limit"


def limit_memory(limits: Limits) -> None:
    """Limit the memory of this process, once: a try to get more raises MemoryError."""
    if (used := _of_status("VmData:")) is not None:
        lower_limit(Resource.DATA, used + limits.memory)


def limit_cpu(limits: Limits) -> None:
    """Let the kernel end this process when it uses more CPU time from now on."""
    lower_limit(Resource.CPU, math.ceil(time.process_time() + limits.cpu))


def write_no_core() -> None:
    """Let no limit write the memory of this process to a disk: it may hold Secrets."""
    lower_limit(Resource.CORE, 0)


def be_first_victim() -> None:
    """Let the kernel kill this process before its parent when the machine has no memory left."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_VICTIM))


def resident_size() -> int:
    """Return the bytes of memory that this process holds now; 0 where that is unknown."""
    return _of_status("VmRSS:") or 0


def _of_status(name: str) -> int | None:
    """Return a size from /proc in bytes; None where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(name)]
    return int(sizes[0]) * 1024 if sizes else None
