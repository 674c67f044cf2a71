"""A plan file of a set that no cluster has, and forged plan files with a right checksum."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.plan import Cascaded
from applyprune.planning.approval import SCHEMA, PlanFile, encode_plan_file, sealed
from applyprune.planning.digests import PlannedObject
from applyprune.values import replace

if TYPE_CHECKING:
    from pathlib import Path

CREATED = datetime(2026, 11, 21, 10, tzinfo=UTC)
FILE = sealed(
    PlanFile(
        name="web",
        namespace="shop",
        cluster={"kube-system": "k1"},
        inventory_uid="i1",
        generation=4,
        options={"adopt": "unowned", "prune": True, "orphan": ("configmap/a",)},
        created=CREATED,
        expires=CREATED + timedelta(days=7),
        digest=f"sha256:{'a' * 64}",
        deletions=f"sha256:{'b' * 64}",
        objects=(
            PlannedObject(Ref("", "ConfigMap", "shop", "a"), Fate.CREATE, manifest="m1"),
            PlannedObject(
                Ref("", "Namespace", "", "old"),
                Fate.PRUNE,
                uid="u1",
                state="v7",
                cascade=(Cascaded(Ref("", "Pod", "old", "p"), "u2"),),
            ),
        ),
    )
)


def forge(path: Path, file: PlanFile, **changes: Any) -> None:
    """Write a plan file with other values, and with the right checksum: it is no signature."""
    path.write_bytes(encode_plan_file(sealed(replace(file, **changes))))


def with_checksum(content: bytes, schema: str = SCHEMA) -> bytes:
    """Return a plan file with this content below its first line, and with the right checksum."""
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return f'{{"schema":"{schema}","checksum":"{checksum}",\n'.encode() + content
