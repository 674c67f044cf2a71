"""What must stay while another object could not be deleted, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.plan import RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.leave import Remaining
from tests.support.planning import live

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG_MAP = Ref("", "ConfigMap", "home", "a")
OTHER = Ref("", "ConfigMap", "home", "b")
CUSTOM = Ref("x.io", "Widget", "home", "a")
CRD = Ref("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.x.io")
NAMESPACE = Ref("", "Namespace", "", "home")
DEPLOYMENT = Ref("apps", "Deployment", "home", "a")
BINDING = Ref("rbac.authorization.k8s.io", "RoleBinding", "home", "a")
ROLE = Ref("rbac.authorization.k8s.io", "Role", "home", "r")
SERVICE = Ref("", "Service", "home", "s")
SECRET = Ref("", "Secret", "home", "s")
ACCOUNT = Ref("", "ServiceAccount", "home", "deployer")
BACKEND = Ref("apiregistration.k8s.io", "APIService", "", "v1.x.io")
TO_BACKEND = {"spec": {"service": {"namespace": "home", "name": "s"}}}
NAMES = {"spec": {"serviceAccountName": "deployer", "from": [{"secretRef": {"name": "s"}}]}}
ROLES = {"roleRef": {"apiGroup": ROLE.group, "kind": "Role", "name": "r"}}
LATE = Problem(ProblemKind.NOT_READY, "is deleted but not gone yet")
FAILED = Problem(ProblemKind.FORBIDDEN, "not allowed")


def _step(
    ref: Ref, *, wave: int = 0, owner: str = "", finalizers: Sequence[str] = (), **entry: Any
) -> RemoveStep:
    owners: dict[str, Any] = {
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "uid": owner}]
    }
    metadata = {**(owners if owner else {}), "finalizers": list(finalizers)}
    state = live(ref, uid=f"uid-{ref.name}", **metadata)
    facts = {"plural": f"{ref.kind.lower()}s", "version": "v1", "uid_before_apply": None}
    return RemoveStep(
        InventoryEntry(ref, **{**facts, **entry}, wave=Wave(wave)), None, Fate.PRUNE, live=state
    )


CASES: dict[str, tuple[RemoveStep, RemoveStep, dict[str, Any] | None, str]] = {
    "an unrelated object": (_step(CONFIG_MAP), _step(OTHER), None, ""),
    "its Namespace": (_step(CONFIG_MAP), _step(NAMESPACE), None, "configmap/a is still in it"),
    "another Namespace": (
        _step(Ref("", "ConfigMap", "shop", "a")),
        _step(NAMESPACE),
        None,
        "",
    ),
    "its CRD": (_step(CUSTOM), _step(CRD), None, "is of its kind"),
    "its CRD under a recorded name": (
        _step(CUSTOM, plural="old", crd="widgets.x.io"),
        _step(CRD),
        None,
        "is of its kind",
    ),
    "its dependency": (
        _step(CONFIG_MAP, depends_on=(OTHER,)),
        _step(OTHER),
        None,
        "configmap/a needs it",
    ),
    "what its fields name": (_step(BINDING), _step(ROLE), ROLES, "rolebinding"),
    "its owner": (_step(CONFIG_MAP, owner="uid-b"), _step(OTHER), None, "configmap/a needs it"),
    "an earlier wave": (_step(CONFIG_MAP, wave=1), _step(OTHER), None, "of a later wave"),
    "its own wave": (_step(CONFIG_MAP, wave=1), _step(OTHER, wave=1), None, ""),
    "a workload, of a custom resource": (
        _step(CUSTOM),
        _step(DEPLOYMENT),
        None,
        "its controller may need it",
    ),
    "a Service, of a custom resource": (
        _step(CUSTOM),
        _step(SERVICE),
        None,
        "its controller may need it",
    ),
    "a ConfigMap, of a custom resource": (_step(CUSTOM), _step(CONFIG_MAP), None, ""),
    "a Secret that a custom resource names": (_step(CUSTOM), _step(SECRET), NAMES, "needs it"),
    "a Secret that a cluster-scoped one names": (
        _step(Ref("x.io", "Widget", "", "a")),
        _step(SECRET),
        {"metadata": {"annotations": {"x.io/secret": "home/s"}}},
        "needs it",
    ),
    "a Secret that one of another namespace names": (
        _step(Ref("x.io", "Widget", "shop", "a")),
        _step(SECRET),
        {"spec": {"ref": {"namespace": "home", "name": "s"}}},
        "needs it",
    ),
    "a Secret with a name used in another namespace": (
        _step(Ref("x.io", "Widget", "shop", "a")),
        _step(SECRET),
        NAMES,
        "",
    ),
    "a ConfigMap with only its own name": (
        _step(CUSTOM),
        _step(CONFIG_MAP),
        {"metadata": {"name": "a"}},
        "",
    ),
    "a Service that a custom resource names": (
        _step(CUSTOM),
        _step(SERVICE),
        {"spec": {"ref": "s"}},
        "its controller may need it",
    ),
    "the account of a custom resource": (_step(CUSTOM), _step(ACCOUNT), NAMES, "needs it"),
    "the binding of its account": (
        _step(CUSTOM),
        _step(BINDING),
        NAMES,
        "needs it",
    ),
    "its APIService": (_step(CUSTOM), _step(BACKEND), None, "is of its kind"),
    "another APIService": (_step(CUSTOM, version="v2"), _step(BACKEND), None, ""),
    "the Service of an APIService": (_step(BACKEND), _step(SERVICE), TO_BACKEND, "needs it"),
    "the workload of an APIService": (_step(BACKEND), _step(DEPLOYMENT), TO_BACKEND, "needs it"),
    "the roles of a workload that remains": (
        _step(DEPLOYMENT),
        _step(BINDING),
        {"spec": {"template": {"spec": {"serviceAccountName": "deployer", "containers": []}}}},
        "deployment.apps/a needs it",
    ),
    "a workload, of a foreign finalizer": (
        _step(CONFIG_MAP, finalizers=("x.example.com/cleanup",)),
        _step(DEPLOYMENT),
        None,
        "its controller may need it",
    ),
    "a workload, of a finalizer of Kubernetes": (
        _step(CONFIG_MAP, finalizers=("foregroundDeletion",)),
        _step(DEPLOYMENT),
        None,
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_needed_waits(name: str) -> None:
    """The reason names the object that remains; a timeout gives a timeout."""
    failed, step, body, reason = CASES[name]
    for problem in (LATE, FAILED):
        remaining = Remaining({failed.entry.ref, step.entry.ref, DEPLOYMENT, ACCOUNT})
        remaining.add(failed, problem, body)
        blocker = remaining.blocker(step)
        assert (blocker is None) == (not reason)
        if blocker is not None:
            assert reason in blocker.reason
            kind = ProblemKind.NOT_READY if problem is LATE else ProblemKind.RUN_FAILED
            assert blocker.problem(step.entry.ref).kind is kind


def test_prune_without_a_workload_deletes_no_controller() -> None:
    """Then a Service has nothing to do with the custom resource; a controller elsewhere has rights.

    As the account of a Bundle, or the RoleBinding of an operator in another namespace.
    """
    remaining = Remaining({CUSTOM, SERVICE, BINDING, ROLE})
    remaining.add(_step(CUSTOM), LATE, None)
    assert remaining.blocker(_step(SERVICE)) is None
    for right in (BINDING, ROLE, ACCOUNT):
        blocker = remaining.blocker(_step(right))
        assert blocker is not None
        assert blocker.reason == "widget.x.io/a is still there, and its controller may need it"


def test_custom_resource_that_cannot_be_read_holds_what_it_may_name() -> None:
    """Any account, ConfigMap and Secret; nothing else."""
    remaining = Remaining({SECRET, CONFIG_MAP, SERVICE})
    remaining.add(_step(CUSTOM), FAILED, None, "forbidden")
    for ref in (SECRET, CONFIG_MAP):
        blocker = remaining.blocker(_step(ref))
        assert blocker is not None
        assert "what it needs could not be read: forbidden" in blocker.reason
    assert remaining.blocker(_step(SERVICE)) is None


def test_everything_waits_if_what_is_needed_is_unknown_or_the_server_is_gone() -> None:
    """Only deletions wait: what is only taken out of the inventory does not."""
    for problem, unread in (
        (FAILED, "forbidden"),
        (Problem(ProblemKind.UNREACHABLE, "connection refused"), ""),
    ):
        remaining = Remaining()
        remaining.add(_step(BINDING), problem, None, unread)
        blocker = remaining.blocker(_step(OTHER))
        assert blocker is not None
        assert (unread or "connection refused") in blocker.reason
        entry = _step(OTHER).entry
        assert remaining.blocker(RemoveStep(entry, None, Fate.REMOVE_FROM_INVENTORY)) is None


def test_object_that_stays_on_purpose_holds_what_it_needs() -> None:
    """Neither a later wave nor a controller waits for it."""
    remaining = Remaining({DEPLOYMENT, OTHER, ACCOUNT, BINDING})
    remaining.keep(_step(CUSTOM, wave=1, depends_on=(OTHER,)), None)
    assert remaining.blocker(_step(BINDING)) is None
    blocker = remaining.blocker(_step(OTHER))
    assert blocker is not None
    assert not blocker.is_failure
    assert blocker.reason == "widget.x.io/a needs it, and stays"
    assert remaining.blocker(_step(DEPLOYMENT)) is None
    assert remaining.blocker(_step(CONFIG_MAP)) is None
    remaining.keep(_step(CUSTOM), NAMES)
    for right in (ACCOUNT, BINDING):
        assert remaining.blocker(_step(right)) is not None
    assert remaining.blocker(_step(DEPLOYMENT)) is None


def test_waiting_object_holds_what_it_needs_itself() -> None:
    """It is still there too."""
    remaining = Remaining()
    remaining.add(_step(CONFIG_MAP, depends_on=(OTHER,)), LATE, None)
    waiting = _step(OTHER, depends_on=(SERVICE,))
    blocker = remaining.blocker(waiting)
    assert blocker is not None
    remaining.add(waiting, blocker.problem(OTHER), None)
    assert remaining.blocker(_step(SERVICE)) is not None
