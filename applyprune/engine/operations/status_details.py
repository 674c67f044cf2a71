"""Read what a status adds on request: the objects that an object owns, and logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.engine.steps.related_objects import RelatedObjects
from applyprune.errors import ApplypruneError, as_problem
from applyprune.model.events import ContainerLog, ObjectStatus, Status
from applyprune.model.identity import Ref
from applyprune.model.live import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    LiveObject,
    Resource,
    State,
)
from applyprune.planning.object_status import (
    LINES,
    Instance,
    by_owner,
    failing_instances,
    log_lines,
    tree_of,
)
from applyprune.planning.readiness import pods_of
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from datetime import datetime

    from applyprune.engine.context import WorkerPool
    from applyprune.engine.ports import Cluster

if TYPE_CHECKING:
    Body = Mapping[str, Any]

# What leads from an object to its Pods; more kinds would be more lists.
_OWNED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, PODS)
_LOG_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class DetailReader:
    """Reads the details of the objects of one set."""

    cluster: Cluster
    workers: WorkerPool
    related: RelatedObjects

    def with_trees(
        self, statuses: Iterable[ObjectStatus], states: Mapping[Ref, State], now: datetime
    ) -> Sequence[ObjectStatus]:
        """Add to each object what it owns, by one list for each kind and namespace."""
        statuses = list(statuses)
        namespaces = sorted({status.ref.namespace for status in statuses} - {""})
        scopes = [(resource, name) for name in namespaces for resource in _OWNED]
        found: list[Body] = []
        unread: dict[str, list[str]] = {}
        for (resource, namespace), bodies, why in self.workers.each(self._listed, scopes):
            found += bodies
            if why:
                unread.setdefault(namespace, []).append(f"{resource.plural}: {why}")
        owned = by_owner(iter(found))
        return [
            replace(
                status,
                tree=tree_of(_named(status.ref, live), owned, now),
                not_read="; ".join(
                    part
                    for part in (status.not_read, *sorted(unread.get(status.ref.namespace, ())))
                    if part
                ),
            )
            if isinstance(live := states.get(status.ref), LiveObject)
            else status
            for status in statuses
        ]

    def with_logs(
        self, statuses: Iterable[ObjectStatus], states: Mapping[Ref, State]
    ) -> Sequence[ObjectStatus]:
        """Add the last log lines of failing containers to each object that is not ready."""
        return [self._with_logs(status, states.get(status.ref)) for status in statuses]

    def _with_logs(self, status: ObjectStatus, live: State | None) -> ObjectStatus:
        if status.readiness.status is Status.CURRENT or not isinstance(live, LiveObject):
            return status
        is_pod = live.ref.group_kind == PODS.group_kind
        pods = (live.body or {},) if is_pod else pods_of(live, self.related.of(live))
        instances = list(failing_instances(pods))
        return replace(status, logs=tuple(self.workers.each(self._log, instances, in_order=True)))

    def _log(self, instance: Instance) -> ContainerLog:
        pod = Ref(PODS.group, PODS.kind, instance.namespace, instance.pod)
        lines: tuple[str, ...] = ()
        problem = ""
        try:
            log = self.cluster.log(
                pod, instance.container, previous=instance.previous, lines=LINES, size=_LOG_BYTES
            )
            lines = log_lines(log)
        except ApplypruneError as error:
            problem = as_problem(error).message
        return ContainerLog(pod, instance.container, instance.previous, lines, problem)

    def _listed(
        self, scope: tuple[Resource, str]
    ) -> tuple[tuple[Resource, str], Sequence[Body], str]:
        resource, namespace = scope
        try:
            found = self.cluster.list(resource, namespace=namespace, full=True)
        except ApplypruneError as error:
            return scope, (), as_problem(error).message
        return scope, [_named(live.ref, live, resource.version) for live in found], ""


def _named(ref: Ref, live: LiveObject, version: str = "") -> Body:
    """Return the body with its kind, which the items of a list may lack."""
    body = live.body or {"metadata": live.metadata}
    named = f"{ref.group}/{version}" if ref.group else version
    return {"apiVersion": named, "kind": ref.kind, **body}
