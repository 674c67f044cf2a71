"""A plan as text, for the person who is about to run it: what would change, deletions first.

Also what other texts show of a plan: its guards and its consequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Cause, GuardVerdict, Plan, RemoveStep, waits_in_words
from applyprune.model.text import and_more, counted
from applyprune.output.problem_text import some_names
from applyprune.output.terminal import Colour, fitted, one_line, styled, table, wrapped
from applyprune.planning.recovery import owning_command

if TYPE_CHECKING:
    from applyprune.model.events import Started
    from applyprune.model.plan import Consequence, Guard
    from applyprune.model.problem import Origin
    from applyprune.planning.applyset import ApplySetIdentity


def target_line(started: Started) -> str:
    """Return the set and the cluster: ``web in namespace shop, context prod (https://…)``."""
    return f"{started.name} in namespace {started.namespace}, {cluster_line(started)}"


def cluster_line(started: Started) -> str:
    """Return the cluster: ``context prod (https://…)``; empty if it is unknown."""
    context = styled(started.context, Colour.BOLD)
    return f"context {context} ({started.server})" if context else started.server


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


def plan_table(
    plan: Plan,
    mode: Mode,
    applyset: ApplySetIdentity,
    width: int | None,
    *,
    full: bool = False,
    unchanged: bool = False,
) -> str:
    """Return a table of what would change to a set; empty if nothing would.

    ``width`` are the columns of the terminal, None if there is none. ``full`` lists every
    object, also what stays as it is for a reason, and ``unchanged`` what has none. For the deletion
    of a set, list every object, and count their fates below.
    """
    namespace = applyset.namespace
    consequences = ConsequenceLines()
    consequences.take_plan(plan)
    notes = shared_notes(plan, namespace)
    rows = sorted(
        _rows(plan, mode, consequences, notes, full=full, unchanged=unchanged),
        key=lambda row: FATE_ORDER.index(row.fate),
    )
    counts = Counter(row.fate for row in rows)
    listed = rows if full or mode is Mode.DELETE else _cut(rows)
    below = [
        f"… and {count - _LISTED} more {words_of(fate.forecast, mode)}"
        for fate in FATE_ORDER
        if (count := counts[fate]) > sum(row.fate is fate for row in listed)
    ]
    # What happens to an object that has no row, such as one that is refused.
    for ref, texts in consequences.pop_all():
        below.append(kubectl_name(ref, namespace))
        below += [line for text in texts for line in wrapped(text, width, "  ")]
    lines = [*notes.values(), *(plan_notes(plan, namespace) if rows else ())]
    stays = [step.entry.ref for step in plan.removals if step.fate is not Fate.REFUSE]
    if full and plan.no_prune and stays:
        about = f"{counted(len(stays), 'object')} {Outcome.NOT_PRUNED.forecast} ({plan.no_prune})"
        lines.append(f"{about}: {some_names(stays, namespace)}")
    below += [part for line in lines for part in fitted(line, width)]
    if mode is Mode.DELETE and rows:
        below += deletion_summary(plan, applyset, width)
    above = [_table(listed, mode, namespace, width)] if rows else []
    return "\n".join((*above, *below))


_KEPT = {
    Cause.ADOPTED: ("was adopted and stays", "were adopted and stay"),
    Cause.MARKED: ("is marked and stays", "are marked and stay"),
    Cause.SHARED: ("is managed by another tool and stays", "are managed by another tool and stay"),
    Cause.OWNED: ("has another owner and stays", "have other owners and stay"),
}


def deletion_summary(plan: Plan, applyset: ApplySetIdentity, width: int | None) -> Sequence[str]:
    """Return how many objects the deletion of a set deletes, and what happens to the others.

    Also say how to delete those that stay. ``width`` are the columns of the terminal.
    """
    steps = plan.removals
    kept = Counter(step.cause for step in steps if step.cause in _KEPT)
    counts = Counter(step.fate for step in steps)
    parts = [f"{counts[Fate.PRUNE]} would be deleted"]
    for fate, words in (
        (Fate.REMOVE_FROM_INVENTORY, Fate.REMOVE_FROM_INVENTORY.forecast),
        (Fate.LEAVE, words_of(Outcome.NOT_PRUNED.forecast, Mode.DELETE)),
        (Fate.REFUSE, "cannot be deleted"),
    ):
        parts += [f"{counts[fate]} {words}"] if counts[fate] else []
    if others := counts[Fate.ORPHAN] - kept.total():
        parts.append(f"{others} would be orphaned")
    for cause, (one, several) in _KEPT.items():
        if count := kept[cause]:
            parts.append(f"{count} {one if count == 1 else several}")
    summary = fitted(f"{counted(len(steps), 'object')}: {', '.join(parts)}", width)
    return [*summary, *_how_to_delete(steps, applyset)]


def _how_to_delete(steps: Sequence[RemoveStep], applyset: ApplySetIdentity) -> Iterator[str]:
    """Yield how to delete the objects that stay; a command is never wrapped."""
    kept = {step.cause for step in steps}
    if Cause.ADOPTED in kept:
        refs = [step.entry.ref for step in steps if step.cause is Cause.ADOPTED]
        yield "To delete what was adopted: --prune-also adopted, or make it owned first:"
        yield f"  {owning_command(applyset, refs)}"
    if Cause.MARKED in kept:
        yield "To delete what is marked: remove the annotation or label first."
    if Cause.OWNED in kept:
        yield "To delete what has another owner: --prune-also shared"
    if Cause.SHARED in kept:
        yield "To delete what another tool manages: --prune-also shared"


class Row(Struct, frozen=True):
    """What is said of one object of a plan, in a table or above its diff."""

    fate: Fate
    ref: Ref
    details: tuple[str, ...]
    """What else is worth knowing, each on a line of its own."""
    words: str = ""
    """What will happen, in place of the words of the fate."""


def _rows(
    plan: Plan,
    mode: Mode,
    consequences: ConsequenceLines,
    notes: Collection[str],
    *,
    full: bool,
    unchanged: bool,
) -> Iterator[Row]:
    """Yield a row for each object that would change; to delete a set, one for each object.

    ``notes`` are those that stand below the table. ``full`` adds what stays for a reason, and
    ``unchanged`` what has none.
    """
    for removal in () if plan.no_prune else plan.removals:
        stays = removal.fate in {Fate.LEAVE, Fate.REFUSE} and removal.cause is not Cause.IN_USE
        tells = full and removal.fate is Fate.LEAVE
        if mode is Mode.DELETE or tells or not stays:
            yield plan_row(removal, consequences, notes)
    for step in plan.applies:
        tells = (full and bool(step.reason)) or unchanged
        if step.fate.is_applied or (step.fate is Fate.LEAVE and tells):
            yield plan_row(step, consequences, notes)


def plan_row(
    step: ApplyStep | RemoveStep, consequences: ConsequenceLines, notes: Collection[str]
) -> Row:
    """Return the row of a step, and take its consequences with it."""
    ref, words = step.entry.ref, ""
    if isinstance(step, ApplyStep):
        words = Outcome.SKIPPED.forecast if step.is_skipped else ""
    elif step.cause is Cause.IN_USE or step.fate is Fate.LEAVE:
        words = Outcome.NOT_PRUNED.forecast
    return Row(step.fate, ref, (*step_details(step, but=notes), *consequences.pop(ref)), words)


def row_lines(row: Row, namespace: str, width: int | None, place: str = "") -> list[str]:
    """Return a row as lines, as in a table that is too wide for its columns.

    ``place`` is that of the object in the input, if it is to be named.
    """
    words = row.words or row.fate.forecast
    head = f"{kubectl_name(row.ref, namespace)} {words}{f' ({place})' if place else ''}"
    lines = fitted(head, width)
    coloured = styled(words, _COLOURS.get(row.fate))
    lines[0] = lines[0].replace(f" {words}", f" {coloured}", 1)
    details = map(one_line, row.details)
    return [*lines, *(line for text in details for line in wrapped(text, width, _BELOW))]


_NEVER_CUT = frozenset({Fate.PRUNE, Fate.RECREATE})


def _cut(rows: Sequence[Row]) -> Sequence[Row]:
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

_BELOW = "    "


def _table(rows: Sequence[Row], mode: Mode, namespace: str, width: int | None) -> str:
    lines = [
        (
            kubectl_name(row.ref, namespace),
            styled(words_of(row.words or row.fate.forecast, mode), _COLOURS.get(row.fate)),
        )
        for row in rows
    ]
    if not any(row.details for row in rows):
        return table(("OBJECT", "PLAN"), lines, width)
    with_details: list[tuple[str, ...]] = []
    for line, row in zip(lines, rows, strict=True):
        first, *others = row.details or ("",)
        with_details.append((*line, first))
        with_details += [("", "", detail) for detail in others]
    return table(("OBJECT", "PLAN", "DETAILS"), with_details, width)


# The parts of a plan that other texts show too.


def words_of(words: str, mode: Mode) -> str:
    """Return the words of an outcome as they are used for a verb: ``delete`` prunes nothing."""
    return words.replace("prune", mode.removal)


def plan_counts(
    counts: Mapping[Outcome, int], plan: Plan | None, mode: Mode = Mode.APPLY
) -> Mapping[str, int]:
    """Return the counts of a run that writes nothing, each by its words; none of them is 0.

    To adopt an object is an update as well, but counts only once.
    """
    return task_counts(counts, adoptions(plan), mode)


class Adoptions(Struct, frozen=True):
    """What a plan adopts, or what the plans of several sets do."""

    count: int = 0
    changed: int | None = 0
    """How many of these change; None if that is unknown."""

    def __add__(self, other: Adoptions) -> Adoptions:
        """Return what both adopt."""
        is_known = self.changed is not None and other.changed is not None
        changed = (self.changed or 0) + (other.changed or 0) if is_known else None
        return Adoptions(self.count + other.count, changed)


def adoptions(plan: Plan | None) -> Adoptions:
    """Return what a plan adopts; nothing without a plan."""
    steps = [step for step in plan.applies if step.fate is Fate.ADOPT] if plan is not None else []
    if any(step.alters is None for step in steps):
        return Adoptions(len(steps), None)
    return Adoptions(len(steps), sum(step.alters is True for step in steps))


def task_counts(
    counts: Mapping[Outcome, int], adopts: Adoptions, mode: Mode = Mode.APPLY
) -> Mapping[str, int]:
    """Return the same with what is adopted, which the plans of several sets may do."""
    adopted = min(adopts.count, counts.get(Outcome.UPDATED, 0))
    words = "to adopt" if adopts.changed is None else f"to adopt, {adopts.changed} changed"
    found: dict[str, int] = {}
    for outcome in sorted(Outcome, key=lambda one: one.task == one.text):
        task = words_of(outcome.task, mode)
        found[task] = found.get(task, 0) + counts.get(outcome, 0)
        if outcome is Outcome.UPDATED:
            found[task] -= adopted
            found[words] = adopted
    return {words: count for words, count in found.items() if count}


def shared_notes(plan: Plan, namespace: str) -> Mapping[str, str]:
    """Return each note that holds for several objects, with a line that names them.

    It says what was not checked, and what a deletion waits for. ``namespace`` is that of the set.
    """
    named: dict[str, list[str]] = {}
    removals = () if plan.no_prune else plan.removals
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *removals)
    for step in steps:
        if step.fate not in {Fate.LEAVE, Fate.REFUSE}:
            for note in _notes(step):
                named.setdefault(note, []).append(kubectl_name(step.entry.ref, namespace))
    return {
        note: f"{and_more(names, _NAMED_FIELDS)}: {note}"
        for note, names in named.items()
        if len(names) > 1
    }


def _notes(step: ApplyStep | RemoveStep) -> Iterator[str]:
    """Yield what may hold for several objects in the same words."""
    if step.not_checked:
        yield step.not_checked
    if isinstance(step, RemoveStep) and step.waits_for:
        yield f"waits for {waits_in_words(step)}; --no-wait skips this"
    if isinstance(step, RemoveStep) and step.ignored:
        yield step.ignored


def plan_notes(plan: Plan, namespace: str) -> Iterator[str]:
    """Yield the lines about a plan as a whole; ``namespace`` is that of the set."""
    yield from _adoption_note(plan, namespace)
    places = {step.entry.ref.namespace for step in plan.applies} - {""}
    if plan.new_set and len(places) == 1 and namespace not in places:
        place = places.pop()
        yield (
            f"all objects are in namespace {place}, but the inventory will be in {namespace}; "
            f"-n {place} puts it there"
        )


def _adoption_note(plan: Plan, namespace: str) -> Iterator[str]:
    """Yield a line about the objects that the set adopts and will not own."""
    adopts = [step for step in plan.applies if step.fate is Fate.ADOPT]
    # What a controller creates in a new Namespace is nobody's choice.
    refs = [step.entry.ref for step in adopts if step.live and not step.becomes_owned]
    if not refs:
        return
    names = and_more([kubectl_name(ref, namespace) for ref in refs], _NAMED_FIELDS)
    one = len(refs) == 1
    stays = "stays in the cluster when it leaves" if one else "stay in the cluster when they leave"
    # If others become owned, the user has said so, and these cannot be.
    how = "" if any(step.becomes_owned for step in adopts) else "; --record-as owned changes that"
    yield f"{names} {stays} the set{how}"


def record_lines(plan: Plan, width: int | None) -> Iterator[str]:
    """Yield what other tools still have of what a plan adopts; a command is never wrapped."""
    for record in plan.records:
        line = one_line(f"  {record}")
        if not record.command or width is None or len(line) <= width:
            yield from fitted(line, width)
        else:
            yield from fitted(f"  {record.said}; {record.to_end}:", width)
            yield f"    {record.command}"


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
    reason = step.reason
    if taken and adopts and not becomes_owned and reason.startswith("adopted: "):
        _, _, reason = reason.partition("; ")  # from whom is said already
    if step.problem is not None:
        yield step.problem.message
    elif reason:
        yield reason.removeprefix("adopted: ").removeprefix("adopted, ")
    yield from (note for note in _notes(step) if note not in but)


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
    return one_line(line)


class ConsequenceLines:
    """Keeps the lines of a plan until they are printed; gives each of them once."""

    def __init__(self) -> None:
        self._left: dict[Ref, list[str]] = {}

    def take_plan(self, plan: Plan) -> None:
        """Keep the lines of a plan, instead of those of the plan before."""
        self._left = {}
        for consequence in plan.consequences:
            line = f"→ {one_line(consequence.message)}"
            self._left.setdefault(consequence.ref, []).append(line)

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
        yield "\n".join(fitted(line, width))


def lifted_guards(plan: Plan) -> Iterator[tuple[Guard, str]]:
    """Yield each lifted guard with a line: what has lifted it, and what it has found."""
    for result in plan.guards:
        if result.verdict is GuardVerdict.LIFTED:
            yield result.guard, one_line(str(result))
