"""Read what another tool has recorded of one of its sets: one list of names, and one object."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Forbidden
from applyprune.planning.tool_records import chosen, members_of, no_record, resources_of
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject, ResourceMap
    from applyprune.planning.tool_records import Documents, Members, RecordName


def recorded_members(
    cluster: Cluster,
    resource_map: ResourceMap,
    record: RecordName,
    namespace: str,
    documents: Documents,
) -> Members:
    """Return the objects that the record names, which is in ``namespace``.

    Only the object that has the record is read in full: of the other revisions of a Helm release,
    nothing but the metadata. Raises UsageError if there is no such record, InventoryError if it
    cannot be read, and Forbidden with the rights that it takes.
    """
    found: list[LiveObject] = []
    for resource in resources_of(record, resource_map):
        where = namespace if resource.namespaced else ""
        try:
            found += cluster.list(resource, namespace=where, selector=record.selector)
            live, warnings = chosen(record, found)
            if live is None:
                continue
            whole = cluster.get(resource, live.ref, full=not record.is_in_metadata)
        except Forbidden as error:
            # What the server says about a Secret is hidden: it names no right.
            place = f" in namespace {where}" if where else ""
            raise Forbidden(
                f"the record of {record} cannot be read",
                code=error.code,
                reason=error.message,
                hint=f"Ask for the rights to list and get {resource.full_plural}{place}.",
            ) from None
        members = members_of(record, whole, resource_map, documents)
        return replace(members, warnings=(*warnings, *members.warnings))
    elsewhere = set(_elsewhere(cluster, resource_map, record))
    raise no_record(record, namespace, found, elsewhere)


def _elsewhere(cluster: Cluster, resource_map: ResourceMap, record: RecordName) -> Iterator[str]:
    """Yield the namespaces that have a record of this name, as far as they may be read."""
    for resource in resources_of(record, resource_map):
        with suppress(ApplypruneError):
            for live in cluster.list(resource, selector=record.own_selector):
                if record.is_in(live):
                    yield live.ref.namespace
