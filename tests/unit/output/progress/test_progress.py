"""Where a run stands, by its events alone."""

from __future__ import annotations

import pytest

from applyprune.model.events import (
    Event,
    InventoryWritten,
    ObjectDone,
    Pending,
    Phase,
    Planned,
    ReadinessReported,
    Started,
    Waiting,
    current,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.output.progress import INTERRUPTED, RunProgress, elapsed_text
from applyprune.values import replace
from tests.support.planning import DEPLOYMENTS, body, desired

HOME = "home"
NAMES = ("a", "b", "c", "d")
OLD = Ref("", "ConfigMap", HOME, "old")


def _apply(name: str, wave: int) -> ApplyStep:
    one = replace(desired(body("Deployment", name), DEPLOYMENTS), wave=Wave(wave))
    return ApplyStep(one, Fate.CREATE, InventoryEntry(one.ref, "deployments", "v1", None))


APPLIES = tuple(_apply(name, at // 2) for at, name in enumerate(NAMES))
A, B, C, D = (step.desired.ref for step in APPLIES)
PLAN = Planned(
    Plan(APPLIES, (RemoveStep(InventoryEntry(OLD, "configmaps", "v1", "u"), None, Fate.PRUNE),))
)
STARTED = Started("r", Mode.APPLY, "web", HOME, DryRun.OFF)
READY = Waiting(A, "ready", 2.0, 60.0, "1 of 3", (Pending(B, "0 of 1"),), 2)


def _done(*refs: Ref) -> list[Event]:
    return [ObjectDone(ref, Outcome.CREATED) for ref in refs]


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ([], ["web: reading the cluster  0:10"]),
        ([PLAN], ["web: applying wave 1/2 ░░░░░░░░░░░░░░░░ 0 of 4  0:10"]),
        ([PLAN, *_done(A, B)], ["web: applying wave 1/2 ████████░░░░░░░░ 2 of 4  0:10"]),
        ([PLAN, *_done(A, B, C)], ["web: applying wave 2/2 ████████████░░░░ 3 of 4  0:10"]),
        ([PLAN, *_done(A, B, C, D)], ["web: pruning ░░░░░░░░░░░░░░░░ 0 of 1  0:10"]),
        ([PLAN, *_done(A, B, C, D, OLD)], ["web: recording ████████████████ 1 of 1  0:10"]),
        (
            [PLAN, *_done(A, B), READY],
            [
                "web: waiting until ready ░░░░░░░░░░░░░░░░ 0 of 2  0:12, 0:48 left",
                "  deployment.apps/a: 1 of 3",
                "  deployment.apps/b: 0 of 1",
            ],
        ),
        (
            [PLAN, *_done(A, B), READY, ReadinessReported(A, current("it is"), 3.0)],
            [
                "web: waiting until ready ████████░░░░░░░░ 1 of 2  0:12, 0:48 left",
                "  deployment.apps/b: 0 of 1",
            ],
        ),
        (
            [
                PLAN,
                *_done(A, B),
                READY,
                *(ReadinessReported(one, current(""), 3.0) for one in (A, B)),
            ],
            ["web: applying wave 1/2 ████████░░░░░░░░ 2 of 4  0:10"],
        ),
        (
            [PLAN, *_done(A, B), READY, InventoryWritten(Phase.APPLIED, 4, 2)],
            ["web: applying wave 1/2 ████████░░░░░░░░ 2 of 4  0:10"],
        ),
        (
            [PLAN, *_done(A, B, C, D), Waiting(OLD, "gone", 1.0, 300.0, "held by x/y")],
            [
                "web: waiting until gone ░░░░░░░░░░░░░░░░ 0 of 1  0:11, 4:49 left",
                "  configmap/old: held by x/y",
            ],
        ),
        (
            [Waiting(None, "the lock of the set web", 0.0, 60.0, "held by ci@host")],
            ["waiting for the lock of the set web, held by ci@host (0:10, 0:50 left)"],
        ),
    ],
)
def test_live_lines_show_what_is_waited_for(events: list[Event], lines: list[str]) -> None:
    """The stage, how much of it is done, and what is waited for, ten seconds later."""
    progress = RunProgress()
    for event in (STARTED, *events):
        progress.update(event, 100.0)
    assert progress.lines(110.0) == lines


def test_verb_that_only_waits_has_live_lines_too() -> None:
    """No run has started, and there is no set to name."""
    progress = RunProgress()
    progress.update(Waiting(A, "ready", 2.0, 60.0, "not yet"), 102.0)
    assert progress.began == 100.0
    assert progress.lines(110.0) == [
        "waiting until ready ░░░░░░░░░░░░░░░░ 0 of 1  0:10, 0:50 left",
        "  deployment.apps/a -n home: not yet",
    ]


def test_many_pending_objects_are_counted() -> None:
    """Five are named, with a namespace where it is not the set's own."""
    refs = [Ref("apps", "Deployment", "shop", f"d{at}") for at in range(8)]
    others = tuple(Pending(one, "no") for one in refs[1:])
    event = Waiting(refs[0], "ready", 1.0, 60.0, "no", others, 40)
    progress = RunProgress()
    for one in (STARTED, event):
        progress.update(one, 0.0)
    assert progress.lines(0.0)[1:] == [
        *(f"  deployment.apps/d{at} -n shop: no" for at in range(5)),
        "  and 35 more",
    ]


def test_log_sentence_names_what_is_waited_for() -> None:
    """One line, complete by itself; equal for as long as the same is waited for."""
    progress = RunProgress()
    for event in (STARTED, PLAN, *_done(A, B)):
        progress.update(event, 0.0)
    assert progress.sentence(31.0) == "web: applying wave 1/2, 2 of 4 (0:31)"
    progress.update(READY, 40.0)
    same = progress.waits_for()
    assert same == "waiting until deployment.apps/a is ready: 1 of 3; and 1 more"
    assert progress.sentence(45.0) == f"{same} (0:07, 0:53 left)"
    progress.update(replace(READY, elapsed=3.0), 41.0)
    assert progress.waits_for() == same
    progress.update(replace(READY, elapsed=4.0, reason="2 of 3"), 42.0)
    assert progress.waits_for() != same


def test_interrupted_run_says_so() -> None:
    """On a line of its own, whatever else is going on."""
    progress = RunProgress(stopping=True)
    for event in (STARTED, PLAN, READY):
        progress.update(event, 0.0)
    assert progress.lines(1.0)[1] == f"  {INTERRUPTED}"
    assert len(f"  {INTERRUPTED}") < 80


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-3.0, "0:00"), (59.9, "0:59"), (60.0, "1:00"), (3725.0, "62:05")]
)
def test_clock_counts_minutes_and_seconds(seconds: float, expected: str) -> None:
    """Minutes and seconds; a wait past its time has none left."""
    assert elapsed_text(seconds) == expected
