"""Who has written an object, and the ways out of a conflict with them."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.problem import ManagerConflict
from applyprune.planning.applyset import MANAGERS
from applyprune.planning.field_writers import Contest, writers_since
from applyprune.planning.managed_fields import UNKNOWN
from applyprune.values import replace
from tests.support.planning import live


def owner(manager: str, operation: str = "Update", subresource: str = "") -> ManagerConflict:
    return ManagerConflict(manager, operation, subresource, time="")


EDIT = owner("kubectl-edit")
HPA = owner("kube-controller-manager", subresource="scale")
ARGO = owner("argocd-controller", "Apply")
SHOP = owner(f"{MANAGERS}shop/web", "Apply")
NOBODY = ManagerConflict(UNKNOWN, "", "", "")


DATA_FIELDS: dict[str, Any] = {"f:data": {"f:a": {}, "f:b": {}, "f:c": {}, "f:d": {}}}
THEN, LATER = "2026-11-22T10:00:00Z", "2026-11-22T10:00:01Z"
SINCE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an edit": (
        {"manager": "kubectl-edit", "time": THEN},
        ["kubectl-edit (.data.a, .data.b, .data.c and 1 more)"],
    ),
    "an edit before": ({"manager": "kubectl-edit", "time": "2026-11-22T09:59:59Z"}, []),
    "an edit at an unknown time": ({"manager": "kubectl-edit"}, []),
    "a status": ({"manager": "x", "time": LATER, "subresource": "status"}, []),
    "an apply": ({"manager": "flux", "time": LATER, "operation": "Apply"}, ["flux"]),
    "who is left out": ({"manager": "us", "time": LATER}, []),
    "a hostile name": ({"manager": "x\x1b", "time": LATER, "fieldsV1": {}}, ["x\\x1b"]),
}


@pytest.mark.parametrize("name", SINCE)
def test_writers_since_a_time_are_named(name: str) -> None:
    """With what they own, if they own only what they have written."""
    given, expected = SINCE[name]
    entry = {"operation": "Update", "fieldsV1": DATA_FIELDS, **given}
    written = live(Ref("", "ConfigMap", "home", "a"), entries=[entry])
    assert writers_since(written, THEN, but="us") == expected


def test_writers_of_a_secret_are_named_without_its_fields() -> None:
    """Anybody may have put a value into a key."""
    entry = {"manager": "x", "operation": "Update", "time": LATER, "fieldsV1": DATA_FIELDS}
    written = live(Ref("", "Secret", "home", "a"), entries=[entry])
    assert writers_since(written, THEN, but="") == ["x"]


LEAVE = "To leave it to its owner, remove it from the manifest"
SKIP = "To skip this object while the conflict lasts: applyprune.dev/conflicts: skip"
FORCE = "To overwrite: --conflicts force, or annotate applyprune.dev/conflicts: force"
FREE = Contest((EDIT,), ("/data/key",))
WAYS: dict[str, tuple[Contest, list[str]]] = {
    "fields that can be named": (
        FREE,
        [
            f"{LEAVE}, or annotate the object:\n    applyprune.dev/ignore-fields: /data/key",
            SKIP,
            FORCE,
        ],
    ),
    "an autoscaler's": (Contest((HPA,)), [f"{LEAVE}.", SKIP, FORCE]),
    "drift": (
        Contest((EDIT, HPA), reverts=True),
        [
            f"{LEAVE}.",
            SKIP,
            "To overwrite their change with the manifest: --conflicts revert",
            FORCE,
        ],
    ),
    "a field that the set must own": (Contest((EDIT,), must_own=True), [SKIP, FORCE]),
    "appliers": (
        Contest((owner("a b", "Apply"), ARGO, EDIT)),
        [
            f"{LEAVE}.",
            SKIP,
            FORCE,
            (
                "To take over all fields of a b and argocd-controller, and remove those that the "
                "manifest lacks:\n    --take-over 'a b' --take-over argocd-controller"
            ),
        ],
    ),
    "an object that another set may list": (
        Contest((SHOP,), is_anothers=True),
        [f"{LEAVE}.", SKIP, "To overwrite: --adopt=all and --conflicts force"],
    ),
    "a part that has left the manifest": (
        Contest((EDIT,), holds=True),
        [SKIP, FORCE.replace("overwrite", "remove them with it")],
    ),
    "nobody knows": (
        Contest((NOBODY,)),
        [SKIP, FORCE, "If the set was restored from a backup: applyprune inventory repair"],
    ),
    "an annotation that decides": (
        Contest((EDIT,), must_own=True, reverts=True, is_marked=True),
        [
            SKIP,
            "To overwrite their change with the manifest: applyprune.dev/conflicts: revert",
            "To overwrite: applyprune.dev/conflicts: force",
        ],
    ),
    "an annotation that decides, and another set": (
        Contest((SHOP,), must_own=True, is_anothers=True, is_marked=True),
        [SKIP, "To overwrite: --adopt=all and applyprune.dev/conflicts: force"],
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_ways_out_of_a_conflict_stand_in_one_order(name: str) -> None:
    """Those that work, whoever has written the fields; a name that a shell would split is quoted.

    No option has any effect on an object whose annotation decides.
    """
    contest, expected = WAYS[name]
    assert contest.ways == "\n  ".join(expected)


@pytest.mark.parametrize(
    ("writer", "adopts", "expected"),
    [
        (ARGO, False, True),
        (EDIT, False, False),
        (EDIT, True, True),
        (HPA, True, False),
        (owner("kube-controller-manager"), True, False),
        (owner("kubectl", subresource="scale"), True, False),
        (SHOP, True, False),
        (NOBODY, True, False),
    ],
)
def test_manager_to_take_over_applies_or_has_created(
    writer: ManagerConflict, adopts: bool, expected: bool
) -> None:
    """The object, if no set has it yet; and nobody through a subresource."""
    assert list(Contest((writer,), adopts=adopts).tools) == [writer.manager] * expected


REMEDIES: dict[str, tuple[Contest, str]] = {
    "drift": (
        replace(FREE, owners=(ARGO,), reverts=True),
        (
            "applyprune.dev/ignore-fields; applyprune.dev/conflicts: skip; "
            "spec.drift.policy: Correct; "
            "spec.conflicts: force, or annotate applyprune.dev/conflicts: force"
        ),
    ),
    "another set": (
        Contest((SHOP,), must_own=True, is_anothers=True),
        "applyprune.dev/conflicts: skip; spec.adopt: all and spec.conflicts: force",
    ),
    "nobody knows": (
        Contest((NOBODY,), is_marked=True, reverts=True),
        (
            "applyprune.dev/conflicts: skip; applyprune.dev/conflicts: revert; "
            "applyprune.dev/conflicts: force; "
            "applyprune inventory repair, if the set was restored from a backup"
        ),
    ),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_remedy_names_the_fields_of_a_bundle(name: str) -> None:
    """A Bundle has none for a manager."""
    contest, expected = REMEDIES[name]
    assert contest.remedy == f"Ways out: {expected}"
