"""Read what the consequences of a plan need: at most one LIST for each kind and namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.errors import ApplypruneError, Forbidden
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import LiveObject, Resource, ResourceMap
from applyprune.planning.consequences import Listing, Related, consequences, facts_of, listings
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.model.plan import Plan
    from applyprune.planning.recovery import ClusterSnapshot

States: TypeAlias = "Mapping[Ref, tuple[LiveObject | None, Mapping[str, Any] | None]]"

_FEW = 4


@dataclass(frozen=True, slots=True)
class ConsequenceFinder:
    """Finds the consequences of one plan."""

    context: RunContext
    resource_map: ResourceMap

    def add_to(self, plan: Plan, snapshot: ClusterSnapshot, states: States, *, reads: bool) -> Plan:
        """Return the plan with its consequences.

        ``states`` are the states before and after of the objects that a dry run on the server has
        checked. Unless it ``reads``, the plan gets only what is known without a request.
        """
        applyset, related = self.context.applyset, Related()
        while True:
            facts = facts_of(
                plan,
                manager=applyset.manager,
                snapshot=snapshot,
                kinds=self.resource_map.preferred,
                propagation=self.context.options.prune.propagation,
                states=states,
                related=related,
            )
            more = listings(facts, applyset.id) if reads else ()
            if not more:
                return replace(plan, consequences=consequences(facts))
            related = self._read(more, related)

    def _read(self, more: Sequence[Listing], known: Related) -> Related:
        """Return what is known after some more listings; one that fails is not repeated."""
        objects: dict[GroupKind, list[LiveObject]] = {}
        failures = dict(known.failures)
        bodies = dict(known.bodies)
        calls = [(listing, namespace) for listing in more for namespace in _places(listing)]
        for listing, found, failure in self.context.workers.each(self._list, calls):
            if listing.is_plan:
                bodies |= {live.ref: live for live in found}
                continue
            objects.setdefault(listing.resource.group_kind, []).extend(found)
            if failure:
                failures[listing.resource.group_kind] = failure
        self.context.workers.check()
        return Related(
            {**known.objects, **objects},
            failures,
            bodies,
            known.full | {each.resource.group_kind for each in more if each.is_plan},
        )

    def _list(self, call: tuple[Listing, str]) -> tuple[Listing, Sequence[LiveObject], str]:
        listing, namespace = call
        resource = listing.resource
        try:
            found = self.context.cluster.list(
                resource, namespace=namespace, selector=listing.selector, full=listing.full
            )
        except ApplypruneError as error:
            return listing, (), _failure(resource, error)
        return listing, found, ""


def _places(listing: Listing) -> Iterable[str]:
    """Return the namespaces to list; an empty name lists all of them at once."""
    few = listing.resource.namespaced and len(listing.namespaces) <= _FEW
    return sorted(listing.namespaces) if few else ("",)


def _failure(resource: Resource, error: ApplypruneError) -> str:
    if isinstance(error, Forbidden):
        return f"no right to list {resource.full_plural}"
    return f"{resource.full_plural} cannot be listed: {error.message}"
