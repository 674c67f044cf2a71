"""Which rights the requests of a plan need, and which roles the account of a set.

Server-side apply needs ``patch``, and ``create`` for a new object, both by the object's name. The
inventory is created with a POST, which has no name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from applyprune.errors import Forbidden
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.kinds import CRD, GUARDED_KINDS, NAMESPACE, RBAC, Trait, kinds_with
from applyprune.model.live import (
    API_SERVICES,
    AUTOSCALERS,
    CONFIG_MAPS,
    DEFINITIONS,
    EVENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    Resource,
    ResourceMap,
    namespace_ref,
)
from applyprune.model.plan import (
    Access,
    ApplyStep,
    Cause,
    DeleteRequest,
    Plan,
    RemoveStep,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.normalize import may_be_autoscaled
from applyprune.planning.plan import with_own_exit_code
from applyprune.planning.prune_waits import is_named_by_pods
from applyprune.planning.readiness import WITH_PODS
from applyprune.planning.served_kinds import defined_resources
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity


NO_RIGHT = "this account lacks rights that the plan needs"
_Step = TypeVar("_Step", ApplyStep, RemoveStep)


Need: TypeAlias = tuple[Ref, Access]
"""A right that a plan needs for one object."""
RightsReview: TypeAlias = Sequence[Need] | Problem
"""The rights that are missing by the server's review; the warning if it gives no review."""


def needs_of(
    plan: Plan, applyset: ApplySetIdentity, *, is_new: bool, makes_namespace: bool
) -> Sequence[Need]:
    """Return the rights that the writes of a plan need; none if it writes nothing.

    ``is_new`` says that the set has no inventory yet, and ``makes_namespace`` that the run creates
    the inventory's namespace.
    """
    if not plan.writes:
        return ()
    found = [need for step in plan.applies for need in _of_apply(step)]
    if not plan.no_prune:
        found += [need for step in plan.removals for need in _of_removal(step)]
    inventory = applyset.inventory
    if is_new:
        found.append((inventory, _access("create", CONFIG_MAPS, inventory, named=False)))
    found.append((inventory, _access("update", CONFIG_MAPS, inventory)))
    if makes_namespace:
        namespace = namespace_ref(applyset.namespace)
        found.append((namespace, _access("create", NAMESPACES, namespace, named=False)))
    return found


_APPLY = {
    Fate.CREATE: ("create", "patch"),
    Fate.RECREATE: ("delete", "create", "patch"),
}


def _of_apply(step: ApplyStep) -> Iterator[Need]:
    ref = step.desired.ref
    for verb in _APPLY.get(step.fate, ("patch",)) if step.request is not None else ():
        yield ref, _access(verb, step.desired.resource, ref)


def _of_removal(step: RemoveStep) -> Iterator[Need]:
    if step.resource is not None and step.request is not None:
        verb = "delete" if isinstance(step.request, DeleteRequest) else "patch"
        yield step.entry.ref, _access(verb, step.resource, step.entry.ref)


def _access(verb: str, resource: Resource, ref: Ref, *, named: bool = True) -> Access:
    name = ref.name if named else ""
    # The server authorizes a request for a Namespace as one in that namespace.
    namespace = name if ref.group_kind == NAMESPACE else ref.namespace
    return Access(verb, resource.group, resource.plural, namespace, name)


def with_rights(
    plan: Plan, review: RightsReview | None, applyset: ApplySetIdentity, *, holds: bool
) -> Plan:
    """Return a plan that names every missing right, at the object that needs it.

    A plan that ``holds`` is refused then, as a whole: whoever checks it must find what its run
    would. Of a diff, it is only noted: another account may apply it.
    """
    if review is None:
        return plan
    if holds and any(map(_may_not_be_read, plan.applies)):
        plan = replace(plan, lacks_rights=True)
    if isinstance(review, Problem):
        return replace(plan, warnings=(*plan.warnings, review))
    lacks: defaultdict[Ref, list[Access]] = defaultdict(list)
    for ref, access in review:
        lacks[ref].append(access)
    if not lacks:
        return plan
    problems = {ref: _problem(ref, found, applyset) for ref, found in lacks.items()}
    steps = {step.entry.ref for step in plan.steps}
    others = tuple((ref, problem) for ref, problem in problems.items() if ref not in steps)
    if not holds:
        # Of an account that may only read, the objects say enough.
        unshown = () if steps & lacks.keys() else (problem for _, problem in others)
        return replace(
            plan,
            warnings=(*plan.warnings, *unshown),
            applies=tuple(_noted(step, lacks.get(step.entry.ref)) for step in plan.applies),
            removals=tuple(_noted(step, lacks.get(step.entry.ref)) for step in plan.removals),
        )
    return replace(
        plan,
        applies=tuple(_refused(step, problems.get(step.entry.ref)) for step in plan.applies),
        removals=tuple(_refused(step, problems.get(step.entry.ref)) for step in plan.removals),
        no_prune=plan.no_prune or (NO_RIGHT if plan.removals else ""),
        forbidden=others,
        lacks_rights=True,
    )


def _may_not_be_read(step: ApplyStep) -> bool:
    """Return whether an object is refused already because the account may not even read it."""
    problem = step.problem
    is_forbidden = problem is not None and problem.kind is ProblemKind.FORBIDDEN
    return step.cause is Cause.UNREAD and is_forbidden


def _problem(ref: Ref, lacks: Sequence[Access], applyset: ApplySetIdentity) -> Problem:
    resource = lacks[0].full_plural
    where = f" in namespace {ref.namespace}" if ref.namespace else ""
    error = Forbidden(
        f"{ref.short}: this account may not {_verbs(lacks)} {resource}{where}",
        code=403,
        hint=f"To see the rights that this set needs: {applyset.roles_command}",
    )
    return with_own_exit_code(error.problem)


def _noted(step: _Step, lacks: Sequence[Access] | None) -> _Step:
    if not lacks:
        return step
    return replace(step, not_checked=f"not checked: this account may not {_verbs(lacks)} it")


def _verbs(lacks: Iterable[Access]) -> str:
    verbs = list(dict.fromkeys(access.verb for access in lacks))
    return " or ".join((", ".join(verbs[:-1]), verbs[-1])) if len(verbs) > 1 else verbs[0]


def _refused(step: _Step, problem: Problem | None) -> _Step:
    if problem is None:
        return step
    if isinstance(step, ApplyStep):
        origin = step.desired.origin
        problem = replace(problem, location=str(origin), origin=origin)
        step = replace(step, deletion=None)
    return replace(step, fate=Fate.REFUSE, request=None, problem=problem)


# The roles that the account of a set needs: the least rights that apply, prune and delete it.
#
# A namespace limits what a rule allows there, so its rules are for kinds. Nothing limits a rule in
# cluster scope except names, so its rules name the objects that may be written.


_INVENTORY = ("get", "list", "create", "update", "delete")
_READ = ("get", "list", "watch")
_WRITE = ("create", "patch", "delete")
_NAMED = ("get", "create", "patch", "delete")


class Member(Struct, frozen=True):
    """An object of a set, with its endpoint."""

    resource: Resource
    ref: Ref


class RoleText(Struct, frozen=True):
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
    elif any(is_named_by_pods(member.ref) for member in members):  # who uses what is pruned
        yield from _rules((PODS, REPLICA_SETS), ("list",))
    if has_pods or any(member.ref in scaled for member in members):
        yield _rule([AUTOSCALERS], ("list",))  # which of them sets the replicas
    if members:
        counted = (one for one in guarded if one.namespaced)
        yield from _rules((one for one in counted if one.full_plural not in resources), ("list",))


def _cluster_rules(
    members: Sequence[Member], desired: Sequence[Desired], guarded: Iterable[Resource]
) -> Iterator[Mapping[str, Any]]:
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


def _comments(namespace: str, members: Sequence[Member], contained: Iterable[str]) -> Iterator[str]:
    if namespace in contained:
        yield f"The namespace {namespace} is in the set. Create it before this Role: the set adopts"
        yield "it then. Before its deletion, a run counts everything in it: the rule with *."
    yield from _of_rbac(members)


_GIVES_RIGHTS = kinds_with(Trait.ROLE, Trait.BINDING)
_OF_RBAC = (
    "The set has roles or bindings. The server lets an account write a role only if the account",
    "has every right in it, or the verb escalate; and a binding only if it has every right of the",
    "role, or the verb bind. These rights are not here: add those that you want to give.",
)


def _of_rbac(members: Sequence[Member]) -> tuple[str, ...]:
    kinds = {member.ref.group_kind for member in members}
    return () if kinds.isdisjoint(_GIVES_RIGHTS) else _OF_RBAC


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
