"""``-o markdown``: one page about a run: counts, changes, failures, diffs, and the plan's digests.

It fits into a comment of a pull request, and into the summary of a pipeline's step. What would be
deleted comes first, also if that is refused, and the digests come last.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

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
from applyprune.output.report import ObjectReport, RunReport
from applyprune.output.results import counts_in_words, forecast_steps, is_refused
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
    digests = [text for text in [_digests(report)] if text]
    left = room - len("\n\n".join([_note(len(report.objects)), *digests]).encode())
    kept: list[str] = []
    skipped = 0
    for part in _parts(report):
        # The half, so that no list displaces what comes after it.
        text = part if isinstance(part, str) else part.text(left // 2)
        size = len(text.encode()) + 2
        # After a part that is too long, shorter parts may still fit.
        if text and size <= left:
            kept.append(text)
            left -= size
        else:
            skipped += 1
    if not kept:
        return ""
    return "\n\n".join([*kept, *([_note(skipped)] if skipped else []), *digests])


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


_FIRST_DIFFS = {Fate.PRUNE: 0, Fate.RECREATE: 1}
_LAST = 9


def _parts(report: RunReport) -> Iterator[str | _Listing]:
    yield _head(report)
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
    if report.warnings:
        warnings = [("warning", problem) for problem in report.warnings]
        yield _bounded("Warnings", warnings)
    if report.mismatches:
        yield _mismatches(report.mismatches)
    diffs = [each.diff for each in reports if each.diff is not None]
    different = [diff for diff in diffs if diff.fate is not Fate.LEAVE]
    different.sort(key=lambda diff: _FIRST_DIFFS.get(diff.fate, _LAST))
    yield from map(_difference, different[:ROWS])
    if more := different[ROWS:]:
        yield f"… and {len(more)} more would change."


def _head(report: RunReport) -> str:
    started = report.started
    name, namespace = report.name
    about = f": {code(name)} in namespace {code(namespace)}" if name else ""
    if started and started.context:
        about += f" → {code(started.context)}"
    verb = f" {started.mode}" if started else ""
    dry = report.is_dry
    lines = [
        f"### What applyprune{verb} would do{about}" if dry else f"### applyprune{verb}{about}"
    ]
    finished = report.finished
    if finished is None:
        return "\n\n".join([*lines, "**The run did not finish.**"])
    if refused := _refused(report):
        lines.append(refused)
    if finished.exit_code > 1 or (finished.exit_code and not dry):
        lines.append(f"Exit code {finished.exit_code}, after {finished.elapsed:.1f} s.")
    elif dry:
        lines.append("Nothing was changed in the cluster.")
    else:
        lines.append(f"Done in {finished.elapsed:.1f} s.")
    if counts := counts_in_words(report):
        lines.append(_table(list(counts), [[str(count) for count in counts.values()]], right=True))
    return "\n\n".join(lines)


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


def _digests(report: RunReport) -> str:
    """Return the digests that bind an apply to this plan, or approve its deletions."""
    plan, finished = report.plan, report.finished
    if plan is None:
        return ""
    # If the run has written all that its plan says, nothing is left to approve.
    done = not report.is_dry and finished is not None and not finished.exit_code
    lines = [f"The plan's digest is {code(plan.digest)}."] if plan.digest else []
    if plan.deletions and not done:
        approval = f"To approve its deletions: {code(f'--approve {plan.deletions}')}."
        own = f"The digest of its deletions is {code(plan.deletions)}."
        lines.append(approval if _is_approvable(plan) else own)
    return "\n\n".join(lines)


_FIRST = {
    Outcome.PRUNED: 0,
    Outcome.DELETED: 0,
    Outcome.RECREATED: 1,
    Outcome.ORPHANED: 2,
    Outcome.NOT_PRUNED: 3,
}


def _changed_objects(changed: Sequence[ObjectReport], report: RunReport) -> _Listing:
    steps = forecast_steps(report)
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
    if is_refused(step, done, report):
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
