"""Prove that the list of kinds is complete; what a kind that is not served means; kinds of CRDs.

Discovery is only a hint: an API server that has just started lists the built-in groups only and
marks none as stale. So it must agree with the lists of CRDs and APIServices, which are read from
the storage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from applyprune.errors import Unavailable
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.kinds import CRD
from applyprune.model.live import (
    API_SERVICES,
    Absent,
    CompleteResourceMap,
    KindDeleted,
    LiveObject,
    NotListed,
    Registrations,
    Resource,
    ResourceMap,
    State,
    Unknown,
    condition,
    field,
    items,
    mapping,
    text,
)
from applyprune.model.problem import Manifest, Problem, ProblemKind
from applyprune.model.text import and_more

_SHOWN = 3


def prove(
    resource_map: ResourceMap,
    registered: Registrations,
    *,
    groups: Collection[str] | None = None,
    but: Collection[str] = (),
    removed: Collection[str] = (),
) -> CompleteResourceMap | MissingKinds:
    """Return the proof that no kind is missing in ``groups``, or what is missing.

    ``groups`` None stands for all groups, except ``but``. ``removed`` are APIServices that need not
    answer. One that is not available, and an aggregated API in the place of a CRD, block their own
    group only.
    """

    def counts(group: str) -> bool:
        return (groups is None or group in groups) and group not in but

    listed = [_Service.of(live) for live in registered.services]
    services = [one for one in listed if one.name not in removed]
    going = {one.group for one in listed if one.name in removed}
    taken = {(one.group, one.version) for one in services if one.is_aggregated}
    silent = {one.group for one in services if not one.is_available} | (resource_map.stale - going)
    definitions = []
    for live in registered.definitions:
        body = live.body or {}
        resources = defined_resources(body) if is_established(body) else ()
        wanted = [resource for resource in resources if counts(resource.group)]
        silent.update(
            resource.group for resource in wanted if (resource.group, resource.version) in taken
        )
        if any(resource_map.find(resource.gvk) != resource for resource in wanted):
            definitions.append(live.ref.name)
    silent = {group for group in silent if counts(group)}
    versions = (
        one.name
        for one in services
        if counts(one.group)
        and one.group not in silent
        and (one.group, one.version) not in resource_map.versions
    )
    missing = MissingKinds(
        tuple(name for name in definitions if name.partition(".")[2] not in silent),
        tuple(sorted(versions)),
        tuple(sorted(silent)),
    )
    if missing.reason:
        return missing
    return CompleteResourceMap(resource_map, None if groups is None else frozenset(groups))


class MissingKinds(Struct, frozen=True):
    """Why the list of kinds is not proved complete."""

    definitions: tuple[str, ...] = ()
    """The CRDs whose kinds are not all served."""
    versions: tuple[str, ...] = ()
    """The available APIServices whose group version discovery does not list."""
    silent: tuple[str, ...] = ()
    """The API groups that do not answer."""
    unread: str = ""
    """Why the CRDs or APIServices could not be read."""
    is_forbidden: bool = False
    """Whether reading them is forbidden."""

    @property
    def reason(self) -> str:
        """Return why, in words."""
        parts = [f"the list of kinds is not proved: {self.unread}"] if self.unread else []
        if len(self.definitions) == 1:
            parts.append(f"the kind of the CRD {self.definitions[0]} is not served")
        elif self.definitions:
            parts.append(f"the kinds of {len(self.definitions)} CRDs are not served")
        if self.versions:
            parts.append(f"not served: {and_more(self.versions, _SHOWN)}")
        parts += [f"the API group {group} does not answer" for group in self.silent[:_SHOWN]]
        if (more := len(self.silent) - _SHOWN) > 0:
            parts.append(f"and {more} more API groups")
        return "; ".join(parts)

    @property
    def is_passing(self) -> bool:
        """Return whether only kinds are missing that come or go: the next try may find them."""
        return not (self.silent or self.unread)

    @property
    def only_silent(self) -> bool:
        """Return whether nothing is missing in the groups that answer."""
        return not (self.definitions or self.versions or self.unread)


def still_registered(registered: Registrations, gone: Collection[Ref]) -> Registrations:
    """Return what the server should still serve after some objects, of any kinds, are gone.

    With a CRD, the server may remove the APIService that it has made for its group version.
    """
    definitions = {ref.name for ref in gone if ref.group_kind == CRD}
    services = {ref.name for ref in gone if ref.group_kind == API_SERVICES.group_kind}
    groups = {name.partition(".")[2] for name in definitions}
    return Registrations(
        tuple(live for live in registered.definitions if live.ref.name not in definitions),
        tuple(
            live
            for live in registered.services
            if live.ref.name not in services
            and (is_aggregated(live) or _Service.of(live).group not in groups)
        ),
    )


class _Service(NamedTuple):
    name: str
    group: str
    version: str
    is_aggregated: bool
    is_available: bool

    @classmethod
    def of(cls, live: LiveObject) -> _Service:
        body = live.body or {}
        group, version = text(body, "spec", "group"), text(body, "spec", "version")
        return cls(live.ref.name, group, version, is_aggregated(live), _is_true(body, "Available"))


def has_all_kinds(
    found: ResourceMap, manifests: Collection[Manifest], inventory: Inventory
) -> bool:
    """Return whether a list of kinds names those of an input and an inventory, each as recorded."""
    recorded = ((found.find_kind(ref.group_kind), one) for ref, one in inventory.entries.items())
    groups = {each.gvk.group for each in manifests} | {ref.group for ref in inventory.entries}
    return (
        all(found.find(manifest.gvk) is not None for manifest in manifests)
        and all(kind is not None and kind.plural == one.plural for kind, one in recorded)
        and not groups & found.stale
    )


def lacking_groups(
    found: ResourceMap,
    manifests: Collection[Manifest],
    coming: Iterable[Manifest],
    inventory: Inventory,
) -> frozenset[str]:
    """Return the API groups of CRDs in which a list of kinds lacks one that is needed.

    That is one of the inventory, or one of the input that none of ``coming`` defines: the CRDs that
    the run applies.
    """
    wanted = {each.gvk for each in manifests if found.find(each.gvk) is None}
    if wanted:
        wanted -= {resource.gvk for each in coming for resource in defined_resources(each.body)}
    groups = {gvk.group for gvk in wanted}
    groups |= {ref.group for ref in inventory.entries if found.find_kind(ref.group_kind) is None}
    return frozenset(group for group in groups - found.stale if "." in group)


def cannot_count(missing: str) -> Unavailable:
    """Return the error of an operation that needs a complete list of kinds."""
    return Unavailable(
        f"cannot count yet: {missing}",
        code=503,
        reason="an API server that has just started does not list all of its kinds",
        hint="Run again. See: kubectl get crds,apiservices",
    )


def unserved_state(
    entry: InventoryEntry,
    definition: State,
    service: State,
    proof: CompleteResourceMap | MissingKinds,
    *,
    wanted: bool,
) -> State:
    """Return the state of an object whose kind is not served, or not under the recorded plural.

    ``definition`` and ``service`` are its CRD and the APIService of its group version, each read by
    a GET, the latter in full. ``wanted`` is set for an object of the input, whose CRD is there too.
    """
    for read in (definition, service):
        if isinstance(read, Unknown):
            return read
    if isinstance(definition, LiveObject) or is_aggregated(service):
        return _unknown(entry, "the kind is defined but not served now")
    is_proved = isinstance(proof, CompleteResourceMap) and isinstance(definition, Absent)
    if entry.crd == _definition_name(entry) and is_proved:  # guard: kind-deleted always
        return KindDeleted()
    if wanted:
        return NotListed()
    if isinstance(proof, MissingKinds):
        return _unknown(entry, not_served_reason(proof))
    return _unknown(
        entry,
        "the server does not serve its kind, and the inventory does not record that "
        f"{_definition_name(entry)} was its CRD",
    )


def deleted_kind(
    resource: Resource,
    registered: Registrations,
    definition: State,
    service: State,
    proof: CompleteResourceMap | MissingKinds,
) -> KindDeleted | None:
    """Return the proof that a kind of the server's list is gone; None without it.

    ``registered`` are the CRDs and APIServices as they were read with that list. For the others,
    see ``unserved_state``.
    """
    name = resource.full_plural
    defined = name if any(live.ref.name == name for live in registered.definitions) else ""
    ref = Ref(resource.group, resource.kind, "", "")
    entry = InventoryEntry(ref, resource.plural, resource.version, None, crd=defined)
    state = unserved_state(entry, definition, service, proof, wanted=False)
    return state if isinstance(state, KindDeleted) else None


def _unknown(entry: InventoryEntry, message: str) -> Unknown:
    return Unknown(
        Problem(
            kind=ProblemKind.NOT_SERVED,
            message=message,
            location=_definition_name(entry) if entry.ref.group else entry.plural,
            hint="It stays in the inventory. See: kubectl api-resources",
        )
    )


def not_served_reason(proof: CompleteResourceMap | MissingKinds) -> str:
    """Return the words for a kind that is not served; ``proof`` is that of its group."""
    missing = f", and {proof.reason}" if isinstance(proof, MissingKinds) else ""
    return f"the server does not serve its kind{missing}"


def silent_problem(group: str, location: str) -> Problem:
    """Return the problem that a group's server does not answer."""
    return Problem(
        kind=ProblemKind.UNAVAILABLE,
        message=f"the server of the API group {group} does not answer",
        location=location,
    )


def definition_of(one: InventoryEntry | Resource) -> Ref:
    """Return the CRD that defines the kind of an entry or a resource, if any does."""
    name = one.full_plural if isinstance(one, Resource) else _definition_name(one)
    return Ref(CRD.group, CRD.kind, "", name)


def _definition_name(entry: InventoryEntry) -> str:
    return f"{entry.plural}.{entry.ref.group}"


def service_of(one: InventoryEntry | Resource) -> Ref:
    """Return the APIService of the group version of an entry or a resource."""
    name = f"{one.version}.{one.group if isinstance(one, Resource) else one.ref.group}"
    return Ref(API_SERVICES.group, API_SERVICES.kind, "", name)


def is_aggregated(service: State) -> bool:
    """Return whether an APIService, read in full, has a backend of its own."""
    return isinstance(service, LiveObject) and bool(field(service.body or {}, "spec", "service"))


# What a CustomResourceDefinition defines.


def defined_resources(definition: Mapping[str, Any]) -> tuple[Resource, ...]:
    """Return a resource for each served version; none for a malformed definition."""
    spec = mapping(definition.get("spec"))
    names = mapping(spec.get("names"))
    group, kind, plural = spec.get("group"), names.get("kind"), names.get("plural")
    if not (isinstance(group, str) and isinstance(kind, str) and isinstance(plural, str)):
        return ()
    return tuple(
        Resource(
            group,
            version["name"],
            kind,
            plural,
            namespaced=spec.get("scope") == "Namespaced",
            singular=text(names, "singular"),
            short_names=tuple(map(str, items(names, "shortNames"))),
            has_status="status" in mapping(version.get("subresources")),
        )
        for version in _versions(definition)
        if version.get("served") is True and isinstance(version.get("name"), str)
    )


def defined_names(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names that only one CRD of a group may have: those of its kinds and of its paths.

    A name that it leaves out has a default.
    """
    names = mapping(field(definition, "spec", "names"))
    kind = text(names, "kind")
    yield "kind", kind
    yield "kind", text(names, "listKind") or f"{kind}List"
    yield "name", text(names, "plural")
    yield "name", text(names, "singular") or kind.lower()
    yield from (("name", str(one)) for one in items(names, "shortNames"))


def defined_kinds(definition: Mapping[str, Any]) -> frozenset[GroupKind]:
    """Return the kind that a definition defines; empty for a malformed definition."""
    return frozenset(resource.group_kind for resource in defined_resources(definition))


def served_versions(
    catalogue: ResourceMap, coming: Iterable[Resource]
) -> Mapping[GroupKind, frozenset[str]]:
    """Return the API versions of each kind: those of its CRD in the input, else those served."""
    served: defaultdict[GroupKind, set[str]] = defaultdict(set)
    defined: defaultdict[GroupKind, set[str]] = defaultdict(set)
    for found, resources in ((served, catalogue.served.values()), (defined, coming)):
        for resource in resources:
            found[resource.group_kind].add(resource.gvk.api_version)
    return {kind: frozenset(versions) for kind, versions in (served | defined).items()}


def has_status(definition: Mapping[str, Any]) -> bool:
    """Return whether the objects of a CRD have a status."""
    return any(
        "status" in mapping(version.get("subresources"))
        or "status" in mapping(field(version, "schema", "openAPIV3Schema", "properties"))
        for version in _versions(definition)
    )


def has_conversion_webhook(definition: Mapping[str, Any]) -> bool:
    """Return whether a webhook converts the objects of a CRD; else only their version changes."""
    return text(definition, "spec", "conversion", "strategy") == "Webhook"


def schema_of(definition: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """Return the openAPIV3Schema of a version; None without one, or if it keeps unknown fields."""
    if mapping(definition.get("spec")).get("preserveUnknownFields") is True:
        return None
    named = (one for one in _versions(definition) if one.get("name") == version)
    schema = mapping(next(named, {}).get("schema")).get("openAPIV3Schema")
    return schema if isinstance(schema, dict) else None


def _versions(definition: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return map(mapping, items(definition, "spec", "versions"))


def is_established(definition: Mapping[str, Any]) -> bool:
    """Return whether a live CRD is Established: from then on, its endpoints answer."""
    return _is_true(definition, "Established")


def _is_true(body: Mapping[str, Any], type_: str) -> bool:
    found = condition(body, type_)
    return found is not None and found.status == "True"


def refused_names(definition: Mapping[str, Any]) -> str:
    """Return why the API server rejects the names of a live CRD; empty if it does not."""
    for one in map(mapping, items(definition, "status", "conditions")):
        if one.get("type") == "NamesAccepted" and one.get("status") == "False":
            return text(one, "message")
    return ""
