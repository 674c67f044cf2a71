"""Reading what tells why a deletion is stuck; a read that fails makes the diagnosis poorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.engine.counting import ContentCounter, list_all
from applyprune.errors import ApplypruneError
from applyprune.model.resources import CRD, DAEMON_SETS, DEPLOYMENTS, NAMESPACE, STATEFUL_SETS
from applyprune.planning.prune.finalizers import diagnose
from applyprune.planning.snapshot import CascadeContents

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from applyprune.engine.context import WorkerPool
    from applyprune.engine.ports import Cluster
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject

_COUNTED = 5


def diagnoses(
    lives: Sequence[LiveObject], pruning: Collection[Ref], cluster: Cluster, workers: WorkerPool
) -> Mapping[Ref, str]:
    """Return what holds each object that is deleted but not gone, as it was last read in full.

    Only the first few Namespaces and CRDs are looked into: each costs a LIST a kind.
    """
    if not lives:
        return {}
    workloads = _workloads(cluster, workers)
    holders = [live for live in lives if live.ref.group_kind in {NAMESPACE, CRD}][:_COUNTED]
    remains = {live.ref: _remains(live.ref, cluster, workers) for live in holders}
    return {
        live.ref: diagnose(
            live, workloads=workloads, pruning=pruning, remains=remains.get(live.ref)
        )
        for live in lives
    }


def _workloads(cluster: Cluster, workers: WorkerPool) -> CascadeContents:
    try:
        found, failures = list_all(
            cluster, workers, (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS), full=True
        )
        workers.check()
    except ApplypruneError as error:
        return CascadeContents((), error.what)
    return CascadeContents(tuple(found), "; ".join(failures))


def _remains(ref: Ref, cluster: Cluster, workers: WorkerPool) -> CascadeContents:
    try:
        workers.check()
        contents = ContentCounter(cluster, workers, cluster.catalogue(), frozenset()).contents(ref)
        workers.check()
    except ApplypruneError as error:
        return CascadeContents((), error.what)
    return contents
