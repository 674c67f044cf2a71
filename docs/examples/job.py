"""Apply the manifests beside this file from a Pod, with the Pod's own service account.

job.yaml runs it as a Job.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from applyprune import ApplypruneError, ApplySet, Cancellation, connect, load

NAME = "web"
FOLDER = Path(__file__).parent


def main() -> int:
    """Return the exit code of the run; a Job counts every other code than 0 as a failure."""
    cancellation = Cancellation()
    # Kubernetes stops a Pod with SIGTERM: the run records what it has done, and ends.
    signal.signal(signal.SIGTERM, lambda number, _: cancellation.request(number))
    try:
        with connect() as cluster:
            applyset = ApplySet(NAME, cluster=cluster)
            print(f"applying to {cluster.server} as {cluster.context}", flush=True)
            report = applyset.apply(load(*FOLDER.glob("*.yaml")), cancellation=cancellation)
            report.raise_for_failures()
    except ApplypruneError as error:
        print(f"error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return error.exit_code
    for one in report.objects:
        print(one.ref.short, one.outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
