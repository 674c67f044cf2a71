"""What verbs that only look have seen: tables in a pipe, and drawn again on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import (
    ApplySetListed,
    ContainerLog,
    Explanation,
    ObjectStatus,
    TreeNode,
    WarningEvent,
    current,
    in_progress,
    stuck,
)
from applyprune.model.fieldset import Drift
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership, RunRecord
from applyprune.model.problem import Problem, ProblemKind
from applyprune.output.inspection import InspectionPrinter
from applyprune.output.printers import OutputTarget
from applyprune.output.terminal import rendered
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.output.inspection import InspectionEvent

A = ObjectStatus(
    Ref("", "ConfigMap", "shop", "a"), current("fine"), Ownership.OWNED, 90.0, drifted=False
)
ROLE = Ref("rbac.authorization.k8s.io", "ClusterRole", "", "b")
B = ObjectStatus(ROLE, in_progress("not yet\nready"), Ownership.ADOPTED, None)
LAST = RunRecord("r", "apply", "me@host", "2020-01-01T00:00:00Z", 3)
WEB = ApplySetListed(
    "web", "shop", objects=2, ready=1, last=LAST, owner="Bundle shop/web", holder="you"
)


def shown(
    *events: InspectionEvent,
    terminal: bool = False,
    width: int = 80,
    drift: bool = False,
    verbose: bool = False,
) -> tuple[list[str], list[str]]:
    """Return what goes to standard output and to standard error."""
    out: list[str] = []
    err: list[str] = []

    def redraw(text: str) -> None:
        out.extend(("AGAIN", text))

    overview = InspectionPrinter(
        OutputTarget(
            out.append,
            err.append,
            width=width,
            redraw=redraw if terminal else None,
            verbose=verbose,
        ),
        shows_drift=drift,
    )
    for event in events:
        overview.show(event)
    overview.close()
    return "\n".join(out).splitlines(), err


def test_explanation_begins_with_the_verdict() -> None:
    """A guard that has passed decides nothing, so it takes -v."""
    told = Explanation(
        A.ref, "It would be deleted.", ("it is not in the input",), None, ("guard x",)
    )
    lines = [str(A.ref), "→ It would be deleted.", "  - it is not in the input"]
    assert shown(told)[0] == lines
    assert shown(told, verbose=True)[0] == [*lines, "  - guard x"]


def test_status_of_a_set_is_a_table() -> None:
    """A message only for what is not ready, on one line; then all about the set."""
    out, err = shown(A, B, WEB)
    assert err == []
    assert out[0].split() == ["NAMESPACE", "OBJECT", "STATUS", "DRIFTED", "AGE", "MESSAGE"]
    assert [line.split() for line in out[1:3]] == [
        ["shop", "configmap/a", "Ready", "no", "90s"],
        ["-", B.ref.short, "InProgress", "unknown", "-", "not", "yet", "ready"],
    ]
    assert out[3] == "web -n shop: 2 objects, 1 ready, 1 with unknown drift"
    assert out[4].startswith("last change: apply by me, ")
    assert out[4].endswith("d ago, exit code 3")
    assert out[5:] == ["owned by Bundle shop/web", "held by you"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "b",
            [
                "OBJECT (-n shop)   STATUS       DRIFTED   AGE",
                "configmap/a        Ready        no        90s",
                "configmap/b        InProgress   unknown   -",
                "    the claim is not bound, its phase is Pending",
            ],
        ),
        (
            "with-quite-a-long-name",
            [
                f"OBJECT (-n shop){'':19}STATUS       DRIFTED   AGE",
                f"configmap/a{'':24}Ready        no        90s",
                "configmap/with-quite-a-long-name   InProgress   unknown   -",
                "    the claim is not bound, its phase is Pending",
            ],
        ),
    ],
    ids=["narrow column", "long name"],
)
def test_long_message_is_cut_to_the_terminal(name: str, expected: list[str]) -> None:
    """It stands below the line if its column would be narrow; in a pipe nothing is broken."""
    told = in_progress("the claim is not bound, its phase is Pending")
    waiting = ObjectStatus(Ref("", "ConfigMap", "shop", name), told, Ownership.OWNED, None)
    out, _ = shown(A, waiting, WEB, terminal=True)
    assert out[:4] == expected
    piped, _ = shown(A, waiting, WEB)
    assert piped[2].endswith("   the claim is not bound, its phase is Pending")


KNOWN = Drift("/data/a", "1", "2", "kubectl-edit", "Update", "2026-01-01T00:00:00Z")
BARE = Drift("/data/b", None, None)
MESSAGES: dict[str, tuple[ObjectStatus, str]] = {
    "one field": (replace(A, drift=(KNOWN,)), "kubectl-edit changed /data/a"),
    "two fields": (
        replace(A, drift=(KNOWN, BARE)),
        "kubectl-edit changed /data/a, /data/b was removed",
    ),
    "more fields": (
        replace(A, drift=(BARE, KNOWN, BARE)),
        "/data/b was removed and 1 more field, kubectl-edit changed /data/a",
    ),
    "one without a manager": (
        replace(A, drift=(BARE, Drift("/data/c", None, "2"))),
        "/data/b was removed, /data/c has changed",
    ),
    "several managers": (
        replace(A, drift=(KNOWN, replace(KNOWN, path="/data/c", manager="kubectl-set"), KNOWN)),
        "kubectl-edit changed /data/a and 1 more field, kubectl-set changed /data/c",
    ),
    "many managers": (
        replace(A, drift=tuple(replace(KNOWN, manager=one) for one in "abcde")),
        "a changed /data/a, b changed /data/a, c changed /data/a and 2 more",
    ),
    "not ready either": (
        replace(A, readiness=in_progress("not yet"), drift=(KNOWN,)),
        "not yet; kubectl-edit changed /data/a",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_message_names_the_first_drifted_field_of_each_manager(name: str) -> None:
    """And how many more there are, which --drift lists."""
    status, message = MESSAGES[name]
    out, _ = shown(replace(status, drifted=True), WEB)
    assert out[1].endswith(f"   {message}")
    assert out[2].startswith("web -n shop: ")


def test_drift_is_listed() -> None:
    """Which field, what is there, what should be where that is known, and who wrote it."""
    out, _ = shown(replace(A, drifted=True, drift=(KNOWN, BARE)), WEB, drift=True)
    assert out[2:6] == [
        "configmap/a -n shop has drifted:",
        "  /data/a: 2 (the set's: 1), by kubectl-edit Update 2026-01-01T00:00:00Z",
        "  /data/b: removed",
        "web -n shop: 1 object, 1 ready, 1 drifted",
    ]


def test_watch_prints_lines_to_a_pipe_and_redraws_a_terminal() -> None:
    """The first picture is the same."""
    ready = ObjectStatus(B.ref, current("fine"), B.ownership, None, drifted=True)
    first, _ = shown(A, B, WEB)
    piped, _ = shown(A, B, WEB, ready, WEB)
    assert piped == [*first, "clusterrole.rbac.authorization.k8s.io/b Ready, drifted"]
    drawn, _ = shown(A, B, WEB, ready, WEB, terminal=True, width=100)
    assert drawn[: len(first)] == first
    assert drawn[len(first)] == "AGAIN"
    assert len(drawn) == 2 * len(first) + 1


def test_sets_are_listed() -> None:
    """One that cannot be read has a line, and a warning after the table."""
    spoiled = ApplySetListed(
        "zoo", "shop", problem=Problem(ProblemKind.INVENTORY_ERROR, "it cannot be read")
    )
    out, err = shown(WEB, spoiled)
    assert [line.split()[:4] for line in out] == [
        ["NAMESPACE", "NAME", "OBJECTS", "READY"],
        ["shop", "web", "2", "1/2"],
        ["shop", "zoo", "?", "?"],
    ]
    assert "(exit code 3)" in out[1]
    assert "Bundle shop/web" in out[1]
    assert [rendered(line, colour=False) for line in err] == ["warning: it cannot be read"]


POD = Ref("", "Pod", "shop", "web-1")
WEB_OBJECT = Ref("apps", "Deployment", "shop", "web")
STUCK = ObjectStatus(
    WEB_OBJECT,
    stuck("pod/web-1: container main: CrashLoopBackOff"),
    Ownership.OWNED,
    61.0,
    drifted=False,
    wave=1,
    events=(WarningEvent("pod/web-1", "BackOff", "restarting", 7, ""),),
    not_read="its replicasets cannot be read: forbidden",
    logs=(
        ContainerLog(POD, "main", previous=True, lines=("a", "b")),
        ContainerLog(POD, "main", previous=False, lines=()),
        ContainerLog(
            POD, "side", previous=False, lines=(), problem="it cannot be read: the node is gone"
        ),
    ),
)
EXPLAINED = [
    "  BackOff: restarting (×7, pod/web-1)",
    "  its replicasets cannot be read: forbidden",
    "  log of pod/web-1, container main, the instance that crashed:",
    "    a",
    "    b",
    "  log of pod/web-1, container main: it is empty",
    "  log of pod/web-1, container side: it cannot be read: the node is gone",
]


def test_object_that_is_not_ready_is_explained_below_the_table() -> None:
    """The table has the message already; a change in a pipe is explained too."""
    out, _ = shown(A, STUCK, WEB)
    assert out[3:11] == ["deployment.apps/web:", *EXPLAINED]
    again, _ = shown(A, B, WEB, STUCK)
    assert again[-8:] == [
        "deployment.apps/web -n shop InProgress: pod/web-1: container main: CrashLoopBackOff",
        *EXPLAINED,
    ]


def test_warning_about_a_ready_object_is_in_the_table() -> None:
    """An autoscaler without metrics is ready, and yet something is wrong."""
    scaler = Ref("autoscaling", "HorizontalPodAutoscaler", "shop", "web")
    ready = current("it can scale", warning="it does not scale now: no metrics")
    out, _ = shown(ObjectStatus(scaler, ready, Ownership.OWNED, 5.0), WEB)
    assert "Ready" in out[1]
    assert out[1].endswith("it does not scale now: no metrics")


def test_tree_is_by_wave() -> None:
    """A long list is cut; an object of another namespace says so."""
    pods = tuple(
        TreeNode(replace(POD, name=f"web-{number}"), "0/1", "Pending", 0, 5.0)
        for number in range(22)
    )
    node = TreeNode(WEB_OBJECT, "0/22", "InProgress", None, 61.0, pods)
    away = replace(A, ref=replace(A.ref, namespace="other"))
    out, _ = shown(A, away, replace(STUCK, tree=node, logs=(), events=()), WEB)
    assert [line.split() for line in out[:7]] == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["wave", "0"],
        ["├─", "configmap/a", "-", "Ready", "-", "90s"],
        ["└─", "configmap/a", "-n", "other", "-", "Ready", "-", "90s"],
        ["wave", "1"],
        ["└─", "deployment.apps/web", "0/22", "InProgress", "-", "61s"],
        ["├─", "pod/web-0", "0/1", "Pending", "0", "5s"],
    ]
    assert out[26].split() == ["└─", "and", "2", "more"]
    assert out[27] == "deployment.apps/web: pod/web-1: container main: CrashLoopBackOff"
