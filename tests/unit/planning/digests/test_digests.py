"""The digests of a plan: the same for the same plan, and another one for any other."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.live import LiveObject
from applyprune.model.options import Conflicts, Mode, Propagation, PruneAlso
from applyprune.model.plan import ApplyStep, Cascaded, Plan, RemoveStep
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.digests import (
    deletions_digest,
    digest_of,
    is_digest,
    plan_digest,
    planned_objects,
    ref_parts,
    shaping_options,
)
from applyprune.values import packed, replace
from tests.support.options import options_of
from tests.support.planning import CONFIG_MAPS, TARGET, body, desired, live, recorded


def _applied(name: str, fate: Fate = Fate.CHANGE, **changes: Any) -> ApplyStep:
    one = desired(body(name=name, data={"k": changes.pop("value", "v")}))
    there = live(one.ref, **{"uid": f"u-{name}", **changes})
    return ApplyStep(one, fate, recorded(one, there), None if fate is Fate.CREATE else there)


def _removed(name: str, fate: Fate = Fate.PRUNE, **changes: Any) -> RemoveStep:
    cascade = changes.pop("cascade", ())
    one = desired(body(name=name))
    there = live(one.ref, **{"uid": f"u-{name}", **changes})
    return RemoveStep(recorded(one, there), CONFIG_MAPS, fate, there, cascade=cascade)


PLAN = Plan(
    (_applied("a", Fate.CREATE), _applied("b"), _applied("c", Fate.LEAVE)),
    (_removed("x"), _removed("y"), _removed("z", Fate.ORPHAN)),
)
POD = desired(body(name="p")).ref


def _digest(plan: Plan = PLAN, **options: Any) -> str:
    return plan_digest(plan, TARGET, options_of(**options))


def _deletions(plan: Plan = PLAN) -> str:
    return deletions_digest(plan.applies, plan.removals)


def test_digest_does_not_depend_on_order() -> None:
    """Of the input, or of the waves."""
    for _ in range(5):
        applies, removals = list(PLAN.applies), list(PLAN.removals)
        random.shuffle(applies)
        random.shuffle(removals)
        shuffled = Plan(tuple(applies), tuple(removals))
        assert (_digest(shuffled), _deletions(shuffled)) == (_digest(), _deletions())


def test_digest_does_not_depend_on_the_hash_seed() -> None:
    """Another process gives the same."""
    script = (
        "from tests.unit.planning.digests import test_digests as t; print(t._digest(orphan="
        "frozenset({'configmap/a', 'configmap/b', 'configmap/c'})), t._deletions())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1
    assert all(map(is_digest, printed.pop().split()))


def _with(applied: ApplyStep | None = None, removed: RemoveStep | None = None) -> Plan:
    """Return the plan with another second step for an object of the input, or to remove."""
    first, second, *others = PLAN.applies
    gone, going, *rest = PLAN.removals
    return Plan((first, applied or second, *others), (gone, removed or going, *rest))


OTHERS: dict[str, tuple[Plan, bool]] = {
    "another manifest": (_with(_applied("b", value="w")), False),
    "another fate": (_with(_applied("b", Fate.ADOPT)), False),
    "another object": (_with(_applied("d")), False),
    "another live object": (_with(_applied("b", uid="u9")), False),
    "another live state": (_with(_applied("b", version="6")), False),
    "another inventory": (replace(PLAN, inventory="i1/4"), False),
    "one object less": (Plan(PLAN.applies[:2], PLAN.removals), False),
    "one recovered": (replace(PLAN, recovered=(PLAN.removals[0].entry,)), False),
    "a recreation": (_with(_applied("b", Fate.RECREATE)), True),
    "one prune less": (Plan(PLAN.applies, PLAN.removals[1:]), True),
    "a prune instead of an orphan": (_with(removed=_removed("y", Fate.ORPHAN)), True),
    "a prune of another UID": (_with(removed=_removed("y", uid="u9")), True),
    "a prune in another state": (_with(removed=_removed("y", version="6")), False),
    "a cascade": (_with(removed=_removed("y", cascade=(Cascaded(POD, "u1"),))), True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_plan_has_another_digest(name: str) -> None:
    """The digest of the deletions changes only with the deletions."""
    plan, deletes_others = OTHERS[name]
    assert _digest(plan) != _digest()
    assert (_deletions(plan) != _deletions()) is deletes_others


@pytest.mark.parametrize("uid", ["u2", ""])
def test_cascade_is_bound_by_uid(uid: str) -> None:
    """A cascaded object that was created again was not approved."""
    first, second = (
        _with(removed=_removed("y", cascade=(Cascaded(POD, each),))) for each in ("u1", uid)
    )
    assert _deletions(first) != _deletions(second)


def test_object_that_is_left_may_change() -> None:
    """For example its number of replicas: no request depends on it."""
    first, second, _ = PLAN.applies
    left = _applied("c", Fate.LEAVE, version="6")
    assert _digest(Plan((first, second, left), PLAN.removals)) == _digest()


def test_recreation_and_prune_are_different_deletions() -> None:
    """Whoever approved one has not approved the other."""
    recreated = Plan((_applied("b", Fate.RECREATE),), ())
    pruned = Plan((), (_removed("b"),))
    assert _deletions(recreated) != _deletions(pruned)


def test_check_by_the_server_changes_the_digest_only_with_a_deletion() -> None:
    """So `diff` and an unchecked plan show the same."""
    unchanged = replace(_applied("b", Fate.LEAVE), is_checked=True)
    assert _digest(_with(unchanged)) == _digest()
    assert _digest(_with(replace(unchanged, is_checked=False))) != _digest()


@pytest.mark.parametrize(
    "option",
    [
        {"conflicts": Conflicts.FORCE},
        {"take_over": frozenset({"helm"})},
        {"recreate": True},
        {"namespace_override": "other"},
        {"also": frozenset({PruneAlso.ADOPTED})},
        {"orphan": frozenset({"configmap/y"})},
        {"propagation": Propagation.FOREGROUND},
        {"mode": Mode.PRUNE},
        {"source": "v2"},
    ],
    ids=str,
)
def test_option_that_shapes_a_plan_is_in_its_digest(option: dict[str, Any]) -> None:
    """An option that lifts a guard, or makes the run wait, is not."""
    assert _digest(**option) != _digest()


def test_other_set_has_another_digest() -> None:
    """By its name or its namespace."""
    sets = [applyset_identity("web", "shop"), applyset_identity("cart", "home"), TARGET]
    assert len({plan_digest(PLAN, one, options_of()) for one in sets}) == 3


@pytest.mark.parametrize("plan", [PLAN, Plan((), ())], ids=["some", "none"])
def test_digest_is_that_of_one_text(plan: Plan) -> None:
    """It is computed object by object: the text of 100,000 objects is large."""
    options = options_of(source="é")
    objects = [
        [
            *ref_parts(one.ref),
            str(one.fate),
            one.manifest,
            one.uid,
            "" if one.fate is Fate.LEAVE else one.state,
            [],
        ]
        for one in planned_objects(plan)
    ]
    whole = {
        "set": [TARGET.name, TARGET.namespace],
        "inventory": plan.inventory,
        "source": "é",
        "mode": str(options.mode),
        "options": shaping_options(options),
        "objects": objects,
        "recovered": [],
    }
    assert plan_digest(plan, TARGET, options) == digest_of(whole)


def test_no_deletion_has_no_digest() -> None:
    """There is nothing to approve."""
    assert _deletions(Plan(PLAN.applies, (_removed("z", Fate.ORPHAN),))) == ""


def test_digest_has_its_form() -> None:
    """``sha256:`` and 64 digits, in lower case."""
    assert is_digest(_digest())
    for other in ("", _digest()[7:], _digest().upper(), f"{_digest()}0", f" {_digest()}"):
        assert not is_digest(other)


def test_live_object_is_only_digested_by_its_state() -> None:
    """Its body, which an account may not be able to read in full, does not count."""
    step = PLAN.applies[1]
    assert isinstance(step.live, LiveObject)
    full = replace(step, live=replace(step.live, packed_body=packed({"data": {"k": "x"}})))
    assert _digest(_with(full)) == _digest()
