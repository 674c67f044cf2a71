"""Owners that the garbage collector does not find: it would delete the object after each apply."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import Unreachable
from applyprune.model.identity import Ref
from applyprune.model.live import Absent, State, Unknown
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.references import judged_owners, owner_references, place_of_owner
from tests.support.planning import body, desired, live

GONE, UNREAD = Absent(), Unknown(Unreachable("no right to get configmaps").problem)
CHILD = Ref("", "ConfigMap", "home", "a")


def _owned(*uids: str, kind: str = "ConfigMap") -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": kind, "name": f"of-{uid}", "uid": uid} for uid in uids]


def _at(name: str) -> Ref:
    return Ref("", "ConfigMap", "home", name)


def _there(name: str, uid: str) -> State:
    return live(_at(name), uid=uid)


# name: (owners of the manifest, owners that the live object has, what is there, refusal, warning)
OWNERS: dict[str, tuple[list[Any], list[Any], dict[str, State], str, str]] = {
    "an owner": (_owned("1"), [], {"of-1": _there("of-1", "1")}, "", ""),
    "none": (_owned("1"), [], {"of-1": GONE}, "there is no configmap/of-1 in namespace home", ""),
    "another one": (
        _owned("1"),
        [],
        {"of-1": _there("of-1", "2")},
        "configmap/of-1 has another UID",
        "",
    ),
    "one of two": (
        _owned("1", "2"),
        [],
        {"of-1": GONE, "of-2": _there("of-2", "2")},
        "",
        "another owner exists, so the garbage collector removes that ownerReference",
    ),
    "none of two": (_owned("1", "2"), [], {"of-1": GONE, "of-2": GONE}, "there is no", ""),
    "one that somebody else has set": (
        _owned("1"),
        _owned("2"),
        {"of-1": GONE, "of-2": _there("of-2", "2")},
        "",
        "another owner exists",
    ),
    "one that may not be read": (
        _owned("1"),
        [],
        {"of-1": UNREAD},
        "",
        "no right to get configmaps; if no object has the UID",
    ),
    "one more that may not be read": (
        _owned("1", "2"),
        [],
        {"of-1": GONE, "of-2": UNREAD},
        "",
        "the garbage collector may delete it",
    ),
    "a kind that is not served": (_owned("1", kind="Foo"), [], {}, "", "may delete it"),
    "what no owner is": ([{"name": "x"}, 1, {"uid": 1}], [], {}, "", ""),
}


@pytest.mark.holds("owner-is-gone", row="none")
@pytest.mark.parametrize("name", OWNERS)
def test_owner_that_the_collector_will_not_find(name: str) -> None:
    """Only a proof refuses the object: the absence, or the UID, of every owner."""
    own, others, there, refused, warned = OWNERS[name]
    child = desired(body(metadata={"ownerReferences": own}))
    found = live(CHILD, ownerReferences=others) if others else None
    owners = owner_references(child.body, found)
    places = {
        one: place
        for one in owners
        if (place := place_of_owner(one, CHILD, built_in_kinds().find(one.gvk))) is not None
    }
    states = {_at(name): state for name, state in there.items()}
    refusal, warning = judged_owners(child, owners, places, states, ())
    for problem, words in ((refusal, refused), (warning, warned)):
        assert bool(problem) is bool(words)
        assert problem is None or (words in problem.reason and problem.field[-1] == 0)


def test_owner_in_the_input_has_no_uid_yet() -> None:
    """That is what a manifest was exported from."""
    child = desired(body(metadata={"ownerReferences": _owned("1")}))
    (owner,) = owner_references(child.body, None)
    at = _at("of-1")
    refusal, _ = judged_owners(child, (owner,), {owner: at}, {at: GONE}, {at})
    assert refusal is not None
    assert "an object of the input gets its UID when it is created" in refusal.hint


def test_owner_is_looked_for_where_the_collector_looks() -> None:
    """In the namespace of the object, and never from outside of all namespaces."""
    kinds = built_in_kinds()
    (owner,) = owner_references({"metadata": {"ownerReferences": _owned("1")}}, None)
    resource = kinds.find(owner.gvk)
    assert place_of_owner(owner, CHILD, resource) == _at("of-1")
    assert place_of_owner(owner, Ref("", "Node", "", "a"), resource) is None
    owners = _owned("1", kind="Namespace")
    (owner,) = owner_references({"metadata": {"ownerReferences": owners}}, None)
    place = place_of_owner(owner, CHILD, kinds.find(owner.gvk))
    assert place == Ref("", "Namespace", "", "of-1")
