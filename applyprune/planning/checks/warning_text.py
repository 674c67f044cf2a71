"""Word the warnings of the API server as problems: with object, file and line, and no Secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, State, one_line
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.checks.references import SECRET
from applyprune.planning.fields.normalize import may_be_secret
from applyprune.planning.fields.redact import without_secrets

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest

MOST_WARNINGS = 100
"""How many warnings of the server one run reports."""
_NAMED = 3
_NOT_SHOWN = (
    "the server warns about it; the text is not shown, because it may hold a value of the Secret"
)


def known_secrets(
    plan: Plan, states: Iterable[State], manifests: Iterable[Manifest]
) -> Iterator[Mapping[str, Any]]:
    """Yield every Secret that a run has read: those of the input, selected or not, and live ones.

    The live Secrets of a set are always read in full, also those that leave it.
    """
    wanted = [step.desired.body for step in plan.applies]
    wanted += [manifest.body for manifest in manifests]  # guard: unselected-secret
    yield from filter(may_be_secret, wanted)
    for state in states:
        # An item of a list has no kind.
        if isinstance(state, LiveObject) and state.ref.group_kind == SECRET:
            yield state.body or {}  # guard: live-secret


def warning_problems(
    found: Mapping[str, Sequence[Ref]], plan: Plan, secrets: Iterable[Mapping[str, Any]]
) -> Iterator[Problem]:
    """Yield a problem for each text, about the first of its objects; the others are named.

    An empty text is that of a Secret. Values of ``secrets`` are masked in every text.
    """
    origins = {step.desired.ref: step.desired.origin for step in plan.applies}
    bodies = list(secrets) if found else []
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
