"""Golden files of plans, as text and as Markdown; the other forms have the same facts.

A plan is made of every fate, guard and consequence, and a refusal of every reason.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from typing import TYPE_CHECKING

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
from tests.support.output.plan_streams import REFUSALS, STREAMS
from tests.support.output.plans import ALLOWED, DELETION, LIFTED, MISSING, REFUSED
from tests.support.output.plans import REFUSALS as REFUSED_GUARDS
from tests.support.output.printed import printed
from tests.support.output.schemas import complaints
from tests.support.package import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion

    from applyprune.model.plan import ApplyStep, Plan, RemoveStep

WIDTH = 80
STOPPED = {**REFUSALS, **WRONG, **OUTDATED}
"""Runs that stop for one reason."""
EVERY = {**STREAMS, **STOPPED}
WORDED = ("applyprune.planning.approval", "applyprune.sources.plan_files")
"""The modules that word what is wrong with a plan file or an approval."""
OF_PLAN = {"plan of an unknown cluster"}
"""The runs of ``applyprune plan``, which has a text of its own."""


@cache
def _shown(form: str, stream: str) -> str:
    """Return the output of a stream; a text as a terminal shows it, without colours."""
    if form not in {"plan", "diff", "text"}:
        return printed(form, EVERY[stream])
    lines: list[str] = []

    def write(text: str) -> None:
        lines.append(rendered(text, colour=False))

    out = OutputTarget(
        write,
        write,
        live=True,
        width=WIDTH,
        redraw=lambda _: None,
        verbose=form == "diff",
    )
    one = printer(form, out)
    for event in EVERY[stream]:
        one.show(event)
    one.close()
    # A conflict was caused at a fixed time, so its age grows.
    return re.sub(r"\d+d ago", "Nd ago", "".join(f"{line}\n" for line in lines))


def _table(plan: Plan, mode: Mode) -> str:
    """Return a plan as it stands before the question."""
    text = plan_table(plan, mode, applyset_identity("web", "home"), WIDTH)
    return f"{rendered(text, colour=False)}\n"


def _refusals(form: str) -> str:
    """Return the output of every run that stops for one reason, below its name."""
    return "\n".join(
        f"== {name}: exit code {_end(name).exit_code}\n"
        f"{_shown('plan' if form == 'text' and name in OF_PLAN else form, name)}"
        for name in STOPPED
    )


def _end(stream: str) -> Finished:
    (end,) = (event for event in EVERY[stream] if isinstance(event, Finished))
    return end


GOLDEN = {
    "allowed.txt": lambda: _shown("plan", "allowed"),
    "allowed.md": lambda: _shown("markdown", "allowed"),
    "applied.txt": lambda: _shown("text", "allowed-apply"),
    "refused.txt": lambda: _shown("plan", "refused"),
    "refused.md": lambda: _shown("markdown", "refused"),
    "deletion.txt": lambda: _table(DELETION, Mode.DELETE) + _shown("text", "deletion-run"),
    "refusals.txt": lambda: _refusals("text"),
}
"""What each golden file shows."""


@pytest.mark.parametrize("name", GOLDEN)
def test_output_of_a_plan_matches_its_golden_file(name: str, golden: SnapshotAssertion) -> None:
    """``pytest --snapshot-update``, then read it as somebody who must act on it."""
    assert GOLDEN[name]() == golden(name=f"plans/{name}")


def test_no_golden_file_is_left_over() -> None:
    """A golden file that no test writes would never change."""
    assert {path.name for path in (FIXTURES / "plans").iterdir()} == GOLDEN.keys()


@cache
def _of(form: str) -> str:
    """Return all that a form shows of plans, as one line."""
    if form == "table":
        return " ".join(_table(ALLOWED, Mode.APPLY).split())
    return " ".join(" ".join([*(_shown(form, name) for name in STREAMS), _refusals(form)]).split())


STEPS: tuple[ApplyStep | RemoveStep, ...] = (
    *ALLOWED.applies,
    *ALLOWED.removals,
    *REFUSED.applies,
    *REFUSED.removals,
)
CAUSED = {*ALLOWED.consequences, *REFUSED.consequences}
LIFTED_GUARDS = [result for result in LIFTED if result.verdict is GuardVerdict.LIFTED]
FACTS = {
    "fates": {fate.forecast for fate in Fate},
    "guards": {result.message for result in (*LIFTED_GUARDS, *REFUSED_GUARDS)},
    "consequences": {caused.message for caused in CAUSED},
    "not checked": {step.not_checked for step in STEPS if step.not_checked},
}
ABSENT = {
    # A table is about changes, and stands below the lines about guards.
    "table": {Fate.LEAVE.forecast, Fate.REFUSE.forecast, *FACTS["guards"]},
    # A run says what it has done, and a plan stands above that.
    "text": {*FACTS["fates"], *FACTS["consequences"], *FACTS["not checked"]},
    "json": FACTS["fates"],
}
"""What a form says in other words, or elsewhere."""


def test_plans_have_every_fate_guard_and_consequence() -> None:
    """Only what no option allows is never lifted."""
    assert {step.fate for step in STEPS} == {*Fate}
    assert {result.guard for result in REFUSED_GUARDS} == {*Guard}
    assert {result.guard for result in LIFTED_GUARDS} == {
        result.guard for result in REFUSED_GUARDS if result.option
    }
    assert {caused.kind for caused in CAUSED} == {*ConsequenceKind}
    assert len(FACTS["not checked"]) == 3


@pytest.mark.parametrize("form", ["plan", "diff", "table", "text", "markdown", "json"])
def test_every_fact_of_a_plan_is_in_each_form(form: str) -> None:
    """What a printer does not know would be missing here."""
    shown = _of(form)
    told = {fact for facts in FACTS.values() for fact in facts} - ABSENT.get(form, set())
    assert {fact for fact in told if fact not in shown} == set()


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
@pytest.mark.parametrize("module", WORDED)
def test_every_sentence_about_approvals_and_plan_files_is_shown(module: str, form: str) -> None:
    """Whoever adds a refusal there adds it to the golden files, and so reads it as a user does."""
    found = set(_sentences(tree(module)))
    shown = _of(form)
    assert len(found) >= 10
    assert {sentence for sentence in found if sentence not in shown} == set()


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


@pytest.mark.parametrize("form", [*PRINTERS, "plan", "diff"])
@pytest.mark.parametrize("stream", STREAMS)
def test_warning_of_a_plan_is_shown_once(form: str, stream: str) -> None:
    """Whatever shows it; ``-o name`` has no place for it."""
    plans = [event.plan for event in EVERY[stream] if isinstance(event, Planned)]
    times = int(form != "name" and any(MISSING in plan.warnings for plan in plans))
    assert " ".join(_shown(form, stream).split()).count(MISSING.message) == times


@pytest.mark.parametrize("name", EVERY)
def test_streams_of_plans_are_valid(name: str) -> None:
    """JSON by the published schemas, and JUnit by its own; each other format prints them."""
    document = json.loads(_shown("json", name))
    assert complaints("document", document) == []
    lines = [json.loads(line) for line in _shown("jsonl", name).splitlines()]
    assert [found for line in lines for found in complaints("events", line)] == []
    plans = [line["plan"] for line in lines if line["event"] == "planned"]
    assert plans == ([document["plan"]] if document["plan"] else [])
    assert [str(one) for one in JUNIT.iter_errors(_shown("junit", name))] == []
    failed = _end(name).exit_code != 0
    assert ("#### Problems" in _shown("markdown", name), document["exitCode"] != 0) == (
        failed,
        failed,
    )
    for form in PRINTERS:
        _shown(form, name)
