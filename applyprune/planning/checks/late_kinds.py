"""Part an input whose kinds are not all served yet: what can be applied before, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from applyprune.errors import ApplypruneError, NotReady, RunFailed, as_problem
from applyprune.model.events import ObjectDone, Outcome
from applyprune.model.identity import GVK, Ref
from applyprune.model.plan import Desired
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.values import dataclass, replace

PRUNES_LATER = "kinds are installed during this run; the next run prunes"
"""Why a run in two parts prunes nothing."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class LateObject:
    """An object whose kind is neither served nor in the input."""

    ref: Ref
    """Only its probable ref: its scope is unknown. It is never written."""
    gvk: GVK
    origin: Origin
    wave: int
    """The wave of its annotation."""
    hint: str
    """What may be meant instead."""

    @property
    def refs(self) -> tuple[Ref, Ref]:
        """Return both refs that it may have: with its namespace, and without."""
        return self.ref, replace(self.ref, namespace="")


def before_late(desired: Iterable[Desired], late: Sequence[LateObject]) -> tuple[Desired, ...]:
    """Return the objects that do not have to wait for late ones; ``desired`` are in order.

    An object of a later wave waits, and one that depends on a late object, itself or not.
    """
    if not late:
        return tuple(desired)
    first = min(one.wave for one in late)
    waiting = {ref for one in late for ref in one.refs}
    free = []
    for member in desired:
        needs = (*member.depends_on, *member.needs)
        if member.wave.wave > first or not waiting.isdisjoint(needs):  # guard: late-wave-order
            waiting.add(member.ref)
        else:
            free.append(member)
    return tuple(free)


def not_served(
    late: Iterable[LateObject], seconds: float, unread: ApplypruneError | None
) -> Iterator[ObjectDone]:
    """Yield the failure of each object whose kind was not served in time.

    ``unread`` is why the served kinds could not be read in the end.
    """
    for one in late:
        reason = f"the kind {one.gvk} was not served within {seconds:g} s"
        if unread is not None:
            why = f"{unread.message}: {unread.reason}" if unread.reason else unread.message
            reason = f"the served kinds could not be read within {seconds:g} s: {why}"
        error = NotReady(
            f"{one.ref.short} was not applied",
            location=one.origin,
            reason=reason,
            hint=one.hint,
        )
        yield ObjectDone(one.ref, Outcome.FAILED, one.origin, problem=as_problem(error))


def held_back(
    late: Iterable[LateObject],
    waiting: Iterable[Desired],
    reason: str,
    kind: type[RunFailed] = RunFailed,
) -> Iterator[ObjectDone]:
    """Yield each object that was not tried: its kind is not served, or it comes after such ones.

    ``kind`` is NotReady if only time was missing.
    """
    objects = [(one.ref, one.origin) for one in late]
    objects += [(member.ref, member.origin) for member in waiting]
    for ref, origin in objects:
        error = kind(f"{ref.short} was not applied", location=origin, reason=reason)
        yield ObjectDone(ref, Outcome.SKIPPED, origin, problem=as_problem(error))


def not_planned(late: Sequence[LateObject]) -> Problem:
    """Return the warning of a dry run about objects of kinds that are not served yet."""
    names = and_more([one.ref.short for one in late], _NAMED)
    kinds = and_more(sorted({str(one.gvk) for one in late}), _NAMED)
    return Problem(
        ProblemKind.NOT_SERVED,
        f"not checked, because their kinds are not served yet: {names}",
        location=str(late[0].origin),
        reason=f"the apply waits for {kinds}; what comes after these objects is planned only then",
        origin=late[0].origin,
    )
