"""``python -m tests.benchmarks.jobs.plan_file read|write``: a plan file of 10,000 new objects.

It prints the seconds of the one call, without the start of Python.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.planning.approval import PlanFile, decode_plan_file, encode_plan_file
from applyprune.planning.digests import PlannedObject, digest_of
from applyprune.planning.normalize import digest

OBJECTS = 10_000


def main(what: str) -> None:
    """Write a plan file, or read it; end with a message if it is not whole or larger than 5 MB."""
    refs = [Ref("apps", "Deployment", f"n{each // 100}", f"web-{each}") for each in range(OBJECTS)]
    now = datetime.now(UTC).replace(microsecond=0)
    file = PlanFile(
        name="web",
        namespace="shop",
        cluster={"kube-system": "u"},
        inventory_uid="",
        generation=0,
        options={},
        created=now,
        expires=now + timedelta(days=7),
        digest=digest_of(""),
        deletions="",
        objects=tuple(PlannedObject(ref, Fate.CREATE, digest(str(ref))) for ref in refs),
    )
    began = time.perf_counter()
    data = encode_plan_file(file)
    written = time.perf_counter()
    found = decode_plan_file(data, source="web.plan")
    read = time.perf_counter()
    if found.objects != file.objects or len(data) > 5_000_000:
        sys.exit(f"the plan file of {len(data)} bytes is too large, or not what was written")
    sys.stdout.write(f"seconds {written - began if what == 'write' else read - written}\n")


if __name__ == "__main__":
    main(sys.argv[1])
