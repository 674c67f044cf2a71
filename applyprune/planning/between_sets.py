"""What the sets of one command have to do with each other, by their manifests.

An object that one set no longer has, and another one has, moves: its new set takes it, and its old
one leaves it alone. Namespaces and kinds that one set brings are there for the others. No set has
an object of another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from applyprune.errors import InputError
from applyprune.model.identity import GroupKind, Ref, SetKey
from applyprune.model.kinds import CRD, NAMESPACE
from applyprune.model.options import Options
from applyprune.model.plan import ApplyRule
from applyprune.model.problem import Manifest, Origin
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.desired import find_hooks
from applyprune.planning.marks import apply_rule
from applyprune.planning.served_kinds import defined_resources
from applyprune.planning.set_order import SetOrder
from applyprune.planning.world import CommandSets

_NOT_OURS = {ApplyRule.DISABLED, ApplyRule.EXISTS}


class SetInput(Struct, frozen=True):
    """The input of one of the sets."""

    key: SetKey
    manifests: Sequence[Manifest]
    options: Options

    def places(self) -> Iterator[tuple[Manifest, Sequence[Ref]]]:
        """Yield each object that the set will have, and the refs of which one is its own.

        Only a server knows whether a custom kind has namespaces.
        """
        override, kinds = self.options.apply.namespace_override, built_in_kinds()
        _, kept, _ = find_hooks(self.manifests, kinds, self.key.namespace, self.options)
        for one in kept:
            # guard: needed-only -> True
            if apply_rule(one.body["metadata"])[0] not in _NOT_OURS:
                known = kinds.find_kind(one.gvk.group_kind)
                place = override or one.namespace or self.key.namespace
                places = (place, "") if known is None else (place if known.namespaced else "",)
                yield one, [Ref(one.gvk.group, one.gvk.kind, at, one.name) for at in places]


_Placed: TypeAlias = Mapping[SetKey, Sequence[tuple[Manifest, Sequence[Ref]]]]
"""The objects of each set, with their refs."""


class BetweenSets(Struct, frozen=True):
    """What the inputs of all sets of a command say together."""

    sets: Sequence[SetKey] = ()
    claims: Mapping[Ref, tuple[SetKey, ...]] = field(default_factory=dict)
    """The sets whose input has each object."""
    errors: Mapping[SetKey, Sequence[InputError]] = field(default_factory=dict)
    """What is wrong with a set: another one has the same object."""
    brings: Mapping[SetKey, Sequence[Manifest]] = field(default_factory=dict)
    """The Namespaces and CRDs of each set that another one uses."""
    uses: Mapping[SetKey, Sequence[SetKey]] = field(default_factory=dict)
    """The sets whose Namespaces and CRDs each set uses."""

    def seen_by(
        self, key: SetKey, removed: Iterable[SetKey] = (), *, before: Collection[SetKey] = ()
    ) -> CommandSets:
        """Return what a run of one of the sets must know of the others.

        ``removed`` are sets whose files are gone. What the sets ``before`` bring is not there yet.
        """
        others = (one for one in (*self.sets, *removed) if one != key)
        return CommandSets(
            key,
            self.claims,
            frozenset(ApplySetIdentity(one.name, one.namespace).id for one in others),
            tuple(one for other in before for one in self.brings.get(other, ())),
        )


def between_sets(inputs: Iterable[SetInput]) -> BetweenSets:
    """Return what the inputs of sets say together."""
    placed = {one.key: list(one.places()) for one in inputs}
    claims, errors = _claims(placed)
    brings, uses = _uses(placed)
    return BetweenSets(tuple(placed), claims, errors, brings, uses)


def _claims(
    placed: _Placed,
) -> tuple[Mapping[Ref, tuple[SetKey, ...]], Mapping[SetKey, Sequence[InputError]]]:
    """Return which sets have each object, and an error of each for one that several have."""
    claims: dict[Ref, tuple[SetKey, ...]] = {}
    origins: dict[tuple[SetKey, Ref], Origin] = {}
    errors: dict[SetKey, list[InputError]] = {}
    for key, objects in placed.items():
        for manifest, refs in objects:
            ref, first = refs[0], claims.get(refs[0], (key,))[0]
            if (key, ref) in origins:
                continue  # one set has it twice
            origins[key, ref] = manifest.origin
            claims |= {at: (*claims.get(at, ()), key) for at in refs}
            if first != key:  # guard: claimed-twice never
                for own, other in ((first, key), (key, first)):
                    where = origins[own, ref], origins[other, ref]
                    errors.setdefault(own, []).append(_claimed(ref, own, other, *where))
    return claims, errors


def _uses(
    placed: _Placed,
) -> tuple[Mapping[SetKey, Sequence[Manifest]], Mapping[SetKey, Sequence[SetKey]]]:
    """Return the Namespaces and CRDs of each set that others use, and whose each set uses."""
    made: dict[str | GroupKind, tuple[SetKey, Manifest]] = {}
    used: dict[SetKey, dict[str | GroupKind, None]] = {}
    for key, objects in placed.items():
        found = used[key] = dict[str | GroupKind, None]({key.namespace: None})
        for manifest, refs in objects:
            kind = manifest.gvk.group_kind
            found |= {refs[0].namespace: None, kind: None}
            if kind == NAMESPACE:
                made.setdefault(manifest.name, (key, manifest))
            elif kind == CRD:
                for resource in defined_resources(manifest.body):
                    made.setdefault(resource.group_kind, (key, manifest))
    brings: dict[SetKey, dict[str, Manifest]] = {}
    uses: dict[SetKey, dict[SetKey, None]] = {}
    for key, found in used.items():
        for by, manifest in (made[one] for one in found if one in made):
            if by != key:
                brings.setdefault(by, {})[f"{manifest.gvk.kind}/{manifest.name}"] = manifest
                uses.setdefault(key, {})[by] = None
    return (
        {key: tuple(brought.values()) for key, brought in brings.items()},
        {key: tuple(by) for key, by in uses.items()},
    )


def _claimed(ref: Ref, own: SetKey, other: SetKey, place: Origin, there: Origin) -> InputError:
    return InputError(
        f"{ref} is in the input of the set {other}, too",
        location=place,
        reason=f"{there} has it",
        hint=f"Leave it to one of {own} and {other}. If this set only needs it, annotate it: "
        "applyprune.dev/apply: exists.",
    )


def start_order(order: SetOrder, uses: Mapping[SetKey, Sequence[SetKey]]) -> SetOrder:
    """Return the order in which sets start: by ``dependsOn``, and after those that they use.

    What would make a cycle does not count.
    """
    needs = {key: list(found) for key, found in order.needs.items()}
    for key, wanted in uses.items():
        for by in wanted:
            if by in needs and key in needs and not _reaches(by, key, needs):
                needs[key].append(by)
    return order.with_needs(needs)


def _reaches(start: SetKey, goal: SetKey, needs: Mapping[SetKey, Sequence[SetKey]]) -> bool:
    seen, left = {start}, [start]
    while left:
        key = left.pop()
        if key == goal:
            return True
        fresh = [one for one in needs[key] if one not in seen]
        seen.update(fresh)
        left += fresh
    return False
