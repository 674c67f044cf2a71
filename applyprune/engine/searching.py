"""Finding what bears a set's marks, whether the inventory lists it or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Forbidden
from applyprune.planning.evidence import own_apply_entry
from applyprune.planning.tracking import PART_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from applyprune.engine.ports import Cluster
    from applyprune.engine.workers import Workers
    from applyprune.model.live import Live
    from applyprune.model.resources import Catalogue, Resource
    from applyprune.planning.tracking import SetIdentity


@dataclass(frozen=True, slots=True)
class Marked:
    """What was found; ``unseen`` says what could not be looked at, and why."""

    lives: tuple[Live, ...]
    unseen: tuple[str, ...]


def search_all(
    cluster: Cluster, workers: Workers, catalogue: Catalogue, target: SetIdentity
) -> Marked:
    """Return the objects of every kind that bear the set's marks."""
    marked = search(cluster, workers, catalogue.preferred.values(), target)
    silent = (f"the API group {group} does not answer" for group in sorted(catalogue.stale))
    return Marked(marked.lives, (*marked.unseen, *silent))


def search(
    cluster: Cluster, workers: Workers, kinds: Iterable[Resource], target: SetIdentity
) -> Marked:
    """Return the objects of some kinds that bear the set's label and its manager's Apply entry.

    The label alone is no mark: controllers copy it to what they make. Where a whole cluster may
    not be listed, the namespace of the inventory is. An object served under two groups is found
    once, by its UID.
    """

    def read(resource: Resource) -> tuple[Sequence[Live], str]:
        selector = f"{PART_OF}={target.id}"
        try:
            return cluster.list(resource, selector=selector), ""
        except Forbidden as error:
            what = f"{resource.full_plural}: {error.what}"
            if not resource.namespaced:
                return (), what
            try:
                return cluster.list(
                    resource, namespace=target.namespace, selector=selector
                ), f"{what}, but for the namespace {target.namespace}"
            except ApplypruneError:
                return (), what
        except ApplypruneError as error:
            return (), f"{resource.full_plural}: {error.what}"

    found: dict[str, Live] = {}
    unseen: list[str] = []
    for lives, failure in workers.each(read, kinds):
        found |= {live.uid: live for live in lives if own_apply_entry(live, target.manager)}
        if failure:
            unseen.append(failure)
    workers.check()
    return Marked(tuple(sorted(found.values(), key=lambda live: live.ref)), tuple(sorted(unseen)))
