"""The order of a set: each object after what it depends on, whatever order it was read in."""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING

from applyprune.errors import InputError, InputErrors
from applyprune.planning.definitions import mapping
from applyprune.planning.dependencies import DEPENDS_ON, asked_for, brought, needed
from applyprune.planning.ordering import DEEPEST, wave_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from applyprune.model.plan import Desired
    from applyprune.model.refs import Ref

WAVE = "applyprune.dev/wave"
_FARTHEST = 1_000


def in_order(
    desired: Mapping[Ref, Desired],
    moved: Mapping[Ref, Ref] = MappingProxyType({}),
    elsewhere: Collection[Ref] = (),
) -> tuple[Desired, ...]:
    """Return the objects with their waves and dependencies, first what goes first.

    An object goes in the wave that it asks for, at the rank of its kind, and after everything that
    it depends on. ``moved`` tells what became of the refs that the manifests themselves name, and
    what is ``elsewhere`` may be depended on without being in the set. Raises InputErrors for other
    dependencies that are not in the set, and for cycles.
    """
    brings = brought(desired)
    errors: list[InputError] = []
    asked: dict[Ref, int] = {}
    settled: dict[Ref, Desired] = {}
    for ref, one in desired.items():
        try:
            asked[ref] = _wave_asked(one)
            named = asked_for(one.body["metadata"], one.origin)
            after = tuple(need if need in desired else moved.get(need, need) for need in named)
            _refuse_missing(one, [need for need in after if need not in elsewhere], desired)
        except InputError as error:
            errors.append(error)
            continue
        needs = frozenset(need for need in needed(one, brings) if need in desired and need != ref)
        settled[ref] = replace(one, after=after, needs=needs)
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    graph = {
        ref: sorted({*one.after, *one.needs} & desired.keys())
        for ref, one in sorted(settled.items())
    }
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise _cycle(error.args[1], settled) from error
    waves: dict[Ref, int] = {}
    for ref in order:
        wave = wave_of(ref.group_kind, asked=asked[ref])
        for before in graph[ref]:
            wave = max(wave, waves[before] + 1)
        if wave % DEEPEST == DEEPEST - 1:
            raise InputError(
                f"{ref} stands at the end of a chain of {DEEPEST} dependencies",
                where=settled[ref].origin,
            )
        waves[ref] = wave
    done = (replace(settled[ref], wave=wave) for ref, wave in waves.items())
    return tuple(sorted(done, key=lambda one: (one.wave, one.ref)))


def _wave_asked(one: Desired) -> int:
    text = str(mapping(one.body["metadata"].get("annotations")).get(WAVE, "0")).strip()
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or abs(int(text)) > _FARTHEST:
        raise InputError(
            f"{WAVE} is no wave",
            where=one.origin,
            why=f"{text!r} is not a whole number from -{_FARTHEST} to {_FARTHEST}",
        )
    return int(text)


def _refuse_missing(one: Desired, after: Sequence[Ref], desired: Mapping[Ref, Desired]) -> None:
    missing = [str(ref) for ref in after if ref not in desired]
    if missing:
        raise InputError(
            f"{one.ref} depends on what is not in the set: {', '.join(missing)}",
            where=one.origin,
            hint=f"Add it to the input, or take it out of {DEPENDS_ON}; mind its namespace.",
        )


def _cycle(refs: list[Ref], desired: Mapping[Ref, Desired]) -> InputError:
    # The sorter names the first again at the end, each after what depends on it.
    places = " → ".join(f"{ref.short} ({desired[ref].origin})" for ref in reversed(refs))
    return InputError(
        "objects depend on each other in a circle",
        where=desired[refs[0]].origin,
        why=places,
        hint=f"Take one of them out of {DEPENDS_ON}.",
    )
