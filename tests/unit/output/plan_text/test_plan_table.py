"""A plan as a table on a terminal, line by line."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode
from applyprune.model.plan import (
    ApplyStep,
    Cause,
    Consequence,
    ConsequenceKind,
    Plan,
    RemoveStep,
    ToolRecord,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.output.plan_text import plan_table, record_lines
from applyprune.output.terminal import rendered
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.removals import ADOPTED
from applyprune.values import replace
from tests.support.planning import DEPLOYMENTS, NAMESPACES, body, desired, live, recorded

CASCADE = (
    "cascade-deletes 12 objects, 3 of which do not belong to this set: shop/configmap/settings-of-"
    "shop, shop/secret/token, shop/service/front-end"
)
WEB = desired(body("Deployment", "web"), DEPLOYMENTS)


def applied(
    fate: Fate, name: str, *taken: str, reason: str = "", kind: str = "ConfigMap"
) -> ApplyStep:
    """Return a step for an object of the input."""
    one = WEB if kind == "Deployment" else desired(body(name=name))
    return ApplyStep(one, fate, recorded(one, live(one.ref)), reason=reason, taken_from=taken)


def removed(
    fate: Fate, name: str, reason: str = "", problem: str = "", kind: str = "ConfigMap"
) -> RemoveStep:
    """Return a step for an object that has left the set."""
    resource = {"resource": NAMESPACES} if kind == "Namespace" else {}
    one = desired(body(kind, name), **resource)
    entry = recorded(one, live(one.ref), ownership=Ownership.OWNED)
    refused = Problem(ProblemKind.RUN_FAILED, problem) if problem else None
    cause = Cause.ADOPTED if reason == ADOPTED else Cause.ORDINARY
    return RemoveStep(entry, None, fate, live(one.ref), reason, cause, refused)


def lines(
    plan: Plan, mode: Mode = Mode.APPLY, *, width: int = 80, namespace: str = "home"
) -> list[str]:
    """Return the table as it is printed, without colours."""
    text = plan_table(plan, mode, applyset_identity("web", namespace), width)
    return rendered(text, colour=False).split("\n")


PLAN = Plan(
    (
        applied(Fate.CREATE, "new"),
        applied(Fate.LEAVE, "same"),
        applied(Fate.REFUSE, "bad"),
        applied(Fate.CHANGE, "web", kind="Deployment"),
        applied(Fate.ADOPT, "found", "kubectl", reason="adopted: it existed"),
        applied(Fate.CHANGE, "forced", "hpa"),
        applied(Fate.RECREATE, "fixed", reason="it is immutable"),
    ),
    (removed(Fate.PRUNE, "old"), removed(Fate.PRUNE, "shop", CASCADE, kind="Namespace")),
    consequences=(Consequence(ConsequenceKind.ROLLOUT, WEB.ref, "rollout, 12 Pods"),),
)


def test_wide_terminal_has_a_column_of_details() -> None:
    """Each begins beside its object, and is wrapped in its column."""
    wide = lines(PLAN, width=90)
    assert wide[0] == "OBJECT                PLAN                 DETAILS"
    assert wide[3] == f"{'':43}belong to this set:"


def test_narrow_terminal_gets_details_below_the_line() -> None:
    """No name is cut: one that is too long for its column has a line of its own."""
    assert lines(PLAN, width=38)[:8] == [
        "OBJECT             PLAN",
        "configmap/old      would be pruned",
        "namespace/shop     would be pruned",
        "    cascade-deletes 12 objects, 3 of",
        "    which do not belong to this set:",
        "    shop/configmap/settings-of-shop,",
        "    shop/secret/token,",
        "    shop/service/front-end",
    ]
    at = lines(PLAN, width=38).index("deployment.apps/web")
    assert lines(PLAN, width=38)[at + 1] == "                   would be updated"
    assert all(len(line) <= 38 for line in lines(PLAN, width=38))


def test_many_objects_are_counted_but_never_deletions() -> None:
    """What cannot be undone is listed in full."""
    plan = Plan(
        tuple(applied(Fate.CREATE, f"new-{number:03}") for number in range(490)),
        tuple(removed(Fate.PRUNE, f"old-{number:02}") for number in range(40)),
    )
    told = lines(plan)
    assert sum("would be pruned" in line for line in told) == 40
    assert sum(line.startswith("configmap/new-") for line in told) == 10
    assert told[-1] == "… and 480 more would be created"


def test_plan_without_changes_has_no_table() -> None:
    """Nor has one that may not prune."""
    assert lines(Plan((applied(Fate.LEAVE, "same"),), ())) == [""]
    assert lines(Plan((), (removed(Fate.PRUNE, "old"),), no_prune="--no-prune")) == [""]


def test_namespace_is_named_if_it_is_another_one() -> None:
    """As in every other line of text."""
    assert lines(Plan((applied(Fate.CREATE, "new"),), ()), namespace="other")[1:] == [
        "configmap/new -n home   would be created"
    ]


def test_deletion_of_a_set_lists_the_fate_of_each_object() -> None:
    """And counts them."""
    adopted = tuple(removed(Fate.ORPHAN, f"a-{number:02}", ADOPTED) for number in range(14))
    told = lines(Plan((), adopted), Mode.DELETE, width=100)
    assert len(told) == 18
    assert told[-3:] == [
        "14 objects: 0 would be deleted, 14 were adopted and stay",
        "To delete what was adopted: --prune-also adopted, or make it owned first:",
        "  applyprune inventory repair web -n home --record-as owned KIND/NAME…",
    ]
    mixed = (
        removed(Fate.PRUNE, "ours"),
        replace(removed(Fate.ORPHAN, "marked", "marked keep"), cause=Cause.MARKED),
        replace(removed(Fate.ORPHAN, "flux", "Flux has written it"), cause=Cause.SHARED),
        removed(Fate.ORPHAN, "theirs", "it belongs to Foo/x"),
    )
    assert lines(Plan((), mixed), Mode.DELETE)[-4:] == [
        "4 objects: 1 would be deleted, 1 would be orphaned, 1 is marked and stays, 1 is",
        "  managed by another tool and stays",
        "To delete what is marked: remove the annotation or label first.",
        "To delete what another tool manages: --prune-also shared",
    ]
    (one,) = lines(Plan((), mixed[:1]), Mode.DELETE)[2:]
    assert one == "1 object: 1 would be deleted"


def adopted(name: str, *, owned: bool = False) -> ApplyStep:
    """Return a step that adopts an object that exists."""
    step = applied(Fate.ADOPT, name, "kubectl")
    return replace(step, live=live(step.desired.ref), becomes_owned=owned)


def test_adoption_says_what_it_means_once() -> None:
    """What becomes owned is deleted like any other object; the option is named if it helps."""
    told = "leave the set; --record-as owned changes that"
    text = " ".join(" ".join(lines(Plan((adopted("a"), adopted("b")), ()))).split())
    assert text.endswith(f"configmap/a, configmap/b stay in the cluster when they {told}")
    mixed = " ".join(lines(Plan((adopted("a"), adopted("b", owned=True)), ())))
    assert mixed.endswith("configmap/a stays in the cluster when it leaves the set")
    assert "stay" not in " ".join(lines(Plan((adopted("b", owned=True),), ())))


@pytest.mark.parametrize("width", [None, 200, 60])
def test_command_that_ends_a_record_is_on_one_line(width: int | None) -> None:
    """A user copies it."""
    command = "kubectl delete secret -n shop -l owner=helm,name=legacy"
    record = ToolRecord("Helm", "release legacy in namespace shop", 3, command)
    found = list(record_lines(Plan((), (), records=(record,)), width))
    assert sum(command in line for line in found) == 1
    assert (len(found) > 1) is (width == 60)
    assert all(line.startswith("  ") for line in found)


def test_first_plan_says_where_the_inventory_will_be() -> None:
    """If all objects are in one other namespace: whoever looks there next finds no set."""
    steps = tuple(applied(Fate.CREATE, name) for name in "ab")
    cluster = applied(Fate.CREATE, "n", kind="Namespace")
    cluster = replace(cluster, entry=replace(cluster.entry, ref=Ref("", "Namespace", "", "n")))

    def said(plan: Plan, namespace: str) -> str:
        table = plan_table(plan, Mode.APPLY, applyset_identity("web", namespace), None)
        return rendered(table, colour=False)

    new = Plan((*steps, cluster), (), new_set=True)
    place = steps[0].entry.ref.namespace
    told = f"all objects are in namespace {place}, but the inventory will be in default; "
    assert f"{told}-n {place} puts it there" in said(new, "default")
    elsewhere = replace(steps[0], entry=replace(steps[0].entry, ref=Ref("", "Pod", "x", "p")))
    for plan, namespace in (
        (new, place),
        (replace(new, new_set=False), "default"),
        (replace(new, applies=(*steps, elsewhere)), "default"),
        (replace(new, applies=(cluster,)), "default"),
    ):
        assert "puts it there" not in said(plan, namespace)


def test_full_plan_lists_every_object_and_what_stays_for_a_reason() -> None:
    """The table before a question cuts long lists; what has left the set is named once."""
    kept = (removed(Fate.ORPHAN, "kept"), removed(Fate.PRUNE, "old"))
    steps = tuple(applied(Fate.CREATE, f"new-{number:02}") for number in range(20))
    plan = Plan(
        (*steps, applied(Fate.LEAVE, "job", reason="finished")), kept, no_prune="--no-prune"
    )
    text = plan_table(plan, Mode.APPLY, applyset_identity("web", "home"), None, full=True)
    told = rendered(text, colour=False).split("\n")
    assert told[-2:] == [
        "configmap/job      would not change   finished",
        "2 objects would not be pruned (--no-prune): configmap/kept, configmap/old",
    ]
    assert len(told) == 23
    refused = replace(plan, removals=(removed(Fate.REFUSE, "old"),))
    text = plan_table(refused, Mode.APPLY, applyset_identity("web", "home"), None, full=True)
    assert "would not be pruned" not in text


def test_note_of_several_objects_is_below_the_table() -> None:
    """One that holds for a single object stays beside it; what is left as it is has none."""
    shared, alone = "its namespace does not exist yet", "not checked: it needs role/r"
    steps = [replace(applied(Fate.CREATE, name), not_checked=shared) for name in "abcdefg"]
    steps.append(replace(applied(Fate.CREATE, "h"), not_checked=alone))
    steps.append(replace(applied(Fate.LEAVE, "i"), not_checked=shared))
    assert lines(Plan(tuple(steps), ())) == [
        "OBJECT        PLAN               DETAILS",
        *(f"configmap/{name}   would be created" for name in "abcdefg"),
        f"configmap/h   would be created   {alone}",
        "configmap/a, configmap/b, configmap/c, configmap/d, configmap/e and 2 more: its",
        "  namespace does not exist yet",
    ]
