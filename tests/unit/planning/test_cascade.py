"""Why a deleted object is still there, from what it says."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.cascade import cascade_of, diagnose, may_own_data
from applyprune.planning.world import CascadeContents
from tests.support.planning import TARGET, TIME, live, managed

STUCK = Ref("", "ConfigMap", "home", "a")
SHOP = Ref("", "Namespace", "", "shop")
HOLD = "example.com/hold"
NOTHING = CascadeContents(())


def owns(manager: str, *finalizers: str, part: str = "metadata") -> dict[str, Any]:
    """Return a manager's entry as the API server writes it for the finalizers it put on."""
    items: dict[str, Any] = {f'v:"{name}"': {} for name in finalizers}
    return managed(manager, fieldsV1={f"f:{part}": {"f:finalizers": {".": {}, **items}}})


def held(
    *finalizers: str, entries: list[dict[str, Any]] | None = None, ref: Ref = STUCK
) -> LiveObject:
    return live(
        ref, entries=entries or [], finalizers=list(finalizers), deletionTimestamp=TIME, full={}
    )


@pytest.mark.parametrize(
    ("finalizer", "who"),
    [
        ("foregroundDeletion", "the garbage collector"),
        ("orphan", "the garbage collector"),
        ("kubernetes.io/pvc-protection", "the PVC protection controller"),
        ("kubernetes.io/pv-protection", "the PV protection controller"),
        ("batch.kubernetes.io/job-tracking", "the Job controller"),
        ("service.kubernetes.io/load-balancer-cleanup", "the cloud controller manager"),
        ("customresourcecleanup.apiextensions.k8s.io", "the API server"),
    ],
)
def test_finalizer_of_kubernetes_is_explained(finalizer: str, who: str) -> None:
    """Who removes it, and when; whoever owns the field does not matter."""
    said = diagnose(held(finalizer, entries=[owns("kube-controller-manager", finalizer)]))
    assert said.startswith(f"finalizer {finalizer}: {who} removes it once ")


def test_object_without_a_finalizer_waits_for_the_server() -> None:
    """Nothing is made up."""
    assert diagnose(held()) == "the server has not removed it yet"


def test_pod_in_its_grace_period_says_until_when() -> None:
    """Whether it was read in full or not: then it is not known what still runs."""
    pod = Ref("", "Pod", "home", "web-1")
    unread = live(pod, deletionTimestamp=TIME, deletionGracePeriodSeconds=600)
    assert diagnose(unread) == f"its containers may run until {TIME}, 600 s in all"
    containers = [{"name": "main", "state": {"running": {}}}, {"name": "done"}]
    full = {"metadata": unread.metadata, "status": {"containerStatuses": containers}}
    read = live(pod, full=full)
    assert diagnose(read) == f"container main may run until {TIME}, 600 s in all"


@pytest.mark.parametrize(
    ("entries", "owner"),
    [
        ([owns("holder", HOLD)], "set by holder"),
        # Who owns another finalizer of the same list does not own this one.
        ([owns("other", "example.com/other"), owns("holder", HOLD)], "set by holder"),
        # An atomic list, or one emptied once, is its manager's as a whole.
        ([owns("holder")], "set by holder"),
        ([managed("holder", fieldsV1={"f:metadata": {"f:finalizers": {}}})], "set by holder"),
        ([owns("whole"), owns("holder", HOLD)], "set by holder"),
        ([owns(TARGET.manager, HOLD)], "set by the manifest"),
        ([owns("applyprune/elsewhere/db", HOLD)], "set by the manifest"),
        ([owns("kubectl-edit", HOLD)], "set by kubectl-edit"),
        ([owns("kube-controller-manager", HOLD)], "set by kube-controller-manager"),
        ([], "owned by no field manager"),
        ([owns("other", "example.com/other")], "owned by no field manager"),
        # Malformed: null is read as nothing below, and there is no exception.
        (
            [managed("x", fieldsV1={"f:metadata": {"f:finalizers": None}}), {"manager": "y"}],
            "set by x",
        ),
    ],
)
def test_owner_is_read_from_managed_fields(entries: list[dict[str, Any]], owner: str) -> None:
    """By the very item of the list first, by the list as a whole when no one owns the item."""
    assert diagnose(held(HOLD, entries=entries)) == f"finalizer {HOLD}, {owner}"


def test_every_finalizer_and_every_owner_is_named() -> None:
    """One clause each."""
    entries = [owns("holder", HOLD), owns(TARGET.manager, HOLD)]
    clauses = diagnose(held(HOLD, "orphan", entries=entries)).split("; ")
    assert [clause.partition(":")[0] for clause in clauses] == [
        f"finalizer {HOLD}, set by holder",
        f"finalizer {HOLD}, set by the manifest",
        "finalizer orphan",
    ]


def namespace(*finalizers: str, conditions: object = (), **metadata: Any) -> LiveObject:
    full = {"spec": {"finalizers": list(finalizers)}, "status": {"conditions": conditions}}
    return live(SHOP, deletionTimestamp=TIME, full=full, **metadata)


def test_namespace_lists_its_remaining_content() -> None:
    """Its own finalizer, its conditions, its contents, and what holds these, each once."""
    conditions = [
        {"type": "NamespaceContentRemaining", "status": "True", "message": "Some remain"},
        {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "All found"},
        {"type": "Other", "status": "True", "message": "Other"},
    ]
    inside = [
        live(
            Ref("", "ConfigMap", "shop", name),
            uid=name,
            entries=[owns("holder", HOLD)],
            finalizers=[HOLD],
        )
        for name in "ab"
    ]
    free = live(Ref("", "Secret", "shop", "free"), uid="free")
    stuck = namespace("kubernetes", conditions=conditions)
    held_ones = f"configmap/a (finalizer {HOLD}), configmap/b (finalizer {HOLD})"
    assert diagnose(stuck, remains=CascadeContents((free, *inside))).split("; ") == [
        "finalizer kubernetes: the namespace controller removes it once nothing is left",
        "Some remain",
        f"it still contains {held_ones}, secret/free",
        f"finalizer {HOLD}, set by holder",
    ]


def test_remaining_content_is_cut_and_counted_once() -> None:
    """Five, what is held first, and how many more; one UID under two groups is one object."""
    inside = [live(Ref("", "Event", "shop", f"e{n}"), uid=f"u{n}") for n in range(7)]
    again = live(Ref("events.k8s.io", "Event", "shop", "e0"), uid="u0")
    kept = live(Ref("", "Secret", "shop", "z"), uid="z", finalizers=["orphan", HOLD], entries=[])
    said = diagnose(namespace(), remains=CascadeContents((*inside, again, kept)))
    assert said.startswith(
        f"it still contains secret/z (finalizers orphan, {HOLD}), event/e1, event/e2, event/e3, "
        "event/e4 and 3 more; "
    )


@pytest.mark.parametrize(
    ("remains", "said"),
    [
        (None, "the server has not removed it yet"),
        (NOTHING, "it is empty"),
        (
            CascadeContents((), "pods: forbidden"),
            "its contents could not be read completely (pods: forbidden)",
        ),
    ],
)
def test_namespace_is_called_empty_only_when_all_of_it_was_read(
    remains: CascadeContents | None, said: str
) -> None:
    """Empty is said only of what was read."""
    assert diagnose(namespace(), remains=remains) == said


def test_other_finalizers_of_a_namespace_are_named() -> None:
    """It has two lists of them, each with owners of its own."""
    stuck = namespace(
        "example.com/spec",
        finalizers=[HOLD],
        entries=[owns("holder", HOLD), owns("origin", "example.com/spec", part="spec")],
    )
    assert diagnose(stuck).split("; ") == [
        f"finalizer {HOLD}, set by holder",
        "finalizer example.com/spec, set by origin",
    ]


def test_remaining_custom_resources_are_named_with_their_namespace() -> None:
    """Custom resources are anywhere."""
    name = "customresourcecleanup.apiextensions.k8s.io"
    crd = Ref("apiextensions.k8s.io", "CustomResourceDefinition", "", "foos.x.example.com")
    foo = live(Ref("x.example.com", "Foo", "shop", "f"), uid="f", entries=[], finalizers=[HOLD])
    first, *others = diagnose(held(name, ref=crd), remains=CascadeContents((foo,))).split("; ")
    assert first.startswith(f"finalizer {name}: the API server removes it once ")
    assert others == [
        f"it still contains foo.x.example.com/f in namespace shop (finalizer {HOLD})",
        f"finalizer {HOLD}, owned by no field manager",
    ]


def _with_fields(ref: Ref, **spec: Any) -> LiveObject:
    return live(ref, entries=[managed(fieldsV1={"f:spec": {"f:template": {"f:spec": spec}}})])


@pytest.mark.parametrize(
    ("state", "may"),
    [
        (live(STUCK), False),
        (live(Ref("", "Secret", "home", "a")), False),
        (live(Ref("", "Service", "home", "a")), False),
        (live(Ref("", "ServiceAccount", "home", "a")), False),
        (live(Ref("rbac.authorization.k8s.io", "Role", "home", "a")), False),
        (live(Ref("rbac.authorization.k8s.io", "ClusterRole", "", "a")), False),
        (live(Ref("batch", "Job", "home", "a")), False),
        (live(Ref("apps", "Deployment", "home", "a")), False),
        (_with_fields(Ref("apps", "Deployment", "home", "a"), **{"f:volumes": {}}), False),
        (
            _with_fields(
                Ref("batch", "Job", "home", "a"),
                **{"f:volumes": {'k:{"name":"a"}': {"f:ephemeral": {}}}},
            ),
            True,
        ),
        (live(Ref("apps", "StatefulSet", "home", "a")), True),
        (live(Ref("", "PersistentVolumeClaim", "home", "a")), True),
        (live(SHOP), True),
        (live(Ref("x.example.com", "Foo", "home", "a")), True),
        (live(Ref("postgresql.cnpg.io", "Cluster", "home", "a")), True),
        (live(STUCK, uid="owner"), True),
    ],
)
def test_kinds_that_own_data_in_practice(state: LiveObject, may: bool) -> None:
    """Whatever makes claims, and what a known object names as its owner."""
    assert may_own_data(state, {"owner"}) is may


def test_contents_that_are_going_do_not_count() -> None:
    """What they own still does."""
    going = live(Ref("", "Pod", "shop", "a"), uid="p", deletionTimestamp=TIME)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p"}
    claim = live(Ref("", "PersistentVolumeClaim", "shop", "data"), uid="c", ownerReferences=[owner])
    found = cascade_of(CascadeContents((going, claim)), (), TARGET.manager)
    assert (found.total, found.foreign) == (1, (claim.ref,))
    assert cascade_of(CascadeContents((going,)), (), TARGET.manager).foreign == ()
