"""What must stay because another object does, and why."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.plan import RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.remaining import Remaining
from tests.support.planning import live

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


def _step(
    ref: Ref, *, wave: int = 0, owner: str = "", finalizer: str = "", **entry: Any
) -> RemoveStep:
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "uid": owner}] if owner else []
    finalizers = [finalizer] if finalizer else []
    state = live(ref, uid=f"uid-{ref.name}", ownerReferences=owners, finalizers=finalizers)
    facts = {"plural": f"{ref.kind.lower()}s", "version": "v1", "uid_before_apply": None}
    listed = InventoryEntry(ref, **{**facts, **entry}, wave=Wave(wave))
    return RemoveStep(listed, None, Fate.PRUNE, live=state)


CASES: dict[str, tuple[RemoveStep, RemoveStep, dict[str, Any] | None, str]] = {
    "an unrelated object": (_step(CONFIG_MAP), _step(OTHER), None, ""),
    "its Namespace": (_step(CONFIG_MAP), _step(NAMESPACE), None, "configmap/a is still in it"),
    "another Namespace": (_step(Ref("", "ConfigMap", "shop", "a")), _step(NAMESPACE), None, ""),
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
    "the account of a custom resource": (_step(CUSTOM), _step(ACCOUNT), NAMES, "needs it"),
    "the binding of its account": (_step(CUSTOM), _step(BINDING), NAMES, "need"),
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
}


CONTROLLERS = {
    "a workload, of a custom resource": (_step(CUSTOM), _step(DEPLOYMENT)),
    "a Service, of a custom resource": (_step(CUSTOM), _step(SERVICE)),
    "the account of a controller elsewhere": (_step(CUSTOM), _step(BINDING)),
    "a workload, of a foreign finalizer": (
        _step(CONFIG_MAP, finalizer="x.example.com/cleanup"),
        _step(DEPLOYMENT),
    ),
}
LATE = Problem(ProblemKind.NOT_READY, "is deleted but not gone yet")
FAILED = Problem(ProblemKind.FORBIDDEN, "not allowed")


@pytest.mark.holds("needed-remains", row="its dependency-fails")
@pytest.mark.holds("owner-remains", row="its owner-fails")
@pytest.mark.holds("namespace-remains", row="its Namespace-fails")
@pytest.mark.holds("crd-remains", row="its CRD-fails")
@pytest.mark.holds("api-service-remains", row="its APIService-fails")
@pytest.mark.holds("custom-remains", row="a Secret that a custom resource names-fails")
@pytest.mark.holds("account-remains", row="the roles of a workload that remains-fails")
@pytest.mark.holds("backend-remains", row="the workload of an APIService-fails")
@pytest.mark.holds("rights-remain", row="the binding of its account-fails")
@pytest.mark.holds("controller-remains", row="a workload, of a custom resource-fails")
@pytest.mark.holds("foreign-finalizer", row="a workload, of a foreign finalizer-fails")
@pytest.mark.parametrize("failure", [FAILED, None], ids=["fails", "stays"])
@pytest.mark.parametrize("name", [*CASES, *CONTROLLERS])
def test_only_what_it_needs_stays(name: str, failure: Problem | None) -> None:
    """In its own turn; only what was to be deleted holds its controller, and is a failure."""
    if name in CASES:
        kept, step, body, reason = CASES[name]
    else:
        (kept, step), body = CONTROLLERS[name], None
        reason = "its controller may need it" if failure is not None else ""
    remaining = Remaining({kept.entry.ref, step.entry.ref, DEPLOYMENT, ACCOUNT})
    remaining.add(kept, body, failure=failure)
    blocker = remaining.blocker(step)
    assert (blocker is None) == (not reason)
    if blocker is not None:
        assert reason in blocker.reason
        assert blocker.is_failure == (failure is not None)


def test_prune_without_a_workload_deletes_no_controller() -> None:
    """Then a Service has nothing to do with the custom resource."""
    remaining = Remaining({CUSTOM, SERVICE})
    remaining.add(_step(CUSTOM), None, failure=LATE)
    assert remaining.blocker(_step(SERVICE)) is None


@pytest.mark.parametrize(
    "unread", [pytest.param("", marks=pytest.mark.holds("unread-remains")), "forbidden"]
)
def test_everything_stays_if_what_is_needed_is_unknown(unread: str) -> None:
    """Or the server is gone. Only deletions wait, not what is only taken out of the inventory."""
    remaining = Remaining()
    gone = None if unread else Problem(ProblemKind.UNREACHABLE, "connection refused")
    remaining.add(_step(BINDING), None, unread, gone)
    blocker = remaining.blocker(_step(OTHER))
    assert blocker is not None
    assert blocker.reason.endswith(
        f"what it needs could not be read: {unread or 'connection refused'}"
    )
    entry = _step(OTHER).entry
    assert remaining.blocker(RemoveStep(entry, None, Fate.REMOVE_FROM_INVENTORY)) is None


@pytest.mark.parametrize(
    "is_late", [pytest.param(True, marks=pytest.mark.holds("later-turns-wait")), False]
)
def test_later_turns_wait_for_what_is_not_gone(is_late: bool) -> None:
    """A timeout gives a timeout; its own turn does not wait, nor any for what stays on purpose."""
    remaining = Remaining()
    remaining.add(_step(SECRET, wave=1), None)
    assert remaining.blocker(_step(OTHER)) is None
    remaining.add(_step(CONFIG_MAP, wave=1), None, failure=LATE if is_late else FAILED)
    assert remaining.blocker(_step(OTHER, wave=1)) is None
    blocker = remaining.blocker(_step(OTHER))
    assert blocker is not None
    problem = blocker.problem(OTHER)
    assert problem.kind is (ProblemKind.NOT_READY if is_late else ProblemKind.RUN_FAILED)
    assert problem.reason == "configmap/a is deleted first, and is not gone"
