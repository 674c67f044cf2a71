"""``python -m tests.versions.build [VERSION]``: find or build a control plane."""

from __future__ import annotations

import sys

from applyprune.localplane import progress_on
from tests.versions.releases import ensure_release, release_named


def main(arguments: list[str]) -> int:
    """Print where the control plane is; return the exit code."""
    try:
        version = release_named(arguments[0] if arguments else "")
    except ValueError as unknown:
        sys.stderr.write(f"{unknown}\n")
        return 2
    binaries = ensure_release(version, progress_on(sys.stderr))
    sys.stdout.write(f"Kubernetes {version}: {binaries.program.parent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
