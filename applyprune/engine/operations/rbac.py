"""Find the roles that the account of a set needs, by its input and by its inventory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.errors import raise_all
from applyprune.model.live import Resource, ResourceMap
from applyprune.planning.desired import resolve
from applyprune.planning.rights import Member, RoleText, roles

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.inventory import Inventory
    from applyprune.model.options import Options
    from applyprune.model.problem import Manifest
    from applyprune.planning.applyset import ApplySetIdentity


def rbac(
    manifests: Sequence[Manifest],
    inventory: Inventory | None,
    applyset: ApplySetIdentity,
    options: Options,
    cluster: Cluster,
) -> Sequence[RoleText]:
    """Return the roles for a set; write nothing.

    What only the inventory lists will be pruned, and needs rights too. Without an ``inventory`` the
    set has no name, and neither have the roles. Raises what is wrong with the input.
    """
    resource_map = cluster.resource_map()
    resolved = resolve(
        manifests, resource_map, applyset, namespace=applyset.namespace, options=options
    )
    raise_all(resolved.errors)
    members = [Member(one.resource, one.ref) for one in resolved.desired]
    name = "applyprune"
    if inventory is not None:
        members += _listed(inventory, resource_map)
        name = f"applyprune:{applyset.namespace}:{applyset.name}"
    return roles(members, resolved.desired, applyset, resource_map, name=name)


def _listed(inventory: Inventory, resource_map: ResourceMap) -> Iterator[Member]:
    for ref, entry in inventory.entries.items():
        recorded = Resource(
            ref.group, entry.version, ref.kind, entry.plural, namespaced=bool(ref.namespace)
        )
        yield Member(resource_map.find_kind(ref.group_kind) or recorded, ref)
