"""Word the faulty fields of an object as one problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.model.problem import Mark, Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.checks.field_types import UNKNOWN, FieldFault
from applyprune.planning.schema.server_errors import advice_on, dotted
from applyprune.planning.suggest import did_you_mean

if TYPE_CHECKING:
    from applyprune.model.plan import Desired

_NAMED = 5


def fields_problem(desired: Desired, faults: Sequence[FieldFault]) -> Problem:
    """Return the problem of an object with faulty fields; there is at least one."""
    first, *others = faults
    marks = tuple(Mark(fault.field, _note(fault)) for fault in faults)
    if first.twin and not others:
        marks = (Mark(first.twin, "here"), Mark(first.field, "and here"))
    if others:
        names = and_more([dotted(fault.field) or "the object" for fault in faults], _NAMED)
        what = f"{len(faults)} {_what(faults, desired)}: {names}"
    else:
        what = f"{dotted(first.field)}: {first.what}".removeprefix(": ")
    return Problem(
        ProblemKind.INVALID,
        f"{desired.ref}: {what}",
        location=str(desired.origin),
        origin=desired.origin,
        hint=next(_hints(faults), "") if others else _hint(first),
        field=first.field,
        marks=marks if len(marks) > 1 else (),
    )


def _what(faults: Sequence[FieldFault], desired: Desired) -> str:
    unknown = sum(fault.what == UNKNOWN for fault in faults)
    if unknown == len(faults):
        return f"fields that {desired.resource.gvk} does not have"
    return "fields of the wrong type" if not unknown else "unknown fields or wrong types"


def _note(fault: FieldFault) -> str:
    return _suggestion(fault) or fault.what


def _hint(fault: FieldFault) -> str:
    return _suggestion(fault) or advice_on(fault.what)


def _hints(faults: Sequence[FieldFault]) -> Iterator[str]:
    """Yield the advice for all faults, if it is the same for all of them."""
    hints = {advice_on(fault.what) for fault in faults}
    if len(hints) == 1:
        yield from hints


def _suggestion(fault: FieldFault) -> str:
    return did_you_mean(str(fault.field[-1]), fault.known) if fault.what == UNKNOWN else ""
