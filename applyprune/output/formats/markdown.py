"""The page of Markdown about a run: counts, what changed, what failed, how objects would change.

Text of others stands in code only, spans or blocks, fenced by more backticks than it holds: there
nothing is a link, a mention, an image or HTML. In a table a bar is drawn as another one, since a
bar ends a cell even in code.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from applyprune.model.display import shown, visible
from applyprune.model.events import Outcome
from applyprune.model.options import DryRun
from applyprune.output.text.diff import unified

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.model.events import ApplySetListed, ObjectDiff, ObjectStatus
    from applyprune.model.inventory import Mismatch
    from applyprune.model.problem import Problem
    from applyprune.output.collector import ObjectReport, RunReport

ROWS = 200
"""How many objects, and how many problems, are shown."""
_ERRORS = frozenset({Outcome.FAILED, Outcome.SKIPPED})


def page(gathered: RunReport, room: int) -> str:
    """Return the page in at most ``room`` bytes of UTF-8, empty when not even its head fits.

    What is left out is said: parts fall away from the end.
    """
    left = room - len(_note(len(gathered.objects)).encode())
    kept: list[str] = []
    skipped = 0
    for part in _parts(gathered):
        size = len(part.encode()) + 2
        # One that is too long does not keep the shorter ones after it from being shown.
        if size <= left:
            kept.append(part)
            left -= size
        else:
            skipped += 1
    if not kept:
        return ""
    return "\n\n".join([*kept, _note(skipped)] if skipped else kept)


def conclusion(gathered: RunReport) -> str:
    """Return how a run ended, in a line: ``web: 2 created, 1 failed in 0.3 s, exit code 3``."""
    finished = gathered.finished
    name, _ = gathered.name
    about = f"{name}: " if name else ""
    if finished is None:
        return f"{about}not finished"
    parts = [f"{finished.counts[one]} {one.text}" for one in Outcome if finished.counts.get(one)]
    different = len(gathered.mismatches)
    if not parts and different:
        parts = [f"{different} mismatch{'' if different == 1 else 'es'}"]
    if not parts and gathered.started is None and not finished.exit_code:
        parts = ["looked"]
    told = ", ".join(parts) or ("nothing done" if finished.exit_code else "nothing to do")
    code = f", exit code {finished.exit_code}" if finished.exit_code else ""
    return f"{about}{told} in {finished.elapsed:.1f} s{code}"


def code(text: str) -> str:
    """Return text of others as a span of code that it cannot end, on one line."""
    line = visible(text.replace("\n", " ")) or " "
    fence = "`" * (_longest_run(line) + 1)
    blank = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{blank}{line}{blank}{fence}"


def block(text: str, language: str = "text") -> str:
    """Return text of others as a block of code that it cannot end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{shown(text)}\n{fence}"


def _parts(gathered: RunReport) -> Iterator[str]:
    yield _head(gathered)
    changed = [
        one
        for one in gathered.objects
        if one.result and one.result.outcome not in {*_ERRORS, Outcome.UNCHANGED}
    ]
    if changed:
        yield _changes(changed)
    if gathered.sets:
        yield _sets(list(gathered.sets.values()))
    if standing := [one.status for one in gathered.objects if one.status is not None]:
        yield _standings(standing)
    problems = list(_problems(gathered))
    if problems:
        yield f"#### Problems\n\n{_bounded(problems)}"
    if gathered.warnings:
        warnings = [("warning", one) for one in gathered.warnings]
        yield f"#### Warnings\n\n{_bounded(warnings)}"
    if gathered.mismatches:
        yield _findings(gathered.mismatches)
    compared = [one.diff for one in gathered.objects if one.diff is not None]
    different = [one for one in compared if one.outcome is not Outcome.UNCHANGED]
    yield from map(_difference, different[:ROWS])
    if more := different[ROWS:]:
        yield f"… and {len(more)} more would change."


def _head(gathered: RunReport) -> str:
    started = gathered.started
    name, namespace = gathered.name
    about = f": {code(name)} in namespace {code(namespace)}" if name else ""
    verb = f" {started.mode}" if started else ""
    dry = started is not None and started.dry_run is not DryRun.OFF
    lines = [
        f"### What applyprune{verb} would do{about}" if dry else f"### applyprune{verb}{about}"
    ]
    finished = gathered.finished
    if finished is None:
        return "\n\n".join([*lines, "**It has not come to its end.**"])
    if finished.exit_code > 1 or (finished.exit_code and not dry):
        lines.append(f"Exit code {finished.exit_code}, after {finished.elapsed:.1f} s.")
    elif dry:
        lines.append("Nothing has been written.")
    else:
        lines.append(f"Done in {finished.elapsed:.1f} s.")
    counts = [(one.text, finished.counts[one]) for one in Outcome if finished.counts.get(one)]
    if counts:
        lines.append(
            _table([one for one, _ in counts], [[str(count) for _, count in counts]], right=True)
        )
    return "\n\n".join(lines)


def _changes(changed: Sequence[ObjectReport]) -> str:
    rows = [
        [
            _cell(one.ref.short),
            _cell(one.ref.namespace) if one.ref.namespace else "",
            one.result.outcome.text,
            _cell(one.result.reason) if one.result.reason else "",
        ]
        for one in changed[:ROWS]
        if one.result
    ]
    return _listing("Changes", ["object", "namespace", "", "why"], rows, len(changed))


def _sets(sets: Sequence[ApplySetListed]) -> str:
    rows = [
        [
            _cell(one.namespace),
            _cell(one.name),
            "?" if one.objects is None else str(one.objects),
            "" if one.ready is None else str(one.ready),
            _cell(str(one.problem)) if one.problem else "",
        ]
        for one in sets[:ROWS]
    ]
    return _listing("Sets", ["namespace", "set", "objects", "ready", ""], rows, len(sets))


def _standings(standing: Sequence[ObjectStatus]) -> str:
    rows = [
        [
            _cell(one.ref.short),
            _cell(one.ref.namespace) if one.ref.namespace else "",
            one.readiness.status.text,
            _cell(one.readiness.message) if one.readiness.message else "",
            {True: "drifted", False: "", None: "?"}[one.drifted],
        ]
        for one in standing[:ROWS]
    ]
    return _listing("Objects", ["object", "namespace", "", "why", "drift"], rows, len(standing))


def _listing(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], of: int) -> str:
    """Return a table under a heading, and how many rows of all are left out."""
    more = f"\n\n… and {of - len(rows)} more." if of > len(rows) else ""
    return f"#### {title}\n\n{_table(head, rows)}{more}"


def _problems(gathered: RunReport) -> Iterator[tuple[str, Problem]]:
    for one in (*gathered.errors, *filter(None, [gathered.verdict])):
        yield "error", one
    if gathered.prune_blocked is not None:
        yield "prune blocked", gathered.prune_blocked
    for told in gathered.objects:
        if told.problem is not None:
            yield (
                told.result.outcome.text if told.result and told.result.problem else "not ready",
                (told.problem),
            )


def _findings(findings: Sequence[Mismatch]) -> str:
    rows = [
        [
            one.type.text,
            _cell(str(one.ref)) if one.ref else "the inventory",
            _cell(one.message),
            one.repair.text,
        ]
        for one in findings[:ROWS]
    ]
    return _listing("Mismatches", ["", "object", "what", "repair"], rows, len(findings))


def _bounded(problems: Sequence[tuple[str, Problem]]) -> str:
    shown_ = [f"- {word}\n\n{_indented(block(str(one)))}" for word, one in problems[:ROWS]]
    more = len(problems) - len(shown_)
    return "\n".join([*shown_, *([f"- … and {more} more."] if more else [])])


def _difference(event: ObjectDiff) -> str:
    # In a block of HTML nothing is Markdown: it lasts until the blank line.
    title = html.escape(visible(str(event.ref)))
    told = "\n".join(unified(event))
    weaker = f"\n\n{block(event.not_checked)}" if event.not_checked else ""
    head = f"<details><summary><code>{title}</code> {event.outcome.forecast}</summary>"
    return f"{head}\n\n{block(told, 'diff')}{weaker}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    rule = ["--:" if right else "---"] * len(head)
    return "\n".join(f"| {' | '.join(one)} |" for one in (head, rule, *rows))


def _cell(text: str) -> str:
    return code(text.replace("|", "\N{FULLWIDTH VERTICAL LINE}"))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _longest_run(text: str) -> int:
    return max((len(one) for one in re.findall("`+", text)), default=0)


def _note(parts: int) -> str:
    return f"… {parts} parts are left out: GitHub takes 1 MiB of summaries from a step."
