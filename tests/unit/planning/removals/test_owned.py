"""Objects that somebody has given an owner: what goes with an owner of the same set, what stays."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.options import Mode, Options, PruneAlso, PruneOptions
from applyprune.model.plan import Cause, RemoveStep
from applyprune.planning.applyset import OWNED_BY
from applyprune.planning.plan import make_plan
from tests.support.planning import TARGET, body, cluster, desired, inventory, live, world

Body = dict[str, Any]
NAMES = ("whole", "part", "piece")


def _ref(name: str) -> Ref:
    return Ref("", "ConfigMap", "home", name)


def _owner(name: str, **changes: str) -> Body:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}"}
    return {**owner, **changes}


WHOLE, PART, PIECE = map(_owner, NAMES)
Owners = dict[str, list[Body]]
CHAIN: Owners = {"part": [WHOLE], "piece": [PART]}
SHARED = PruneOptions(also=frozenset({PruneAlso.SHARED}))
# The owners of each object, which of them the input has, options, and what is pruned.
CASES: dict[str, tuple[Owners, set[str], PruneOptions, set[str]]] = {
    "with its owner": ({"part": [WHOLE]}, set(), PruneOptions(), {"whole", "part", "piece"}),
    "with the owner of its owner": (CHAIN, set(), PruneOptions(), {"whole", "part", "piece"}),
    "its owner stays": (CHAIN, {"whole"}, PruneOptions(), set()),
    "the owner in between stays": (CHAIN, {"part"}, PruneOptions(), {"whole"}),
    "one of two owners stays": (
        {"piece": [WHOLE, PART]}, {"part"}, PruneOptions(), {"whole"},
    ),
    "its owner stays, and the user says so": (CHAIN, {"whole"}, SHARED, {"part", "piece"}),
    "a stranger": ({"part": [_owner("x")]}, set(), PruneOptions(), {"whole", "piece"}),
    "a stranger, and the user says so": (
        {"part": [_owner("x")]}, set(), SHARED, {"whole", "part", "piece"},
    ),
    "another object of its name": (
        {"part": [_owner("whole", uid="old")]}, set(), PruneOptions(), {"whole", "piece"},
    ),
    "an object of another group with its UID": (
        {"part": [_owner("whole", apiVersion="x.io/v1")]}, set(), PruneOptions(),
        {"whole", "piece"},
    ),
    "an object of another name with its UID": (
        {"part": [_owner("other", uid="uid-whole")]}, set(), PruneOptions(), {"whole", "piece"},
    ),
    "each is the owner of the other": (
        {"part": [PIECE], "piece": [PART]}, set(), PruneOptions(), {"whole"},
    ),
}  # fmt: skip


def _steps(
    owners: Owners,
    kept: set[str] = frozenset(),  # type: ignore[assignment]
    prune: PruneOptions = PruneOptions(),
    mode: Mode = Mode.APPLY,
    changes: dict[str, Body] | None = None,
    marks: dict[str, Body] | None = None,
) -> dict[str, RemoveStep]:
    given, live_changes = changes or {}, marks or {}
    states = {
        _ref(name): live(
            _ref(name),
            uid=f"uid-{name}",
            ownerReferences=owners.get(name, []),
            **live_changes.get(name, {}),
        )
        for name in NAMES
    }
    entries = [
        InventoryEntry(
            _ref(name),
            "configmaps",
            "v1",
            None,
            uid=f"uid-{name}",
            **{"ownership": Ownership.OWNED, **given.get(name, {})},
        )
        for name in NAMES
    ]
    members = [desired(body(name=name, namespace="home")) for name in NAMES if name in kept]
    members = [one for one in members if mode is Mode.APPLY]
    seen = world(members, inventory(*entries), cluster(states), Options(mode, prune=prune))
    return {step.entry.ref.name: step for step in make_plan(seen).removals}


@pytest.mark.holds("owner-of-the-set", row="an object of another group with its UID")
@pytest.mark.parametrize("name", CASES)
def test_object_goes_with_its_owners_in_the_set(name: str) -> None:
    """Compared by group, kind, name and UID; what stays is orphaned, as it is in use."""
    owners, kept, prune, expected = CASES[name]
    steps = _steps(owners, kept, prune)
    assert {one for one, step in steps.items() if step.fate is Fate.PRUNE} == expected
    rest = {step.cause for step in steps.values() if step.fate is not Fate.PRUNE}
    assert rest <= {Cause.OWNED}
    assert {step.fate for step in steps.values()} <= {Fate.PRUNE, Fate.ORPHAN}


def test_deleted_set_takes_all_of_it() -> None:
    """And each step knows the owners that it relies on."""
    steps = _steps(CHAIN, mode=Mode.DELETE)
    assert {step.fate for step in steps.values()} == {Fate.PRUNE}
    assert {one: step.owners for one, step in steps.items()} == {
        "whole": (),
        "part": (_ref("whole"),),
        "piece": (_ref("part"),),
    }


UNKNOWN = {OWNED_BY: TARGET.id, "applyprune.dev/nonsense": "1"}
LATE: dict[str, tuple[dict[str, Body], dict[str, Body], Fate]] = {
    "it is refused": ({}, {"whole": {"annotations": UNKNOWN}}, Fate.LEAVE),
    "it is kept by a mark": ({"whole": {"orphan_reason": "x: y"}}, {}, Fate.ORPHAN),
    "it was adopted": ({"whole": {"ownership": Ownership.ADOPTED}}, {}, Fate.ORPHAN),
}


@pytest.mark.holds("owner-is-late", row="it is refused")
@pytest.mark.parametrize("name", LATE)
def test_object_of_an_owner_that_stays(name: str) -> None:
    """With one that a later run may delete, it stays listed: no reason is for ever then."""
    changes, marks, fate = LATE[name]
    steps = _steps(CHAIN, changes=changes, marks=marks)
    assert steps["whole"].fate is not Fate.PRUNE
    assert {steps["part"].fate, steps["piece"].fate} == {fate}
