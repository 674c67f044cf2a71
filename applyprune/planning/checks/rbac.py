"""Say which roles the account of a set needs: the least rights that apply, prune and delete it.

A namespace limits what a rule allows there, so its rules are for kinds. Nothing limits a rule in
cluster scope except names, so its rules name the objects that may be written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import GroupKind
from applyprune.model.live import (
    API_SERVICES,
    AUTOSCALERS,
    CONFIG_MAPS,
    CRD,
    DEFINITIONS,
    EVENTS,
    GUARDED_KINDS,
    NAMESPACE,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    ResourceMap,
)
from applyprune.planning.ownership.default_rules import may_be_autoscaled
from applyprune.planning.readiness.wait_rules import WITH_PODS
from applyprune.planning.schema.crd import defined_resources
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.live import Resource
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity

RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "patch", "delete")
_NAMED = ("get", "create", "patch", "delete")
_INVENTORY = ("get", "list", "create", "update", "delete")
_ROLES = frozenset({GroupKind(RBAC, "ClusterRole"), GroupKind(RBAC, "Role")})
_BINDINGS = frozenset({GroupKind(RBAC, "ClusterRoleBinding"), GroupKind(RBAC, "RoleBinding")})
_OF_RBAC = (
    "The set has roles or bindings. The server lets an account write a role only if the account",
    "has every right in it, or the verb escalate; and a binding only if it has every right of the",
    "role, or the verb bind. These rights are not here: add those that you want to give.",
)


@dataclass(frozen=True, slots=True)
class Member:
    """An object of a set, with its endpoint."""

    resource: Resource
    ref: Ref


@dataclass(frozen=True, slots=True)
class RoleText:
    """A document to print, and the comments above it."""

    body: Mapping[str, Any]
    comments: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """Return the namespace of a Role; empty for a ClusterRole."""
        return str(self.body["metadata"].get("namespace", ""))


def roles(
    members: Iterable[Member],
    desired: Sequence[Desired],
    applyset: ApplySetIdentity,
    resource_map: ResourceMap,
    *,
    name: str,
) -> Sequence[RoleText]:
    """Return the roles for a set: one for each namespace, that of the inventory first.

    ``members`` are the objects of the input and those that the inventory lists; ``desired`` are
    those of the input. Each role is called ``name``.
    """
    by_namespace: defaultdict[str, list[Member]] = defaultdict(list)
    for member in members:
        by_namespace[member.ref.namespace].append(member)
    in_cluster = by_namespace.pop("", [])
    contained = {one.ref.name for one in in_cluster if one.ref.group_kind == NAMESPACE}
    home = applyset.namespace
    places = [home, *sorted(({*by_namespace} | contained) - {home})]
    # What a deletion cascades to is counted among these kinds.
    guarded = [one for kind in GUARDED_KINDS if (one := resource_map.find_kind(kind)) is not None]
    scaled = {one.ref for one in desired if may_be_autoscaled(one, ())}

    def rules_in(place: str) -> Iterator[Mapping[str, Any]]:
        if place == home:
            yield _rule([CONFIG_MAPS], _INVENTORY)
            # A plan file identifies the cluster by the UID of this namespace.
            yield _rule([NAMESPACES], ("get",), [home])
        yield from _rules_of(by_namespace[place], guarded, scaled)
        if place in contained:
            yield {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}

    found = [
        RoleText(
            _role(name, place, tuple(rules_in(place))),
            tuple(_comments(place, by_namespace[place], contained)),
        )
        for place in places
    ]
    rules = tuple(_cluster_rules(in_cluster, desired, guarded))
    return (*found, RoleText(_role(name, "", rules), _of_rbac(in_cluster)))


def bindings(
    found: Iterable[RoleText], subjects: Sequence[Mapping[str, str]]
) -> Iterator[RoleText]:
    """Yield a binding of each role to the subjects; none without subjects."""
    for role in found if subjects else ():
        kind = role.body["kind"]
        yield RoleText(
            {
                "apiVersion": role.body["apiVersion"],
                "kind": f"{kind}Binding",
                "metadata": role.body["metadata"],
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role.body["metadata"]["name"]},
                "subjects": [dict(subject) for subject in subjects],
            }
        )


def _role(name: str, namespace: str, rules: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": metadata,
        "rules": list(rules),
    }


def _rules_of(
    members: Sequence[Member], guarded: Iterable[Resource], scaled: Collection[Ref]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rules for the objects in one namespace; ``scaled`` are those with replicas."""
    resources = {member.resource.full_plural: member.resource for member in members}
    yield from _rules(resources.values(), (*_READ, *_WRITE))
    has_pods = any(resource.group_kind in WITH_PODS for resource in resources.values())
    if has_pods:  # why an object is not ready
        yield from _rules((EVENTS, PODS, REPLICA_SETS), _READ)
    if has_pods or any(member.ref in scaled for member in members):
        yield _rule([AUTOSCALERS], ("list",))  # which of them sets the replicas
    if members:
        counted = (one for one in guarded if one.namespaced)
        yield from _rules((one for one in counted if one.full_plural not in resources), ("list",))


def _comments(namespace: str, members: Sequence[Member], contained: Iterable[str]) -> Iterator[str]:
    if namespace in contained:
        yield f"The namespace {namespace} is in the set. Create it before this Role: the set adopts"
        yield "it then. Before its deletion, a run counts everything in it: the rule with *."
    yield from _of_rbac(members)


def _of_rbac(members: Sequence[Member]) -> tuple[str, ...]:
    kinds = {member.ref.group_kind for member in members}
    return () if kinds.isdisjoint(_ROLES | _BINDINGS) else _OF_RBAC


def _cluster_rules(
    members: Sequence[Member], desired: Sequence[Desired], guarded: Iterable[Resource]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rules for cluster scope."""
    resources = {member.resource.full_plural: member.resource for member in members}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for member in members:
        names[member.resource.full_plural].add(member.ref.name)
    yield from _rules(resources.values(), ("list", "watch"))
    for plural, resource in sorted(resources.items()):
        yield _rule([resource], _NAMED, sorted(names[plural]))
    # They prove that the list of kinds is complete.
    proofs = {one.full_plural: one for one in (DEFINITIONS, API_SERVICES)}
    if members:
        # An object in cluster scope may own others in any namespace.
        proofs |= {one.full_plural: one for one in guarded}
    defined = (one for one in desired if one.ref.group_kind == CRD)
    proofs |= {
        one.full_plural: one for definition in defined for one in defined_resources(definition.body)
    }
    yield from _rules((one for key, one in proofs.items() if key not in resources), ("list",))


def _rules(resources: Iterable[Resource], verbs: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield one rule for each API group."""
    groups: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in resources:
        groups[resource.group].append(resource)
    for _, found in sorted(groups.items()):
        yield _rule(found, verbs)


def _rule(
    resources: Sequence[Resource], verbs: Sequence[str], names: Sequence[str] = ()
) -> Mapping[str, Any]:
    rule = {
        "apiGroups": [resources[0].group],
        "resources": sorted({resource.plural for resource in resources}),
        "verbs": list(verbs),
    }
    return {**rule, "resourceNames": list(names)} if names else rule
