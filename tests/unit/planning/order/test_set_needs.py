"""Which object of the same plan explains a refused dry run: it is not checked, and no failure."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import ApplypruneError, Denied, Forbidden, Invalid
from applyprune.model.fate import Fate
from applyprune.model.inventory import Wave
from applyprune.model.live import Resource
from applyprune.model.plan import ApplyStep, Desired
from applyprune.planning.order import SetNeeds
from applyprune.values import replace
from tests.support.planning import body, desired, live, recorded

RBAC = "rbac.authorization.k8s.io"
NO = Forbidden("is forbidden: the server's words do not matter", code=403)


def _object(kind: str, name: str = "a", group: str = "", wave: int = 0, **parts: Any) -> Desired:
    namespaced = kind not in {
        "Namespace",
        "ClusterRole",
        "StorageClass",
        "ValidatingAdmissionPolicy",
    }
    resource = Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=namespaced)
    return replace(desired(body(kind, name, **parts), resource), wave=Wave(wave))


POD = _object("Pod", wave=1)
BINDING = _object("RoleBinding", group=RBAC, wave=1, roleRef={"kind": "Role", "name": "a"})
CLAIM = _object("PersistentVolumeClaim", wave=1, spec={"storageClassName": "a"})
QUOTA = _object("ResourceQuota")
CASES: dict[str, tuple[Desired, Desired, ApplypruneError, bool]] = {
    "its quota": (QUOTA, POD, NO, True),
    "its limits": (_object("LimitRange"), POD, NO, True),
    "its Namespace": (_object("Namespace", "home"), POD, NO, True),
    "the role that it binds": (_object("Role", group=RBAC), BINDING, NO, True),
    "its class": (_object("StorageClass", group="storage.k8s.io"), CLAIM, NO, True),
    "a policy": (
        _object("ValidatingAdmissionPolicy", group="admissionregistration.k8s.io"),
        POD,
        Denied("no", code=422),
        True,
    ),
    "another Namespace": (_object("Namespace", "shop"), POD, NO, False),
    "the quota of another namespace": (
        replace(QUOTA, ref=replace(QUOTA.ref, namespace="shop")),
        POD,
        NO,
        False,
    ),
    "another role": (_object("Role", "b", group=RBAC), BINDING, NO, False),
    "a kind that decides nothing": (_object("ConfigMap"), POD, NO, False),
    "a quota that comes later": (replace(QUOTA, wave=Wave(2)), POD, NO, False),
    "a quota, and its own fields": (QUOTA, POD, Invalid("spec: Invalid value", code=422), False),
    "a quota, and a right that the account lacks": (
        QUOTA,
        POD,
        Forbidden('User "jo" cannot create resource "pods"', code=403),
        False,
    ),
}


@pytest.mark.holds("refused-by-admission", row="a quota, and its own fields")
@pytest.mark.parametrize("name", CASES)
def test_refusal_by_admission_is_excused_by_what_decides_it(name: str) -> None:
    """Whatever the server says; if the plan leaves that object as it is, nothing excuses it."""
    other, refused, error, is_excused = CASES[name]
    for fate in (Fate.CHANGE, Fate.LEAVE):
        step = ApplyStep(other, fate, recorded(other, live(other.ref)), live(other.ref))
        found = SetNeeds({other.ref: step}).awaited(refused, error)
        assert found == (other.ref if is_excused and fate is Fate.CHANGE else None)
