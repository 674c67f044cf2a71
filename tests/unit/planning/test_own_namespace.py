"""The Namespace of a set's own inventory: what proves that it is the set's, and when it may go."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import NotReady, UsageError
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import Absent, LiveObject, State
from applyprune.model.options import Mode, Options, PruneAlso, PruneOptions
from applyprune.model.plan import ApplyRule, DeleteRequest, Plan, Precondition, RemoveStep
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, SHARD_OF
from applyprune.planning.desired import Resolved
from applyprune.planning.own_namespace import (
    HOLDS_INVENTORY,
    OwnRecords,
    makes_namespace,
    only_waits,
    refused_before_own_namespace,
    step_before_inventory,
    why_own_namespace_stays,
    with_own_namespace,
)
from applyprune.planning.ownership import Owner, owner_of
from applyprune.planning.plan import make_plan
from applyprune.planning.removals import remove_step
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import (
    NAMESPACES,
    TARGET,
    TIME,
    body,
    cluster,
    desired,
    inventory,
    live,
    managed,
    recorded,
    world,
)

HOME = TARGET.own_namespace
OTHER = Ref("", "ConfigMap", "home", "a")
NEW = inventory(uid="", resource_version="", generation=0)
OWN = desired(body("Namespace", "home"), NAMESPACES)
WHOLE = options_of(mode=Mode.DELETE)


# What proves that it is the set's own.


def test_namespace_with_both_marks_is_the_record_of_an_interrupted_run() -> None:
    """It is listed as an object that did not exist before, so it is the set's own."""
    found = with_own_namespace(NEW, live(HOME), TARGET)
    (entry,) = found.entries.values()
    assert (entry.ownership, entry.uid, entry.uid_before_apply) == (Ownership.OWNED, "", None)
    assert owner_of(live(HOME), entry, TARGET) is Owner.RECORDED
    assert not found.exists


@pytest.mark.parametrize(
    "state",
    [
        live(HOME, label=""),
        live(HOME, label="applyset-other-v1"),
        pytest.param(live(HOME, annotations={}), marks=pytest.mark.holds("own-namespace-marks")),
        live(HOME, annotations={OWNED_BY: "applyset-other-v1"}),
        live(HOME, entries=[]),
        live(HOME, entries=[managed("somebody")]),
        live(HOME, entries=[{**managed(), "fieldsV1": {"f:metadata": {"f:labels": {}}}}]),
        Absent(),
        None,
    ],
    ids=[
        "no label",
        "another label",
        "no annotation",
        "another annotation",
        "no managedFields",
        "another manager",
        "a copied annotation",
        "absent",
        "unknown",
    ],
)
def test_namespace_without_all_marks_proves_nothing(state: State | None) -> None:
    """Anybody may have written any of them."""
    assert with_own_namespace(NEW, state, TARGET) == NEW


def test_existing_inventory_says_what_it_lists() -> None:
    """Its record counts, not the marks: it may list the Namespace as adopted, or not at all."""
    known = inventory()
    assert with_own_namespace(known, live(HOME), TARGET) is known


# Whether a run creates it.


def _resolved(*rules: ApplyRule, **parts: Any) -> Resolved:
    return Resolved(tuple(replace(OWN, apply=rule) for rule in rules), (), **parts)


@pytest.mark.parametrize("rule", [ApplyRule.ALWAYS, ApplyRule.ONCE])
def test_namespace_of_the_set_needs_no_option(rule: ApplyRule) -> None:
    """Its own request creates it, also with the option."""
    for options in (Options(), options_of(create_namespace=True)):
        assert not makes_namespace(Absent(), _resolved(rule), TARGET, options)


@pytest.mark.parametrize("rules", [(), (ApplyRule.EXISTS,), (ApplyRule.DISABLED,)])
def test_namespace_outside_the_set_needs_the_option(rules: tuple[ApplyRule, ...]) -> None:
    """What the set does not apply, it does not create."""
    assert makes_namespace(Absent(), _resolved(*rules), TARGET, options_of(create_namespace=True))
    with pytest.raises(UsageError, match="the namespace home does not exist"):
        makes_namespace(Absent(), _resolved(*rules), TARGET, Options())


@pytest.mark.parametrize("state", [None, live(HOME)], ids=["unknown", "exists"])
def test_namespace_that_may_exist_is_not_created(state: LiveObject | None) -> None:
    """If it is missing nevertheless, the write of the inventory fails."""
    assert not makes_namespace(state, _resolved(), TARGET, options_of(create_namespace=True))


@pytest.mark.holds("leaving-own-namespace")
def test_namespace_that_is_being_deleted_refuses_the_apply() -> None:
    """Its inventory would go with it."""
    going = live(HOME, deletionTimestamp=TIME)
    with pytest.raises(NotReady, match="is being deleted"):
        makes_namespace(going, _resolved(ApplyRule.ALWAYS), TARGET, Options())


def test_only_a_new_inventory_has_a_step_before_it() -> None:
    """Not one that exists, and not the step of another Namespace."""
    snapshot = cluster({HOME: Absent()})
    plan = make_plan(world([OWN], NEW, snapshot, Options()))
    step = step_before_inventory(plan, NEW, TARGET)
    assert step is not None
    assert (step.fate, step.desired) == (Fate.CREATE, OWN)
    assert step_before_inventory(plan, inventory(), TARGET) is None
    other = desired(body("Namespace", "other"), NAMESPACES)
    plan = make_plan(world([other], NEW, cluster({other.ref: Absent()}), Options()))
    assert step_before_inventory(plan, NEW, TARGET) is None


# When it may go.


@pytest.mark.parametrize(
    ("options", "owner", "stays"),
    [
        (WHOLE, "", ""),
        pytest.param(
            WHOLE, "Bundle home/web", HOLDS_INVENTORY,
            marks=pytest.mark.holds("own-namespace-of-a-bundle"),
        ),
        (replace(WHOLE, select=frozenset({"namespace/home"})), "", HOLDS_INVENTORY),
        (replace(WHOLE, corrects=frozenset({HOME})), "", HOLDS_INVENTORY),
        *(
            pytest.param(
                options_of(mode=mode), "", HOLDS_INVENTORY,
                marks=pytest.mark.holds("own-namespace-with-the-set"),
            )
            for mode in Mode
            if mode != Mode.DELETE
        ),
    ],
)  # fmt: skip
def test_only_a_delete_of_the_whole_set_takes_it(options: Options, owner: str, stays: str) -> None:
    """No other verb, no part of a set, no Bundle."""
    assert why_own_namespace_stays(options, owner) == stays


EVERYTHING = PruneOptions(also=frozenset(PruneAlso))


@pytest.mark.holds("own-namespace-stays", row="another verb")
@pytest.mark.holds("own-namespace-owned", row="adopted")
@pytest.mark.parametrize(
    ("entry", "state", "stays", "fate"),
    [
        ({}, {}, "", Fate.PRUNE),
        ({}, {}, HOLDS_INVENTORY, Fate.ORPHAN),
        ({"ownership": Ownership.ADOPTED}, {}, "", Fate.ORPHAN),
        ({}, {"annotations": {}}, "", Fate.ORPHAN),
        ({"orphan_reason": "keep"}, {}, "", Fate.ORPHAN),
        ({}, {"entries": [managed(), managed("other", "f:spec")]}, "", Fate.ORPHAN),
        ({}, {"label": ""}, "", Fate.REFUSE),
        ({}, {"uid": "u2"}, "", Fate.REFUSE),
    ],
    ids=[
        "owned",
        "another verb",
        "adopted",
        "no annotation",
        "kept",
        "of another manager too",
        "no label",
        "recreated",
    ],
)
def test_only_an_owned_namespace_is_deleted(
    entry: dict[str, Any], state: dict[str, Any], stays: str, fate: Fate
) -> None:
    """Whatever --prune-also says of other objects."""
    listed = recorded(OWN, live(HOME), **entry)
    snapshot = cluster({HOME: live(HOME, **state)}, own_namespace_stays=stays)
    step = remove_step(
        listed, world((), inventory(listed), snapshot, replace(WHOLE, prune=EVERYTHING))
    )
    assert step.fate is fate, step


def test_snapshot_keeps_it_by_default() -> None:
    """Whoever forgets to ask deletes nothing."""
    listed = recorded(OWN, live(HOME))
    snapshot = cluster({HOME: live(HOME)})
    assert remove_step(listed, world((), inventory(listed), snapshot, WHOLE)).fate is Fate.ORPHAN


@pytest.mark.holds("own-namespace-last")
def test_everything_else_must_be_gone() -> None:
    """What is listed, and not proved to be gone, keeps the Namespace."""
    assert refused_before_own_namespace(HOME, {HOME}, ()) is None
    assert refused_before_own_namespace(HOME, {HOME, OTHER}, {OTHER}) is None
    problem = refused_before_own_namespace(HOME, {HOME, OTHER}, ())
    assert problem is not None
    assert problem.reason == "1 object of the set is still there: configmap/a"


def _removal(ref: Ref, *, going: bool, asks: bool) -> RemoveStep:
    metadata: dict[str, Any] = {"deletionTimestamp": TIME} if going else {}
    entry = InventoryEntry(ref, "things", "v1", None)
    request = DeleteRequest(NAMESPACES, ref, Precondition("u1", "5")) if asks else None
    return RemoveStep(entry, NAMESPACES, Fate.PRUNE, live(ref, **metadata), request=request)


def test_nothing_is_written_only_if_nothing_is_sent() -> None:
    """The Namespace is being deleted, and so is everything else."""
    going = _removal(HOME, going=True, asks=False)
    assert only_waits([going], TARGET)
    assert only_waits([going, _removal(OTHER, going=True, asks=False)], TARGET)
    assert not only_waits([going, _removal(OTHER, going=False, asks=True)], TARGET)
    assert not only_waits([_removal(HOME, going=False, asks=True)], TARGET)
    assert not only_waits([_removal(OTHER, going=True, asks=False)], TARGET)
    assert step_before_inventory(Plan((), (going,)), NEW, TARGET) is None


# What goes with it.


ROOT = TARGET.inventory
SHARD = replace(ROOT, name=f"{ROOT.name}.d1")
IS_ROOT = {SET_ID: TARGET.id}
IS_SHARD = {SHARD_OF: TARGET.name}


@pytest.mark.parametrize(
    ("ref", "uid", "labels", "counts"),
    [
        (ROOT, "i1", IS_ROOT, False),
        (SHARD, "s1", IS_SHARD, False),
        pytest.param(ROOT, "i2", IS_ROOT, True, marks=pytest.mark.holds("own-records")),
        (ROOT, "i1", {}, True),
        (SHARD, "s1", {}, True),
        (SHARD, "s1", {SHARD_OF: "other"}, True),
        (OTHER, "a1", IS_SHARD, True),
        (replace(ROOT, namespace="elsewhere"), "i1", IS_ROOT, True),
        (replace(ROOT, name="applyprune-other"), "o1", {SET_ID: "applyset-other-v1"}, True),
    ],
    ids=[
        "the inventory",
        "a shard",
        "another inventory of the name",
        "no inventory",
        "a name like a shard's",
        "another set's shard",
        "a label like a shard's",
        "elsewhere",
        "another set's inventory",
    ],
)
def test_only_the_inventory_itself_does_not_count(
    ref: Ref, uid: str, labels: dict[str, str], counts: bool
) -> None:
    """Everything else in the Namespace does; and everything, if the set has no inventory."""
    found = live(ref, uid=uid, labels={**labels, PART_OF: TARGET.id})
    assert OwnRecords(TARGET, "i1").has(found) is not counts
    assert not OwnRecords(TARGET).has(found)
