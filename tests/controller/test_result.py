"""What a run has come to for its Bundle: a reason, what waits, and nothing of a Secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.controller.pending_plan import OBJECTS_SHOWN, PendingPlan, Scope, pending_plan
from applyprune.controller.reasons import STALLED_REASONS, Reason
from applyprune.controller.result import (
    FailedObject,
    RunResult,
    count_elsewhere,
    error_message,
    problem_message,
    reason_of,
    shown_field,
    shown_parts,
)
from applyprune.controller.spec import SPEC, BundleSource, BundleSpec, Spec
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    EmptyInput,
    Forbidden,
    InputError,
    InputErrors,
    InventoryIncomplete,
    InventoryLocked,
    OwnedByBundle,
    PruneRefused,
    Unreachable,
    UsageError,
)
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.options import Approval
from applyprune.model.plan import ApplyStep, Cascaded, Cause, Plan, RemoveStep
from applyprune.model.problem import (
    ContestedField,
    ManagerConflict,
    Mark,
    Origin,
    Problem,
    ProblemKind,
)
from applyprune.planning.desired import KindNotServed
from applyprune.values import replace
from tests.support.planning import body, desired, live, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND = KindNotServed("no matches for kind Foo")
FAULT = InputError("invalid manifest")
RIGHT = Forbidden("no", code=403)

ERRORS: dict[str, tuple[ApplypruneError, Reason]] = {
    "a kind": (KIND, Reason.KIND_NOT_FOUND),
    "two kinds": (InputErrors([KIND, KIND]), Reason.KIND_NOT_FOUND),
    "a kind, and a right": (InputErrors([KIND, RIGHT]), Reason.KIND_NOT_FOUND),
    "a kind, and a fault": (InputErrors([KIND, FAULT]), Reason.INVALID_SOURCE),
    "a fault": (FAULT, Reason.INVALID_SOURCE),
    "a right": (RIGHT, Reason.FORBIDDEN),
    "an option": (UsageError("wrong"), Reason.INVALID_SPEC),
    "another owner": (OwnedByBundle("x"), Reason.INVENTORY_OWNED),
    "no input": (EmptyInput("x"), Reason.INVALID_SOURCE),
    "no answer": (Unreachable("x"), Reason.UNREACHABLE),
    "an error of the server": (Conflict("x", code=409), Reason.API_ERROR),
    "a damaged inventory": (InventoryIncomplete("x"), Reason.INVENTORY_UNREADABLE),
    "a lock": (InventoryLocked("x"), Reason.INVENTORY_LOCKED),
    "anything else": (PruneRefused("x"), Reason.APPLY_FAILED),
}


@pytest.mark.parametrize("name", ERRORS)
def test_reason_tells_what_comes_by_itself_from_faults(name: str) -> None:
    """A kind that is missing is no fault of the source, unless the source has one too.

    They are the words that alerts compare.
    """
    error, reason = ERRORS[name]
    assert reason_of(error) is reason
    assert Reason.UNREACHABLE not in STALLED_REASONS


ELSEWHERE = {
    "in its namespace": (Ref("", "ConfigMap", "shop", "a"), "shop", 0),
    "in another namespace": (Ref("", "ConfigMap", "other", "a"), "shop", 1),
    "of the cluster": (Ref("rbac.authorization.k8s.io", "ClusterRole", "", "a"), "shop", 1),
    "its own namespace": (Ref("", "Namespace", "", "shop"), "shop", 0),
    "another namespace": (Ref("", "Namespace", "", "other"), "shop", 1),
    "in another cluster": (Ref("", "ConfigMap", "shop", "a"), "", 1),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_objects_that_outlive_a_namespace_are_counted(name: str) -> None:
    """Whatever the deletion of the Bundle's namespace does not delete."""
    ref, namespace, wanted = ELSEWHERE[name]
    assert count_elsewhere([ref], namespace) == wanted


def test_message_of_a_conflict_ends_with_what_resolves_it() -> None:
    """By a field of the Bundle, however long the message is; never with a text of a Secret."""
    remedy = "To overwrite it: spec.conflicts: force."
    conflict = Problem(ProblemKind.CONFLICT, "a was not applied", hint="--option", remedy=remedy)
    assert problem_message(conflict) == f"a was not applied. {remedy}"
    long = problem_message(replace(conflict, reason="x" * 1000))
    assert len(long) == 400
    assert long.endswith(f"x… {remedy}")
    assert remedy not in problem_message(conflict, secret=True)


def failed(*names: str) -> dict[Ref, FailedObject]:
    """Return what has failed of a run."""
    refs = [Ref("", "ConfigMap", "shop", name) for name in names]
    return {ref: FailedObject(ref, "no", ProblemKind.INVALID) for ref in refs}


SUMMARIES = {
    "one of one": (("a",), 1, "1 object failed: configmap/a"),
    "one of two": (("a",), 2, "1 of 2 objects failed: configmap/a"),
    "both": (("a", "b"), 2, "2 of 2 objects failed: configmap/a, configmap/b"),
    "one of nobody knows how many": (("a",), 0, "1 object failed: configmap/a"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summary_names_what_has_failed(name: str) -> None:
    names, size, wanted = SUMMARIES[name]
    assert RunResult(failing=failed(*names), set_size=size).summary == wanted


HIDDEN = "details are not shown, because the source is a Secret"
VALUE = "hunter2"
WHERE = Origin("secret/src[one]", 1, 3)
WHOLE = {
    ProblemKind.ACCOUNT_MISSING,
    ProblemKind.EMPTY_INPUT,
    ProblemKind.INTERRUPTED,
    ProblemKind.INVALID_SPEC,
    ProblemKind.INVENTORY_LOCKED,
    ProblemKind.OWNED_BY_BUNDLE,
    ProblemKind.SOURCE_MISSING,
    ProblemKind.UNREACHABLE,
    ProblemKind.FETCH_FAILED,
    ProblemKind.AUTHENTICATION_FAILED,
    ProblemKind.VERIFICATION_FAILED,
    ProblemKind.PATH_NOT_FOUND,
    ProblemKind.SOURCE_TOO_LARGE,
    ProblemKind.DECRYPTION_FAILED,
}
"""None of these is about an object."""
OURS = {
    ProblemKind.ACCESS_ERROR,
    ProblemKind.INVENTORY_ERROR,
    ProblemKind.INVENTORY_INCOMPLETE,
    ProblemKind.INVENTORY_TOO_NEW,
    ProblemKind.NOT_APPROVED,
    ProblemKind.NOT_READY,
    ProblemKind.PRUNE_REFUSED,
}
"""Their message, but not their reason, is made of names and counts."""


@pytest.mark.holds("secret-source", row="Error")
@pytest.mark.parametrize("kind", ProblemKind)
def test_problem_shows_no_value(kind: ProblemKind) -> None:
    """Neither in its place, message, reason, hint, excerpt, field nor note; a new kind included."""
    value = "" if kind in WHOLE else VALUE
    problem = Problem(
        kind,
        f"ConfigMap shop/a: {'' if kind in OURS else value}",
        location=f"file-{value}",
        reason=f"for {value}",
        lasting_reason=f"for {value}",
        hint=VALUE,
        excerpt=VALUE,
        origin=WHERE,
        field=("data", "key"),
        marks=(Mark(("data", "key"), VALUE), Mark(("data", "more"), VALUE)),
    )
    shown = problem_message(problem, secret=True)
    assert VALUE not in shown
    assert (HIDDEN in shown) is (kind not in WHOLE)
    assert kind in WHOLE or shown.startswith("secret/src[one]:3: ")
    assert value in problem_message(problem)
    assert VALUE not in error_message([problem, problem], secret=True)


TEXTS = {
    'ConfigMap shop/a: configmaps "a" is forbidden: User "u" cannot patch resource "configmaps" in '
    'API group "" in the namespace "shop"': 'configmaps "a" is forbidden: User "u" cannot patch '
    'resource "configmaps" in API group "" in the namespace "shop"',
    'ConfigMap shop/a: configmaps "a" is forbidden: exceeded quota: q, requested: pods=1, '
    "used: pods=1, limited: pods=1": 'configmaps "a" is forbidden: exceeded quota: q, '
    "requested: pods=1, used: pods=1, limited: pods=1",
    f'ConfigMap shop/a: admission webhook "x.example.com" denied the request: {VALUE}': (
        'admission webhook "x.example.com" denied the request'
    ),
    'namespaces "shop" not found': 'namespaces "shop" not found',
    f'ConfigMap "a" is invalid: data[{VALUE}]: Invalid value: "{VALUE}": no': (
        f"the API server refuses it (Invalid); {HIDDEN}"
    ),
    f"ConfigMap shop/a: {VALUE}": f"the API server refuses it (Invalid); {HIDDEN}",
}


@pytest.mark.parametrize("text", TEXTS)
def test_server_text_is_shown_as_for_a_secret(text: str) -> None:
    """Only what is known to hold no value."""
    assert shown_parts(Problem(ProblemKind.INVALID, text)) == ("", TEXTS[text])


def test_conflict_is_shown_without_values() -> None:
    """The fields and their managers help as much."""
    names = ("spec.replicas", f"data.{VALUE}", "spec.paused", "spec.suspend", "data.more")
    fields = tuple(ContestedField(f".{name}", None, VALUE, VALUE) for name in names)
    found = (
        ManagerConflict("kubectl-edit", "Update", "", "2026", fields),
        ManagerConflict("kube-controller-manager", "Update", "scale", "2026", fields[:1]),
        ManagerConflict("another manager", "", "", "", fields[1:2]),
    )
    problem = Problem(
        ProblemKind.CONFLICT, f"{VALUE} was not applied", reason=VALUE, conflicts=found
    )
    assert problem_message(problem, secret=True) == (
        "another field manager owns some of its fields: "
        "kubectl-edit (Update) owns .spec.replicas, .data, .spec.paused and 1 more; "
        "kube-controller-manager (Update of scale) owns .spec.replicas; "
        "another manager owns .data"
    )


PATHS: dict[tuple[str | int, ...], str] = {
    ("spec", "containers", 0, "image"): " at spec.containers[0].image",
    ("metadata", "labels", VALUE): " at metadata.labels",
    ("data", "password"): " at data",
    ("spec", f"{VALUE}", "x"): " at spec",
    (VALUE,): "",
    (): "",
}


@pytest.mark.parametrize("path", PATHS)
def test_path_is_shown_as_far_as_it_is_of_the_schema(path: tuple[str | int, ...]) -> None:
    """A key of a map may be confidential, and a value with a wrong indent becomes a key."""
    problem = Problem(ProblemKind.INVALID, VALUE, field=path)
    shown = shown_parts(problem)[1]
    assert shown == f"the API server refuses it (Invalid){PATHS[path]}; {HIDDEN}"


SHOWN = {
    "": "",
    "/data/key": "/data",
    ".data.key": ".data",
    "/spec/replicas": "/spec/replicas",
    ".spec.template.spec.containers[0].image": ".spec.template.spec.containers",
    f"/spec/containers[name={VALUE}]/image": "/spec/containers",
    f"/metadata/annotations/{VALUE}.io~1a.b": "/metadata/annotations",
    f"/spec/{VALUE}/x": "/spec",
    f"/{VALUE}": "/",
}


@pytest.mark.parametrize("path", SHOWN)
def test_field_is_shown_as_far_as_it_is_of_the_schema(path: str) -> None:
    """The pointer of a drifted field as the path of a rewritten one."""
    assert shown_field(path) == SHOWN[path]


DELETIONS, PLAN = "sha256:" + "d" * 64, "sha256:" + "f" * 64
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
    plan = Plan(**STEPS, deletions=DELETIONS, digest=PLAN, needs_approval=digest)
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
    pending = waiting(Approval.ALWAYS, PLAN)
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
    again = pending.status({**first, "digest": PLAN}, revision="sha256:b", now="late")
    assert (again["since"], again["revision"]) == ("late", "sha256:b")


def test_nothing_waits_without_a_missing_approval() -> None:
    """A plan that may run, and a run that made none."""
    assert pending_plan(RunResult(plan=Plan((), ())), bundle(), PLAN) is None
    assert pending_plan(RunResult(), bundle(), "") is None


def test_pending_plan_names_ignore_rules() -> None:
    """Not if the rules may be content that is confidential."""
    said = "its manifest in web/b.yaml is ignored, by the rule b.yaml in .sourceignore"
    removals = (replace(removed("b", Fate.PRUNE), ignored=said), removed("c", Fate.PRUNE))
    plan = Plan((), removals, deletions=DELETIONS, digest=PLAN, needs_approval=DELETIONS)
    run = RunResult(plan=plan, refusal=REFUSED)
    pending = pending_plan(run, bundle(), "")
    assert pending is not None
    assert f"; configmap/b: {said}; to approve" in pending.message
    assert said not in pending.summary
    spec = SPEC.validate_python({"source": {"secretRefs": [{"name": "s"}]}})
    pending = pending_plan(run, BundleSpec("shop", "web", spec, 1.0), "")
    assert pending is not None
    assert "ignored" not in pending.message
