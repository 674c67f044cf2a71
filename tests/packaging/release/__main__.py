"""``python -m tests.packaging.release [FOLDER] [--from URL] [--collect]``: write a release's files.

They are for this platform: wheel, sdist, the wheel of the control plane, a bill of materials, an
archive for krew. ``--collect`` builds nothing: it writes the manifest for krew and the checksums of
all files in the folder, which may come from several machines.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune import __version__
from applyprune.localplane import ensure_built, progress_on
from tests.packaging.plane_wheel.wheel import write_wheel
from tests.packaging.release.krew import MANIFEST, manifest, write_archive
from tests.packaging.release.materials import write_bill

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[3]
CHECKSUMS = "SHA256SUMS"


def build(folder: Path) -> None:
    """Write what depends on this machine, and the wheel and the sdist, into an empty folder."""
    progress = progress_on(sys.stderr)
    binaries = ensure_built(progress)
    folder.mkdir(parents=True, exist_ok=True)
    if left := sorted(path.name for path in folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: it has {left[0]}")
    epoch = commit_time()
    progress.step("building wheel and sdist")
    subprocess.run(
        # The wheel is built from the sdist.
        [sys.executable, "-m", "build", "--outdir", folder, ROOT],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    progress.step("installing the wheel for the bill of materials")
    write_bill(wheel, folder / f"applyprune-{__version__}.cdx.json")
    progress.step("packing the archive for krew")
    write_archive(wheel, folder, epoch)
    write_wheel(binaries.program.parent, folder, progress)


def collect(folder: Path, url: str) -> None:
    """Write the manifest for krew and the checksums of all files in the folder.

    ``url`` is where the files will be.
    """
    (folder / MANIFEST).write_text(manifest(folder, url), encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.name != CHECKSUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def commit_time() -> int:
    """Return the time that all files get: of the commit, unless SOURCE_DATE_EPOCH is set."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    shown = ("git", "log", "-1", "--format=%ct")
    return int(subprocess.check_output(shown, cwd=ROOT, text=True))


def main(arguments: Sequence[str]) -> int:
    """Write the files; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.release")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("dist/release"))
    parser.add_argument("--from", dest="url", metavar="URL", help="where the files will be")
    parser.add_argument("--collect", action="store_true", help="build nothing")
    given = parser.parse_args(arguments)
    if not given.collect:
        build(given.folder)
    collect(given.folder, given.url or f"https://applyprune.dev/releases/v{__version__}")
    sys.stdout.write((given.folder / CHECKSUMS).read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
