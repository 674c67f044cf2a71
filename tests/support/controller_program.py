"""``applyprune controller`` with settings that no user has, such as a short Lease.

Words such as ``lease=4`` and ``cpu=3`` are its own, all others are those of the command.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.controller.process import ControllerSettings
    from applyprune.engine.ports import Cancellation

ROOT = Path(__file__).parents[2]
_OF_CONTROLLER = ("lease", "fetch_workers")
_OF_LIMITS = ("cpu", "time", "grace")


def program_for(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return what Python runs with these arguments: the command, unless a word is none of it."""
    if not any(map(_is_own, arguments)):
        return "-m", "applyprune", "controller"
    return (
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {__name__} import main; main()",
    )


def main() -> None:
    """Run the command; what it starts the controller with is changed by the words."""
    from applyprune.cli.main import main as run  # noqa: PLC0415
    from applyprune.controller import process  # noqa: PLC0415

    given = [word.partition("=") for word in sys.argv[1:] if _is_own(word)]
    words = {name: float(value) for name, _, value in given}
    serve = process.serve

    def serve_changed(settings: ControllerSettings, cancellation: Cancellation) -> int:
        return serve(_changed(settings, words), cancellation)

    process.serve = serve_changed
    sys.argv = ["applyprune", "controller", *(w for w in sys.argv[1:] if not _is_own(w))]
    run()


def _is_own(word: str) -> bool:
    return word.partition("=")[0] in {*_OF_CONTROLLER, *_OF_LIMITS}


def _changed(settings: ControllerSettings, words: dict[str, Any]) -> ControllerSettings:
    from applyprune.values import replace  # noqa: PLC0415

    limits = replace(settings.limits, **{name: words[name] for name in words.keys() & _OF_LIMITS})
    if "fetch_workers" in words:
        settings = replace(settings, fetch_workers=int(words["fetch_workers"]))
    return replace(settings, limits=limits, lease=words.get("lease", settings.lease))
