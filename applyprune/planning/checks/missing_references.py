"""Find references to what is missing: objects, and keys of the set's own ConfigMaps and Secrets.

A missing reference is a warning: something else may create the object later. Keys are compared by
name; no value is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import leaves
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import (
    IN_EACH_NAMESPACE,
    LiveObject,
    Missing,
    State,
    field,
    mapping,
    text,
)
from applyprune.model.plan import ApplyRule, ApplyStep, Desired, Fate, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.checks.references import (
    SECRET,
    STORAGE_CLASS,
    Reference,
    has_references,
    may_refer,
    references,
)
from applyprune.planning.order import is_built_in
from applyprune.planning.suggest import closest, did_you_mean
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from applyprune.model.problem import Field

_CONFIG_MAP = GroupKind("", "ConfigMap")
_VOLUME = GroupKind("", "PersistentVolume")
_VALUES = ("data", "binaryData", "stringData")
# The end of a name that kustomize has generated: ten characters of its own alphabet.
_HASH = pattern(r"-[bcdfghkmt2456789]{10}$")


@dataclass(frozen=True, slots=True)
class Use:
    """A reference, with the object that has it."""

    desired: Desired
    reference: Reference


def outside_references(plan: Plan) -> Mapping[Ref, Sequence[Use]]:
    """Return the objects outside the set that must exist, each with what refers to it.

    Only what would be sent is searched: what is unchanged was checked when it was applied.
    """
    desired = [
        step.desired for step in plan.applies if step.desired.apply is not ApplyRule.DISABLED
    ]
    inside = {member.ref for member in desired}
    found: dict[Ref, list[Use]] = {}
    for use in _uses(step.desired for step in plan.applies if step.fate.is_applied):
        target = use.reference.ref
        if (
            target not in inside
            and not use.reference.optional
            and (target.group_kind, target.name) not in IN_EACH_NAMESPACE
            and not _is_provided(target, desired)
        ):
            found.setdefault(target, []).append(use)
    return found


def missing_references(
    uses: Mapping[Ref, Sequence[Use]],
    states: Mapping[Ref, State],
    plan: Plan,
    left_out: Collection[Ref],
) -> Iterator[Problem]:
    """Yield a warning for each object that does not exist; ``left_out`` are chart hooks.

    An object whose state is unknown is not reported: the account may not read it.
    """
    inside = [step.desired.ref for step in plan.applies]
    for target, found in uses.items():
        if isinstance(states.get(target), Missing):
            hint = _near(target, inside)
            if target in left_out:
                hint = "It is in the input, but only as a chart hook, which is left out."
            message = (
                f"{found[0].desired.ref.short} refers to {target}, which is neither in the set "
                "nor in the cluster"
            )
            yield _warning(message, found, hint)


def pruned_references(plan: Plan) -> Iterator[Problem]:
    """Yield a warning for each object that is pruned while the set still refers to it."""
    pruned = {step.entry.ref for step in plan.removals if step.fate is Fate.PRUNE}
    if not pruned or plan.no_prune:
        return
    found: dict[Ref, list[Use]] = {}
    for use in _uses(step.desired for step in plan.applies):
        if use.reference.ref in pruned and not use.reference.optional:
            found.setdefault(use.reference.ref, []).append(use)
    inside = [step.desired.ref for step in plan.applies]
    for target, uses in found.items():
        message = f"{uses[0].desired.ref.short} refers to {target}, which is pruned"
        yield _warning(message, uses, _near(target, inside))


def missing_keys(plan: Plan, manager: str) -> Iterator[Problem]:
    """Yield a warning for each key that a ConfigMap or Secret of the set lacks.

    ``manager`` is the set's field manager: keys that others have set stay.
    """
    steps = {step.desired.ref: step for step in plan.applies}
    keys: dict[Ref, frozenset[str]] = {}
    found: dict[tuple[Ref, str], list[Use]] = {}
    fields: dict[tuple[Ref, str], Field] = {}
    for use in _uses(step.desired for step in plan.applies):
        target = use.reference.ref
        if use.reference.optional or not use.reference.keys or target not in steps:
            continue
        if target not in keys:
            keys[target] = _keys(steps[target], manager)
        for key, path in use.reference.keys:
            # A ConfigMap or Secret without any key is filled by somebody else.
            if keys[target] and key not in keys[target]:
                found.setdefault((target, key), []).append(use)
                fields.setdefault((target, key), path)
    for (target, key), uses in found.items():
        reader = uses[0].desired.ref.short
        message = f"{reader} reads the key {key!r} of {target}, which does not have it"
        yield _warning(message, uses, did_you_mean(key, keys[target]), fields[target, key])


def _uses(desired: Iterable[Desired]) -> Iterator[Use]:
    """Yield the references of some objects; the same field of an object only once."""
    for member in desired:
        if not may_refer(member):
            continue
        seen: set[tuple[Ref, Field]] = set()
        for reference in references(member.ref, member.body):
            if (place := (reference.ref, reference.field)) not in seen:
                seen.add(place)
                yield Use(member, reference)


def _warning(message: str, uses: Sequence[Use], hint: str, path: Field = ()) -> Problem:
    first = uses[0]
    others = len({use.desired.ref for use in uses}) - 1
    reason = ""
    if others:
        reason = f"{others} other object{'s do' if others > 1 else ' does'} the same"
    return Problem(
        kind=ProblemKind.MISSING_REFERENCE,
        message=message,
        location=str(first.desired.origin),
        reason=reason,
        origin=first.desired.origin,
        field=path or first.reference.field,
        hint=hint,
    )


def _near(target: Ref, inside: Iterable[Ref]) -> str:
    """Return what may be meant: the same name elsewhere, or a similar name of the same kind."""
    alike = [ref for ref in inside if ref.group_kind == target.group_kind]
    elsewhere = sorted(ref.namespace for ref in alike if ref.name == target.name)
    if elsewhere:
        return f"The set has {target.short} in namespace {elsewhere[0]}."
    names = sorted(ref.name for ref in alike if ref.namespace == target.namespace)
    plain = _HASH.sub("", target.name)
    hashed = [name for name in names if _HASH.sub("", name) == plain]
    meant = hashed[0] if hashed else closest(target.name, names)
    return f"Did you mean {meant}?" if meant else ""


def _is_provided(target: Ref, desired: Sequence[Desired]) -> bool:
    """Return whether an object of the set may create the target, or make it unnecessary."""
    if target.group_kind == STORAGE_CLASS:
        # A volume of the set is bound by the name of a class that need not exist.
        return any(
            member.ref.group_kind == _VOLUME
            and text(member.body, "spec", "storageClassName") == target.name
            for member in desired
        )
    if target.group_kind not in {SECRET, _CONFIG_MAP}:
        return False
    # A Certificate, an ExternalSecret, a SealedSecret: its controller creates what it names.
    return any(
        not is_built_in(member.ref.group)
        and not has_references(member.ref.group_kind)
        and member.ref.namespace == target.namespace
        and (member.ref.name == target.name or _names(member.body.get("spec"), target.name))
        for member in desired
    )


def _names(value: object, name: str) -> bool:
    if isinstance(value, dict):
        return any(_names(inner, name) for inner in value.values())
    if isinstance(value, list):
        return any(_names(inner, name) for inner in value)
    return value == name


def _keys(step: ApplyStep, manager: str) -> frozenset[str]:
    """Return the keys that a ConfigMap or Secret has after the apply."""
    body: Mapping[str, Any] = step.desired.body
    keys = {key for part in _VALUES for key in mapping(body.get(part))}
    if isinstance(step.live, LiveObject):
        for entry in step.live.managed_fields:
            if entry.get("manager") in {manager, *step.migration.whole_managers}:
                continue
            for path in leaves(mapping(field(entry, "fieldsV1"))):
                if path[0] in _VALUES and len(path) > 1:
                    keys.add(str(path[1]))
    return frozenset(keys)
