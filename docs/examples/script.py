"""Apply a folder of manifests, print what changed, and end with the exit code of the run.

python script.py web manifests/ -n shop
"""

from __future__ import annotations

import argparse
import sys

from applyprune import ApplyOptions, ApplypruneError, ApplySet, connect, load


def main() -> int:
    """Return the exit code: the same as that of `applyprune apply`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("folder")
    parser.add_argument("-n", "--namespace", default="")
    arguments = parser.parse_args()
    try:
        manifests = load(arguments.folder)
        with connect(namespace=arguments.namespace) as cluster:
            applyset = ApplySet(arguments.name, cluster=cluster)
            options = ApplyOptions(create_namespace=True)
            report = applyset.apply(manifests, wait=True, timeout=60, options=options)
    except ApplypruneError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    for changed in report.changed:
        print(changed.ref.short, changed.outcome)
    for problem in report.problems:
        print(f"error: {problem}", file=sys.stderr)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
