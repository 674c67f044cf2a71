"""Events and errors of a run that point into its input: file, line, column and an excerpt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from applyprune.errors import ApplypruneError, InputErrors, as_problem
from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDone,
    Planned,
    PruneBlocked,
    ReadinessReported,
    WarningRaised,
)
from applyprune.model.plan import Plan
from applyprune.sources.load import Input
from applyprune.values import replace


def with_excerpt(events: Iterable[Event], given: Input) -> Iterator[Event]:
    """Yield the events, and raise the error that ends them, with line, column and excerpt."""
    try:
        for event in events:
            yield _event(event, given)
    except InputErrors as several:
        for error in several.errors:
            _locate(error, given)
        raise
    except ApplypruneError as error:
        _locate(error, given)
        raise


def _event(event: Event, given: Input) -> Event:
    if isinstance(event, Planned):
        return replace(event, plan=_plan(event.plan, given))
    match event:
        case (
            ObjectDone()
            | ReadinessReported()
            | WarningRaised()
            | PruneBlocked()
            | ErrorRaised()
            | Finished()
        ):
            if event.problem is not None:
                return replace(event, problem=given.pointed(event.problem))
        case _:
            pass
    return event


def _plan(plan: Plan, given: Input) -> Plan:
    if all(step.problem is None for step in plan.applies):
        return plan
    applies = tuple(
        step if step.problem is None else replace(step, problem=given.pointed(step.problem))
        for step in plan.applies
    )
    return replace(plan, applies=applies)


def _locate(error: ApplypruneError, given: Input) -> None:
    problem = given.pointed(as_problem(error))
    error.location, error.origin, error.excerpt = problem.location, problem.origin, problem.excerpt
