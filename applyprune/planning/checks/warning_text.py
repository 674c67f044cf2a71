"""Word the warnings of the API server as problems: with object, file and line, and no Secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from applyprune.model.identity import Ref
from applyprune.model.json_access import one_line
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text.display import and_more
from applyprune.planning.fields.normalize import may_be_secret
from applyprune.planning.fields.redact import without_secrets

MOST_WARNINGS = 100
"""How many warnings of the server one run reports."""
_NAMED = 3
_NOT_SHOWN = (
    "the server warns about it; the text is not shown, because it may hold a value of the Secret"
)


def warning_problems(found: Mapping[str, Sequence[Ref]], plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each text, about the first of its objects; the others are named.

    An empty text is that of a Secret. Values of the plan's Secrets are masked in every text.
    """
    origins = {step.desired.ref: step.desired.origin for step in plan.applies}
    bodies = [step.desired.body for step in plan.applies if may_be_secret(step.desired.body)]
    for text, refs in sorted(found.items(), key=lambda item: (min(item[1]), item[0])):
        first, *others = sorted(refs)
        shown = one_line(without_secrets(text, bodies)) if text else _NOT_SHOWN
        named = and_more([ref.short for ref in others], _NAMED)
        origin = origins.get(first)
        yield Problem(
            ProblemKind.SERVER_WARNING,
            f"{first.short}: {shown}",
            location=str(origin or first),
            reason=f"also for {named}" if named else "",
            origin=origin,
        )


def more_warnings(count: int) -> Problem:
    """Return the problem that stands for the warnings beyond the limit."""
    return Problem(
        ProblemKind.SERVER_WARNING,
        f"the server has given {count} more warnings, which are not shown",
    )
