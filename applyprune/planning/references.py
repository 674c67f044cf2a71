"""The objects that the fields of an object name, and what Pods read from others.

This is the only table of references: the order of a set uses it, and the check of references.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.kinds import (
    API_SERVICE,
    AUTOSCALER,
    CLAIM,
    CLUSTER_ROLE,
    CRD,
    DEPLOYMENT,
    GATEWAY,
    GATEWAY_CLASS,
    INGRESS,
    INGRESS_CLASS,
    MUTATING_WEBHOOKS,
    MUTATION,
    MUTATION_BINDING,
    POD,
    POLICY,
    POLICY_BINDING,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    STORAGE_CLASS,
    VALIDATING_WEBHOOKS,
    Trait,
    kinds_with,
    row_of,
)
from applyprune.model.live import Absent, LiveObject, Unknown, field, items, mapping, text
from applyprune.model.problem import Mark, Problem, ProblemKind
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.live import Resource, State
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Field


_ISSUERS = ("cert-manager.io/", "kubernetes.io/tls-acme")
"""Annotations by which a controller creates the Secret of an Ingress or Gateway."""


class Reference(Struct, frozen=True):
    """An object that a field of another object names."""

    ref: Ref
    field: Field
    """The path of the field."""
    optional: bool = False
    """Whether the object may be missing."""
    orders: bool = False
    """Whether the object is applied before the one that names it."""
    keys: tuple[tuple[str, Field], ...] = ()
    """The keys that it must have, each with the field that names the key."""


def references(ref: Ref, body: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the references in the fields of an object; one object may come several times."""
    kind, place = ref.group_kind, template_path(ref.group_kind) or ()
    template = pod_template(kind, body)
    for reading in readings(template):
        yield Reference(
            Ref("", reading.kind, ref.namespace, reading.name),
            (*place, *reading.path),
            # A Pod starts without the credentials for its images, but cannot pull them.
            optional=reading.optional and reading.way is not Way.START,
            orders=True,
            keys=tuple((key, (*place, *path)) for key, path in reading.required),
        )
    if template:
        spec = mapping(template.get("spec"))
        for rule in _POD:
            yield from _by_rule(rule, ref.namespace, spec, (*place, "spec"))
    annotations = mapping(field(body, "metadata", "annotations"))
    issued = kind in {INGRESS, GATEWAY} and any(name.startswith(_ISSUERS) for name in annotations)
    # A claim that names its volume needs no class.
    bound = kind == CLAIM and bool(text(body, "spec", "volumeName"))
    for rule in _RULES.get(kind, ()):
        optional = bound or (issued and rule.kind == SECRET)
        yield from _by_rule(rule, ref.namespace, body, (), optional=optional)


def may_refer(desired: Desired) -> bool:
    """Return False only if an object has no references; its body is not parsed for that."""
    kind = desired.ref.group_kind
    return has_references(kind) and (
        kind in _RULES or kind == POD or desired.packed.mentions("template")
    )


def has_references(kind: GroupKind) -> bool:
    """Return whether the references of a kind are known."""
    return kind in _RULES or template_path(kind) is not None


_CLUSTER_SCOPED = kinds_with(Trait.CLUSTER_SCOPED)


def _by_rule(
    rule: _Rule,
    namespace: str,
    body: Mapping[str, Any],
    place: Field,
    *,
    optional: bool = False,
) -> Iterator[Reference]:
    if rule.path[0] not in body:
        return  # as nearly always
    for path, value in _values_at(body, rule.path, place):
        found = {"name": value} if isinstance(value, str) else mapping(value)
        name, kind = text(found, "name"), _kind(found, rule.kind)
        if not name or (rule.only and kind != rule.kind):
            continue
        own = "" if kind in _CLUSTER_SCOPED else text(found, "namespace") or namespace
        where = path if isinstance(value, str) else (*path, "name")
        yield Reference(
            Ref(kind.group, kind.kind, own, name), where, optional=optional, orders=rule.orders
        )


def _kind(found: Mapping[str, Any], usual: GroupKind) -> GroupKind:
    kind = text(found, "kind")
    if not kind:
        return usual
    group = usual.group
    for key in ("group", "apiGroup"):
        if isinstance(found.get(key), str):
            group = found[key]
    if version := text(found, "apiVersion"):
        group = version.rpartition("/")[0]
    return GroupKind(group, kind)


def _values_at(
    value: object, path: tuple[str, ...], place: Field
) -> Iterator[tuple[Field, object]]:
    if not path:
        yield place, value
        return
    step, rest = path[0], path[1:]
    if step == "*":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _values_at(item, rest, (*place, index))
    elif (inner := mapping(value).get(step)) is not None:
        yield from _values_at(inner, rest, (*place, step))


# The table of references.


class _Rule(Struct, frozen=True):
    """Fields of a kind that name objects.

    Each field is a name, or a mapping with a name and perhaps a namespace, a group and a kind.
    """

    path: tuple[str, ...]
    """The path; ``*`` stands for each item of a list."""
    kind: GroupKind
    """The kind that is named, unless the field names another one."""
    orders: bool = False
    only: bool = False
    """Whether to ignore fields that name another kind."""


_POD: tuple[_Rule, ...] = (
    _Rule(("priorityClassName",), PRIORITY_CLASS),
    _Rule(("runtimeClassName",), RUNTIME_CLASS),
    _Rule(
        ("volumes", "*", "ephemeral", "volumeClaimTemplate", "spec", "storageClassName"),
        STORAGE_CLASS,
    ),
    _Rule(("volumes", "*", "csi", "nodePublishSecretRef"), SECRET),
)
_BINDING = (
    _Rule(("roleRef",), CLUSTER_ROLE, orders=True),
    _Rule(("subjects", "*"), SERVICE_ACCOUNT, orders=True, only=True),
)
_WEBHOOKS = (_Rule(("webhooks", "*", "clientConfig", "service"), SERVICE, orders=True),)
_ROUTE = (
    _Rule(("spec", "parentRefs", "*"), GATEWAY),
    _Rule(("spec", "rules", "*", "backendRefs", "*"), SERVICE),
)
_RULES: Mapping[GroupKind, tuple[_Rule, ...]] = {
    **dict.fromkeys(kinds_with(Trait.BINDING), _BINDING),
    MUTATING_WEBHOOKS: _WEBHOOKS,
    VALIDATING_WEBHOOKS: _WEBHOOKS,
    # The server checks by the policy whether the account may read the parameters.
    POLICY_BINDING: (_Rule(("spec", "policyName"), POLICY, orders=True),),
    MUTATION_BINDING: (_Rule(("spec", "policyName"), MUTATION, orders=True),),
    # The token controller deletes a token whose ServiceAccount does not exist.
    SECRET: (
        _Rule(
            ("metadata", "annotations", "kubernetes.io/service-account.name"),
            SERVICE_ACCOUNT,
            orders=True,
        ),
    ),
    API_SERVICE: (_Rule(("spec", "service"), SERVICE, orders=True),),
    CRD: (_Rule(("spec", "conversion", "webhook", "clientConfig", "service"), SERVICE),),
    CLAIM: (_Rule(("spec", "storageClassName"), STORAGE_CLASS),),
    SERVICE_ACCOUNT: (_Rule(("imagePullSecrets", "*"), SECRET),),
    STATEFUL_SET: (
        _Rule(("spec", "serviceName"), SERVICE),
        _Rule(("spec", "volumeClaimTemplates", "*", "spec", "storageClassName"), STORAGE_CLASS),
    ),
    AUTOSCALER: (_Rule(("spec", "scaleTargetRef"), DEPLOYMENT),),
    INGRESS: (
        _Rule(("spec", "ingressClassName"), INGRESS_CLASS),
        _Rule(("spec", "defaultBackend", "service"), SERVICE),
        _Rule(("spec", "rules", "*", "http", "paths", "*", "backend", "service"), SERVICE),
        _Rule(("spec", "tls", "*", "secretName"), SECRET),
    ),
    GATEWAY: (
        _Rule(("spec", "gatewayClassName"), GATEWAY_CLASS),
        _Rule(("spec", "listeners", "*", "tls", "certificateRefs", "*"), SECRET),
    ),
    **{
        GroupKind(GATEWAY.group, kind): _ROUTE
        for kind in ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")
    },
}


# The Pod template of a workload, and what its Pods read from other objects.


_GROUPS = frozenset({"", "apps", "batch"})


def pod_template(kind: GroupKind, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Pod template of a workload in the built-in groups, or a Pod itself; else empty."""
    path = template_path(kind)
    return {} if path is None else mapping(field(body, *path))


def template_path(kind: GroupKind) -> tuple[str, ...] | None:
    """Return the path of the Pod template in a workload of the built-in groups; else None."""
    if (path := row_of(kind).template) is not None:
        return path
    return ("spec", "template") if kind.group in _GROUPS else None


class Way(StrEnum):
    """How a Pod reads another object; its value is the word in messages."""

    ENVIRONMENT = "environment"
    """As environment variables, when a container starts."""
    SUB_PATH = "subPath"
    """As a file mounted by ``subPath``, when a container starts."""
    VOLUME = "volume"
    """As a volume; the kubelet updates the files of a ConfigMap or Secret in it."""
    START = "start"
    """Only when the Pod starts: its ServiceAccount, or the credentials to pull an image."""


class Reading(Struct, frozen=True):
    """An object that a Pod names in its own namespace."""

    kind: str
    """ConfigMap, Secret, PersistentVolumeClaim or ServiceAccount."""
    name: str
    way: Way
    keys: frozenset[str] | None = None
    """The keys that it reads; None for all of them."""
    optional: bool = False
    """Whether the Pod starts without the object."""
    path: Field = ()
    """The field of the Pod template that names the object."""
    required: tuple[tuple[str, Field], ...] = ()
    """The keys without which the Pod does not start, each with the field that names it."""


def readings(template: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield what the Pods of a template read; a name or a way may come several times."""
    pod = mapping(template.get("spec"))
    spec: Field = ("spec",)
    # The second one is an old name of the first, which decides where both are set.
    account = "serviceAccountName" if text(pod, "serviceAccountName") else "serviceAccount"
    if name := text(pod, account):
        yield Reading("ServiceAccount", name, Way.START, path=(*spec, account))
    for path, secret in _mappings(pod, spec, "imagePullSecrets"):
        if name := text(secret, "name"):
            yield Reading("Secret", name, Way.START, optional=True, path=(*path, "name"))
    containers = [
        found for part in ("containers", "initContainers") for found in _mappings(pod, spec, part)
    ]
    mounts = [
        mount
        for place, container in containers
        for _, mount in _mappings(container, place, "volumeMounts")
    ]
    for path, volume in _mappings(pod, spec, "volumes"):
        own = [mount for mount in mounts if mount.get("name") == volume.get("name")]
        for place, source in ((path, volume), *_mappings(volume, path, "projected", "sources")):
            yield from _from_volume(source, place, own)
        if name := text(volume, "persistentVolumeClaim", "claimName"):
            place = (*path, "persistentVolumeClaim", "claimName")
            yield Reading("PersistentVolumeClaim", name, Way.VOLUME, path=place)
    for path, container in containers:
        yield from _from_environment(container, path)


_SOURCES = (("configMap", "ConfigMap"), ("secret", "Secret"))


def _from_volume(
    source: Mapping[str, Any], place: Field, mounts: Sequence[Mapping[str, Any]]
) -> Iterator[Reading]:
    for part, kind in _SOURCES:
        found = mapping(source.get(part))
        # A secret volume has secretName; a projected volume has name.
        named = "secretName" if text(found, "secretName") else "name"
        name = text(found, named)
        if not name:
            continue
        optional = found.get("optional") is True
        chosen = tuple(_mappings(found, (*place, part), "items"))
        paths = {text(item, "path"): text(item, "key") for _, item in chosen}
        required = tuple((text(item, "key"), (*path, "key")) for path, item in chosen)
        for mount in mounts or ({},):
            sub_path = text(mount, "subPath")
            expanded = sub_path or text(mount, "subPathExpr")
            way = Way.SUB_PATH if expanded else Way.VOLUME
            keys = frozenset(paths.values()) if paths else None
            if sub_path and not paths:
                keys = frozenset({sub_path})
            elif sub_path:
                below = f"{sub_path.rstrip('/')}/"
                keys = frozenset(
                    key for path, key in paths.items() if path == sub_path or path.startswith(below)
                )
            yield Reading(kind, name, way, keys, optional, (*place, part, named), required)


def _from_environment(container: Mapping[str, Any], place: Field) -> Iterator[Reading]:
    for part, inside, end in (("envFrom", (), "Ref"), ("env", ("valueFrom",), "KeyRef")):
        for path, item in _mappings(container, place, part):
            for source, kind in _SOURCES:
                where = (*inside, f"{source}{end}")
                found = mapping(field(item, *where))
                if not (name := text(found, "name")):
                    continue
                # An item of ``env`` reads one key.
                keys = (text(found, "key"),) if part == "env" else ()
                yield Reading(
                    kind,
                    name,
                    Way.ENVIRONMENT,
                    frozenset(keys) or None,
                    found.get("optional") is True,
                    (*path, *where, "name"),
                    tuple((key, (*path, *where, "key")) for key in keys),
                )


def _mappings(
    body: Mapping[str, Any], place: Field, *path: str
) -> Iterator[tuple[Field, Mapping[str, Any]]]:
    """Yield the items of the list at a path of ``body``, each with its whole path."""
    for index, item in enumerate(items(body, *path)):
        yield (*place, *path, index), mapping(item)


# What a custom resource may name: the fields of its kind are not known.


_NAMED_BY_CUSTOM = kinds_with(Trait.NAMED_BY_CUSTOM)
_BETWEEN_NAMES = pattern("[/:]")


def names_in(custom: Ref, body: Mapping[str, Any], refs: Collection[Ref]) -> Iterator[Ref]:
    """Yield those of ``refs`` that a custom resource may name, in a field that only it knows."""
    annotations = mapping(body.get("metadata")).get("annotations")
    fields = [annotations, *(value for key, value in body.items() if key != "metadata")]
    # A field may hold a name alone, or NAMESPACE/NAME.
    words = {word for one in texts_in(fields) for word in (one, *_BETWEEN_NAMES.split(one))}
    for ref in refs:
        near = not custom.namespace or ref.namespace == custom.namespace
        is_named = ref.name in words and (near or ref.namespace in words)
        if is_named and ref.group_kind in _NAMED_BY_CUSTOM:
            yield ref


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a value."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one)


# Owners: the garbage collector deletes an object if none of its owners exists.
#
# It looks for an owner by kind and name, in the namespace of the object, and another UID is another
# object. So the ownerReferences of a manifest that was exported from a cluster delete the object
# elsewhere, after each create. An owner whose kind is not served, or that the collector cannot have
# in this place, decides nothing.


class OwnerReference(Struct, frozen=True):
    """An owner of an object."""

    gvk: GVK
    name: str
    uid: str
    place: Field = ()
    """Its path in the manifest; empty if only the live object has it."""


def owner_references(body: Mapping[str, Any], live: LiveObject | None) -> Sequence[OwnerReference]:
    """Return the owners that an object will have: those of its manifest, and of others."""
    found: dict[str, OwnerReference] = {}
    own = items(body, "metadata", "ownerReferences")
    others = items(live.metadata, "ownerReferences") if live is not None else ()
    for index, owner in enumerate((*own, *others)):
        words = [text(mapping(owner), key) for key in ("apiVersion", "kind", "name", "uid")]
        if all(words):
            version, kind, name, uid = words
            place: Field = ("metadata", "ownerReferences", index) if index < len(own) else ()
            one = OwnerReference(GVK.parse(version, kind), name, uid, place)
            found.setdefault(uid, one)
    return tuple(found.values())


def place_of_owner(owner: OwnerReference, child: Ref, resource: Resource | None) -> Ref | None:
    """Return where the garbage collector looks for an owner; None if it looks nowhere."""
    if resource is None or (resource.namespaced and not child.namespace):
        return None
    namespace = child.namespace if resource.namespaced else ""
    return Ref(resource.group, resource.kind, namespace, owner.name)


def judged_owners(
    desired: Desired,
    owners: Sequence[OwnerReference],
    places: Mapping[OwnerReference, Ref],
    states: Mapping[Ref, State],
    inside: Collection[Ref],
) -> tuple[Problem | None, Problem | None]:
    """Return why an object may not be applied, and the warning about its owners.

    ``places`` are where the collector looks for them, and ``states`` what is there. Only proofs
    refuse an object. ``inside`` are the objects of the input.
    """
    found = {one: states[places[one]] if one in places else None for one in owners}
    gone = [one for one, state in found.items() if _is_gone(one, state)]
    if gone and len(gone) == len(owners):  # guard: owner-is-gone never
        first = next((one for one in gone if one.place), gone[0])
        return _without_owner(desired, first, places[first], found[first], inside), None
    proved = [one for one in owners if isinstance(found[one], LiveObject) and one not in gone]
    unsure = [one for one in owners if one.place and one not in proved]
    return None, _unsure_owners(desired, unsure, gone, found) if unsure else None


def _is_gone(owner: OwnerReference, state: State | None) -> bool:
    """Return whether it is proved that no object has the UID of an owner."""
    return isinstance(state, Absent) or (isinstance(state, LiveObject) and state.uid != owner.uid)


def _without_owner(
    desired: Desired, owner: OwnerReference, at: Ref, state: State | None, inside: Collection[Ref]
) -> Problem:
    reason = f"{at.short} has another UID"
    if not isinstance(state, LiveObject):
        where = f" in namespace {at.namespace}" if at.namespace else ""
        reason = f"there is no {at.short}{where}, where the garbage collector looks for it"
    hint = "Remove metadata.ownerReferences: a manifest that was exported from a cluster has them."
    if at in inside:
        hint = (
            "Remove metadata.ownerReferences: an object of the input gets its UID when it is "
            "created."
        )
    error = InputError(
        f"{desired.ref}: no object has the UID of its owner {at.short}, so the garbage collector "
        "would delete it after each apply",
        location=desired.origin,
        reason=reason,
        hint=hint,
        field=owner.place,
    )
    return error.problem


def _unsure_owners(
    desired: Desired,
    unsure: Sequence[OwnerReference],
    gone: Sequence[OwnerReference],
    found: Mapping[OwnerReference, State | None],
) -> Problem:
    first, state = unsure[0], found[unsure[0]]
    named = f"{first.gvk.kind.lower()}/{first.name}"
    message = f"it is not known whether its owner {named} exists"
    reason = "if no object has the UID of an owner, the garbage collector may delete it"
    if first in gone:
        message = f"no object has the UID of its owner {named}"
        if any(isinstance(found[one], LiveObject) for one in found if one not in gone):
            reason = "another owner exists, so the garbage collector removes that ownerReference"
    elif isinstance(state, Unknown):
        reason = f"{state.problem.message}; {reason}"
    return Problem(
        ProblemKind.MISSING_REFERENCE,
        f"{desired.ref.short}: {message}",
        location=str(desired.origin),
        reason=reason,
        origin=desired.origin,
        field=first.place,
        marks=tuple(Mark(one.place) for one in unsure),
    )
