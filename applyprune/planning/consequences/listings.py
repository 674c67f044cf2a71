"""Decide what must be read to know the consequences of a plan: at most one LIST for each kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from applyprune.model.identity import GroupKind
from applyprune.model.live import Resource
from applyprune.model.plan import Fate
from applyprune.planning.applyset import PART_OF
from applyprune.planning.consequences.config_readers import may_change_values, readers_of
from applyprune.planning.consequences.facts import (
    CONFIG_MAP,
    REPLICA_SET,
    STATEFUL_SET,
    VOLUME,
    Change,
    Facts,
)
from applyprune.planning.consequences.owners import dependent_kinds
from applyprune.planning.consequences.rollouts import WORKLOADS
from applyprune.planning.consequences.selectors import Labels, needs_owners, without_template
from applyprune.planning.consequences.stored_versions import may_lose_versions
from applyprune.planning.consequences.volumes import deleted_claims
from applyprune.planning.pod_template import POD
from applyprune.values import dataclass


@dataclass(frozen=True, slots=True)
class Listing:
    """One kind to list."""

    resource: Resource
    namespaces: frozenset[str] = frozenset()
    """The namespaces concerned; empty for a kind without namespaces."""
    selector: str = ""
    """A label of all objects concerned: ``key`` or ``key=value``; empty if they share none."""
    full: bool = False
    """Whether the bodies are needed, not only the metadata."""
    is_plan: bool = False
    """Whether these are objects of the plan itself, which the plan has not read in full."""


def listings(facts: Facts, set_id: str) -> tuple[Listing, ...]:
    """Return what to read next; nothing if all is known. Later reads may depend on earlier ones.

    A Secret is never read for this.
    """
    if not facts.has_changes:
        return ()
    if bodies := tuple(_bodies(facts, set_id)):
        return bodies
    related = {
        kind: listing
        for kind, listing in _related(facts).items()
        if not facts.related.was_read(kind)
    }
    return tuple(listing for _, listing in sorted(related.items()))


def _bodies(facts: Facts, set_id: str) -> Iterator[Listing]:
    """Yield the kinds whose live objects decide, and were only read as metadata."""
    unread: dict[GroupKind, list[Change]] = {}
    readers = None
    for change in facts.changes:
        kind = change.kind
        if kind in facts.related.full or change.live is None or change.before is not None:
            continue
        if kind == CONFIG_MAP and may_change_values(change):
            readers = readers_of(facts.wanted) if readers is None else readers
            needed = change.ref in readers
        else:
            needed = (
                (kind in WORKLOADS and (change.is_changed or change.fate is Fate.RECREATE))
                or may_lose_versions(change)
                or (kind == STATEFUL_SET and change.fate is Fate.PRUNE)
            )
        if needed:
            unread.setdefault(kind, []).append(change)
    for kind, changes in sorted(unread.items()):
        if kind not in facts.kinds:
            continue
        # An adopted object has no label of the set yet.
        labelled = all(change.fate is not Fate.ADOPT for change in changes)
        yield Listing(
            facts.kinds[kind],
            _namespaces(changes),
            f"{PART_OF}={set_id}" if labelled else "",
            full=True,
            is_plan=True,
        )


def _related(facts: Facts) -> Mapping[GroupKind, Listing]:
    """Return what must be listed besides the objects of the plan, by its kind."""
    wanted: dict[GroupKind, set[str]] = {}
    for change in facts.changes:
        for kind in dependent_kinds(change, facts.kinds):
            resource = facts.kinds.get(kind)
            if resource is not None and resource.namespaced:
                wanted.setdefault(kind, set()).add(change.ref.namespace)
    selector = ""
    if services := without_template(facts):
        selector = "" if POD in wanted else _common(services.values())
        wanted.setdefault(POD, set()).update(ref.namespace for ref in services)
        if needs_owners(facts):
            wanted.setdefault(REPLICA_SET, set()).update(ref.namespace for ref in services)
    found = {
        kind: Listing(facts.kinds[kind], frozenset(namespaces), selector if kind == POD else "")
        for kind, namespaces in wanted.items()
        if kind in facts.kinds
    }
    if any(deleted_claims(change, facts) for change in facts.changes) and VOLUME in facts.kinds:
        # Only its body names the claim that it is bound to.
        found[VOLUME] = Listing(facts.kinds[VOLUME], full=True)
    return found


def _common(selectors: Iterable[Labels]) -> str:
    """Return the selector of one label that matches every Pod of ``selectors``; empty if none."""
    first, *others = selectors
    for key, value in sorted(first.items()):
        if all(other.get(key) == value for other in others):
            return f"{key}={value}"
    return next((key for key in sorted(first) if all(key in other for other in others)), "")


def _namespaces(changes: Collection[Change]) -> frozenset[str]:
    return frozenset(change.ref.namespace for change in changes if change.ref.namespace)
