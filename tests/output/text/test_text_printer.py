"""The lines of a run as text: which objects have one."""

from __future__ import annotations

import pytest

from applyprune.model.events import Finished, ObjectDone, Outcome, Started
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun, Mode
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.terminal.style import rendered

SAME = ObjectDone(Ref("", "ConfigMap", "shop", "same"), Outcome.UNCHANGED, reason="it is there")
NEW = ObjectDone(Ref("", "ConfigMap", "shop", "new"), Outcome.CREATED)
END = Finished({Outcome.CREATED: 1, Outcome.UNCHANGED: 1}, 0, 0.1)


def lines(*, show_unchanged: bool, text: str = "text") -> list[str]:
    """Return what a run writes to standard output."""
    out: list[str] = []
    one = printer(text, OutputTarget(out.append, out.append, show_unchanged=show_unchanged))
    for event in (Started("r", Mode.APPLY, "web", "shop", DryRun.OFF), SAME, NEW, END):
        one.show(event)
    one.close()
    return [rendered(line, colour=False) for line in out]


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("text", "web: 1 created, 1 unchanged in 0.1 s"),
        ("summary", "web: 1 to create, 1 unchanged"),
    ],
)
def test_unchanged_object_has_a_line_only_if_requested(text: str, summary: str) -> None:
    """The summary always counts it."""
    changes = ["configmap/new created", summary]
    assert lines(show_unchanged=False, text=text) == changes
    assert lines(show_unchanged=True, text=text) == [
        "configmap/same unchanged (it is there)",
        *changes,
    ]
