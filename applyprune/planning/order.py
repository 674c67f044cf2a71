"""The order of a set: its waves, by annotation, kind and dependency; and what its references miss.

All objects of a wave are applied in parallel. Deletion uses the reverse order, so that custom
resources are deleted before their CRD, and contents before their namespace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as struct_field

from applyprune.errors import ApplypruneError, Forbidden, InputError
from applyprune.model.fate import Fate
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Wave
from applyprune.model.kinds import (
    CRD,
    IN_EACH_NAMESPACE,
    LIMITS,
    MUTATING_WEBHOOKS,
    MUTATION,
    MUTATION_BINDING,
    NAMESPACE,
    POLICY,
    POLICY_BINDING,
    QUOTA,
    STORAGE_CLASS,
    VALIDATING_WEBHOOKS,
    VOLUME,
    Rank,
    Trait,
    kinds_with,
    row_of,
)
from applyprune.model.live import (
    API_SERVICES,
    LiveObject,
    Missing,
    State,
    mapping,
    namespace_ref,
    text,
)
from applyprune.model.plan import ApplyRule, ApplyStep, Desired, Plan
from applyprune.model.problem import Mark, Problem, ProblemKind
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.marks import FARTHEST_WAVE, WAVE, texts_of, wave_number
from applyprune.planning.names import closest, did_you_mean
from applyprune.planning.references import (
    Reference,
    has_references,
    may_refer,
    references,
    texts_in,
)
from applyprune.planning.served_kinds import defined_kinds
from applyprune.planning.server_errors import cannot_be_dry_run, is_about, said_missing
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.model.problem import Field, Origin


DEPENDS_ON = "config.kubernetes.io/depends-on"
_MARKED = ("metadata", "annotations", DEPENDS_ON)


def in_order(
    desired: Mapping[Ref, Desired],
    moved: Mapping[Ref, Ref] = MappingProxyType({}),
    elsewhere: Collection[Ref] = (),
) -> tuple[Sequence[Desired], Sequence[InputError]]:
    """Return the objects in the order of their waves, with waves and dependencies set; and errors.

    The order is the wave of the annotation, then the rank of the kind, then the dependencies.
    ``moved`` maps refs in manifests to the refs after a namespace override. Objects may depend on
    refs in ``elsewhere``, which are not in the set, or are invalid in the input. There is an error
    for each other dependency that is not in the set, and for each cycle; the order ignores these.
    """
    brings = crd_of_kind(desired)
    errors: list[InputError] = []
    settled: dict[Ref, Desired] = {}
    # Most objects of a namespace need the same: each such set exists once.
    same: dict[frozenset[Ref], frozenset[Ref]] = {}
    for ref, member in desired.items():
        asked = 0
        depends_on: tuple[Ref, ...] = ()
        # Nothing is parsed for an object without annotations.
        metadata = member.body["metadata"] if member.packed.mentions("annotations") else {}
        try:
            asked = annotated_wave(metadata, member.origin)
        except InputError as error:
            errors.append(error)
        try:
            named = depends_on_refs(metadata, member.origin)
            depends_on = tuple(need if need in desired else moved.get(need, need) for need in named)
            _refuse_missing(member, depends_on, desired, elsewhere)
        except InputError as error:
            errors.append(error)
        needs = frozenset(
            need for need in needed_refs(member, brings) if need in desired and need != ref
        )
        needs = same.setdefault(needs, needs)
        wave = wave_of(ref.group_kind, asked=asked)
        settled[ref] = replace(member, depends_on=depends_on, needs=needs, wave=wave)
    order, cycles = _sorted(
        {
            ref: sorted({need for need in (*member.depends_on, *member.needs) if need in settled})
            for ref, member in sorted(settled.items())
        }
    )
    errors += (_cycle(cycle, settled) for cycle in cycles)
    waves: dict[Ref, Wave] = {}
    distinct: dict[Wave, Wave] = {}
    for ref, befores in order.items():
        wave = settled[ref].wave
        for before in befores:
            earlier = waves[before]
            wave = max(wave, earlier._replace(depth=earlier.depth + 1))
        waves[ref] = distinct.setdefault(wave, wave)
    done = (replace(settled[ref], wave=wave) for ref, wave in waves.items())
    return tuple(sorted(done, key=lambda member: (member.wave, member.ref))), errors


def crd_of_kind(desired: Mapping[Ref, Desired]) -> Mapping[GroupKind, Ref]:
    """Return the CRD of each kind that the set defines."""
    return {
        kind: ref
        for ref, manifest in desired.items()
        if ref.group_kind == CRD
        for kind in defined_kinds(manifest.body)
    }


def annotated_wave(metadata: Mapping[str, object], origin: Origin) -> int:
    """Return the wave of the annotation, 0 by default; raise InputError if it is invalid."""
    text = str(texts_of(metadata, "annotations").get(WAVE, "0")).strip()
    wave = wave_number(text)
    if wave is None:
        raise InputError(
            f"invalid {WAVE}",
            location=origin,
            reason=f"{text!r} is not a whole number from -{FARTHEST_WAVE} to {FARTHEST_WAVE}",
            field=("metadata", "annotations", WAVE),
        )
    return wave


def depends_on_refs(metadata: Mapping[str, Any], origin: Origin) -> tuple[Ref, ...]:
    """Return the objects that the depends-on annotation names; raises InputError if invalid."""
    text = str(texts_of(metadata, "annotations").get(DEPENDS_ON, ""))
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
                    field=_MARKED,
                )
    return tuple(found)


def _refuse_missing(
    dependent: Desired,
    depends_on: tuple[Ref, ...],
    desired: Mapping[Ref, Desired],
    elsewhere: Collection[Ref],
) -> None:
    missing = [ref for ref in depends_on if ref not in desired and ref not in elsewhere]
    if not missing:
        return
    lacking = missing[0]
    alike = (
        ref
        for ref in desired
        if ref != dependent.ref
        and (ref.group_kind == lacking.group_kind or ref.name == lacking.name)
    )
    close = closest(str(lacking), map(str, alike))
    meant = f"Did you mean {close}? " if close else ""
    raise InputError(
        f"{dependent.ref} depends on an object outside the set: {', '.join(map(str, missing))}",
        location=dependent.origin,
        hint=f"{meant}Add it to the input, or remove it from {DEPENDS_ON}. Check its namespace.",
        field=_MARKED,
    )


def needed_refs(desired: Desired, brings: Mapping[GroupKind, Ref]) -> Iterator[Ref]:
    """Yield the objects that the fields of an object name, in the set or not.

    ``brings`` has the CRD of each kind that the set defines.
    """
    ref, resource = desired.ref, desired.resource
    if ref.namespace:
        yield namespace_ref(ref.namespace)
    if (definition := brings.get(ref.group_kind)) is not None:
        yield definition
    served_by = f"{resource.version}.{resource.group}"
    yield Ref(API_SERVICES.group, API_SERVICES.kind, "", served_by)  # guard: api-service-order
    if may_refer(desired):
        yield from (found.ref for found in references(ref, desired.body) if found.orders)


def _sorted(
    graph: Mapping[Ref, Sequence[Ref]],
) -> tuple[Mapping[Ref, Sequence[Ref]], Sequence[Sequence[Ref]]]:
    """Return a graph in the order of its dependencies, and the cycles that were cut for that."""
    left = {ref: list(befores) for ref, befores in graph.items()}
    cycles: list[Sequence[Ref]] = []
    while True:
        try:
            order = tuple(TopologicalSorter(left).static_order())
        except CycleError as error:
            # The sorter repeats the first node at the end, and lists a node after its dependents.
            cycle = list(reversed(error.args[1]))
            cycles.append(cycle)
            left[cycle[0]].remove(cycle[1])
        else:
            return {ref: left[ref] for ref in order}, cycles


def _cycle(refs: Sequence[Ref], desired: Mapping[Ref, Desired]) -> InputError:
    places = " → ".join(f"{ref.short} ({desired[ref].origin})" for ref in refs)
    marks = []
    for ref, before in pairwise(refs):
        member = desired[ref]
        field = _MARKED if before in member.depends_on else ("metadata", "name")
        marks.append(Mark(field, f"{ref.short} needs {before.short}", member.origin))
    return InputError(
        "objects depend on each other in a cycle",
        location=desired[refs[0]].origin,
        reason=places,
        hint=f"Remove a dependency from {DEPENDS_ON}.",
        marks=marks,
    )


# The ranks of kinds: groups and kinds, because a kind alone may belong to any CRD.


def wave_of(group_kind: GroupKind, *, asked: int = 0) -> Wave:
    """Return the wave of an object without dependencies; ``asked`` is the annotation's wave."""
    rank = row_of(group_kind).rank
    if rank is None:
        rank = Rank.WORKLOAD if is_built_in(group_kind.group) else Rank.CUSTOM
    return Wave(asked, rank)


# Without a stable kind of their own in every supported version.
_OTHER_GROUPS = frozenset(
    {
        "authentication.k8s.io",
        "authorization.k8s.io",
        "extensions",
        "internal.apiserver.k8s.io",
        "storagemigration.k8s.io",
    }
)


@lru_cache(1024)
def is_built_in(group: str) -> bool:
    """Return whether the API server itself serves a group, without a CRD."""
    return group in _OTHER_GROUPS or any(kind.group == group for kind in built_in_kinds().preferred)


# References to what is missing: objects, and keys of the set's own ConfigMaps and Secrets.
#
# A missing reference is a warning: something else may create the object later. Keys are compared by
# name; no value is read.


# The end of a name that kustomize has generated: ten characters of its own alphabet.
_HASH = pattern(r"-[bcdfghkmt2456789]{10}$")
_VALUES = ("data", "binaryData", "stringData")
_READ_BY_PODS = kinds_with(Trait.READ_BY_PODS)


class Use(Struct, frozen=True):
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
    left_out: Mapping[Ref, str],
) -> Iterator[Problem]:
    """Yield a warning for each object that does not exist; ``left_out`` is that of the world.

    An object whose state is unknown is not reported: the account may not read it.
    """
    for target, found in uses.items():
        if isinstance(states.get(target), Missing):
            hint = _suggestion(target, plan)
            if left_out.get(target):
                hint = "It is in the input, but only as a chart hook, which is left out."
            message = (
                f"{found[0].desired.ref.short} refers to {target}, which is neither in the set "
                "nor in the cluster"
            )
            if target.group_kind in _READ_BY_PODS and not hint:
                # A Job, an init container, a controller.
                message += ", unless something in the set makes it when it runs"
            yield _warning(message, found, hint)


def mistaken_references(plan: Plan) -> Iterator[Problem]:
    """Yield a warning for each object outside the set whose name is almost that of one inside."""
    for target, found in outside_references(plan).items():
        if hint := _suggestion(target, plan):
            message = f"{found[0].desired.ref.short} refers to {target}, which is not in the input"
            yield _warning(message, found, hint)


def _is_provided(target: Ref, desired: Sequence[Desired]) -> bool:
    """Return whether an object of the set may create the target, or make it unnecessary."""
    if target.group_kind == STORAGE_CLASS:
        # A volume of the set is bound by the name of a class that need not exist.
        return any(
            member.ref.group_kind == VOLUME
            and text(member.body, "spec", "storageClassName") == target.name
            for member in desired
        )
    if target.group_kind not in _READ_BY_PODS:
        return False
    # A Certificate, an ExternalSecret, a SealedSecret: its controller creates what it names.
    return any(
        not is_built_in(member.ref.group)
        and not has_references(member.ref.group_kind)
        and member.ref.namespace == target.namespace
        and (member.ref.name == target.name or target.name in texts_in(member.body.get("spec")))
        for member in desired
    )


def pruned_references(plan: Plan) -> Iterator[Problem]:
    """Yield a warning for each object that is pruned while the set still refers to it."""
    pruned = {step.entry.ref for step in plan.removals if step.fate is Fate.PRUNE}
    if not pruned or plan.no_prune:
        return
    found: dict[Ref, list[Use]] = {}
    for use in _uses(step.desired for step in plan.applies):
        if use.reference.ref in pruned and not use.reference.optional:
            found.setdefault(use.reference.ref, []).append(use)
    for target, uses in found.items():
        message = f"{uses[0].desired.ref.short} refers to {target}, which is pruned"
        yield _warning(message, uses, _suggestion(target, plan))


def _suggestion(target: Ref, plan: Plan) -> str:
    """Return what may be meant: the same name elsewhere, or a similar name of the same kind."""
    inside = (step.desired.ref for step in plan.applies)
    alike = [ref for ref in inside if ref.group_kind == target.group_kind]
    elsewhere = sorted(ref.namespace for ref in alike if ref.name == target.name)
    if elsewhere:
        return f"The set has {target.short} in namespace {elsewhere[0]}."
    names = sorted(ref.name for ref in alike if ref.namespace == target.namespace)
    plain = _HASH.sub("", target.name)
    hashed = [name for name in names if _HASH.sub("", name) == plain]
    near = [name for name in names if _is_near(target.name, name, _LETTERS)]
    meant = hashed[0] if hashed else closest(target.name, near)
    return f"Did you mean {meant}?" if meant else ""


_LETTERS = 2
"""By how many letters a name may differ from the one that is meant."""


def _is_near(one: str, other: str, letters: int) -> bool:
    """Return whether at most so many letters are added, left out or replaced."""
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    if not (letters and one and other):
        return max(len(one), len(other)) <= letters
    return (
        _is_near(one[1:], other, letters - 1)
        or _is_near(one, other[1:], letters - 1)
        or _is_near(one[1:], other[1:], letters - 1)
    )


def missing_keys(plan: Plan, manager: str) -> Iterator[Problem]:
    """Yield a warning for each key that a ConfigMap or Secret of the set lacks.

    ``manager`` is the set's field manager: keys that others have set stay.
    """
    steps = {step.desired.ref: step for step in plan.applies}
    keys: dict[Ref, frozenset[str]] = {}
    found: dict[tuple[Ref, str], list[Use]] = {}
    readers = (step.desired for step in plan.applies if step.desired.packed.mentions("key"))
    for use in _uses(readers):
        target = use.reference.ref
        if use.reference.optional or not use.reference.keys or target not in steps:
            continue
        if target not in keys:
            keys[target] = _keys(steps[target], manager)
        for key, path in use.reference.keys:
            # A ConfigMap or Secret without any key is filled by somebody else.
            if keys[target] and key not in keys[target]:
                at_key = replace(use.reference, field=path)
                found.setdefault((target, key), []).append(Use(use.desired, at_key))
    for (target, key), uses in found.items():
        reader = uses[0].desired.ref.short
        message = f"{reader} reads the key {key!r} of {target}, which does not have it"
        yield _warning(message, uses, did_you_mean(key, keys[target]))


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


def _keys(step: ApplyStep, manager: str) -> frozenset[str]:
    """Return the keys that a ConfigMap or Secret has after the apply."""
    body: Mapping[str, Any] = step.desired.body
    keys = {key for part in _VALUES for key in mapping(body.get(part))}
    if isinstance(step.live, LiveObject):
        for one in step.live.writers:
            if one.manager not in {manager, *step.migration.whole_managers}:
                keys |= {str(key) for part in _VALUES for key in one.fields.at((part,)).below}
    return frozenset(keys)


def _warning(message: str, uses: Sequence[Use], hint: str) -> Problem:
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
        field=first.reference.field,
        hint=hint,
    )


# The object of the same plan because of which a refused dry run says nothing yet.
#
# That object is applied earlier, but a dry run applies nothing.


_IN_ITS_NAMESPACE = frozenset({QUOTA, LIMITS})
_IF_NAMED = kinds_with(Trait.ROLE) | {STORAGE_CLASS}
_EVERYWHERE = frozenset(
    {POLICY, POLICY_BINDING, MUTATION, MUTATION_BINDING, VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS}
)
_DECIDING = frozenset({NAMESPACE}) | _IN_ITS_NAMESPACE | _IF_NAMED | _EVERYWHERE
"""The kinds that decide whether the server admits an object."""


class SetNeeds(Struct):
    """The objects of one plan, by what the server may miss."""

    steps: Mapping[Ref, ApplyStep] = struct_field(default_factory=dict)
    _names: Mapping[str, Sequence[Ref]] = struct_field(default_factory=dict)
    _deciding: Sequence[Ref] = ()

    def __post_init__(self) -> None:
        """Index the objects that are sent."""
        names = defaultdict(list)
        sent = [ref for ref, step in self.steps.items() if step.fate.is_applied]
        for ref in sent:
            names[ref.name].append(ref)
        self._names = names
        self._deciding = [ref for ref in sent if ref.group_kind in _DECIDING]

    def awaited(self, desired: Desired, error: ApplypruneError) -> Ref | None:
        """Return the object that an object waits for, after its refusal."""
        found = (*self._missing(desired, error), *self._that_decide(desired, error))
        return next((ref for ref in found if self.steps[ref].desired.wave < desired.wave), None)

    def reason(self, awaited: Ref) -> str:
        """Return why an object is not checked."""
        is_new = self.steps[awaited].is_new
        how = "does not exist yet" if is_new else "is about to change"
        return f"not checked: it needs {awaited.short}, which {how}"

    def _missing(self, desired: Desired, error: ApplypruneError) -> Iterator[Ref]:
        """Yield the new objects that do not exist by the words of the error.

        The fields of some kinds say which objects they need. For others, as for a custom resource
        that a webhook refuses, the words must do: there is no code for it.
        """
        named = {found.ref for found in references(desired.ref, desired.body)}
        named |= {*desired.depends_on, *desired.needs}
        for said in said_missing(error):
            for ref in self._names.get(said["name"], ()):
                is_named = ref in named or not (
                    has_references(desired.ref.group_kind)
                    or ref.namespace not in {"", desired.ref.namespace}
                )
                if is_named and self.steps[ref].is_new and is_about(said, ref):
                    yield ref

    def _that_decide(self, desired: Desired, error: ApplypruneError) -> Iterator[Ref]:
        """Yield the objects that decide whether the server admits this one, if it does not now.

        A 400 or 422 about its own fields is its fault, whatever else the plan changes.
        """
        ref = desired.ref
        # guard: refused-by-admission never
        if not isinstance(error, Forbidden) or cannot_be_dry_run(error):
            return
        named = {found.ref for found in references(ref, desired.body)}
        home = namespace_ref(ref.namespace)
        for one in self._deciding:
            kind = one.group_kind
            is_near = kind in _IN_ITS_NAMESPACE and one.namespace == ref.namespace
            if (
                one == home
                or is_near
                or (kind in _IF_NAMED and one in named)
                or kind in _EVERYWHERE
            ):
                yield one
