"""Find the dependencies of an object: those in its annotation, and those that its fields name.

``config.kubernetes.io/depends-on`` is the annotation of kustomize and cli-utils, with their syntax:
``GROUP/KIND/NAME`` or ``GROUP/namespaces/NAMESPACE/KIND/NAME``, comma-separated, GROUP empty for
the core group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import API_SERVICES, CRD, mapping, namespace_ref
from applyprune.model.plan import Desired
from applyprune.planning.checks.references import references
from applyprune.planning.schema.crd import defined_kinds

if TYPE_CHECKING:
    from applyprune.model.problem import Origin

DEPENDS_ON = "config.kubernetes.io/depends-on"


def asked_for(metadata: Mapping[str, Any], origin: Origin) -> tuple[Ref, ...]:
    """Return the objects that the depends-on annotation names; raises InputError if invalid."""
    text = str(mapping(metadata.get("annotations")).get(DEPENDS_ON, ""))
    if not text.strip():
        return ()
    found: list[Ref] = []
    for part in text.split(","):
        fields = part.strip().split("/")
        match fields:
            case [group, kind, name] if kind and name:
                found.append(Ref(group, kind, "", name))
            case [group, "namespaces", namespace, kind, name] if namespace and kind and name:
                found.append(Ref(group, kind, namespace, name))
            case _:
                raise InputError(
                    f"invalid {DEPENDS_ON}",
                    location=origin,
                    reason=f"{part.strip()!r} does not name an object",
                    hint="Write GROUP/KIND/NAME, or GROUP/namespaces/NAMESPACE/KIND/NAME; GROUP is "
                    "empty for the core group, as in /namespaces/shop/ConfigMap/web.",
                    field=("metadata", "annotations", DEPENDS_ON),
                )
    return tuple(found)


def needed(desired: Desired, brings: Mapping[GroupKind, Ref]) -> Iterator[Ref]:
    """Yield the objects that the fields of an object name, in the set or not.

    ``brings`` has the CRD of each kind that the set defines.
    """
    ref, body = desired.ref, desired.body
    if ref.namespace:
        yield namespace_ref(ref.namespace)
    if (definition := brings.get(ref.group_kind)) is not None:
        yield definition
    group, _, version = body["apiVersion"].rpartition("/")
    served_by = f"{version}.{group}"
    yield Ref(API_SERVICES.group, API_SERVICES.kind, "", served_by)  # guard: api-service-order
    yield from (found.ref for found in references(ref, body) if found.orders)


def brought(desired: Mapping[Ref, Desired]) -> Mapping[GroupKind, Ref]:
    """Return the CRD of each kind that the set defines."""
    return {
        kind: ref
        for ref, manifest in desired.items()
        if ref.group_kind == CRD
        for kind in defined_kinds(manifest.body)
    }
