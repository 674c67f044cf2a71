"""``python -m tests.benchmarks.jobs.large_inventory read|write``: 100,000 entries, by the store.

It prints the seconds of the one call, without the start of Python.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import uuid

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.inventory_format import MAX_OBJECTS
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.transport import Transport
from applyprune.model.identity import Ref
from applyprune.model.inventory import ApplyFingerprint, InventoryEntry
from applyprune.planning.applyset import applyset_identity
from applyprune.values import replace

NAME = "large"


def entry(number: int, salt: int) -> InventoryEntry:
    """Return an entry of the size that a confirmed apply leaves."""
    ref = Ref("", "ConfigMap", f"team-{number // 5000}", f"c-{number:06}")
    mark = hashlib.sha256(f"{salt} {ref}".encode()).hexdigest()
    fingerprint = ApplyFingerprint(str(int(mark[:6], 16)), 1, mark[:32], "2026-11-21T10:00:00Z")
    uid = str(uuid.UUID(mark[:32]))
    return InventoryEntry(
        ref, "configmaps", "v1", None, uid=uid, digest=mark[32:], fingerprint=fingerprint
    )


def main(what: str) -> None:
    """Write or read the inventory once; end with a message if it is not whole.

    To read one that does not exist, it writes one: the round that warms up does so.
    """
    transport = Transport(cluster_access(environ=os.environ))
    store = ConfigMapStore(KubernetesClient(transport, NAME), applyset_identity(NAME, "default"))
    current = store.read()
    if what == "write" or not current.exists:
        # Each write is another one: one that is there already would write no shard.
        salt = time.time_ns()
        entries = {one.ref: one for one in (entry(number, salt) for number in range(MAX_OBJECTS))}
        new = replace(current, entries=entries)
        began = time.perf_counter()
        found = store.write(new)
    else:
        began = time.perf_counter()
        found = store.read()
    seconds = time.perf_counter() - began
    transport.close()
    if len(found.entries) != MAX_OBJECTS:
        sys.exit(f"{len(found.entries)} of {MAX_OBJECTS} entries")
    sys.stdout.write(f"seconds {seconds}\n")


if __name__ == "__main__":
    main(sys.argv[1])
