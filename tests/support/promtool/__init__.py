"""promtool of the release that ``go.mod`` pins, built once by the plane's Go and cached.

Its service discoveries for clouds are left out: they are most of the build, and no test needs one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.build import GoModule, built
from applyprune.localplane.cache import Silence

if TYPE_CHECKING:
    from applyprune.localplane.cache import Progress

PROMTOOL = GoModule(
    folder=Path(__file__).parent,
    cache="promtool",
    name="promtool",
    duration="minutes",
    packages=("github.com/prometheus/prometheus/cmd/promtool",),
    tags=("remove_all_sd",),
)


def promtool(progress: Progress | None = None) -> Path:
    """Return the program; the first call builds it."""
    return built(PROMTOOL, progress or Silence()) / "promtool"
