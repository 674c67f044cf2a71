"""``python -m tests.packaging.plane_wheel [FOLDER]``: write the wheel for this platform.

The folder is ``dist/plane`` by default.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from applyprune.localplane import ensure_built, progress_on
from applyprune.localplane.wheel import this_platform
from tests.packaging.plane_wheel.wheel import TAGS, write_wheel

LARGEST = 100 * 10**6
"""What the package index takes as one file, in bytes."""


def main(arguments: list[str]) -> int:
    """Write the wheel; return the exit code."""
    folder = Path(arguments[0]) if arguments else Path("dist/plane")
    if this_platform() not in TAGS:
        sys.stderr.write(f"no wheel for {this_platform()}: only for {', '.join(TAGS)}\n")
        return 1
    if shutil.which("go") is None:
        sys.stderr.write("`go` is not on PATH: it knows the modules in the programs\n")
        return 1
    progress = progress_on(sys.stderr)
    binaries = ensure_built(progress)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = write_wheel(binaries.program.parent, folder, progress)
    size = wheel.stat().st_size
    if size > LARGEST:
        sys.stderr.write(f"{wheel.name} has {size} bytes: a package index takes {LARGEST}\n")
        return 1
    sys.stderr.write(
        f"{size / 1e6:.1f} MB, so one wheel is enough: a package index takes 100 MB in a file\n"
        f"install it: pip install {wheel}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
