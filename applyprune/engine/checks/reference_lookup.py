"""Warn about references to objects and keys that are missing; look up only what the plan lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from applyprune.planning.order import missing_keys, missing_references, outside_references

if TYPE_CHECKING:
    from applyprune.engine.snapshot_reader import SnapshotReader
    from applyprune.model.identity import Ref
    from applyprune.model.live import ResourceMap
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Problem
    from applyprune.planning.recovery import ClusterSnapshot


def reference_warnings(
    plan: Plan,
    snapshot: ClusterSnapshot,
    reader: SnapshotReader,
    resource_map: ResourceMap,
    left_out: Collection[Ref],
    *,
    check: bool,
) -> Iterator[Problem]:
    """Yield a warning for each missing object and key; ``left_out`` are chart hooks.

    Without ``check``, send no request: only what the set itself shows is found.
    """
    yield from missing_keys(plan, reader.applyset.manager)
    if not check:
        return
    uses = outside_references(plan)
    unread = [ref for ref in uses if ref not in snapshot.states]
    states = {**snapshot.states, **reader.look_up(unread, resource_map)}
    yield from missing_references(uses, states, plan, left_out)
