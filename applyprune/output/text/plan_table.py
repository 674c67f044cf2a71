"""A plan as text, for the person who is about to run it: what would change, deletions first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.model.identity import Ref, called
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Fate, Kept, Plan, RemoveStep
from applyprune.output.terminal.style import Colour, cells, styled
from applyprune.output.terminal.table import table, wrapped
from applyprune.output.text.consequence_lines import ConsequenceLines
from applyprune.output.text.step_details import step_details
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.planning.applyset import ApplySetIdentity

ORDER = (
    Fate.PRUNE,
    Fate.RECREATE,
    Fate.ADOPT,
    Fate.ORPHAN,
    Fate.REMOVE_FROM_INVENTORY,
    Fate.CREATE,
    Fate.CHANGE,
    Fate.LEAVE,
    Fate.REFUSE,
)
"""The order in which a plan is shown: what cannot be undone comes first."""
_COLOURS = {
    Fate.PRUNE: Colour.MAGENTA,
    Fate.RECREATE: Colour.MAGENTA,
    Fate.ADOPT: Colour.CYAN,
    Fate.CREATE: Colour.GREEN,
    Fate.CHANGE: Colour.YELLOW,
    Fate.REFUSE: Colour.RED,
}
_NEVER_CUT = frozenset({Fate.PRUNE, Fate.RECREATE})
_KEPT = {
    Kept.ADOPTED: ("was adopted and stays", "were adopted and stay"),
    Kept.MARKED: ("is marked and stays", "are marked and stay"),
    Kept.SHARED: ("is run by another tool and stays", "are run by another tool and stay"),
}
_NAMED = 3
_LISTED = 10
"""How many objects of any other fate are listed."""
_GAP = 3


@dataclass(frozen=True, slots=True)
class _Row:
    fate: Fate
    ref: Ref
    details: tuple[str, ...]
    """What else is worth knowing, each on a line of its own."""


def plan_table(plan: Plan, mode: Mode, applyset: ApplySetIdentity, width: int) -> str:
    """Return a table of what would change to a set; empty if nothing would.

    ``width`` are the columns of the terminal. For the deletion of
    a set, list every object, and count their fates below.
    """
    namespace = applyset.namespace
    consequences = ConsequenceLines()
    consequences.take_plan(plan)
    rows = sorted(_rows(plan, mode, consequences), key=lambda row: ORDER.index(row.fate))
    if not rows:
        return ""
    counts = Counter(row.fate for row in rows)
    listed = rows if mode is Mode.DELETE else _cut(rows)
    below = [
        f"… and {count - _LISTED} more {_forecast(fate, mode)}"
        for fate in ORDER
        if (count := counts[fate]) > sum(row.fate is fate for row in listed)
    ]
    # What happens to an object that does not change itself, such as a Service without Pods.
    for ref, texts in consequences.pop_all():
        below.append(called(ref, namespace))
        below += [line for text in texts for line in wrapped(text, width, "  ")]
    if mode is Mode.DELETE:
        below += deletion_summary(plan, applyset, width)
    return "\n".join((_table(listed, mode, namespace, width), *below))


def deletion_summary(plan: Plan, applyset: ApplySetIdentity, width: int) -> Sequence[str]:
    """Return how many objects the deletion of a set deletes, and what happens to the others.

    Also say how to delete those that stay. ``width`` are the columns of the terminal.
    """
    steps = plan.removals
    kept = Counter(step.kept for step in steps if step.kept is not None)
    counts = Counter(step.fate for step in steps)
    parts = [f"{counts[Fate.PRUNE]} will be deleted"]
    for fate, words in (
        (Fate.REMOVE_FROM_INVENTORY, Fate.REMOVE_FROM_INVENTORY.forecast),
        (Fate.LEAVE, Fate.LEAVE.forecast),
        (Fate.REFUSE, "cannot be deleted"),
    ):
        parts += [f"{counts[fate]} {words}"] if counts[fate] else []
    if others := counts[Fate.ORPHAN] - kept.total():
        parts.append(f"{others} will be orphaned")
    for why, (one, several) in _KEPT.items():
        if count := kept[why]:
            parts.append(f"{count} {one if count == 1 else several}")
    total = "1 object" if len(steps) == 1 else f"{len(steps)} objects"
    counted = wrapped(f"{total}: {', '.join(parts)}", width)
    return [*counted, *_how_to_delete(steps, applyset)]


def _how_to_delete(steps: Sequence[RemoveStep], applyset: ApplySetIdentity) -> Iterator[str]:
    """Yield how to delete the objects that stay; a command is never wrapped."""
    kept = {step.kept for step in steps}
    if Kept.ADOPTED in kept:
        refs = [step.entry.ref.short for step in steps if step.kept is Kept.ADOPTED]
        named = " ".join(refs) if len(refs) <= _NAMED else "--every"
        yield "To delete what was adopted: --prune-adopted, or make it owned first:"
        yield f"  applyprune inventory own {applyset.arguments} {named}"
    if Kept.MARKED in kept:
        yield "To delete what is marked: remove the annotation or label first."
    if Kept.SHARED in kept:
        yield "To delete what another tool runs: --prune-shared"


def _rows(plan: Plan, mode: Mode, consequences: ConsequenceLines) -> Iterator[_Row]:
    """Yield a row for each object that would change; to delete a set, one for each object."""
    for removal in () if plan.no_prune else plan.removals:
        if mode is Mode.DELETE or removal.fate not in {Fate.LEAVE, Fate.REFUSE}:
            yield _row(removal, consequences)
    for step in plan.applies:
        if step.fate.is_applied:
            yield _row(step, consequences)


def _row(step: ApplyStep | RemoveStep, consequences: ConsequenceLines) -> _Row:
    ref = step.entry.ref
    return _Row(step.fate, ref, (*step_details(step), *consequences.pop(ref)))


def _cut(rows: Sequence[_Row]) -> Sequence[_Row]:
    seen: Counter[Fate] = Counter()
    kept = []
    for row in rows:
        seen[row.fate] += 1
        if row.fate in _NEVER_CUT or seen[row.fate] <= _LISTED:
            kept.append(row)
    return kept


def _table(rows: Sequence[_Row], mode: Mode, namespace: str, width: int) -> str:
    lines = [
        (called(row.ref, namespace), styled(_forecast(row.fate, mode), _COLOURS.get(row.fate)))
        for row in rows
    ]
    widths = [max(cells(line[column]) for line in lines) for column in range(2)]
    if sum(widths) + _GAP <= width:
        head: tuple[str, ...] = ("OBJECT", "PLAN")
        columns: list[tuple[str, ...]] = list(lines)
    else:
        head, columns = ("PLAN",), [(f"{name} {words}",) for name, words in lines]
    if not any(row.details for row in rows):
        return table(head, columns)
    with_details: list[tuple[str, ...]] = []
    for line, row in zip(columns, rows, strict=True):
        first, *others = row.details or ("",)
        with_details.append((*line, first))
        with_details += [(*("" for _ in line), detail) for detail in others]
    return table((*head, "DETAILS"), with_details, width)


def _forecast(fate: Fate, mode: Mode) -> str:
    is_deletion = mode is Mode.DELETE and fate is Fate.PRUNE
    return "will be deleted" if is_deletion else fate.forecast
