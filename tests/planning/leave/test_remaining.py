"""What must stay because another object does, and why."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.plan import RemoveStep
from applyprune.model.problem import ProblemKind
from applyprune.planning.leave import Remaining
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


def _step(ref: Ref, *, owner: str = "", **entry: Any) -> RemoveStep:
    owners: dict[str, Any] = {
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "uid": owner}]
    }
    state = live(ref, uid=f"uid-{ref.name}", **(owners if owner else {}))
    facts = {"plural": f"{ref.kind.lower()}s", "version": "v1", "uid_before_apply": None}
    return RemoveStep(InventoryEntry(ref, **{**facts, **entry}), None, Fate.PRUNE, live=state)


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
    "a workload, of a custom resource": (_step(CUSTOM), _step(DEPLOYMENT), None, ""),
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
}


@pytest.mark.parametrize("is_failure", [True, False], ids=["refused", "kept"])
@pytest.mark.parametrize("name", CASES)
def test_only_what_it_needs_stays(name: str, is_failure: bool) -> None:
    """The reason names the object that stays, and says whether that is a failure."""
    kept, step, body, reason = CASES[name]
    remaining = Remaining({kept.entry.ref, step.entry.ref, ACCOUNT})
    remaining.keep(kept, body, "", is_failure=is_failure)
    blocker = remaining.blocker(step)
    assert (blocker is None) == (not reason)
    if blocker is not None:
        assert reason in blocker.reason
        assert blocker.is_failure == is_failure


def test_everything_stays_if_what_is_needed_is_unknown() -> None:
    """Only deletions wait: what is only taken out of the inventory does not."""
    remaining = Remaining()
    remaining.keep(_step(BINDING), None, "forbidden", is_failure=False)
    blocker = remaining.blocker(_step(OTHER))
    assert blocker is not None
    assert blocker.reason == (
        f"{BINDING.short} stays, and what it needs could not be read: forbidden"
    )
    entry = _step(OTHER).entry
    assert remaining.blocker(RemoveStep(entry, None, Fate.REMOVE_FROM_INVENTORY)) is None


@pytest.mark.parametrize("is_late", [True, False])
def test_later_turns_wait_for_what_is_not_gone(is_late: bool) -> None:
    """A timeout gives a timeout."""
    remaining = Remaining()
    remaining.wait(CONFIG_MAP, is_late=is_late)
    blocker = remaining.blocker(_step(OTHER))
    assert blocker is not None
    problem = blocker.problem(OTHER)
    assert problem.kind is (ProblemKind.NOT_READY if is_late else ProblemKind.RUN_FAILED)
    assert problem.reason == "configmap/a, which is deleted first, is not gone"
