"""The guards that the user has lifted, as lines; the error of a refused prune has the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.plan_values.guard_result import GuardVerdict
from applyprune.output.text.problem_text import wrapped_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.plan import (
        Plan,
    )
    from applyprune.model.plan_values.guard_result import Guard


def lifted_guards(plan: Plan) -> Iterator[tuple[Guard, str]]:
    """Yield each lifted guard with a line: what has lifted it, and what it has found."""
    for result in plan.guards:
        if result.verdict is GuardVerdict.LIFTED:
            yield result.guard, str(result).replace("\n", "\\n")


def lifted_text(plan: Plan, width: int | None) -> Iterator[str]:
    """Yield the lines about lifted guards, wrapped for a terminal of ``width`` columns."""
    for _, line in lifted_guards(plan):
        yield "\n".join(wrapped_line(line, width))
