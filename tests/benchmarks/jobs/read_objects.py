"""``python -m tests.benchmarks.jobs.read_objects``: 100,000 objects, read from 200 files.

It prints the seconds of the one call, without the start of Python. The round that warms up writes
the files, so the memory of the others is that of a reader.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from applyprune import load
from tests.benchmarks.workload import write_manifests

OBJECTS, NAMESPACES = 100_000, 200


def main() -> None:
    """Read the objects once; end with a message if some are missing."""
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "benchmark-objects"
    if not folder.exists():
        write_manifests(folder, OBJECTS, "read", NAMESPACES)
    began = time.perf_counter()
    found = load(str(folder))
    seconds = time.perf_counter() - began
    if len(found) != OBJECTS:
        sys.exit(f"{len(found)} of {OBJECTS} objects")
    sys.stdout.write(f"seconds {seconds}\n")


if __name__ == "__main__":
    main()
