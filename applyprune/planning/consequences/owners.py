"""What is deleted with an object: the contents of a Namespace, custom resources, dependents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from applyprune.model.identity import GroupKind
from applyprune.model.live import CRD, NAMESPACE, LiveObject, Resource, items, text
from applyprune.model.options import Propagation
from applyprune.model.plan import Consequence, ConsequenceKind, Fate
from applyprune.model.text import and_more
from applyprune.planning.consequences.facts import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Change,
    Facts,
)
from applyprune.planning.consequences.numbers import by_kind
from applyprune.planning.order import is_built_in
from applyprune.planning.pod_template import CRON_JOB, POD
from applyprune.planning.prune.cascade import NOTHING, PASSING, is_passing

_SHOWN = 5
_DEPENDENTS: dict[GroupKind, tuple[GroupKind, ...]] = {
    DEPLOYMENT: (REPLICA_SET, POD),
    STATEFUL_SET: (POD, CLAIM),
    DAEMON_SET: (POD,),
    REPLICA_SET: (POD,),
    REPLICATION_CONTROLLER: (POD,),
    JOB: (POD,),
    CRON_JOB: (JOB, POD),
}
"""The kinds that the controllers of Kubernetes create for each kind."""

_UNLISTED = PASSING | {
    GroupKind("coordination.k8s.io", "Lease"),
    GroupKind("discovery.k8s.io", "EndpointSlice"),
}
"""The kinds that custom resources hardly ever own: not worth a list each."""


def dependent_kinds(change: Change, kinds: Mapping[GroupKind, Resource]) -> Collection[GroupKind]:
    """Return the kinds, among those that the server serves, of which an object may own some.

    A custom resource may own anything in its namespace. What a custom resource without a namespace
    owns may be anywhere, and is not counted.
    """
    if change.fate is not Fate.PRUNE or change.kind in {NAMESPACE, CRD}:
        return ()
    if is_built_in(change.ref.group):
        return _DEPENDENTS.get(change.kind, ())
    if not change.ref.namespace:
        return ()
    return [kind for kind, each in kinds.items() if each.namespaced and kind not in _UNLISTED]


def deleted_with(change: Change, facts: Facts) -> Sequence[LiveObject]:
    """Return the objects that are deleted with a deleted one, except those of the plan itself."""
    if not (change.is_deleted and change.uid):
        return ()
    owned = facts.dependants.get(change.ref, NOTHING).objects
    found: Iterable[LiveObject] = ()
    if change.kind in {NAMESPACE, CRD}:
        found = facts.contents.get(change.ref, NOTHING).objects
    elif change.fate is Fate.PRUNE and facts.propagation is not Propagation.ORPHAN:
        found = facts.owned_by([change.uid]).values()
    unique = {live.uid: live for live in (*found, *owned) if not is_passing(live)}
    return sorted(
        (live for uid, live in unique.items() if uid not in facts.deleted),
        key=lambda live: live.ref,
    )


def cascades(change: Change, facts: Facts) -> Iterator[Consequence]:
    """Yield what is deleted with an object, and what of its own stays."""
    if not change.is_deleted:
        return
    found = deleted_with(change, facts)
    uncounted = _uncounted(change, facts)
    if found or uncounted:
        refs = tuple(live.ref for live in found)
        parts = [f"deleted with it: {by_kind(refs)}"] if refs else []
        parts += [f"not counted: {uncounted}"] if uncounted else []
        kind = ConsequenceKind.CASCADE
        number = None if uncounted else len(refs)
        yield Consequence(kind, change.ref, "; ".join(parts), number, refs, certain=not uncounted)
    if kept := [live.ref for live in _kept_claims(change, facts)]:
        names = and_more([ref.name for ref in kept], _SHOWN)
        message = f"its PersistentVolumeClaims stay: {names}"
        yield Consequence(ConsequenceKind.KEPT, change.ref, message, len(kept), tuple(kept))
    if facts.propagation is Propagation.ORPHAN and change.fate is Fate.PRUNE:
        yield from _orphaned(change, facts)


def _orphaned(change: Change, facts: Facts) -> Iterator[Consequence]:
    left = [live.ref for live in facts.children.get(change.uid, ()) if not is_passing(live)]
    if left:
        message = f"stay without an owner: {by_kind(left)}"
        yield Consequence(ConsequenceKind.KEPT, change.ref, message, len(left), tuple(left))


def _uncounted(change: Change, facts: Facts) -> str:
    """Return what could not be read of an object's dependents, and why."""
    owned = facts.dependants.get(change.ref, NOTHING).uncounted
    if change.kind in {NAMESPACE, CRD}:
        contents = facts.contents.get(change.ref, NOTHING).uncounted
        return "; ".join(reason for reason in (contents, owned) if reason)
    failures = facts.related.failures
    reasons = [failures[kind] for kind in dependent_kinds(change, facts.kinds) if kind in failures]
    reasons += [owned] if owned else []
    return and_more(list(dict.fromkeys(reasons)), _SHOWN)


def _kept_claims(change: Change, facts: Facts) -> Iterator[LiveObject]:
    """Yield the claims of a StatefulSet's templates that nothing deletes with it."""
    if change.kind != STATEFUL_SET or change.before is None or change.fate is not Fate.PRUNE:
        return
    gone = facts.deleted | {live.uid for live in deleted_with(change, facts)}
    templates = [
        re.escape(text(item, "metadata", "name"))
        for item in items(change.before, "spec", "volumeClaimTemplates")
    ]
    name = re.compile(rf"({'|'.join(templates)})-{re.escape(change.ref.name)}-\d+")
    for live in facts.related.of(CLAIM):
        is_its = templates and name.fullmatch(live.ref.name)
        if is_its and live.ref.namespace == change.ref.namespace and live.uid not in gone:
            yield live
