"""The clock of a lease counts sleep; a pause of the whole machine ends the lease."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from applyprune.clock import Instant, seconds_held
from tests.support.namespaces import PROVED, own_namespaces

THEN = Instant(boot=1_000.0, wall=1_800_000_000.0)


@pytest.mark.parametrize(
    ("boot", "wall", "held"),
    [
        (4.0, 4.0, 4.0),
        # A laptop slept: both clocks have counted it.
        (3_600.0, 3_600.0, 3_600.0),
        # A virtual machine was paused for a minute, and its wall clock was corrected.
        (4.0, 64.0, math.inf),
        (0.0, 5.1, math.inf),
        # Somebody corrected the wall clock by a little, or set it back.
        (4.0, 8.9, 4.0),
        (4.0, -3_600.0, 4.0),
        (20.0, -3_600.0, 20.0),
    ],
)
def test_lease_is_held_for_boot_time_unless_the_wall_clock_ran_ahead(
    boot: float, wall: float, held: float
) -> None:
    now = Instant(THEN.boot + boot, THEN.wall + wall)
    assert seconds_held(THEN, now) == held


@pytest.mark.parametrize("proof", PROVED)
def test_clock_shows_boot_time(proof: bool) -> None:
    """In a namespace whose boot time alone is moved, as by a sleep, it is moved as well."""
    moved = 100_000.0
    script = (
        "import time\nfrom applyprune.clock import boot_time\nprint(boot_time() - time.monotonic())"
    )
    command = (sys.executable, "-c", script)
    namespace = own_namespaces("--time", "--boottime", str(int(moved)), proof=proof)
    here, there = (
        float(subprocess.run(one, capture_output=True, text=True, check=True).stdout)
        for one in (command, (*namespace, *command))
    )
    # A process may lose its turn between the two clocks that it reads.
    assert there - here == pytest.approx(moved, abs=moved / 10)
