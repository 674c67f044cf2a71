"""A plan as text, for the person who is about to run it: what would change, deletions first.

Also what other texts show of a plan: its guards, its consequences, and the problems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, GuardVerdict, Kept, Plan, RemoveStep, waits_in_words
from applyprune.model.text import and_more, counted
from applyprune.output.terminal import Colour, cells, styled, table, wrapped
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from applyprune.model.plan import Consequence, Guard
    from applyprune.model.problem import Origin, Problem
    from applyprune.planning.applyset import ApplySetIdentity


FATE_ORDER = (
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
_LISTED = 10
"""How many objects of any other fate are listed."""


def plan_table(plan: Plan, mode: Mode, applyset: ApplySetIdentity, width: int) -> str:
    """Return a table of what would change to a set; empty if nothing would.

    ``width`` are the columns of the terminal. For the deletion of
    a set, list every object, and count their fates below.
    """
    namespace = applyset.namespace
    consequences = ConsequenceLines()
    consequences.take_plan(plan)
    notes = shared_notes(plan, namespace)
    rows = sorted(
        _rows(plan, mode, consequences, notes), key=lambda row: FATE_ORDER.index(row.fate)
    )
    if not rows:
        return ""
    counts = Counter(row.fate for row in rows)
    listed = rows if mode is Mode.DELETE else _cut(rows)
    below = [
        f"… and {count - _LISTED} more {_forecast(fate, mode)}"
        for fate in FATE_ORDER
        if (count := counts[fate]) > sum(row.fate is fate for row in listed)
    ]
    # What happens to an object that does not change itself, such as a Service without Pods.
    for ref, texts in consequences.pop_all():
        below.append(kubectl_name(ref, namespace))
        below += [line for text in texts for line in wrapped(text, width, "  ")]
    below += [line for note in notes.values() for line in wrapped(note, width)]
    if mode is Mode.DELETE:
        below += deletion_summary(plan, applyset, width)
    return "\n".join((_table(listed, mode, namespace, width), *below))


_KEPT = {
    Kept.ADOPTED: ("was adopted and stays", "were adopted and stay"),
    Kept.MARKED: ("is marked and stays", "are marked and stay"),
    Kept.SHARED: ("is run by another tool and stays", "are run by another tool and stay"),
}


def deletion_summary(plan: Plan, applyset: ApplySetIdentity, width: int) -> Sequence[str]:
    """Return how many objects the deletion of a set deletes, and what happens to the others.

    Also say how to delete those that stay. ``width`` are the columns of the terminal.
    """
    steps = plan.removals
    kept = Counter(step.kept for step in steps if step.kept is not None)
    counts = Counter(step.fate for step in steps)
    parts = [f"{counts[Fate.PRUNE]} would be deleted"]
    for fate, words in (
        (Fate.REMOVE_FROM_INVENTORY, Fate.REMOVE_FROM_INVENTORY.forecast),
        (Fate.LEAVE, Fate.LEAVE.forecast),
        (Fate.REFUSE, "cannot be deleted"),
    ):
        parts += [f"{counts[fate]} {words}"] if counts[fate] else []
    if others := counts[Fate.ORPHAN] - kept.total():
        parts.append(f"{others} would be orphaned")
    for why, (one, several) in _KEPT.items():
        if count := kept[why]:
            parts.append(f"{count} {one if count == 1 else several}")
    summary = wrapped(f"{counted(len(steps), 'object')}: {', '.join(parts)}", width)
    return [*summary, *_how_to_delete(steps, applyset)]


_NAMED = 3


def _how_to_delete(steps: Sequence[RemoveStep], applyset: ApplySetIdentity) -> Iterator[str]:
    """Yield how to delete the objects that stay; a command is never wrapped."""
    kept = {step.kept for step in steps}
    if Kept.ADOPTED in kept:
        refs = [step.entry.ref.short for step in steps if step.kept is Kept.ADOPTED]
        named = " ".join(refs) if len(refs) <= _NAMED else "--every"
        yield "To delete what was adopted: --prune-also adopted, or make it owned first:"
        yield f"  applyprune inventory own {applyset.arguments} {named}"
    if Kept.MARKED in kept:
        yield "To delete what is marked: remove the annotation or label first."
    if Kept.SHARED in kept:
        yield "To delete what another tool runs: --prune-also shared"


@dataclass(frozen=True, slots=True)
class _Row:
    fate: Fate
    ref: Ref
    details: tuple[str, ...]
    """What else is worth knowing, each on a line of its own."""
    words: str = ""
    """What will happen, in place of the words of the fate."""


def _rows(
    plan: Plan, mode: Mode, consequences: ConsequenceLines, notes: Collection[str]
) -> Iterator[_Row]:
    """Yield a row for each object that would change; to delete a set, one for each object.

    ``notes`` are those that stand below the table.
    """
    for removal in () if plan.no_prune else plan.removals:
        stays = removal.fate in {Fate.LEAVE, Fate.REFUSE} and not removal.in_use
        if mode is Mode.DELETE or not stays:
            yield _row(removal, consequences, notes)
    for step in plan.applies:
        if step.fate.is_applied:
            yield _row(step, consequences, notes)


def _row(
    step: ApplyStep | RemoveStep, consequences: ConsequenceLines, notes: Collection[str]
) -> _Row:
    ref = step.entry.ref
    details = (*step_details(step, but=notes), *consequences.pop(ref))
    in_use = isinstance(step, RemoveStep) and step.in_use
    return _Row(step.fate, ref, details, Outcome.NOT_PRUNED.forecast if in_use else "")


_NEVER_CUT = frozenset({Fate.PRUNE, Fate.RECREATE})


def _cut(rows: Sequence[_Row]) -> Sequence[_Row]:
    seen: Counter[Fate] = Counter()
    kept = []
    for row in rows:
        seen[row.fate] += 1
        if row.fate in _NEVER_CUT or seen[row.fate] <= _LISTED:
            kept.append(row)
    return kept


_COLOURS = {
    Fate.PRUNE: Colour.MAGENTA,
    Fate.RECREATE: Colour.MAGENTA,
    Fate.ADOPT: Colour.CYAN,
    Fate.CREATE: Colour.GREEN,
    Fate.CHANGE: Colour.YELLOW,
    Fate.REFUSE: Colour.RED,
}

_GAP = 3


def _table(rows: Sequence[_Row], mode: Mode, namespace: str, width: int) -> str:
    lines = [
        (
            kubectl_name(row.ref, namespace),
            styled(row.words or _forecast(row.fate, mode), _COLOURS.get(row.fate)),
        )
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
    if mode is Mode.DELETE and fate is Fate.PRUNE:
        return "would be deleted"
    return fate.forecast


# The parts of a plan that other texts show too.


def plan_counts(counts: Mapping[Outcome, int], plan: Plan | None) -> Mapping[str, int]:
    """Return the counts of a run that writes nothing, each by its words; none of them is 0.

    To adopt an object is an update as well, but counts only once.
    """
    adopted = sum(step.fate is Fate.ADOPT for step in plan.applies) if plan is not None else 0
    adopted = min(adopted, counts.get(Outcome.UPDATED, 0))
    found: dict[str, int] = {}
    for outcome in sorted(Outcome, key=lambda one: one.task == one.text):
        found[outcome.task] = counts.get(outcome, 0)
        if outcome is Outcome.UPDATED:
            found[outcome.task] -= adopted
            found["to adopt"] = adopted
    return {words: count for words, count in found.items() if count}


def shared_notes(plan: Plan, namespace: str) -> Mapping[str, str]:
    """Return each note that holds for several objects, with a line that names them.

    It says what was not checked. ``namespace`` is that of the set.
    """
    named: dict[str, list[str]] = {}
    removals = () if plan.no_prune else plan.removals
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *removals)
    for step in steps:
        if step.not_checked and step.fate not in {Fate.LEAVE, Fate.REFUSE}:
            named.setdefault(step.not_checked, []).append(kubectl_name(step.entry.ref, namespace))
    return {
        note: f"{and_more(names, _NAMED_FIELDS)}: {note}"
        for note, names in named.items()
        if len(names) > 1
    }


def step_details(step: ApplyStep | RemoveStep, *, but: Collection[str] = ()) -> Iterator[str]:
    """Yield from whom a step takes something, why it has its fate, and what was not checked.

    ``but`` are the notes about that which stand elsewhere.
    """
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
    if step.not_checked and step.not_checked not in but:
        yield step.not_checked
    if isinstance(step, RemoveStep) and step.waits_for:
        yield f"waits for {waits_in_words(step)}; --no-wait skips this"
    if isinstance(step, RemoveStep) and step.ignored:
        yield step.ignored


_NAMED_FIELDS = 5


def unchecked_line(plan: Plan, namespace: str) -> str:
    """Return a line about all objects that were not checked in full; empty if there are none.

    ``namespace`` is that of the set.
    """
    removals = () if plan.no_prune else plan.removals
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *removals)
    found = [step for step in steps if step.not_checked and step.fate is not Fate.REFUSE]
    names = [kubectl_name(step.entry.ref, namespace) for step in found]
    if len(found) == 1:
        line = f"{names[0]}: {found[0].not_checked}"
    elif found:
        named = and_more(names, _NAMED_FIELDS)
        line = f"{len(found)} objects were not fully checked: {named}"
    else:
        line = ""
    return line.replace("\n", "\\n")


class ConsequenceLines:
    """Keeps the lines of a plan until they are printed; gives each of them once."""

    def __init__(self) -> None:
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


def lifted_text(plan: Plan, width: int | None) -> Iterator[str]:
    """Yield the lines about lifted guards, wrapped for a terminal of ``width`` columns."""
    for _, line in lifted_guards(plan):
        yield "\n".join(wrapped_line(line, width))


def lifted_guards(plan: Plan) -> Iterator[tuple[Guard, str]]:
    """Yield each lifted guard with a line: what has lifted it, and what it has found."""
    for result in plan.guards:
        if result.verdict is GuardVerdict.LIFTED:
            yield result.guard, str(result).replace("\n", "\\n")


# A problem as lines of text.


_SEVERITY_COLOURS = {"error": Colour.RED, "warning": Colour.YELLOW}
_INDENT = "  "
# Options or a command at the end of a line: a user can copy them only from one line.
_TO_COPY = pattern(r"(?:: |^ *)(?:--|applyprune |kubectl )[^,]*(?<!\.)$")


def problem_text(label: str, problem: Problem, width: int | None = None) -> str:
    """Return ``error: location: message: reason``, or ``warning: …``, and below it the rest.

    The other lines are indented, so that no part of a message looks like a line of ours. Lines
    wider than ``width`` are wrapped at spaces, except lines of the input and commands.
    """
    first, *below = str(problem).splitlines() or [""]
    excerpt = {f"{_INDENT}{line}" for line in problem.excerpt.splitlines()}
    lines = wrapped_line(f"{label}: {first}", width)
    for line in below:
        indented = line if line.startswith(_INDENT) else f"{_INDENT}{line}"
        keep_whole = line in excerpt or _TO_COPY.search(line)
        lines += [indented] if keep_whole else wrapped_line(indented, width)
    lines[0] = lines[0].replace(f"{label}:", styled(f"{label}:", _SEVERITY_COLOURS[label]), 1)
    return "\n".join(lines)


def wrapped_line(line: str, width: int | None) -> list[str]:
    """Wrap a line at that width, unless it is None; indent all lines but the first once more."""
    if width is None or len(line) <= width:
        return [line]
    from textwrap import wrap

    margin = line[: len(line) - len(line.lstrip())]
    return wrap(
        line.lstrip(),
        width,
        initial_indent=margin,
        subsequent_indent=margin + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
