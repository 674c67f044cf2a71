"""What waits for an approval: its digest, bounded lists, and a message with the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.controller.pending_plan import OBJECTS_SHOWN, PendingPlan, Scope, pending_plan
from applyprune.controller.reasons import Reason
from applyprune.controller.result import RunResult
from applyprune.controller.spec import SPEC, BundleSource, BundleSpec, Spec
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.options import Approval
from applyprune.model.plan import ApplyStep, Cascaded, Cause, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.values import replace
from tests.support.planning import body, desired, live, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

DELETIONS, WHOLE = "sha256:" + "d" * 64, "sha256:" + "f" * 64
NOT_APPROVED = Problem(ProblemKind.NOT_APPROVED, "not approved")
REFUSED = Problem(
    ProblemKind.PRUNE_REFUSED,
    "the prune was refused: it would delete 7 objects",
    reason="too many",
    hint="--max-prune 7",
)


def bundle(approval: Approval = Approval.AUTOMATIC) -> BundleSpec:
    """Return the Bundle ``web`` of the namespace ``shop``."""
    return BundleSpec("shop", "web", Spec(source=BundleSource(inline=""), approval=approval), 1.0)


def applied(name: str, fate: Fate) -> ApplyStep:
    """Return the step of an object of the input."""
    one = desired(body(name=name))
    return ApplyStep(one, fate, recorded(one, live(one.ref)))


def removed(name: str, fate: Fate, problem: Problem | None = None, **place: str) -> RemoveStep:
    """Return the step of an object that has left the set."""
    ref = Ref("", "ConfigMap", place.get("namespace", "home"), name)
    return RemoveStep(InventoryEntry(ref, "configmaps", "v1", "u"), None, fate, problem=problem)


STEPS: dict[str, Any] = {
    "applies": (
        applied("same", Fate.LEAVE),
        applied("new", Fate.CREATE),
        applied("other", Fate.CHANGE),
    ),
    "removals": (
        removed("b", Fate.PRUNE),
        removed("a", Fate.REFUSE, REFUSED),
        removed("kept", Fate.ORPHAN),
        removed("gone", Fate.REMOVE_FROM_INVENTORY),
    ),
}


def waiting(
    approval: Approval, digest: str, *, refusal: Problem = NOT_APPROVED, approved: str = ""
) -> PendingPlan:
    """Return what waits of a run with these steps."""
    plan = Plan(**STEPS, deletions=DELETIONS, digest=WHOLE, needs_approval=digest)
    pending = pending_plan(RunResult(plan=plan, refusal=refusal), bundle(approval), approved)
    assert pending is not None
    return pending


def names(pending: PendingPlan) -> Sequence[str]:
    """Return the objects, in order."""
    return [f"{fate} {ref.name}" for fate, ref in pending.objects]


def test_waiting_deletions_are_listed_alone() -> None:
    """The rest of the plan was carried out."""
    pending = waiting(Approval.PRUNE, DELETIONS)
    assert (pending.digest, pending.scope, pending.deletes) == (DELETIONS, Scope.DELETIONS, True)
    assert pending.counts == {"prune": 2}
    assert names(pending) == ["prune a", "prune b"]
    assert pending.reason is Reason.PENDING_APPROVAL
    assert pending.message == (
        "waiting for an approval: 2 to prune; to approve exactly this: kubectl annotate "
        "bundles.applyprune.dev web -n shop --overwrite "
        f"applyprune.dev/approve={DELETIONS}"
    )


def test_waiting_plan_is_listed_whole() -> None:
    """Deletions first; what stays as it is does not wait."""
    pending = waiting(Approval.ALWAYS, WHOLE)
    assert pending.scope is Scope.PLAN
    assert pending.counts == {
        "prune": 2,
        "change": 1,
        "create": 1,
        "orphan": 1,
        "removeFromInventory": 1,
    }
    assert names(pending) == [
        "prune a",
        "prune b",
        "change other",
        "create new",
        "orphan kept",
        "remove-from-inventory gone",
    ]
    assert "2 to prune, 1 to change, 1 to create, 1 to orphan" in pending.message


def test_recreation_waits_as_a_deletion() -> None:
    """The plan leaves it for now, and the approval is about what it would do."""
    plan = Plan(
        (replace(applied("web", Fate.LEAVE), cause=Cause.NOT_APPROVED), applied("x", Fate.LEAVE)),
        (),
        deletions=DELETIONS,
        needs_approval=DELETIONS,
    )
    pending = pending_plan(RunResult(plan=plan), bundle(Approval.PRUNE), "")
    assert pending is not None
    assert (names(pending), pending.deletes) == (["recreate web"], True)


def test_objects_that_go_with_another_are_named() -> None:
    """With a Bundle its set, with what is recreated what it owns; a refusal has named it."""
    inside = [Cascaded(Ref("", "ConfigMap", "home", f"o{number}"), "") for number in range(8)]
    claim = Cascaded(Ref("", "PersistentVolumeClaim", "home", "data"), "")
    recreated = replace(applied("web", Fate.LEAVE), cause=Cause.NOT_APPROVED, cascade=(claim,))
    removals = (replace(removed("old", Fate.PRUNE), cascade=(*inside, claim)),)
    plan = Plan((recreated,), removals, deletions=DELETIONS, needs_approval=DELETIONS)
    pending = pending_plan(RunResult(plan=plan, refusal=NOT_APPROVED), bundle(Approval.PRUNE), "")
    assert pending is not None
    assert pending.summary == "waiting for an approval: 1 to prune, 1 to recreate, 10 cascaded"
    assert pending.counts == {"prune": 1, "recreate": 1, "cascaded": 10}
    loss = (
        "cascade-delete 9 objects: home/persistentvolumeclaim/data, home/configmap/o0, "
        "home/configmap/o1, home/configmap/o2, home/configmap/o3 and 4 more"
    )
    assert f"; configmap/old would {loss}; configmap/web would cascade-delete 1" in pending.message
    told = pending.status({}, revision="", now="now")["objects"]
    assert told[0] == {"object": "configmap/old", "namespace": "home", "fate": "prune"} | {
        "cascade": loss
    }
    refused = pending_plan(RunResult(plan=plan, refusal=REFUSED), bundle(), "")
    assert refused is not None
    assert "would" not in refused.message.partition("waiting for an approval")[2]


def test_refused_prune_says_why() -> None:
    """The reason is that of the guard, without the options of the command line."""
    pending = waiting(Approval.AUTOMATIC, DELETIONS, refusal=REFUSED)
    assert pending.reason is Reason.PRUNE_REFUSED
    assert pending.message.startswith("the prune was refused: it would delete 7 objects: too many")
    assert "--max-prune" not in pending.message


def test_other_approval_is_named() -> None:
    """An approval of another plan, or what is no digest, is ignored, and the message says so."""
    other = waiting(Approval.PRUNE, DELETIONS, approved="sha256:" + "0" * 64)
    assert "applyprune.dev/approve=sha256:000000000000… is about another plan" in other.message
    wrong = waiting(Approval.PRUNE, DELETIONS, approved="yes\n; rm")
    assert "the annotation applyprune.dev/approve is not a digest" in wrong.message
    assert "rm" not in wrong.message


def test_list_of_waiting_objects_is_bounded() -> None:
    """Whatever the number of objects; the count has them all."""
    many = tuple(removed(f"r{number:03}", Fate.PRUNE) for number in range(100))
    plan = Plan((), many, deletions=DELETIONS, needs_approval=DELETIONS)
    pending = pending_plan(RunResult(plan=plan), bundle(Approval.PRUNE), "")
    assert pending is not None
    assert (len(pending.objects), pending.counts["prune"]) == (OBJECTS_SHOWN, 100)


def test_time_stays_with_its_digest() -> None:
    """It is when this digest was computed first; another one has a time of its own."""
    pending = waiting(Approval.PRUNE, DELETIONS)
    first = pending.status({}, revision="sha256:a", now="early")
    assert first["since"] == "early"
    assert pending.status(first, revision="sha256:a", now="late") == first
    again = pending.status({**first, "digest": WHOLE}, revision="sha256:b", now="late")
    assert (again["since"], again["revision"]) == ("late", "sha256:b")


def test_nothing_waits_without_a_missing_approval() -> None:
    """A plan that may run, and a run that made none."""
    assert pending_plan(RunResult(plan=Plan((), ())), bundle(), WHOLE) is None
    assert pending_plan(RunResult(), bundle(), "") is None


def test_pending_plan_names_ignore_rules() -> None:
    """Not if the rules may be content that is confidential."""
    said = "its manifest in web/b.yaml is ignored, by the rule b.yaml in .sourceignore"
    removals = (replace(removed("b", Fate.PRUNE), ignored=said), removed("c", Fate.PRUNE))
    plan = Plan((), removals, deletions=DELETIONS, digest=WHOLE, needs_approval=DELETIONS)
    run = RunResult(plan=plan, refusal=REFUSED)
    pending = pending_plan(run, bundle(), "")
    assert pending is not None
    assert f"; configmap/b: {said}; to approve" in pending.message
    assert said not in pending.summary
    spec = SPEC.validate_python({"source": {"secretRefs": [{"name": "s"}]}})
    pending = pending_plan(run, BundleSpec("shop", "web", spec, 1.0), "")
    assert pending is not None
    assert "ignored" not in pending.message
