"""Say which rights the requests of a plan need, and what a missing right means for the plan.

Server-side apply needs ``patch``, and ``create`` for a new object, both by the object's name. The
inventory is created with a POST, which has no name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from applyprune.errors import Forbidden, as_problem
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, NAMESPACE, NAMESPACES, Resource, namespace_ref
from applyprune.model.plan import (
    Access,
    ApplyStep,
    DeleteRequest,
    Fate,
    PatchRequest,
    Plan,
    RemoveStep,
)
from applyprune.planning.summary import of_object
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.model.problem import Problem
    from applyprune.planning.applyset import ApplySetIdentity

_Step = TypeVar("_Step", ApplyStep, RemoveStep)

NO_RIGHT = "this account lacks rights that the plan needs"
_APPLY = {
    Fate.CREATE: ("create", "patch"),
    Fate.RECREATE: ("delete", "create", "patch"),
}


@dataclass(frozen=True, slots=True)
class Need:
    """A right that a plan needs for one object."""

    ref: Ref
    access: Access


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
        found.append(Need(inventory, _access("create", CONFIG_MAPS, inventory, named=False)))
    found.append(Need(inventory, _access("update", CONFIG_MAPS, inventory)))
    if makes_namespace:
        namespace = namespace_ref(applyset.namespace)
        found.append(Need(namespace, _access("create", NAMESPACES, namespace, named=False)))
    return found


def _of_apply(step: ApplyStep) -> Iterator[Need]:
    ref = step.desired.ref
    for verb in _APPLY.get(step.fate, ("patch",)) if step.request is not None else ():
        yield Need(ref, _access(verb, step.desired.resource, ref))


def _of_removal(step: RemoveStep) -> Iterator[Need]:
    if step.resource is None:
        return
    if isinstance(step.request, DeleteRequest):
        yield Need(step.entry.ref, _access("delete", step.resource, step.entry.ref))
    elif isinstance(step.request, PatchRequest):
        yield Need(step.entry.ref, _access("patch", step.resource, step.entry.ref))


def _access(verb: str, resource: Resource, ref: Ref, *, named: bool = True) -> Access:
    name = ref.name if named else ""
    # The server authorizes a request for a Namespace as one in that namespace.
    namespace = name if ref.group_kind == NAMESPACE else ref.namespace
    return Access(verb, resource.group, resource.plural, namespace, name)


def with_missing_rights(
    plan: Plan, missing: Iterable[Need], applyset: ApplySetIdentity, *, holds: bool
) -> Plan:
    """Return a plan that names every missing right, at the object that needs it.

    A plan that ``holds`` is refused as a whole: its run would write nothing. Another one is only
    shown, and another account may run it.
    """
    lacks: defaultdict[Ref, list[Access]] = defaultdict(list)
    for need in missing:
        lacks[need.ref].append(need.access)
    if not lacks:
        return plan
    problems = {ref: _problem(ref, found, applyset) for ref, found in lacks.items()}
    steps = {step.entry.ref for step in plan.steps}
    others = tuple((ref, problem) for ref, problem in problems.items() if ref not in steps)
    if not holds:
        # Of an account that may only read, the objects say enough.
        told = () if steps & lacks.keys() else (problem for _, problem in others)
        return replace(
            plan,
            warnings=(*plan.warnings, *told),
            applies=tuple(_noted(step, lacks.get(step.desired.ref)) for step in plan.applies),
            removals=tuple(_noted(step, lacks.get(step.entry.ref)) for step in plan.removals),
        )
    return replace(
        plan,
        applies=tuple(_refused(step, problems) for step in plan.applies),
        removals=tuple(_refused_removal(step, problems) for step in plan.removals),
        no_prune=plan.no_prune or (NO_RIGHT if plan.removals else ""),
        forbidden=others,
        lacks_rights=True,
    )


def _noted(step: _Step, lacks: Sequence[Access] | None) -> _Step:
    if not lacks:
        return step
    return replace(step, not_checked=f"not checked: this account may not {_verbs(lacks)} it")


def _refused(step: ApplyStep, problems: Mapping[Ref, Problem]) -> ApplyStep:
    if (problem := problems.get(step.desired.ref)) is None:
        return step
    origin = step.desired.origin
    problem = replace(problem, location=str(origin), origin=origin)
    return replace(step, fate=Fate.REFUSE, request=None, deletion=None, problem=problem)


def _refused_removal(step: RemoveStep, problems: Mapping[Ref, Problem]) -> RemoveStep:
    if (problem := problems.get(step.entry.ref)) is None:
        return step
    return replace(step, fate=Fate.REFUSE, request=None, problem=problem)


def _problem(ref: Ref, lacks: Sequence[Access], applyset: ApplySetIdentity) -> Problem:
    resource = lacks[0].full_plural
    where = f" in namespace {ref.namespace}" if ref.namespace else ""
    error = Forbidden(
        f"{ref.short}: this account may not {_verbs(lacks)} {resource}{where}",
        code=403,
        hint=f"To see the rights that this set needs: applyprune rbac {applyset.arguments} -f PATH",
    )
    return of_object(as_problem(error))


def _verbs(lacks: Iterable[Access]) -> str:
    verbs = list(dict.fromkeys(access.verb for access in lacks))
    return " or ".join((", ".join(verbs[:-1]), verbs[-1])) if len(verbs) > 1 else verbs[0]
