"""Counting what the delete of a Namespace or a CRD would take along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError
from applyprune.model.resources import API_SERVICES, CRD, NAMESPACE
from applyprune.planning.snapshot import CascadeContents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.engine.context import WorkerPool
    from applyprune.engine.ports import Cluster
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.resources import Resource, ResourceMap


@dataclass(frozen=True, slots=True)
class ContentCounter:
    """Counts for one run; ``leaving`` is everything that has left the set."""

    cluster: Cluster
    workers: WorkerPool
    catalogue: ResourceMap
    leaving: frozenset[Ref]

    def take(self) -> Mapping[Ref, CascadeContents]:
        """Return the contents of each Namespace and CRD that is leaving."""
        return {
            ref: self.contents(ref)
            for ref in sorted(self.leaving)
            if ref.group_kind in {NAMESPACE, CRD}
        }

    def contents(self, ref: Ref) -> CascadeContents:
        """Return the contents of one Namespace or CRD."""
        return self._namespace(ref) if ref.group_kind == NAMESPACE else self._definition(ref)

    def _namespace(self, ref: Ref) -> CascadeContents:
        kinds = [one for one in self.catalogue.preferred.values() if one.namespaced]
        contents, failures = list_all(self.cluster, self.workers, kinds, namespace=ref.name)
        # The groups whose server is down, unless that APIService goes in this very run.
        unseen = self.catalogue.stale - {
            gone.name.partition(".")[2]
            for gone in self.leaving
            if gone.group_kind == API_SERVICES.group_kind
        }
        failures += [f"the API group {group} does not answer" for group in sorted(unseen)]
        return CascadeContents(tuple(contents), "; ".join(failures[:3]))

    def _definition(self, ref: Ref) -> CascadeContents:
        plural, _, group = ref.name.partition(".")
        kinds = [
            one
            for one in self.catalogue.preferred.values()
            if (one.plural, one.group) == (plural, group)
        ]
        contents, failures = list_all(self.cluster, self.workers, kinds)
        if not kinds:
            # It may hold objects all the same: a version that is not served hides them.
            what = f"the API group {group} does not answer"
            failures.append(what if group in self.catalogue.stale else "its kind is not served")
        return CascadeContents(tuple(contents), "; ".join(failures[:3]))


def list_all(
    cluster: Cluster,
    workers: WorkerPool,
    kinds: Iterable[Resource],
    *,
    namespace: str = "",
    selector: str = "",
    full: bool = False,
) -> tuple[list[LiveObject], list[str]]:
    """Return every object of some kinds, and for each kind that could not be read why."""
    contents: list[LiveObject] = []
    failures: list[str] = []

    def read(resource: Resource) -> tuple[Sequence[LiveObject], str]:
        try:
            return cluster.list(resource, namespace=namespace, selector=selector, full=full), ""
        except ApplypruneError as error:
            return (), f"{resource.full_plural}: {error.what}"

    for found, failure in workers.each(read, kinds):
        contents += found
        if failure:
            failures.append(failure)
    return contents, failures
