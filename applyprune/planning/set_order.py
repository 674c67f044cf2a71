"""In which order the sets of one command run: each when what it depends on is applied and ready.

``dependsOn`` in ``applyprune.yaml`` names sets, as NAME or NAMESPACE/NAME. All of them are sets of
the same command. A set that fails stops the sets that depend on it, also through others, and no
set besides. Prunes go in the reverse order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.identity import SetKey
from applyprune.model.text import is_dns_label

if TYPE_CHECKING:
    from applyprune.model.problem import Origin

KEY = "dependsOn"


def parse_set_key(text: str, namespace: str) -> SetKey:
    """Return the set that NAME, of the same namespace, or NAMESPACE/NAME means.

    Raises ValueError, worded to follow the text.
    """
    *before, name = text.split("/")
    if len(before) > 1 or not all(map(is_dns_label, (*before, name))):
        raise ValueError("names no set: write NAME, or NAMESPACE/NAME")
    return SetKey(before[0] if before else namespace, name)


class SetNeeds(Struct, frozen=True):
    """What one set depends on, as its files say it."""

    key: SetKey
    depends_on: tuple[str, ...] = ()
    origin: Origin | None = None
    """The place of ``dependsOn``."""


class UnknownSet(InputError):
    """A set that another one depends on is not a set of the command."""

    def __init__(self, key: SetKey, origin: Origin | str, message: str, reason: str, hint: str):
        """Word the problem; ``key`` is the set that is missing."""
        super().__init__(message, location=origin, reason=reason, hint=hint)
        self.key = key


class SetOrder(Struct, frozen=True):
    """What each set waits for. Whoever runs the sets asks what may start, and what never will."""

    needs: Mapping[SetKey, Sequence[SetKey]]
    """What each set waits for itself. A set comes after all that it waits for."""

    def startable(
        self,
        done: Collection[SetKey],
        failed: Collection[SetKey] = (),
        running: Collection[SetKey] = (),
    ) -> Sequence[SetKey]:
        """Return the sets that may start now, in their order.

        ``done`` are those that are applied and ready, and those that need not run. What these
        depend on must be done, too: it may be running.
        """
        ready: set[SetKey] = set()
        found = []
        for key, needs in self.needs.items():
            if not all(need in ready for need in needs):  # guard: set-needs never
                continue
            if key in done:
                ready.add(key)
            elif key not in failed and key not in running:
                found.append(key)
        return found

    def stopped(
        self, failed: Collection[SetKey], done: Collection[SetKey] = ()
    ) -> Mapping[SetKey, Sequence[SetKey]]:
        """Return the sets that will not run, each with what it needs, down to one that failed.

        That is the shortest way there. ``done`` are the sets that need not run.
        """
        ways: dict[SetKey, Sequence[SetKey]] = {}
        for key, needs in self.needs.items():
            if key in failed:
                ways[key] = ()
            elif found := [(need, *ways[need]) for need in needs if need in ways]:
                ways[key] = min(found, key=len)
        return {key: way for key, way in ways.items() if way and key not in done}

    def needed_by(self, keys: Iterable[SetKey]) -> Collection[SetKey]:
        """Return all that some sets depend on, also through others."""
        found: dict[SetKey, None] = {}
        left = list(keys)
        for key in left:
            others = [need for need in self.needs.get(key, ()) if need not in found]
            found |= dict.fromkeys(others)
            left += others
        return found.keys()

    def with_needs(self, needs: Mapping[SetKey, Sequence[SetKey]]) -> SetOrder:
        """Return the order of the same sets with other needs, without a cycle."""
        return _ordered({key: needs[key] for key in self.needs})

    def of_prunes(self) -> SetOrder:
        """Return the order of the prunes: each set after all that depend on it."""
        dependents: dict[SetKey, list[SetKey]] = {key: [] for key in self.needs}
        for key, needs in self.needs.items():
            for need in needs:
                dependents[need].append(key)
        return _ordered(dependents)


def set_order(
    sets: Iterable[SetNeeds], within: str, elsewhere: Mapping[SetKey, str] | None = None
) -> tuple[SetOrder, Sequence[InputError]]:
    """Return the order of sets, and what is wrong with it; the order ignores that.

    ``within`` is where the sets were looked for, in words. ``elsewhere`` has other sets, with where
    they are. There is an error for each name that is invalid or not among the sets, and for cycles.
    """
    given = tuple(sets)
    known = dict.fromkeys(one.key for one in given)
    origins = {one.key: one.origin for one in given}
    needs: dict[SetKey, Sequence[SetKey]] = {}
    errors: list[InputError] = []
    for one in given:
        found = []
        for text in dict.fromkeys(one.depends_on):
            try:
                key = parse_set_key(text, one.key.namespace)
            except ValueError as error:
                told = f"{text!r} in {KEY} {error}"
                errors.append(InputError(told, location=one.origin or ""))
                continue
            if key in known:
                found.append(key)
            else:
                errors.append(_unknown(key, one, known, within, elsewhere or {}))
        needs[one.key] = tuple(dict.fromkeys(found))
    errors += (_cycle(ring, origins) for ring in _cut_rings(needs))
    return _ordered(needs), errors


def _unknown(
    key: SetKey,
    dependent: SetNeeds,
    known: Collection[SetKey],
    within: str,
    elsewhere: Mapping[SetKey, str],
) -> UnknownSet:
    origin = dependent.origin or ""
    if key in elsewhere:
        return UnknownSet(
            key,
            origin,
            f"{dependent.key} depends on the set {key}, which is not {within}",
            f"{elsewhere[key]} names it",
            f"A set can only wait for one of the same command: name a folder that has both, or "
            f"remove it from {KEY}.",
        )
    from applyprune.planning.names import CLOSE_SET, closest  # noqa: PLC0415 - rarely needed

    others = {str(one): one for one in known if one != dependent.key}
    namesakes = [text for text, one in others.items() if one.name == key.name]
    close = next(iter(namesakes), "") or closest(str(key), others, CLOSE_SET)
    return UnknownSet(
        key,
        origin,
        f"{dependent.key} depends on the set {key}, and no file {within} names it",
        "",
        f"Did you mean {close}?"
        if close
        else "Write NAME for a set of the same namespace, or NAMESPACE/NAME.",
    )


def _cut_rings(needs: dict[SetKey, Sequence[SetKey]]) -> Sequence[Sequence[SetKey]]:
    """Return sets that wait for each other, and let each of them wait for nothing.

    In a ring, each set is followed by one that it waits for; the first one comes again at the end.
    """
    places = {key: at for at, key in enumerate(needs)}
    rings: list[Sequence[SetKey]] = []
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            # The sorter lists a node after its dependents, and repeats the first one.
            ring: list[SetKey] = list(reversed(error.args[1]))[:-1]
            first = ring.index(min(ring, key=places.__getitem__))
            rings.append((*ring[first:], *ring[:first], ring[first]))
            needs |= dict.fromkeys(ring, ())
        else:
            return rings


def _cycle(ring: Sequence[SetKey], origins: Mapping[SetKey, Origin | None]) -> InputError:
    return InputError(
        "sets depend on each other in a cycle",
        location=origins[ring[0]] or "",
        reason=" → ".join(f"{key} ({origins[key]})" if origins[key] else str(key) for key in ring),
        hint=f"Remove one of them from {KEY}. A file with {KEY}: [] inherits none.",
    )


def _ordered(needs: Mapping[SetKey, Sequence[SetKey]]) -> SetOrder:
    """Return an order in which each set comes after what it waits for, else as it was given."""
    depths: dict[SetKey, int] = {}
    for key in TopologicalSorter(needs).static_order():
        depths[key] = max((depths[need] + 1 for need in needs[key]), default=0)
    return SetOrder({key: tuple(needs[key]) for key in sorted(needs, key=depths.__getitem__)})
