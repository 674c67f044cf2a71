"""The text of a diff, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import ErrorRaised, Finished, ObjectDiff, ObjectDone, Started
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun, Mode
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.terminal import rendered
from applyprune.planning.secrets import HIDDEN
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.events import Event

WEB = Ref("apps", "Deployment", "shop", "web")
ROLE = Ref("", "Namespace", "", "shop")


def lines(*events: Event, text: str = "diff", colour: bool = False) -> tuple[list[str], list[str]]:
    """Return what is written for events to ``out`` and to ``err``."""
    out: list[str] = []
    err: list[str] = []
    one = printer(text, OutputTarget(out.append, err.append, colour=colour))
    one.show(Started("r", Mode.APPLY, "web", "shop", DryRun.SERVER))
    for event in events:
        one.show(event)
    one.close()
    shown = [
        [line for text in texts for line in rendered(text, colour=colour).split("\n")]
        for texts in (out, err)
    ]
    return shown[0], shown[1]


def body(**spec: Any) -> dict[str, Any]:
    """Return an object."""
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


DRIFT = Drift("/spec/replicas", "2", "5", "kubectl", "Update of scale", "2026-01-01T00:00:00Z")
CHANGED = ObjectDiff(
    WEB,
    Fate.CHANGE,
    body(replicas=5, a=1, b=2, c=3),
    body(replicas=2, a=1, b=2, c=3),
    Origin("web.yaml", 1, 12),
    "checked elsewhere",
    drifted=True,
    drift=(DRIFT,),
)
GONE = ObjectDiff(ROLE, Fate.PRUNE, {"kind": "Namespace"}, None)
COME = ObjectDiff(ROLE, Fate.CREATE, None, {"kind": "Namespace"}, drifted=True)


def test_change_is_a_header_and_a_unified_diff() -> None:
    """With what is known of it between the two."""
    out, _ = lines(CHANGED)
    assert out == [
        "deployment.apps/web would be updated (web.yaml:12)",
        "    checked elsewhere",
        "    drift: /spec/replicas is 5, was 2, by kubectl (Update of scale, 2026-01-01T00:00:00Z)",
        "--- live/shop/deployment.apps/web",
        "+++ merged/shop/deployment.apps/web",
        "@@ -5,4 +5,4 @@",
        "   a: 1",
        "   b: 2",
        "   c: 3",
        "-  replicas: 5",
        "+  replicas: 2",
        "",
    ]


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        (DRIFT, "is 5, was 2, by kubectl (Update of scale, 2026-01-01T00:00:00Z)"),
        # The manifest is another one than that of the last apply.
        (replace(DRIFT, wanted=None, time="", operation=""), "is 5, by kubectl"),
        (replace(DRIFT, wanted=None, manager=""), "is 5"),
        (Drift("/spec/replicas", "2", None), "was removed, it was 2"),
        (Drift("/spec/replicas", None, None), "was removed"),
        (replace(DRIFT, wanted=HIDDEN, found=HIDDEN, manager=""), "has changed"),
        (Drift("/spec/replicas", HIDDEN, None), f"was removed, it was {HIDDEN}"),
    ],
)
def test_drift_says_only_what_is_known(drift: Drift, expected: str) -> None:
    out, _ = lines(replace(CHANGED, drift=(drift,)))
    assert out[2] == f"    drift: /spec/replicas {expected}"


def test_created_or_deleted_object_is_shown_whole() -> None:
    """Against nothing."""
    assert lines(GONE)[0] == [
        "namespace/shop would be pruned",
        "--- live/namespace/shop",
        "+++ /dev/null",
        "@@ -1,1 +0,0 @@",
        "-kind: Namespace",
        "",
    ]
    assert lines(COME)[0] == [
        "namespace/shop would be created",
        "    drift: removed since the last apply of this manifest",
        "--- /dev/null",
        "+++ merged/namespace/shop",
        "@@ -0,0 +1,1 @@",
        "+kind: Namespace",
        "",
    ]


def test_summary_says_what_would_happen() -> None:
    """What is compared has no other line, what is the same none at all."""
    counts = {Outcome.CREATED: 3, Outcome.UNCHANGED: 40, Outcome.PRUNED: 2, Outcome.UPDATED: 1}
    events = (
        GONE,
        ObjectDone(ROLE, Outcome.PRUNED),
        ObjectDone(WEB, Outcome.UNCHANGED),
        Finished(counts, 1, 0.1),
    )
    for text in ("diff", "summary"):
        out, err = lines(*events, text=text)
        assert out[-1] == "web: 3 to create, 1 to update, 2 to prune, 40 unchanged"
        assert len(out) == {"diff": 7, "summary": 1}[text]
        assert err == []


def test_differences_outside_the_diff_are_mentioned() -> None:
    """An object that is not pruned, and one that failed."""
    problem = Problem(ProblemKind.CONFLICT, "it is contended", exit_code=4)
    out, err = lines(
        ObjectDone(ROLE, Outcome.NOT_PRUNED, reason="prune refused"),
        ObjectDone(WEB, Outcome.FAILED, problem=problem),
        Finished({Outcome.NOT_PRUNED: 1, Outcome.FAILED: 1}, 4, 0.1, problem),
    )
    assert out[1].startswith("namespace/shop would not be pruned")
    assert out[-1] == "web: 1 not pruned, 1 failed"
    assert err == ["error: it is contended"] * 2


def test_error_before_the_diff_has_no_summary() -> None:
    """It has said all that there is to say."""
    problem = Problem(ProblemKind.INPUT_ERROR, "it cannot be read", exit_code=2)
    assert lines(ErrorRaised(problem), Finished({}, 2, 0.1)) == ([], ["error: it cannot be read"])


def test_terminal_output_is_coloured() -> None:
    """And what is no terminal has none."""
    coloured = lines(CHANGED, colour=True)[0]
    assert "\x1b[31m-  replicas: 5\x1b[0m" in coloured
    assert "\x1b[32m+  replicas: 2\x1b[0m" in coloured
    assert not any("\x1b" in line for line in lines(CHANGED)[0])
