"""What must stay while another object could not be deleted, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.plan import Fate, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.prune.remaining import Remaining
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
        remaining = Remaining(has_workload=True)
        remaining.add(failed, problem, body)
        blocker = remaining.blocker(step)
        assert (blocker is None) == (not reason)
        if blocker is not None:
            assert reason in blocker.reason
            kind = ProblemKind.NOT_READY if problem is LATE else ProblemKind.RUN_FAILED
            assert blocker.problem(step.entry.ref).kind is kind


def test_prune_without_a_workload_deletes_no_controller() -> None:
    """Then a Service has nothing to do with the custom resource."""
    remaining = Remaining()
    remaining.add(_step(CUSTOM), LATE, None)
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
    remaining = Remaining(has_workload=True)
    remaining.keep(_step(CUSTOM, wave=1, depends_on=(OTHER,)), None)
    blocker = remaining.blocker(_step(OTHER))
    assert blocker is not None
    assert not blocker.is_failure
    assert blocker.reason == "widget.x.io/a needs it, and stays"
    assert remaining.blocker(_step(DEPLOYMENT)) is None
    assert remaining.blocker(_step(CONFIG_MAP)) is None


def test_waiting_object_holds_what_it_needs_itself() -> None:
    """It is still there too."""
    remaining = Remaining()
    remaining.add(_step(CONFIG_MAP, depends_on=(OTHER,)), LATE, None)
    waiting = _step(OTHER, depends_on=(SERVICE,))
    blocker = remaining.blocker(waiting)
    assert blocker is not None
    remaining.add(waiting, blocker.problem(OTHER), None)
    assert remaining.blocker(_step(SERVICE)) is not None
