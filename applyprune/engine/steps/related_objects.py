"""Keep what is around the objects of a set: their Pods, ReplicaSets, claims and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.engine.informer import Change, Listed, WatchFailed, WatchScope
from applyprune.errors import ApplypruneError, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import CLAIMS, EVENTS, PODS, REPLICA_SETS, LiveObject
from applyprune.planning.readiness import WITH_PODS, Related, mounts_claims
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from applyprune.engine.context import WorkerPool
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import Resource
    from applyprune.model.problem import Problem

if TYPE_CHECKING:
    Body = Mapping[str, Any]

_DEPLOYMENT = GroupKind("apps", "Deployment")


@dataclass(slots=True)
class RelatedObjects:
    """What was listed or watched, by scope; each scope is all objects of a kind in a namespace."""

    _objects: dict[WatchScope, dict[Ref, LiveObject]] = field(default_factory=dict)
    _by_uid: dict[WatchScope, dict[str, list[Body]]] = field(default_factory=dict)
    _claims: dict[str, dict[str, Body]] = field(default_factory=dict)
    _unread: dict[WatchScope, Problem] = field(default_factory=dict)

    def scopes(self, ref: Ref, live: LiveObject | None) -> Iterator[WatchScope]:
        """Yield what shows why an object is not ready; claims only once its Pods mount some."""
        if not ref.namespace:
            return
        resources = [EVENTS]
        if ref.group_kind in WITH_PODS:
            resources.append(PODS)
        if ref.group_kind == _DEPLOYMENT:
            resources.append(REPLICA_SETS)
        for resource in resources:
            yield WatchScope(resource, ref.namespace)
        if live is not None and mounts_claims((live.body or {}, *self.of(live).pods)):
            yield WatchScope(CLAIMS, ref.namespace)

    def read(self, wanted: Sequence[LiveObject], cluster: Cluster, workers: WorkerPool) -> None:
        """List what ``scopes`` yields for these objects and is not known yet; failures are kept."""

        def listed(scope: WatchScope) -> Change:
            try:
                found = cluster.list(scope.resource, namespace=scope.namespace, full=True)
            except ApplypruneError as error:
                return WatchFailed(scope, error)
            return Listed(scope, {live.ref: live for live in found})

        # Only the Pods show whether the claims are needed.
        for _ in range(2):
            scopes = {scope for live in wanted for scope in self.scopes(live.ref, live)}
            for change in workers.each(listed, self._unknown(scopes)):
                self.update(change)

    def update(self, change: Change) -> None:
        """Take in a list, a change or a failure."""
        scope = change.source
        if isinstance(change, WatchFailed):
            self._unread[scope] = as_problem(change.error)
            return
        self._unread.pop(scope, None)
        self._by_uid.pop(scope, None)
        known = self._objects.setdefault(scope, {})
        if isinstance(change, Listed):
            known.clear()
            known.update(change.objects)
        elif change.live is None:
            known.pop(change.ref, None)
        else:
            known[change.ref] = change.live
        if scope.resource == CLAIMS:
            self._claims[scope.namespace] = {
                ref.name: claim.body or {} for ref, claim in known.items()
            }

    def of(self, live: LiveObject) -> Related:
        """Return what is known about an object."""
        namespace = live.ref.namespace
        replica_sets = self._index(REPLICA_SETS, namespace).get(live.uid, ())
        owners = [live.uid, *(str(one["metadata"]["uid"]) for one in replica_sets)]
        pods = self._index(PODS, namespace)
        return Related(
            pods=[pod for owner in owners for pod in pods.get(owner, ())],
            replica_sets=replica_sets,
            events=self._index(EVENTS, namespace),
            claims=self._claims.get(namespace),
        )

    def not_read(self, ref: Ref, live: LiveObject | None) -> str:
        """Return what about an object could not be read, and why; empty if nothing."""
        unread = [
            (scope.resource.plural, problem.message)
            for scope in self.scopes(ref, live)
            if (problem := self._unread.get(scope)) is not None
        ]
        return "; ".join(f"its {plural} cannot be read: {why}" for plural, why in unread)

    def _unknown(self, scopes: Iterable[WatchScope]) -> Sequence[WatchScope]:
        return [
            scope for scope in scopes if scope not in self._objects and scope not in self._unread
        ]

    def _index(self, resource: Resource, namespace: str) -> Mapping[str, Sequence[Body]]:
        """Return the objects by the UID of their controller; events by that of their object."""
        scope = WatchScope(resource, namespace)
        found = self._by_uid.get(scope)
        if found is None:
            found = self._by_uid[scope] = {}
            for live in self._objects.get(scope, {}).values():
                if live.body is not None:
                    found.setdefault(_subject(live.body), []).append(live.body)
        return found


def _subject(body: Body) -> str:
    """Return the UID of an event's object, or of an object's controller; empty if none."""
    about = body.get("involvedObject")
    if isinstance(about, dict):
        return str(about.get("uid", ""))
    owners = body["metadata"].get("ownerReferences") or ()
    return next(
        (str(owner.get("uid", "")) for owner in owners if owner.get("controller") is True), ""
    )
