"""``-o markdown``: one page about a run: counts, changes, failures, diffs, and the plan's digests.

It fits into a comment of a pull request, and into the summary of a pipeline's step. What would be
deleted comes first, also if that is refused, and the digests come last. The page of many sets has a
line for each set, and then the details of each that changes or fails.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from applyprune.model.events import (
    ApplySetListed,
    Event,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.inventory import Mismatch
from applyprune.model.plan import (
    ApplyStep,
    Cause,
    Consequence,
    GuardResult,
    GuardVerdict,
    Plan,
    RemoveStep,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted, visible, visible_lines
from applyprune.output.plan_text import step_details, words_of
from applyprune.output.printers import OutputTarget
from applyprune.output.problem_text import NAMED, reason_of
from applyprune.output.report import ObjectReport, RunReport, by_folder, result_of, with_members
from applyprune.output.results import FAILED, INTERRUPTED, NOT_RUN, REFUSED, counts_in_words
from applyprune.planning.guards import WOULD_DELETE

ROWS = 200
"""The largest number of objects, and of problems, that the page shows."""
COMMENT = 64_000
"""The longest page for a comment, in bytes of UTF-8: GitHub takes 65,536 characters, and a pipeline
adds some."""


class MarkdownPrinter:
    """Writes the page at the end; until then a file contains an unfinished one."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output, and write the unfinished page to a file."""
        self._out = target.out
        self._report = RunReport()
        target.draft(page(self._report, COMMENT))

    def show(self, event: Event) -> None:
        """Keep one event."""
        self._report.take(event)

    def close(self) -> None:
        """Write the page."""
        self._out(page(self._report, COMMENT))


def page(report: RunReport, room: int) -> str:
    """Return the page in at most ``room`` bytes of UTF-8; empty if not even its head fits.

    Parts that do not fit are left out, and rows of lists; their number is reported.
    """
    if report.members:
        return _page_of_sets(report, room)
    digests = [text for text in [_digests(report)] if text]
    fitting = _Fitting(room - len("\n\n".join([_note(len(report.objects)), *digests]).encode()))
    for part in (_head(report), *_body(report), *_differences(report, ROWS)):
        fitting.add(part)
    return "\n\n".join([*fitting.parts(), *digests]) if fitting.kept else ""


class _Fitting(Struct):
    """The parts that fit into a room."""

    left: int
    """The bytes that are left."""
    kept: list[str] = field(default_factory=list)
    skipped: int = 0

    def add(self, part: str | _Listing) -> None:
        """Add a part if it fits, and of a list the rows that do."""
        # The half, so that no list displaces what comes after it.
        text = part if isinstance(part, str) else part.text(self.left // 2)
        size = len(text.encode()) + 2
        # After a part that is too long, shorter parts may still fit.
        if text and size <= self.left:
            self.kept.append(text)
            self.left -= size
        else:
            self.skipped += 1

    def parts(self) -> Sequence[str]:
        """Return the parts, and the number of those that do not fit."""
        return [*self.kept, *([_note(self.skipped)] if self.skipped else [])]


class _Listing(Struct, frozen=True):
    """A list under a heading, which can be cut after each of its rows."""

    head: str
    rows: Sequence[str]
    of: int
    """How many rows there would be without a bound."""

    def text(self, room: int) -> str:
        """Return the rows that fit, and how many do not; empty if none fits."""
        left = room - len(f"{self.head}{self._more(0)}".encode())
        kept: list[str] = []
        for row in self.rows:
            left -= len(row.encode()) + 1
            if left < 0:
                break
            kept.append(row)
        return "\n".join([self.head, *kept]) + self._more(len(kept)) if kept else ""

    def _more(self, kept: int) -> str:
        return f"\n\n… and {self.of - kept} more." if self.of > kept else ""


def _note(parts: int) -> str:
    return f"… {parts} parts are left out: the page would be too long."


def conclusion(report: RunReport) -> str:
    """Return the result of a run: ``web: 2 created, 1 failed in 0.3 s, exit code 3``.

    If nothing is written, it is a forecast: ``web: 2 to create in 0.3 s``. For many sets, that is
    their number and the sum of their counts.
    """
    finished, about = report.finished, report.name[0]
    if report.members:
        about = counted(len(report.members), "set")
    elif report.key is not None:
        about = str(report.key)
    about = f"{about}: " if about else ""
    if finished is None:
        return f"{about}not finished"
    parts = [f"{count} {words}" for words, count in _counts(report).items()]
    different = len(report.mismatches)
    if not parts and different:
        parts = [f"{different} mismatch{'' if different == 1 else 'es'}"]
    is_run = report.key is not None or any(one.started for one in with_members(report))
    if not parts and not is_run and not finished.exit_code:
        parts = ["done"]
    result = ", ".join(parts) or ("nothing done" if finished.exit_code else "nothing to do")
    code = f", exit code {finished.exit_code}" if finished.exit_code else ""
    return f"{about}{result} in {finished.elapsed:.1f} s{code}"


def is_note(problem: Problem, report: RunReport) -> bool:
    """Return whether a warning about a command over many sets says nothing that is to be done."""
    asks = problem.kind is not ProblemKind.USAGE_ERROR or problem.reason or problem.hint
    return bool(report.members) and not asks


_FIRST_DIFFS = {Fate.PRUNE: 0, Fate.RECREATE: 1}
_LAST = 9


def _body(report: RunReport) -> Iterator[str | _Listing]:
    """Yield what there is about a run between its head and the diffs; nothing if nothing is."""
    changed = [
        object_report
        for object_report in report.objects
        if object_report.result is not None
        and object_report.result.problem is None
        and (object_report.result.outcome is not Outcome.UNCHANGED or object_report.result.reason)
    ]
    changed.sort(key=lambda one: _FIRST.get(one.result.outcome, _LAST) if one.result else _LAST)
    if changed:
        yield _changed_objects(changed, report)
    if report.plan is not None and (guards := _guards(report.plan.guards)):
        yield guards
    if report.plan is not None and report.plan.consequences:
        yield _consequences(report.plan.consequences)
    if report.plan is not None and report.plan.records:
        lines = [f"- {code(str(record))}" for record in report.plan.records]
        yield _Listing("#### Other tools\n", lines[:ROWS], len(lines))
    if report.input_checked is not None:
        yield code(report.input_checked.text)
    if report.sets:
        yield _sets(list(report.sets.values()))
    reports = report.objects
    if statuses := [each.status for each in reports if each.status is not None]:
        yield _object_statuses(statuses)
    problems = list(_problems(report))
    if problems:
        yield _bounded("Problems", problems)
    warnings = [("warning", one) for one in report.warnings if not is_note(one, report)]
    if warnings:
        yield _bounded("Warnings", warnings)
    if report.mismatches:
        yield _mismatches(report.mismatches)


def _differences(report: RunReport, most: int) -> Iterator[str]:
    """Yield the diff of each object that would change, and how many there are beyond ``most``."""
    diffs = [each.diff for each in report.objects if each.diff is not None]
    different = [diff for diff in diffs if diff.fate is not Fate.LEAVE]
    different.sort(key=lambda diff: _FIRST_DIFFS.get(diff.fate, _LAST))
    yield from map(_difference, different[:most])
    if more := different[most:]:
        yield f"… and {len(more)} more would change."


def _head(report: RunReport) -> str:
    started = report.started
    name, namespace = report.name
    about = f": {code(name)} in namespace {code(namespace)}" if name else ""
    if started and started.context:
        about += f" → {code(started.context)}"
    title = _title(str(started.mode) if started else "", about, dry=report.is_dry)
    return "\n\n".join([title, *_ending(report, _refused(report))])


def _title(mode: str, about: str, *, dry: bool) -> str:
    verb = f" {mode}" if mode else ""
    return f"### What applyprune{verb} would do{about}" if dry else f"### applyprune{verb}{about}"


_UNFINISHED = "**The run did not finish.**"


def _ending(report: RunReport, refused: str) -> Iterator[str]:
    """Yield how a run has ended, and what it has done with how many objects."""
    finished, dry = report.finished, report.is_dry
    if finished is None:
        yield _UNFINISHED
        return
    if refused:
        yield refused
    if finished.exit_code > 1 or (finished.exit_code and not dry):
        yield f"Exit code {finished.exit_code}, after {finished.elapsed:.1f} s."
    elif dry:
        yield "Nothing was changed in the cluster."
    else:
        yield f"Done in {finished.elapsed:.1f} s."
    if counts := _counts(report):
        yield _table(list(counts), [[str(count) for count in counts.values()]], right=True)


def _refused(report: RunReport) -> str:
    """Return what a refused prune would delete, and whether an approval allows that; or nothing."""
    plan, blocked = report.plan, report.prune_blocked
    if plan is None or blocked is None:
        return ""
    what = blocked.message.partition(WOULD_DELETE)[2]
    doomed = [step for step in plan.removals if step.is_doomed and not step.is_going]
    recreated = [step for step in plan.applies if step.cause is Cause.NOT_APPROVED]
    if not (what or doomed or recreated):
        return "**Refused**: see the problems."
    what = what or counted(len(doomed) + len(recreated), "object")
    it = "The merge" if report.is_dry else "It"
    if blocked.kind is ProblemKind.NOT_APPROVED:
        return f"**Not approved**: this would delete {what}. {it} needs an approval."
    way = (
        f"{it} needs an approval."
        if _is_approvable(plan)
        else "No approval allows that: see the problems."
    )
    return f"**Refused**: this would delete {what}. {way}"


def _is_approvable(plan: Plan) -> bool:
    """Return whether an approval is enough for the deletions of a plan."""
    lifted = plan.if_approved
    if plan.refusal is None or plan.refusal.kind is ProblemKind.NOT_APPROVED:
        return True
    return lifted is not None and lifted.refusal is None


def _counts(report: RunReport) -> Mapping[str, int]:
    """Return the number of objects by what was done with them, or would be; of all its sets."""
    counts = report.finished.counts if report.finished is not None else {}
    runs = with_members(report)
    applies = chain.from_iterable(run.plan.applies for run in runs if run.plan is not None)
    words = counts_in_words(counts, Plan(tuple(applies), ()), report.mode, dry=report.is_dry)
    if not report.is_dry:
        return words
    refused = sum(map(_refused_removals, runs))
    kept = words_of(Outcome.NOT_PRUNED.task, report.mode)
    to_delete = words_of(Outcome.PRUNED.task, report.mode)
    all_words = {f"{to_delete} (refused)": refused, **words, kept: words.get(kept, 0) - refused}
    return {word: count for word, count in all_words.items() if count > 0}


def _refused_removals(report: RunReport) -> int:
    steps = _steps(report)
    done = [one.result for one in report.objects if one.result is not None]
    return sum(_is_refused(steps.get(one.ref), one, report) for one in done)


def _steps(report: RunReport) -> Mapping[Ref, ApplyStep | RemoveStep]:
    if not report.is_dry or report.plan is None:
        return {}
    return {step.entry.ref: step for step in report.plan.steps}


def _is_refused(step: ApplyStep | RemoveStep | None, done: ObjectDone, report: RunReport) -> bool:
    """Return whether only a refusal of the whole prune keeps an object from being pruned."""
    is_doomed = isinstance(step, RemoveStep) and step.is_doomed
    return is_doomed and done.outcome is Outcome.NOT_PRUNED and report.prune_blocked is not None


def _digests(report: RunReport) -> str:
    """Return the digests that bind an apply to this plan, or approve its deletions."""
    plan = report.plan
    if plan is None:
        return ""
    lines = [f"The plan's digest is {code(plan.digest)}."] if plan.digest else []
    if deletions := _deletions_to_approve(report):
        approval = f"To approve its deletions: {code(f'--approve {deletions}')}."
        own = f"The digest of its deletions is {code(deletions)}."
        lines.append(approval if _is_approvable(plan) else own)
    return "\n\n".join(lines)


def _deletions_to_approve(report: RunReport) -> str:
    """Return the digest of the deletions of a plan; empty if nothing is left to approve."""
    plan, finished = report.plan, report.finished
    # A run without a failure has written all that its plan says.
    done = not report.is_dry and finished is not None and not finished.exit_code
    return "" if plan is None or done else plan.deletions


_FIRST = {
    Outcome.PRUNED: 0,
    Outcome.DELETED: 0,
    Outcome.RECREATED: 1,
    Outcome.ORPHANED: 2,
    Outcome.NOT_PRUNED: 3,
}


def _changed_objects(changed: Sequence[ObjectReport], report: RunReport) -> _Listing:
    steps = _steps(report)
    rows = [
        [
            _cell(result.ref.short),
            _cell(result.ref.namespace) if result.ref.namespace else "",
            _word(result, steps.get(result.ref), report),
            _cell(reason) if (reason := _reason(result, steps.get(result.ref))) else "",
        ]
        for object_report in changed[:ROWS]
        if (result := object_report.result)
    ]
    head = "plan" if report.is_dry else "result"
    return _listing("Changes", ["object", "namespace", head, "reason"], rows, len(changed))


def _word(done: ObjectDone, step: ApplyStep | RemoveStep | None, report: RunReport) -> str:
    """Return what was or would be done with an object; an adoption is more than an update."""
    if not report.is_dry:
        return words_of(done.outcome.text, report.mode)
    if _is_refused(step, done, report):
        return f"{words_of(Fate.PRUNE.forecast, report.mode)}, but is refused"
    adopts = done.outcome is Outcome.UPDATED and step is not None and step.fate is Fate.ADOPT
    return words_of(Fate.ADOPT.forecast if adopts else done.outcome.forecast, report.mode)


def _reason(done: ObjectDone, step: ApplyStep | RemoveStep | None) -> str:
    """Return why this happens to an object; of a plan all that is worth knowing about its step."""
    if step is None or done.outcome is Outcome.NOT_PRUNED:
        return done.reason
    more = [] if done.reason in {"", step.reason, step.not_checked} else [done.reason]
    return "; ".join((*step_details(step), *more))


def _guards(results: Sequence[GuardResult]) -> str:
    """Return a table of the guards that refuse or were lifted, and how many passed."""
    passed = sum(result.verdict is GuardVerdict.PASSED for result in results)
    rows = [
        [
            code(result.guard),
            f"lifted by {_cell(result.lifted_by)}" if result.lifted_by else str(result.verdict),
            _cell(result.message),
            _cell(result.option) if result.option and not result.lifted_by else "",
        ]
        for result in results
        if result.verdict is not GuardVerdict.PASSED
    ]
    if not rows:
        return ""
    plural = "" if passed == 1 else "s"
    others = f"\n\n{passed} other guard{plural} passed." if passed else ""
    return f"#### Guards\n\n{_table(['guard', 'result', 'found', 'to allow it'], rows)}{others}"


def _consequences(consequences: Sequence[Consequence]) -> _Listing:
    rows = [
        [
            _cell(caused.ref.short),
            _cell(caused.ref.namespace) if caused.ref.namespace else "",
            _cell(caused.message),
        ]
        for caused in consequences[:ROWS]
    ]
    return _listing("Consequences", ["object", "namespace", "consequence"], rows, len(consequences))


def _sets(sets: Sequence[ApplySetListed]) -> _Listing:
    rows = [
        [
            _cell(applyset.namespace),
            _cell(applyset.name),
            "?" if applyset.objects is None else str(applyset.objects),
            "" if applyset.ready is None else str(applyset.ready),
            _cell(str(applyset.problem)) if applyset.problem else "",
        ]
        for applyset in sets[:ROWS]
    ]
    return _listing("Sets", ["namespace", "set", "objects", "ready", "problem"], rows, len(sets))


def _object_statuses(statuses: Sequence[ObjectStatus]) -> _Listing:
    rows = [
        [
            _cell(status.ref.short),
            _cell(status.ref.namespace) if status.ref.namespace else "",
            status.readiness.status.text,
            _cell(status.readiness.message) if status.readiness.message else "",
            {True: "drifted", False: "", None: "unknown"}[status.drifted],
        ]
        for status in statuses[:ROWS]
    ]
    return _listing(
        "Objects", ["object", "namespace", "status", "reason", "drift"], rows, len(statuses)
    )


def _problems(report: RunReport) -> Iterator[tuple[str, Problem]]:
    for problem in (*report.errors, *filter(None, [report.verdict])):
        yield "error", problem
    if report.prune_blocked is not None:
        yield f"{report.mode.removal} refused", report.prune_blocked
    _, namespace = report.name
    alike: dict[tuple[object, ...], list[tuple[Ref, Problem]]] = {}
    labels: dict[tuple[object, ...], str] = {}
    for one in report.objects:
        if one.problem is not None:
            label = _label(one, dry=report.is_dry)
            key = (label, *reason_of(one.ref, one.problem))
            alike.setdefault(key, []).append((one.ref, one.problem))
            labels[key] = label
    for key, found in alike.items():
        names = and_more([code(kubectl_name(ref, namespace)) for ref, _ in found], NAMED)
        several = f"{len(found)} objects with one reason: " if len(found) > 1 else ""
        yield f"{several}{names}: {labels[key]}", found[0][1]


def _label(object_report: ObjectReport, *, dry: bool) -> str:
    result = object_report.result
    if result is None or result.problem is None:
        return "not ready"
    return result.outcome.forecast if dry else result.outcome.text


def _bounded(title: str, problems: Sequence[tuple[str, Problem]]) -> _Listing:
    items = [f"- {label}\n\n{_indented(block(str(problem)))}" for label, problem in problems[:ROWS]]
    return _Listing(f"#### {title}\n", items, len(problems))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _mismatches(mismatches: Sequence[Mismatch]) -> _Listing:
    rows = [
        [
            mismatch.type.text,
            _cell(str(mismatch.ref)) if mismatch.ref else "the inventory",
            _cell(mismatch.message),
            mismatch.repair.text,
        ]
        for mismatch in mismatches[:ROWS]
    ]
    return _listing(
        "Mismatches", ["mismatch", "object", "message", "repair"], rows, len(mismatches)
    )


def _cell(text: str) -> str:
    # A bar ends a cell even in code.
    return code(text.replace("|", "\N{FULLWIDTH VERTICAL LINE}"))


def _listing(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], of: int) -> _Listing:
    """Return a table under a heading, of which ``of`` rows exist."""
    return _Listing(f"#### {title}\n\n{_table(head, [])}", [_row(row) for row in rows], of)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    rule = ["--:" if right else "---"] * len(head)
    return "\n".join(_row(row) for row in (head, rule, *rows))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _difference(event: ObjectDiff) -> str:
    # An HTML block lasts until a blank line, and contains no Markdown.
    title = html.escape(visible(str(event.ref)))
    diff = event.unified()
    not_checked = f"\n\n{block(event.not_checked)}" if event.not_checked else ""
    head = f"<details><summary><code>{title}</code> {event.fate.forecast}</summary>"
    return f"{head}\n\n{block(diff, 'diff')}{not_checked}\n\n</details>"


# Many sets: a head, a table with a line for each set, what is about the command as a whole, and the
# details of each set that has any, in a block of its own.


_LEAST = 2_000
"""The bytes that the details of a set get at least, while there are any."""
_LONGEST = 200
"""The longest text in a row of the table of sets."""
_WORST, _DELETES, _CHANGES, _OTHERS = range(4)
_DELETIONS = frozenset({Outcome.PRUNED, Outcome.DELETED, Outcome.RECREATED})


def _page_of_sets(report: RunReport, room: int) -> str:
    sets = sorted(by_folder(report), key=_rank)
    digests = _digests_of_sets(sets)
    # The quarter, so that they do not displace what they are about.
    last = [text for text in [digests.text(room // 4)] if text] if digests else []
    reserved = ["", _note(len(sets)), _note_of_sets(len(sets)), *last]
    fitting = _Fitting(room - len("\n\n".join(reserved).encode()))
    fitting.add(_head_of_sets(report))
    if not fitting.kept:
        return ""
    fitting.add(_table_of_sets(sets, dry=report.is_dry))
    notes = (code(_short(str(one))) for one in report.warnings if is_note(one, report))
    for part in (*notes, *_body(report), *_differences(report, ROWS)):
        fitting.add(part)
    shown, others = _details_of_sets(sets, fitting.left)
    note = [_note_of_sets(others)] if others else []
    return "\n\n".join([*fitting.parts(), *shown, *note, *last])


def _note_of_sets(count: int) -> str:
    return f"… The details of {counted(count, 'set')} are left out: the page would be too long."


def _rank(report: RunReport) -> int:
    """Return the place of a result: what has failed or was refused comes first, then deletions."""
    if report.finished is None or report.is_failed:
        return _WORST
    outcomes = {one.outcome for one in report.changed}
    return _DELETES if outcomes & _DELETIONS else _CHANGES if outcomes else _OTHERS


def _head_of_sets(report: RunReport) -> str:
    starts = [one.started for one in report.members.values() if one.started is not None]
    contexts = {one.context for one in starts}
    about = f": {counted(len(report.members), 'set')}"
    if len(contexts) == 1 and (context := contexts.pop()):
        about += f" → {code(context)}"
    title = _title(str(report.mode) if starts else "", about, dry=report.is_dry)
    words = Counter(_failed_in_a_word(report.members[key]) for key in report.failed_sets)
    failed = ", ".join(f"{counted(count, 'set')} {word}" for word, count in words.items())
    return "\n\n".join([title, *_ending(report, f"**{failed}.**" if failed else "")])


def _failed_in_a_word(report: RunReport) -> str:
    failure = result_of(report).failure
    words = {REFUSED, INTERRUPTED, NOT_RUN}
    return failure.word if failure is not None and failure.word in words else FAILED


def _table_of_sets(sets: Sequence[RunReport], *, dry: bool) -> _Listing:
    rows = [_row([*_cells_of_set(one), _cell(_short(str(result_of(one))))]) for one in sets[:ROWS]]
    head = _table(["set", "namespace", "input", "plan" if dry else "result"], [])
    return _Listing(head, rows, len(sets))


def _cells_of_set(report: RunReport) -> Iterator[str]:
    name, namespace = report.name
    for text in (name, namespace, report.input):
        yield _cell(_short(text)) if text else ""


def _short(text: str) -> str:
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text


def _digests_of_sets(sets: Sequence[RunReport]) -> _Listing | None:
    """Return a table of the digests that bind an apply to each plan, or approve its deletions."""
    rows = []
    for one in sets:
        deletions, plan = _deletions_to_approve(one), one.plan
        if plan is None or not (plan.digest or deletions):
            continue
        approval = ""
        if deletions and _is_approvable(plan):
            approval = code(f"--approve {deletions}")
        elif deletions:
            approval = f"{code(deletions)}, which no approval allows"
        name, namespace, _ = _cells_of_set(one)
        rows.append([name, namespace, code(plan.digest) if plan.digest else "", approval])
    head = ["set", "namespace", "plan", "deletions"]
    return _listing("Digests", head, rows[:ROWS], len(rows)) if rows else None


def _details_of_sets(sets: Sequence[RunReport], room: int) -> tuple[Sequence[str], int]:
    """Return the details of each set that has any, and how many do not fit.

    Each gets an equal part of the room, and what others leave of theirs; the diffs get what is left
    after all other details.
    """
    telling = [one for one in sets if _has_details(one)]
    found: list[_Details] = []
    for number, one in enumerate(telling):
        share = max(room // (len(telling) - number), _LEAST)
        details = _Details(one, _Fitting(min(room, share)))
        if details.begin():
            found.append(details)
            room -= details.size
    for number, details in enumerate(found):
        share = room // (len(found) - number)
        room -= details.add_differences(share, max(1, ROWS // len(found)))
    return [details.text for details in found], len(telling) - len(found)


def _has_details(report: RunReport) -> bool:
    """Return whether there is more to say of a set than its line in the table does."""
    failure = result_of(report).failure
    if failure is not None and report.started is None and failure.word in {NOT_RUN, INTERRUPTED}:
        return False
    differs = (one.diff is not None and one.diff.fate is not Fate.LEAVE for one in report.objects)
    return report.finished is None or any(differs) or any(True for _ in _body(report))


class _Details(Struct):
    """The details of one of many sets."""

    report: RunReport
    fitting: _Fitting

    @property
    def size(self) -> int:
        """Return the bytes that it takes on the page, with a note about what does not fit."""
        texts = [self._head, _note(_MANY), _END, *self.fitting.kept]
        return sum(len(text.encode()) + 2 for text in texts)

    @property
    def text(self) -> str:
        """Return the details as a block that can be opened."""
        return "\n\n".join([self._head, *self.fitting.parts(), _END])

    @property
    def _head(self) -> str:
        # An HTML block lasts until a blank line, and contains no Markdown.
        name, namespace = self.report.name
        place = f" in namespace {_html(namespace)}" if namespace else ""
        about = f"{_html(name)}{place} ({_html(self.report.input)})"
        state = " open" if _rank(self.report) == _WORST else ""
        summary = f"<summary>{about}: {_html(str(result_of(self.report)))}</summary>"
        return f"<details{state}>{summary}"

    def begin(self) -> bool:
        """Add all but the diffs; return whether there is room for any of it."""
        self.fitting.left -= self.size
        state = _refused(self.report) if self.report.finished is not None else _UNFINISHED
        for part in (*filter(None, [state]), *_body(self.report)):
            self.fitting.add(part)
        return bool(self.fitting.kept) or (self.fitting.left > 0 and not self.fitting.skipped)

    def add_differences(self, room: int, most: int) -> int:
        """Add at most so many diffs, and return the bytes that they take."""
        before = self.size
        self.fitting.left = room
        for part in _differences(self.report, most):
            self.fitting.add(part)
        return self.size - before


_MANY = 1_000_000
_END = "</details>"


def _html(text: str) -> str:
    return f"<code>{html.escape(visible(_short(text)))}</code>"


# Untrusted text is always code, with a fence of more backticks than the text has: there nothing is
# a link, a mention, an image or HTML.


def block(text: str, language: str = "text") -> str:
    """Return untrusted text as a code block; the text cannot end the block."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{visible_lines(text)}\n{fence}"


def code(text: str) -> str:
    """Return untrusted text as a code span on one line; the text cannot end the span."""
    line = visible(text.replace("\n", " ")) or " "
    fence = "`" * (_longest_run(line) + 1)
    blank = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{blank}{line}{blank}{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
