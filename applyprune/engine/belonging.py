"""Find out what an object belongs to, and who sets its fields; nothing else of a set is read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.engine.plan_stage import resource_and_ref
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.events import WarningRaised
from applyprune.model.live import AUTOSCALERS, LiveObject
from applyprune.planning.applyset import PART_OF
from applyprune.planning.belonging import belonging
from applyprune.planning.names import Resolver, kind_names
from applyprune.planning.normalize import is_scaled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.engine.ports import Cluster, Readable
    from applyprune.model.events import Event


def object_belongs(
    cluster: Cluster, store: Readable, named: str, namespace: str
) -> Iterator[Event]:
    """Yield what the object belongs to that ``named`` names, by the object itself.

    Without the right to read inventories of other namespaces, a set is known by its label only.
    Raises UsageError for a kind that is not served and an object that does not exist.
    """
    resource_map = cluster.resource_map()
    resolver = Resolver(kind_names(resource_map, [], ()))
    resource, ref = resource_and_ref(resolver.object(named), resource_map, namespace)
    yield from map(WarningRaised, resolver.warnings)
    live = cluster.read(resource, ref)
    if not isinstance(live, LiveObject):
        raise UsageError(
            f"{ref} does not exist", hint="Check its name and its namespace: NAMESPACE/KIND/NAME."
        )
    label = live.labels.get(PART_OF, "")
    inventory = store.others({label}).get(label) if label else None
    scalers: Sequence[LiveObject] = ()
    if is_scaled(live):
        with suppress(ApplypruneError):
            scalers = cluster.list(AUTOSCALERS, namespace=ref.namespace, full=True)
    yield belonging(live, inventory, scalers)
