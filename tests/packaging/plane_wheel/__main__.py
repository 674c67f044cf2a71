"""``python -m tests.packaging.plane_wheel [FOLDER]``: write the wheel for this platform.

The folder, by default ``dist/plane``, is a mirror: wheels, and the index of their digests.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from applyprune.localplane import progress_on
from applyprune.localplane.wheel import MIRROR_INDEX, this_platform
from tests.packaging.plane_wheel.wheel import TAGS, add_to_index, write_wheel
from tests.support.plane import ensure_plane

LARGEST = 100 * 10**6
"""What the package index takes as one file, in bytes."""


def main(arguments: list[str]) -> int:
    """Write the wheel and its line in the index; return the exit code."""
    folder = Path(arguments[0]) if arguments else Path("dist/plane")
    if this_platform() not in TAGS:
        sys.stderr.write(f"no wheel for {this_platform()}: only for {', '.join(TAGS)}\n")
        return 1
    if shutil.which("go") is None:
        sys.stderr.write("`go` is not on PATH: it knows the modules in the programs\n")
        return 1
    progress = progress_on(sys.stderr)
    binaries = ensure_plane(progress)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = write_wheel(binaries.program.parent, folder, progress)
    pin = add_to_index(folder, wheel)
    size = wheel.stat().st_size
    if size > LARGEST:
        sys.stderr.write(f"{wheel.name} has {size} bytes: a package index takes {LARGEST}\n")
        return 1
    sys.stderr.write(
        f"{size / 1e6:.1f} MB, so one wheel is enough: a package index takes 100 MB in a file\n"
        f"install it:         pip install {wheel}\n"
        f"or name the folder: applyprune demo --plane-from {folder}\n"
        f"or serve it:        applyprune demo --plane-from https://HOST/PATH#sha256={pin}\n"
        f"                    (the digest is that of {MIRROR_INDEX})\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
