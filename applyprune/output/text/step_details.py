"""What is worth knowing about one step of a plan besides its fate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.plan import ApplyStep, Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.plan import RemoveStep


def step_details(step: ApplyStep | RemoveStep) -> Iterator[str]:
    """Yield from whom a step takes something, why it has its fate, and what was not checked."""
    taken = step.taken_from if isinstance(step, ApplyStep) else ()
    adopts = step.fate is Fate.ADOPT
    if taken:
        yield f"{'from' if adopts else 'takes fields from'} {', '.join(taken)}"
    if step.problem is not None:
        yield step.problem.message
    elif step.reason and not (taken and adopts):
        yield step.reason.removeprefix("adopted: ")
    if step.not_checked:
        yield step.not_checked
