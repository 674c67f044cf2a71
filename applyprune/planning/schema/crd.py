"""Read the resources that a CustomResourceDefinition defines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import GroupKind
from applyprune.model.live import Resource, mapping

if TYPE_CHECKING:
    from applyprune.model.live import ResourceMap


def defined_resources(definition: Mapping[str, Any]) -> tuple[Resource, ...]:
    """Return a resource for each served version; none for a malformed definition."""
    spec = mapping(definition.get("spec"))
    names = mapping(spec.get("names"))
    group, kind, plural = spec.get("group"), names.get("kind"), names.get("plural")
    versions = spec.get("versions")
    if not (isinstance(group, str) and isinstance(kind, str) and isinstance(plural, str)):
        return ()
    if not isinstance(versions, list):
        return ()
    served = (mapping(version) for version in versions)
    singular, short = names.get("singular"), names.get("shortNames")
    return tuple(
        Resource(
            group,
            version["name"],
            kind,
            plural,
            namespaced=spec.get("scope") == "Namespaced",
            singular=singular if isinstance(singular, str) else "",
            short_names=tuple(map(str, short)) if isinstance(short, list) else (),
            has_status="status" in mapping(version.get("subresources")),
        )
        for version in served
        if version.get("served") is True and isinstance(version.get("name"), str)
    )


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


def defined_kinds(definition: Mapping[str, Any]) -> frozenset[GroupKind]:
    """Return the kind that a definition defines; empty for a malformed definition."""
    return frozenset(resource.group_kind for resource in defined_resources(definition))


def has_status(definition: Mapping[str, Any]) -> bool:
    """Return whether the objects of a CRD have a status."""
    versions = mapping(definition.get("spec")).get("versions")
    for version in versions if isinstance(versions, list) else ():
        facts = mapping(version)
        if "status" in mapping(facts.get("subresources")):
            return True
        schema = mapping(mapping(facts.get("schema")).get("openAPIV3Schema"))
        if "status" in mapping(schema.get("properties")):
            return True
    return False


def schema_of(definition: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """Return the openAPIV3Schema of a version; None without one, or if it keeps unknown fields."""
    spec = mapping(definition.get("spec"))
    versions = spec.get("versions")
    for item in versions if isinstance(versions, list) else ():
        if mapping(item).get("name") == version and spec.get("preserveUnknownFields") is not True:
            schema = mapping(mapping(item).get("schema")).get("openAPIV3Schema")
            return schema if isinstance(schema, dict) else None
    return None


def refused_names(definition: Mapping[str, Any]) -> str:
    """Return why the API server rejects the names of a live CRD; empty if it does not."""
    condition = _condition(definition, "NamesAccepted")
    return str(condition.get("message", "")) if condition.get("status") == "False" else ""


def _condition(definition: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = mapping(definition.get("status")).get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if mapping(condition).get("type") == kind:
            return mapping(condition)
    return {}
