"""``python -m tests.versions [VERSION…]``: the end-to-end stories on each version of Kubernetes.

It runs pytest once for each version and prints how each ended. The exit code is 1 if a story has
failed on any of them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from applyprune.localplane import progress_on
from tests.versions.releases import ensure_release, release_named, releases

if TYPE_CHECKING:
    from collections.abc import Sequence

STORIES = (
    "tests/versions",
    "tests/command/e2e",
    "tests/stories",
    "tests/deploy",
    "tests/controller/test_stories.py",
    "tests/controller/test_approvals.py",
    "tests/controller/test_false_absence.py",
    "tests/controller/test_removal.py",
    "tests/controller/drift/test_drift_stories.py",
)
"""Commands, runs and Bundles on a real server; of each, only what needs the server.

Left out is what the version of the server cannot change, such as sources, workers and replicas.
"""
PROCESSES = 4


def main(arguments: Sequence[str]) -> int:
    """Run the stories on the versions, or on all; return the exit code."""
    try:
        versions = [release_named(one) for one in arguments] or list(releases())
    except ValueError as unknown:
        sys.stderr.write(f"{unknown}\n")
        return 2
    ended = {}
    for version in versions:
        ensure_release(version, progress_on(sys.stderr))
        start = time.monotonic()
        code = subprocess.run(command(version), check=False).returncode
        ended[version] = (code, time.monotonic() - start)
    for version, (code, seconds) in ended.items():
        result = "passed" if code == 0 else f"FAILED (pytest exited with {code})"
        sys.stdout.write(f"Kubernetes {version}: {result} in {seconds / 60:.0f} minutes\n")
    return 1 if any(code for code, _ in ended.values()) else 0


def command(version: str) -> list[str]:
    """Return the call of pytest for a version."""
    parallel = ("-n", str(PROCESSES), "--dist", "loadfile", "--no-loadscope-reorder")
    return [sys.executable, "-m", "pytest", "--kubernetes", version, *parallel, *STORIES]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
