"""What a plan causes, as lines below the object that each is about, or with its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.identity import Ref
    from applyprune.model.manifest import Origin
    from applyprune.model.plan import (
        Plan,
    )
    from applyprune.model.plan_values.consequence import Consequence


class ConsequenceLines:
    """Keeps the lines of a plan until they are printed; gives each of them once."""

    def __init__(self) -> None:
        """Begin without a plan."""
        self._left: dict[Ref, list[str]] = {}

    def take_plan(self, plan: Plan) -> None:
        """Keep the lines of a plan, instead of those of the plan before."""
        self._left = {}
        for consequence in plan.consequences:
            line = consequence.message.replace("\n", "\\n")
            self._left.setdefault(consequence.ref, []).append(f"→ {line}")

    def pop(self, ref: Ref) -> list[str]:
        """Return the lines about one object, and forget them."""
        return self._left.pop(ref, [])

    def pop_all(self) -> Iterator[tuple[Ref, list[str]]]:
        """Yield each other object with the lines about it, and forget them."""
        left, self._left = self._left, {}
        yield from left.items()


def with_origins(plan: Plan) -> Iterator[tuple[Consequence, Origin | None]]:
    """Yield each consequence with the place of its object in the input; None if it has none."""
    origins = {step.desired.ref: step.desired.origin for step in plan.applies}
    for consequence in plan.consequences:
        yield consequence, origins.get(consequence.ref)
