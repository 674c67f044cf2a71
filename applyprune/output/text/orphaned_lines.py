"""What to do with the objects that stay in the cluster after their set is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from applyprune.model.identity import Ref

_NAMED = 20


def orphaned_lines(refs: Sequence[Ref]) -> Iterator[str]:
    """Yield how to delete orphaned objects: nothing lists them any more."""
    if not refs:
        return
    stays, them = ("object stays", "it") if len(refs) == 1 else ("objects stay", "them")
    if len(refs) > _NAMED:
        yield f"{len(refs)} {stays} in the cluster, and no set lists {them}: see the lines above."
        return
    yield f"{len(refs)} {stays} in the cluster, and no set lists {them}. To delete {them}:"
    ordered = sorted(refs, key=lambda ref: (ref.namespace, ref))
    for namespace, group in groupby(ordered, key=lambda ref: ref.namespace):
        where = f" -n {namespace}" if namespace else ""
        yield f"  kubectl delete{where} {' '.join(ref.short for ref in group)}"
