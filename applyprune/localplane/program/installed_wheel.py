"""Find the programs of an installed ``applyprune-plane``, and check them."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.program.plane_wheel import (
    DISTRIBUTION,
    FACTS,
    PACKAGE,
    Unfit,
    check_programs,
    fitting_facts,
)

if TYPE_CHECKING:
    from applyprune.localplane.program.step_progress import Progress


def installed(module: str, progress: Progress) -> Path | None:
    """Return the folder of the installed programs of this module; None if there are none that fit.

    They are used where they are, so they need no cache. Every digest is checked each time: nobody
    else has compared what an installer wrote.
    """
    folder = _package()
    if folder is None:
        return None
    progress.tick(f"checking the package {DISTRIBUTION}")
    start = time.monotonic()
    try:
        facts = fitting_facts(_facts(folder), module)
        check_programs(folder, facts)
    except Unfit as unfit:
        progress.step(
            f"the package {DISTRIBUTION} in {folder} is not used: {unfit}."
            " Install the one of this applyprune:"
            " pip install --force-reinstall --no-cache-dir 'applyprune[plane]'"
        )
        return None
    progress.step(
        f"using the control plane of the package {DISTRIBUTION} (Kubernetes {facts.kubernetes}),"
        f" checked in {time.monotonic() - start:.1f} s"
    )
    return folder


def _package() -> Path | None:
    """Return the folder of the package, which is found and not run."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _facts(folder: Path) -> bytes:
    try:
        return (folder / FACTS).read_bytes()
    except OSError as error:
        raise Unfit(f"its {FACTS} cannot be read: {error.strerror}") from None
