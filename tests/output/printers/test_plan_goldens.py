"""Golden files of plans: each fate, guard, consequence and refusal, in each form of output."""

from __future__ import annotations

import ast
import itertools
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import Finished, Planned
from applyprune.model.fate import Fate
from applyprune.model.options import Mode
from applyprune.model.plan import ConsequenceKind, Guard, GuardVerdict
from applyprune.output.plan_text import plan_table
from applyprune.output.printers import PRINTERS, OutputTarget, printer
from applyprune.output.terminal import rendered
from applyprune.planning.applyset import applyset_identity
from tests.support.golden import FIXTURES
from tests.support.output.parsers import JUNIT
from tests.support.output.plan_file_streams import OUTDATED, WRONG
from tests.support.output.plan_streams import REFUSALS, STREAMS, ran
from tests.support.output.plans import ALLOWED, DELETION, LIFTED, MISSING, REFUSED, REMOVALS
from tests.support.output.plans import REFUSALS as REFUSED_GUARDS
from tests.support.output.printed import printed
from tests.support.output.schemas import complaints
from tests.support.package import tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syrupy.assertion import SnapshotAssertion

    from applyprune.model.events import Event
    from applyprune.model.plan import Plan

WIDTH = 80
STOPPED = {**REFUSALS, **WRONG, **OUTDATED}
"""Runs that stop for one reason."""
EVERY = {**STREAMS, **STOPPED}
GOLDEN = {
    "allowed.plan.txt": ("plan", "allowed"),
    "allowed.diff.txt": ("diff", "allowed-diff"),
    "allowed.apply.txt": ("text", "allowed-apply"),
    "allowed.json": ("json", "allowed"),
    "allowed.md": ("markdown", "allowed"),
    "allowed.apply.md": ("markdown", "allowed-apply"),
    "refused.plan.txt": ("plan", "refused"),
    "refused.diff.txt": ("diff", "refused"),
    "refused.apply.txt": ("text", "refused-apply"),
    "refused.json": ("json", "refused"),
    "refused.md": ("markdown", "refused"),
    "refused.apply.md": ("markdown", "refused-apply"),
    "deletion.dry-run.txt": ("text", "deletion"),
    "deletion.delete.txt": ("text", "deletion-run"),
}
"""The golden files of one stream each: the form and the stream."""
APPROVAL = "applyprune.planning.approval"
FILES = "applyprune.sources.plan_files"
WORDED = {APPROVAL, FILES}
"""The modules that word what is wrong with a plan file or an approval."""
SUMMARIES = {
    "to create": Fate.CREATE,
    "to update": Fate.CHANGE,
    "to adopt": Fate.ADOPT,
    "to recreate": Fate.RECREATE,
    "to prune": Fate.PRUNE,
    "to orphan": Fate.ORPHAN,
    "to remove from inventory": Fate.REMOVE_FROM_INVENTORY,
    "failed": Fate.REFUSE,
}
OF_PLAN = {"plan of an unknown cluster"}
"""The runs of ``applyprune plan``, which has a text of its own."""
EXIT_CODES = {
    "one chart hook": 2,
    "two chart hooks": 2,
    "plan not approved": 6,
    "deletions not approved": 6,
    "other deletions approved": 6,
    **{f"guard {guard}": 6 for guard in Guard},
    **dict.fromkeys(WRONG, 2),
    **dict.fromkeys(OUTDATED, 8),
}


def _text(form: str, events: Iterable[Event], err: list[str] | None = None) -> str:
    """Return what a terminal shows, without colours."""
    lines: list[str] = []
    errors: list[str] = [] if err is None else err

    def to_err(text: str) -> None:
        plain = rendered(text, colour=False)
        lines.append(plain)
        errors.extend(plain.splitlines())

    out = OutputTarget(
        lambda text: lines.append(rendered(text, colour=False)),
        to_err,
        live=True,
        width=WIDTH,
        redraw=lambda _: None,
        show_unchanged=form == "diff",
    )
    one = printer(form, out)
    for event in events:
        one.show(event)
    one.close()
    # A conflict was caused at a fixed time, so its age grows.
    return re.sub(r"\d+d ago", "Nd ago", "".join(f"{line}\n" for line in lines))


def _shown(form: str, stream: str) -> str:
    return (
        _text(form, EVERY[stream])
        if form in {"plan", "diff", "text"}
        else printed(form, EVERY[stream])
    )


def _table(plan: Plan, mode: Mode) -> str:
    return (
        rendered(plan_table(plan, mode, applyset_identity("web", "home"), WIDTH), colour=False)
        + "\n"
    )


def _sections(form: str) -> str:
    """Return the output of every run that stops for one reason, below its name."""
    texts = {name: "plan" if name in OF_PLAN else "text" for name in STOPPED}
    return "\n".join(
        f"== {name}\n{_shown(texts[name] if form == 'text' else form, name)}" for name in STOPPED
    )


def _sentences(code: ast.AST) -> Iterator[str]:
    """Yield each literal text of two words or more; no docstrings, and no types."""
    for node in ast.walk(code):
        if isinstance(node, ast.Expr | ast.AnnAssign):
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                text = part.value.strip()
                if " " in text:
                    yield " ".join(text.split())


def _of(form: str) -> str:
    """Return all golden files of a form, as one line."""
    texts = [_shown(form, stream) for used, stream in GOLDEN.values() if used == form]
    if form == "table":
        texts = [_table(ALLOWED, Mode.APPLY), _table(DELETION, Mode.DELETE)]
    if form in {"text", "markdown", "json"}:
        texts.append(_sections(form))
    return " ".join(" ".join(texts).split())


def _plan(stream: str) -> Any:
    """Return a plan as JSON."""
    return json.loads(printed("json", EVERY[stream]))["plan"]


@pytest.mark.parametrize("name", GOLDEN)
def test_output_of_a_plan_matches_its_golden_file(name: str, golden: SnapshotAssertion) -> None:
    """``pytest --snapshot-update``, then read it as somebody who must act on it."""
    form, stream = GOLDEN[name]
    assert _shown(form, stream) == golden(name=f"plans/{name}")


@pytest.mark.parametrize(
    ("name", "plan", "mode"),
    [("allowed", ALLOWED, Mode.APPLY), ("deletion", DELETION, Mode.DELETE)],
)
def test_table_of_a_plan_matches_its_golden_file(
    name: str, plan: Plan, mode: Mode, golden: SnapshotAssertion
) -> None:
    """As a terminal shows it before the question."""
    assert _table(plan, mode) == golden(name=f"plans/{name}.table.txt")


@pytest.mark.parametrize(
    ("form", "name"),
    [("text", "refusals.txt"), ("markdown", "refusals.md"), ("jsonl", "refusals.jsonl")],
)
def test_refusals_match_their_golden_files(form: str, name: str, golden: SnapshotAssertion) -> None:
    """Each has its own section, and says what to do."""
    found = _sections(form)
    if form == "jsonl":
        found = "".join(printed(form, events) for events in STOPPED.values())
    assert found == golden(name=f"plans/{name}")


def test_no_golden_file_is_left_over() -> None:
    """A golden file that no test writes would never change."""
    names = {*GOLDEN, "allowed.table.txt", "deletion.table.txt"}
    names |= {"refusals.txt", "refusals.md", "refusals.jsonl"}
    assert {path.name for path in (FIXTURES / "plans").iterdir()} == names


@pytest.mark.parametrize("form", ["plan", "diff", "table", "markdown"])
def test_every_fate_has_a_line(form: str) -> None:
    """A fate that a printer does not know would be missing here; a table is about changes."""
    shown = _of(form)
    without = [Fate.LEAVE] if form == "table" else []
    assert [fate for fate in Fate if fate.forecast not in shown] == without


def test_every_fate_is_in_the_json() -> None:
    """With the reason of each object that has one, and the problem of each refused one."""
    steps = [*_plan("allowed")["objects"], *_plan("refused")["objects"]]
    assert {step["fate"] for step in steps} == set(Fate)
    assert all(bool(step["problem"]) is (step["fate"] == Fate.REFUSE) for step in steps)


@pytest.mark.parametrize("form", ["plan", "diff", "text", "markdown", "json"])
def test_every_guard_has_a_line_refused_and_lifted(form: str) -> None:
    """Only what no option allows is never lifted."""
    lifted = [result for result in LIFTED if result.verdict is GuardVerdict.LIFTED]
    assert {result.guard for result in REFUSED_GUARDS} == set(Guard)
    assert {result.guard for result in lifted} == {
        result.guard for result in REFUSED_GUARDS if result.option
    }
    shown = _of(form)
    # A plan says the stricter of two, and some refuse it for one reason alone.
    alone = {Guard.MAX_PRUNE, Guard.RESTORED_INVENTORY, Guard.APPROVED_DELETIONS}
    elsewhere = alone if form in {"plan", "diff"} else ()
    found = [result for result in REFUSED_GUARDS if result.guard not in elsewhere]
    assert [result.guard for result in (*lifted, *found) if result.message not in shown] == []
    if form not in {"json", "markdown"}:
        assert [result.guard for result in lifted if str(result) not in shown] == []


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
@pytest.mark.parametrize("module", sorted(WORDED))
def test_every_sentence_about_approvals_and_plan_files_is_shown(module: str, form: str) -> None:
    """Whoever adds a refusal there adds it to the golden files, and so reads it as a user does."""
    found = set(_sentences(tree(module)))
    shown = _of(form)
    assert {sentence for sentence in found if sentence not in shown} == set()


def test_sentences_are_found_in_the_code() -> None:
    """Otherwise nothing would be looked for in the golden files."""
    counts = {module: len([*_sentences(tree(module))]) for module in WORDED}
    assert counts[FILES] >= 10
    assert counts[APPROVAL] >= 10


@pytest.mark.parametrize("form", ["plan", "diff", "table", "markdown", "json"])
def test_every_consequence_has_a_line(form: str) -> None:
    """Its message in full, wherever it is about."""
    caused = {*ALLOWED.consequences, *REFUSED.consequences}
    assert {each.kind for each in caused} == set(ConsequenceKind)
    shown = _of(form)
    expected = ALLOWED.consequences if form == "table" else caused
    assert [each.kind for each in expected if each.message not in shown] == []


@pytest.mark.parametrize("form", ["plan", "diff", "table", "markdown", "json"])
def test_unchecked_step_has_a_line(form: str) -> None:
    """Of an object that is applied, and of one that is pruned."""
    shown = _of(form)
    for steps in (ALLOWED.applies, ALLOWED.removals):
        texts = [step.not_checked for step in steps if step.not_checked]
        assert texts
        assert [text for text in texts if text not in shown] == []


def test_apply_names_unchecked_objects_in_one_line() -> None:
    """With the reason if there is only one; nothing that is not sent is named."""
    told = _of("text")
    assert (
        "3 objects were not fully checked: configmap/new, statefulset.apps/db, service/back" in told
    )
    one = replace(ALLOWED, applies=(), removals=tuple(one for one in REMOVALS if one.not_checked))
    line = "service/back: not checked: this account may not delete it\n"
    assert _text("text", ran(one)).count(line) == 1
    assert line not in _text("text", ran(replace(one, no_prune="prune refused")))


@pytest.mark.parametrize("form", [*PRINTERS, "plan", "diff"])
@pytest.mark.parametrize("stream", STREAMS)
def test_warning_of_a_plan_is_shown_once(form: str, stream: str) -> None:
    """Whatever shows it; ``-o name`` has no place for it."""
    plans = [event.plan for event in EVERY[stream] if isinstance(event, Planned)]
    times = int(form != "name" and any(MISSING in plan.warnings for plan in plans))
    assert " ".join(_shown(form, stream).split()).count(MISSING.message) == times


@pytest.mark.parametrize("stream", ["allowed", "refused"])
def test_counts_of_a_plan_add_up(stream: str) -> None:
    """As many lines have each fate as the summary says."""
    lines = _text("plan", EVERY[stream]).splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.startswith("web: "))
    others = itertools.takewhile(lambda line: line.startswith("  "), lines[at + 1 :])
    summary = "".join((lines[at], *(line[1:] for line in others)))
    counts = {words: int(count) for count, words in re.findall(r"(\d+) ([a-z ]+)", summary)}
    for words, fate in SUMMARIES.items():
        found = [line for line in lines if re.match(rf"(\S+( -n \S+)?)? +{fate.forecast}", line)]
        assert (words, len(found)) == (words, counts.get(words, 0))


@pytest.mark.parametrize("name", EVERY)
def test_messages_fit_a_terminal(name: str) -> None:
    """Only what is to be copied is never broken."""
    for form in ("text", "plan"):
        err: list[str] = []
        _text(form, EVERY[name], err)
        assert [
            line
            for line in err
            if len(line) > WIDTH and not re.search(r"(^|: ) *(--|kubectl |applyprune )", line)
        ] == []


@pytest.mark.parametrize("name", EVERY)
def test_streams_of_plans_are_valid(name: str) -> None:
    """JSON by the published schemas, and JUnit by its own; each other format prints them."""
    events: Sequence[Event] = EVERY[name]
    document = json.loads(printed("json", events))
    assert complaints("document", document) == []
    lines = [json.loads(line) for line in printed("jsonl", events).splitlines()]
    assert [found for line in lines for found in complaints("events", line)] == []
    plans = [line["plan"] for line in lines if line["event"] == "planned"]
    assert plans == ([document["plan"]] if document["plan"] else [])
    assert [str(one) for one in JUNIT.iter_errors(printed("junit", events))] == []
    for form in PRINTERS:
        printed(form, events)


@pytest.mark.parametrize("name", STOPPED)
def test_refusal_has_its_exit_code(name: str) -> None:
    """And an error in every form."""
    (end,) = (event for event in STOPPED[name] if isinstance(event, Finished))
    assert end.exit_code == EXIT_CODES[name]
    assert "error: " in _text("text", STOPPED[name])
    assert "#### Problems" in printed("markdown", STOPPED[name])
