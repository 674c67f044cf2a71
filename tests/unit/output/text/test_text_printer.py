"""The lines of a run as text: which objects have one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import (
    Finished,
    ObjectDone,
    ObjectStuck,
    Planned,
    Readiness,
    ReadinessReported,
    Started,
    Status,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import ApplyStep, Guard, GuardResult, GuardVerdict, Plan
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.terminal import rendered
from tests.support.planning import body, desired, live, recorded

if TYPE_CHECKING:
    from applyprune.model.events import Event

SAME = ObjectDone(Ref("", "ConfigMap", "shop", "same"), Outcome.UNCHANGED, reason="it is there")
NEW = ObjectDone(Ref("", "ConfigMap", "shop", "new"), Outcome.CREATED)
END = Finished({Outcome.CREATED: 1, Outcome.UNCHANGED: 1}, 0, 0.1)


def lines(*, verbose: bool, text: str = "text") -> list[str]:
    """Return what a run writes to standard output."""
    out: list[str] = []
    one = printer(text, OutputTarget(out.append, out.append, verbose=verbose))
    for event in (Started("r", Mode.APPLY, "web", "shop", DryRun.OFF), SAME, NEW, END):
        one.show(event)
    one.close()
    return [rendered(line, colour=False) for line in out]


@pytest.mark.parametrize(
    ("text", "same", "changes"),
    [
        (
            "text",
            "configmap/same unchanged (it is there)",
            ["configmap/new created", "web: 1 created, 1 unchanged in 0.1 s"],
        ),
        (
            "summary",
            "configmap/same would not change\n    it is there",
            ["configmap/new would be created", "web: 1 to create, 1 unchanged"],
        ),
    ],
)
def test_unchanged_object_has_a_line_only_if_requested(
    text: str, same: str, changes: list[str]
) -> None:
    """The summary always counts it."""
    assert lines(verbose=False, text=text) == changes
    assert lines(verbose=True, text=text) == [same, *changes]


def test_unchanged_object_is_reported_ready_only_after_a_wait() -> None:
    """It was ready already, unless it was stuck in this run."""
    ready = Readiness(Status.CURRENT, "it is ready")
    stuck = ObjectStuck(SAME.ref, Readiness(Status.IN_PROGRESS, "no node", stuck=True), 2.0)
    for events, shown in (
        ((SAME, ReadinessReported(SAME.ref, ready, 0.0)), False),
        ((SAME, stuck, ReadinessReported(SAME.ref, ready, 3.0)), True),
        ((NEW, ReadinessReported(NEW.ref, ready, 0.0)), True),
    ):
        out: list[str] = []
        one = printer("text", OutputTarget(out.append, out.append))
        for event in events:
            one.show(event)
        assert (" ready (" in rendered("".join(out), colour=False)) is shown


PASSED = GuardResult(Guard.CASCADE, GuardVerdict.PASSED, "no deletion cascades")
LIFTED = GuardResult(
    Guard.MORE_THAN_HALF,
    GuardVerdict.LIFTED,
    "3 deletions are more than half of the set's 4 live objects",
    "--max-prune 3",
    "--max-prune 75%",
)
REFUSED = GuardResult(Guard.EMPTY_INPUT, GuardVerdict.REFUSED, "no object in a/", "--allow-empty")


@pytest.mark.parametrize("text", ["text", "summary", "diff"])
@pytest.mark.parametrize("quiet", [True, False])
def test_lifted_guard_has_a_line(text: str, quiet: bool) -> None:
    """On standard error, unless that is for errors only; the error of a refusal has the others."""
    err: list[str] = []
    one = printer(text, OutputTarget(lambda _: None, err.append, quiet=quiet))
    one.show(Started("r", Mode.APPLY, "web", "shop", DryRun.SERVER))
    one.show(Planned(Plan((), (), guards=(PASSED, LIFTED, REFUSED))))
    one.close()
    line = (
        "guard more-than-half lifted by --max-prune 75%: "
        "3 deletions are more than half of the set's 4 live objects"
    )
    assert err == ([] if quiet else [line])


def test_shared_note_is_printed_once_in_a_dry_run() -> None:
    """Above the summary; one that holds for a single object stays in its line."""
    shared, alone = "its namespace does not exist yet", "it needs role/r"
    steps, done = [], []
    for name, note in (("a", shared), ("b", shared), ("c", alone)):
        one = desired(body(name=name))
        steps.append(ApplyStep(one, Fate.CREATE, recorded(one, live(one.ref)), not_checked=note))
        done.append(ObjectDone(one.ref, Outcome.CREATED, reason=note))
    out: list[str] = []
    printed = printer("text", OutputTarget(out.append, out.append))
    printed.show(Started("r", Mode.APPLY, "web", "home", DryRun.SERVER))
    end = Finished({Outcome.CREATED: 3}, 0, 0.1)
    events: tuple[Event, ...] = (Planned(Plan(tuple(steps), ())), *done, end)
    for event in events:
        printed.show(event)
    assert [rendered(line, colour=False) for line in out] == [
        "configmap/a created (server dry run)",
        "configmap/b created (server dry run)",
        "configmap/c created (server dry run) (it needs role/r)",
        "configmap/a, configmap/b: its namespace does not exist yet",
        "web: 3 created (server dry run) in 0.1 s",
    ]
