"""What is worth knowing about one step of a plan besides its fate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.identity import called
from applyprune.model.plan import ApplyStep, Fate
from applyprune.model.text.display import and_more

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.plan import Plan, RemoveStep

_NAMED = 5


def step_details(step: ApplyStep | RemoveStep) -> Iterator[str]:
    """Yield from whom a step takes something, why it has its fate, and what was not checked."""
    taken = step.taken_from if isinstance(step, ApplyStep) else ()
    adopts = step.fate is Fate.ADOPT
    if taken:
        yield f"{'from' if adopts else 'takes fields from'} {', '.join(taken)}"
    if isinstance(step, ApplyStep) and step.reverts:
        fields = ", ".join(f"{path} (changed by {who})" for path, who in step.reverts)
        yield f"reverts {fields}"
    becomes_owned = isinstance(step, ApplyStep) and step.becomes_owned
    if step.problem is not None:
        yield step.problem.message
    elif step.reason and (becomes_owned or not (taken and adopts)):
        yield step.reason.removeprefix("adopted: ").removeprefix("adopted, ")
    if step.not_checked:
        yield step.not_checked


def unchecked_line(plan: Plan, namespace: str) -> str:
    """Return a line about all objects that were not checked in full; empty if there are none.

    ``namespace`` is that of the set.
    """
    removals = () if plan.no_prune else plan.removals
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *removals)
    found = [step for step in steps if step.not_checked and step.fate is not Fate.REFUSE]
    names = [called(step.entry.ref, namespace) for step in found]
    if len(found) == 1:
        line = f"{names[0]}: {found[0].not_checked}"
    elif found:
        named = and_more(names, _NAMED)
        line = f"{len(found)} objects were not fully checked: {named}"
    else:
        line = ""
    return line.replace("\n", "\\n")
