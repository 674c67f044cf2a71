"""The lines about consequences in the text of a dry run, a diff and a summary."""

from __future__ import annotations

from applyprune.model.events import Finished, ObjectDiff, ObjectDone, Planned, Started
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Consequence, ConsequenceKind, Plan
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.terminal import rendered

WEB = Ref("apps", "Deployment", "shop", "web")
SERVICE = Ref("", "Service", "home", "web")
PLAN = Plan(
    (),
    (),
    consequences=(
        Consequence(ConsequenceKind.ROLLOUT, WEB, "rollout, 12 Pods", 12),
        Consequence(ConsequenceKind.CASCADE, SERVICE, "deleted with it:\n1 Pod"),
        Consequence(ConsequenceKind.SCALES, WEB, "scales from 5 to 1"),
    ),
)
HEAD = "deployment.apps/web -n shop"
DIFF = ["--- live/shop/deployment.apps/web", "+++ merged/shop/deployment.apps/web"]
LINES = ["→ rollout, 12 Pods", "→ scales from 5 to 1"]
OF_SERVICE = "→ deleted with it:\\n1 Pod"
PRUNED = ["service/web would be pruned", f"    {OF_SERVICE}"]


def _printed(form: str, dry_run: DryRun = DryRun.SERVER) -> list[str]:
    out: list[str] = []
    one = printer(form, OutputTarget(out.append, out.append))
    for event in (
        Started("r", Mode.APPLY, "web", "home", dry_run),
        Planned(PLAN),
        ObjectDiff(WEB, Fate.CHANGE, {"a": 1}, {"a": 2}),
        ObjectDone(WEB, Outcome.UPDATED),
        ObjectDone(SERVICE, Outcome.PRUNED),
        Finished({Outcome.UPDATED: 1, Outcome.PRUNED: 1}, 0, 0.1),
    ):
        one.show(event)
    one.close()
    return [line for text in out for line in rendered(text, colour=False).splitlines()]


def test_diff_has_consequences_below_the_head_of_the_object() -> None:
    """An object without a diff has the same lines."""
    lines = _printed("diff")
    below = [f"    {line}" for line in LINES]
    assert lines[:5] == [f"{HEAD} would be updated", *below, *DIFF]
    assert lines[-3:] == [*PRUNED, "web: 1 to update, 1 to prune"]


def test_summary_has_all_consequences_before_the_counts() -> None:
    """An external program shows the diffs."""
    below = [f"  {line}" for line in LINES]
    expected = [*PRUNED, HEAD, *below, "web: 1 to update, 1 to prune"]
    assert _printed("summary") == expected


def test_dry_run_has_consequences_below_each_object() -> None:
    """Each message in one line."""
    assert _printed("text")[:-1] == [
        f"{HEAD} updated (server dry run)",
        *(f"  {line}" for line in LINES),
        "service/web pruned (server dry run)",
        f"  {OF_SERVICE}",
    ]


def test_run_that_writes_repeats_no_consequences() -> None:
    """They belong to the plan, which was shown before."""
    assert not any("→" in line for line in _printed("text", DryRun.OFF))
