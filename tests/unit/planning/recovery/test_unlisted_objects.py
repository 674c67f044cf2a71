"""Which objects that look like a set's, and that no inventory lists, hold up its removal."""

from __future__ import annotations

import pytest

from applyprune.model.identity import Ref
from applyprune.planning.recovery import may_lose_objects
from tests.support.planning import cluster, desired, inventory, live, recorded, world

ONE = desired()
LISTED = recorded(ONE, live(ONE.ref))
PLACES = {
    "the namespace of the inventory": ("home", True),
    "a namespace that the inventory names": ("hinted", True),
    "no namespace": ("", True),
    "another namespace": ("elsewhere", False),
}


@pytest.mark.holds("look-alike", row="another namespace")
@pytest.mark.parametrize("name", PLACES)
def test_unlisted_object_holds_up_a_removal_where_the_set_has_been(name: str) -> None:
    """Elsewhere anybody may have made it."""
    place, holds = PLACES[name]
    stray = live(Ref("", "ConfigMap", place, "stray"), uid="u2")
    found = inventory(LISTED, hinted_namespaces=frozenset({"hinted"}))
    states = {ONE.ref: live(ONE.ref), stray.ref: stray}
    assert may_lose_objects(world((), found, cluster(states))) is holds


def test_listed_objects_hold_up_nothing_and_unread_ones_do() -> None:
    """What could not be searched may be anywhere."""
    states = {ONE.ref: live(ONE.ref)}
    found = inventory(LISTED)
    assert not may_lose_objects(world((), found, cluster(states)))
    assert may_lose_objects(world((), found, cluster(states, unseen=("secrets: forbidden",))))
