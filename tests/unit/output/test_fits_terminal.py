"""What a terminal of 80 columns shows: no line is wider, except by one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.model.events import (
    ApplySetListed,
    EntryListed,
    Finished,
    MismatchFound,
    ObjectDone,
    ObjectStatus,
    PruneBlocked,
    RunListed,
    SetEvent,
    SetsBegan,
    Started,
    TreeNode,
    current,
    in_progress,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import (
    InventoryEntry,
    Mismatch,
    MismatchType,
    Ownership,
    Repair,
    RunRecord,
    RunSource,
)
from applyprune.model.options import DryRun, Mode
from applyprune.model.problem import Problem, ProblemKind
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.terminal import rendered, table
from tests.support.output.plan_file_streams import OUTDATED, WRONG
from tests.support.output.plan_streams import REFUSALS, STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune.model.events import Event

WIDTH = 80
STARTED = Started("r", Mode.APPLY, "web", "shop", DryRun.OFF)
REFS = (
    Ref("", "ConfigMap", "shop", "a"),
    Ref("apps", "Deployment", "shop-production", "checkout-frontend"),
    Ref("rbac.authorization.k8s.io", "ClusterRoleBinding", "", "checkout-frontend-read-only"),
    Ref("apiextensions.k8s.io", "CustomResourceDefinition", "", "gateways.networking.example.com"),
)
NAMES = {name for ref in REFS for name in (ref.short, f"{ref.short} -n {ref.namespace}")}
UID = "3f9c2a41-7be0-4c55-9d0e-1f2a3b4c5d6e"


def lines(events: Iterable[Event], *, text: str = "text", wide: bool = False) -> list[str]:
    """Return what both streams show."""
    found: list[str] = []

    def write(more: str) -> None:
        found.extend(rendered(more, colour=False).split("\n"))

    target = OutputTarget(write, write, live=True, width=WIDTH, redraw=lambda _: None, wide=wide)
    one = printer(text, target)
    for event in events:
        one.show(event)
    one.close()
    return found


def statuses(*, tree: bool) -> list[Event]:
    """Return a set with objects of any name."""
    pod = Ref("", "Pod", "shop-production", "checkout-frontend-5d4f7c9b8-x2x4z")
    replica_set = Ref("apps", "ReplicaSet", "shop-production", "checkout-frontend-5d4f7c9b8")
    child = TreeNode(pod, "1/1", "Running", 3, 90.0)
    node = TreeNode(replica_set, "1/1", "Current", None, 90.0, (child,))
    told = in_progress("Deployment does not have minimum availability, and one Pod is pending")
    found: list[Event] = []
    for ref, state in zip(REFS, (current("fine"), told, told, current("fine")), strict=True):
        owned = TreeNode(ref, "1/1", "Current", None, 90.0, (node,)) if tree else None
        found.append(ObjectStatus(ref, state, Ownership.OWNED, 90.0, tree=owned))
    last = RunRecord("r", "apply", "deployer@runner-17", "2020-01-01T00:00:00Z", 3)
    holder = "deployer@runner-17.internal.example.com (pid 4711)"
    return [
        *found,
        ApplySetListed("web", "shop", objects=4, ready=2, last=last, owner="", holder=holder),
    ]


def entries() -> list[Event]:
    """Return an inventory, one entry of which is not confirmed."""
    uids = (UID, UID, UID, "")
    return [
        EntryListed("web", "shop", InventoryEntry(ref, "things", "v1", None, uid=uid))
        for ref, uid in zip(REFS, uids, strict=True)
    ]


def history() -> list[Event]:
    """Return runs of people and of pipelines."""
    run = RunRecord(
        "3f9c2a417be0",
        "apply",
        "runner@runner-17.internal.example.com",
        "2020-01-01T00:00:00Z",
        130,
        "mona",
        "https://github.example/shop/web/actions/runs/42",
        RunSource("deploy/overlays/production/europe/checkout-frontend", "0123456789" * 4),
        number=1234,
        created=1234,
    )
    return [RunListed("web", "shop", run)] * 3


def sets() -> list[Event]:
    """Return sets with long names."""
    last = RunRecord("r", "apply", "runner@runner-17.internal", "2020-01-01T00:00:00Z", 3)
    return [
        ApplySetListed(name, namespace, objects=4, ready=2, last=last, owner="", holder="")
        for name, namespace in (("web", "shop"), ("checkout-frontend", "shop-production-europe"))
    ]


def failures() -> list[Event]:
    """Return a run in which everything goes wrong."""
    problem = Problem(ProblemKind.RUN_FAILED, "it cannot be read", "web.yaml:1", "x " * 60, "Wait.")
    done = [ObjectDone(ref, Outcome.NOT_PRUNED, reason="prune refused") for ref in REFS]
    failed = [ObjectDone(ref, Outcome.FAILED, problem=problem) for ref in REFS]
    kept = [ObjectDone(ref, Outcome.ORPHANED, reason="it was adopted " * 6) for ref in REFS]
    counts = dict.fromkeys(Outcome, 4)
    return [
        STARTED,
        *failed,
        *done,
        *kept,
        PruneBlocked(problem),
        Finished(counts, 6, 1.0, problem),
    ]


def mismatches() -> list[Event]:
    """Return what a check has found."""
    what = "somebody has removed its label applyset.kubernetes.io/part-of"
    found: list[Event] = [
        MismatchFound(Mismatch(MismatchType.UNLABELLED, Repair.MARK, what, ref)) for ref in REFS
    ]
    odd = Mismatch(MismatchType.OTHER_UID, Repair.LIST, f"{what} and its UID", REFS[0])
    return [STARTED, *found, MismatchFound(odd), Finished({}, 1, 1.0)]


def many() -> list[Event]:
    """Return a command over sets with long names."""
    found: list[Event] = [SetsBegan(len(STREAMS))]
    for name, stream in STREAMS.items():
        key = SetKey("shop-production-europe", f"checkout-frontend-{name}")
        folder = f"deploy/overlays/production/europe/{key.name}"
        found += [SetEvent(key, folder, event) for event in stream]
    return [*found, Finished(dict.fromkeys(Outcome, 4), 6, 1.0)]


SCREENS: dict[str, tuple[str, list[Event]]] = {
    "status": ("text", statuses(tree=False)),
    "status --tree": ("text", statuses(tree=True)),
    "list": ("text", sets()),
    "inventory show": ("text", entries()),
    "history": ("text", history()),
    "inventory check": ("text", mismatches()),
    "failures": ("text", failures()),
    **{f"many sets {text}": (text, many()) for text in ("plan", "diff", "text")},
    **{
        f"{text} {name}": (text, [*stream])
        for text in ("plan", "diff", "text")
        for name, stream in {**STREAMS, **REFUSALS, **WRONG, **OUTDATED}.items()
    },
}


@pytest.mark.parametrize("name", SCREENS)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    """Only what nobody can break is: one name, or a command to copy."""
    text, events = SCREENS[name]
    wide = [line for line in lines(events, text=text) if len(line) > WIDTH]
    copied = ("--", "applyprune ", "kubectl ")
    assert [
        line
        for line in wide
        if line.strip(" ├└─│") not in NAMES and not any(word in line for word in copied)
    ] == []


def test_uid_is_for_wide_tables() -> None:
    """Nobody can read two columns of such texts on 80 columns."""
    assert not any(UID in line for line in lines(entries()))
    assert sum(UID in line for line in lines(entries(), wide=True)) == 3
    assert any("owned, not confirmed" in line for line in lines(entries()))


def test_id_and_url_of_a_run_are_for_wide_tables() -> None:
    """The history says who, when and from where."""
    assert not any("actions/runs/42" in line for line in lines(history()))
    assert any("mona job 42" in line for line in lines(history()))
    assert any("actions/runs/42" in line for line in lines(history(), wide=True))


def test_word_is_not_broken_where_a_line_has_room_for_it() -> None:
    """A message stands below its line then, like one whose column would be narrow."""
    path = f"/spec/template/spec/{'x' * 30}"
    told = f"somebody changed {path} and two more fields besides"
    rows = [("deployment.apps/web", "ready", told), ("configmap/a", "ready", "")]
    assert table(("OBJECT", "STATUS", "MESSAGE"), rows, WIDTH).split("\n") == [
        "OBJECT                STATUS",
        "deployment.apps/web   ready",
        f"    somebody changed {path} and two",
        "    more fields besides",
        "configmap/a           ready",
    ]


def test_long_name_has_a_line_of_its_own() -> None:
    """The rest of its row is below, in its columns."""
    rows = [
        ("shop", "a", "1/1", "90s"),
        ("main", "a-name-of-32-letters-in-its-column", "1/1", "2d"),
    ]
    assert table(("NAMESPACE", "NAME", "READY", "AGE"), rows, 50).split("\n") == [
        "NAMESPACE   NAME   READY   AGE",
        "shop        a      1/1     90s",
        "main        a-name-of-32-letters-in-its-column",
        "                   1/1     2d",
    ]


def test_table_on_a_terminal_says_nothing_twice() -> None:
    """A namespace that all rows share stands in the heading, and empty columns go."""
    head = ("NAMESPACE", "NAME", "READY", "HELD BY", "AGE")
    rows = [("shop", "a", "-", "", "1d"), ("shop", "b", "-", "-", "2d")]
    told = ["NAME (-n shop)   AGE", "a                1d", "b                2d"]
    assert table(head, rows, WIDTH).split("\n") == told
    assert table(head, rows[:1], WIDTH).split("\n")[0] == "NAMESPACE   NAME   AGE"
    assert table(head, rows).split("\n")[0].split() == [
        "NAMESPACE",
        "NAME",
        "READY",
        "HELD",
        "BY",
        "AGE",
    ]
