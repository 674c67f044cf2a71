"""What an apply may take from the set that ``--adopt set/NAME`` names, and how it owns that."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, AdoptFrom
from applyprune.model.plan import ApplyStep
from applyprune.planning.applyset import OWNED_BY, ApplySetIdentity
from applyprune.planning.ownership import OtherSet, other_set_in
from applyprune.planning.plan import make_plan
from tests.support.options import options_of
from tests.support.planning import body, cluster, desired, inventory, live, managed, recorded, world

ONE = desired(body())
SHOP = ApplySetIdentity("shop", "home")
FROM_SHOP = AdoptFrom("shop")
WITNESS: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{OWNED_BY}": {}}}}
LISTED = OtherSet(SHOP, frozenset({"u1"}), frozenset({"u1"}))


def step_of(
    known: OtherSet,
    adopt: Adopt | AdoptFrom = FROM_SHOP,
    giver: ApplySetIdentity = SHOP,
    *,
    witness: bool = True,
    **metadata: Any,
) -> ApplyStep:
    """Return the step of an object with the label of a set, of which so much is known."""
    fields = {"fieldsV1": WITNESS} if witness else {}
    annotations = {OWNED_BY: giver.id} if witness else {}
    there = live(
        ONE.ref,
        label=giver.id,
        entries=[managed(giver.manager, **fields)],
        annotations=annotations,
        **metadata,
    )
    read = cluster({ONE.ref: there}, others={giver.id: known})
    (step,) = make_plan(world((ONE,), inventory(), read, options_of(adopt=adopt))).applies
    return step


@pytest.mark.parametrize(
    "adopt", [AdoptFrom("shop"), AdoptFrom("shop", "home")], ids=["near", "by its namespace"]
)
def test_listed_object_of_the_named_set_is_taken_as_owned(adopt: AdoptFrom) -> None:
    step = step_of(LISTED, adopt)
    assert (step.fate, step.becomes_owned) == (Fate.ADOPT, True)
    assert step.taken_from == ("the set shop in namespace home",)
    assert step.reason == "adopted, as owned: a later prune deletes it"


NOT_GIVEN: list[Any] = [
    pytest.param(AdoptFrom("other"), LISTED, SHOP, marks=pytest.mark.holds("named-giver")),
    (AdoptFrom("shop", "elsewhere"), LISTED, SHOP),
    (AdoptFrom("shop"), LISTED, ApplySetIdentity("shop", "elsewhere")),
    pytest.param(
        *(AdoptFrom("shop"), OtherSet(SHOP, frozenset({"u2"})), SHOP),
        marks=pytest.mark.holds("listed-by-giver"),
    ),
    (AdoptFrom("shop"), OtherSet(SHOP, is_read=False), SHOP),
    (AdoptFrom("shop"), OtherSet(), SHOP),
    (Adopt.UNOWNED, LISTED, SHOP),
]


@pytest.mark.parametrize(("adopt", "known", "giver"), NOT_GIVEN)
def test_object_of_another_set_or_that_no_set_lists_is_refused(
    adopt: Adopt | AdoptFrom, known: OtherSet, giver: ApplySetIdentity
) -> None:
    assert step_of(known, adopt, giver).fate is Fate.REFUSE


@pytest.mark.parametrize(
    ("known", "witness"),
    [
        pytest.param(
            *(OtherSet(SHOP, frozenset({"u1"})), True), marks=pytest.mark.holds("given-as-recorded")
        ),
        pytest.param(LISTED, False, marks=pytest.mark.holds("given-as-marked")),
    ],
)
def test_object_that_was_adopted_there_is_adopted_here(known: OtherSet, witness: bool) -> None:
    """Record and object must both say that it was owned: else a forged one would delete it."""
    step = step_of(known, witness=witness)
    assert (step.fate, step.becomes_owned) == (Fate.ADOPT, False)
    assert step.entry.ownership is Ownership.ADOPTED


def test_object_with_an_owner_of_its_own_is_not_owned() -> None:
    """No prune deletes it, whoever lists it."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "above", "uid": "u9"}
    step = step_of(LISTED, ownerReferences=[owner])
    assert (step.fate, step.becomes_owned) == (Fate.ADOPT, False)


@pytest.mark.parametrize("ownership", list(Ownership))
def test_inventory_says_what_its_set_owns(ownership: Ownership) -> None:
    entry = recorded(ONE, live(ONE.ref), ownership=ownership)
    known = other_set_in(inventory(entry))
    assert known.uids == {"u1"}
    assert known.owned == ({"u1"} if ownership is Ownership.OWNED else set())
