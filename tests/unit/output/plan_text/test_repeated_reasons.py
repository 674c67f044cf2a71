"""Many objects with one reason: a line in full, ten by name, and how many more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.events import (
    Finished,
    MismatchFound,
    ObjectDone,
    PruneBlocked,
    Readiness,
    ReadinessReported,
    Started,
    Status,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import Mismatch, MismatchType, Repair
from applyprune.model.options import DryRun, Mode
from applyprune.model.problem import ContestedField, ManagerConflict, Problem, ProblemKind
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.problem_text import reason_of
from applyprune.output.terminal import rendered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.events import Event

STARTED = Started("r", Mode.APPLY, "web", "shop", DryRun.OFF)
REFUSAL = Problem(ProblemKind.PRUNE_REFUSED, "the prune was refused: it would delete 111 objects")
WIDTH = 80


def ref(number: int, namespace: str = "shop") -> Ref:
    """Return one of many objects."""
    return Ref("", "ConfigMap", namespace, f"page-{number:03}")


REFS = tuple(map(ref, range(111)))


def failure(one: Ref, reason: str = "there is a set pages in namespace default") -> Problem:
    """Return a problem that names its object in each part."""
    hint = f"To take it: applyprune apply web --adopt=set/pages --only {one.short}"
    message = f"{one} belongs to another set"
    return Problem(ProblemKind.RUN_FAILED, message, f"{one.name}.yaml:1", reason, hint)


def shown(events: Sequence[Event], *, verbose: bool = False, text: str = "text") -> list[str]:
    """Return what a terminal of 80 columns shows."""
    lines: list[str] = []

    def write(more: str) -> None:
        lines.extend(rendered(more, colour=False).split("\n"))

    target = OutputTarget(
        write, write, live=True, width=WIDTH, redraw=lambda _: None, verbose=verbose
    )
    one = printer(text, target)
    for event in (STARTED, *events):
        one.show(event)
    one.close()
    return lines


def test_refused_prune_of_many_objects_is_short() -> None:
    """Ten names, the error, the summary and the verdict; no line is wider than the terminal."""
    events: tuple[Event, ...] = (
        *(ObjectDone(one, Outcome.NOT_PRUNED, reason="prune refused") for one in REFS),
        PruneBlocked(REFUSAL),
        Finished({Outcome.NOT_PRUNED: 111}, 6, 0.1, REFUSAL),
    )
    lines = shown(events)
    assert len(lines) <= 20
    assert lines[0] == "111 objects not pruned (prune refused)"
    assert " ".join(lines).count("configmap/page-") == 10
    assert "and 101 more (-v lists all)" in " ".join(lines)
    assert all(len(line) <= WIDTH for line in lines)
    assert sum("not pruned (prune refused)" in line for line in shown(events, verbose=True)) == 111


def test_objects_of_another_set_are_one_block() -> None:
    """The first in full, at once; the others by name, at the end."""
    refs = tuple(map(ref, range(199)))
    events: tuple[Event, ...] = (
        *(ObjectDone(one, Outcome.FAILED, problem=failure(one)) for one in refs),
        Finished({Outcome.FAILED: 199}, 3, 0.1, failure(ref(0))),
    )
    lines = shown(events)
    assert len(lines) <= 20
    assert lines[0] == "configmap/page-000 failed"
    text = " ".join(" ".join(lines).split())
    assert "198 more objects failed for the same reason as configmap/page-000" in text
    assert "configmap/page-009 and 189 more (-v lists all)" in text
    assert sum(line.startswith("error: page-") for line in shown(events, verbose=True)) == 200


def test_object_without_a_namespace_has_the_same_reason() -> None:
    """The Namespace of a set and what is in it: one block, not two."""
    refs = (Ref("", "Namespace", "", "shop"), ref(1), ref(2, "elsewhere"))
    events = [ObjectDone(one, Outcome.FAILED, problem=failure(one)) for one in refs]
    text = " ".join(" ".join(shown(events)).split())
    assert text.count("belongs to another set") == 1
    assert "2 more objects failed for the same reason as namespace/shop" in text


def test_other_reason_is_shown_in_full() -> None:
    """However many objects have failed before."""
    odd = failure(ref(3), "its label says so")
    problems = (failure(ref(1)), failure(ref(2)), odd, failure(ref(4)))
    events = tuple(
        ObjectDone(ref(number), Outcome.FAILED, problem=problem)
        for number, problem in enumerate(problems, 1)
    )
    text = " ".join(" ".join(shown(events)).split())
    assert (
        "page-003.yaml:1: configmap/page-003 in namespace shop belongs to another set: its" in text
    )
    assert "2 more objects failed for the same reason as configmap/page-001" in text


def test_each_outcome_has_its_words() -> None:
    """What was never tried has not failed."""
    same = "for the same reason as configmap/page-001"
    refs = (ref(1), ref(2))
    skipped = [ObjectDone(one, Outcome.SKIPPED, problem=failure(one)) for one in refs]
    assert f"1 more object was skipped {same}" in " ".join(shown(skipped))
    state = Readiness(Status.FAILED, "no node")
    unready = [ReadinessReported(one, state, 1.0, failure(one)) for one in refs]
    assert f"1 more object is not ready {same}" in " ".join(shown(unready))


def test_single_object_keeps_its_line() -> None:
    """There is nothing to sum up."""
    done = ObjectDone(ref(1), Outcome.NOT_PRUNED, reason="pod/web still uses it")
    assert shown((done,)) == ["configmap/page-001 not pruned (pod/web still uses it)"]


def test_check_of_an_inventory_names_each_mismatch_once() -> None:
    """One line for all objects with the same mismatch and the same repair."""
    found = [
        MismatchFound(
            Mismatch(MismatchType.UNLABELLED, Repair.MARK, f"{one.short} has lost the label", one)
        )
        for one in REFS
    ]
    lines = shown((*found, Finished({}, 0, 0.1)))
    told = "listed but not labelled: 111 objects: it has lost the label → restore the set's label"
    assert " ".join(" ".join(lines).split()).startswith(told)
    assert len(lines) <= 10
    assert all(len(line) <= WIDTH for line in lines)


def conflict(value: str, field: str = ".spec.replicas") -> Problem:
    """Return the problem of a field in conflict."""
    contested = ContestedField(field, None, value, "5")
    manager = ManagerConflict("hpa", "Update", "", "", (contested,))
    return Problem(ProblemKind.CONFLICT, f"owned, ours {value}", conflicts=(manager,))


def test_conflicts_have_one_reason_by_manager_and_field() -> None:
    """The values are each object's own."""
    first, second = reason_of(ref(1), conflict("1")), reason_of(ref(2), conflict("2"))
    assert first == second
    assert first != reason_of(ref(3), conflict("1", ".spec.paused"))


def test_page_names_the_objects_of_each_reason() -> None:
    """Markdown: ten of them as code, above the text of the first."""
    pages: list[str] = []
    one = printer("markdown", OutputTarget(pages.append, pages.append))
    odd = failure(ref(111), "its label says so")
    events: tuple[Event, ...] = (
        STARTED,
        *(ObjectDone(each, Outcome.FAILED, problem=failure(each)) for each in REFS),
        ObjectDone(ref(111), Outcome.FAILED, problem=odd),
        Finished({Outcome.FAILED: 112}, 3, 0.1),
    )
    for event in events:
        one.show(event)
    one.close()
    (page,) = pages
    assert "- 111 objects with one reason: `configmap/page-000`, `configmap/page-001`, " in page
    assert "`configmap/page-009` and 101 more: failed\n" in page
    assert "- `configmap/page-111`: failed\n" in page
    assert page.count("belongs to another set") == 2
