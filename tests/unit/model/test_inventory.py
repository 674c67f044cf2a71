"""What is known about a lock holder holds only as long as nothing has changed."""

from __future__ import annotations

import pickle

import pytest

from applyprune.model.inventory import HolderObservation, Inventory, observe
from applyprune.values import replace
from tests.support.other_run import ELSEWHERE

HELD = Inventory("web", "shop", uid="u1", generation=7, holder=ELSEWHERE)
FIRST = HolderObservation("u1", 7, ELSEWHERE, since=100.0)


def test_unchanged_holder_is_silent_since_the_first_look() -> None:
    """Whoever looks: an observation is a value, also in another process."""
    assert observe(None, HELD, 100.0) == FIRST
    received = pickle.loads(pickle.dumps(FIRST))  # noqa: S301 -- our own bytes
    assert observe(received, HELD, 400.0) == FIRST


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(
            replace(HELD, uid="u2"),
            id="created again",
            marks=pytest.mark.holds("same-inventory-observed"),
        ),
        pytest.param(replace(HELD, generation=8), id="written again"),
        pytest.param(replace(HELD, generation=6), id="restored"),
        pytest.param(
            replace(HELD, holder=replace(ELSEWHERE, renewals=1)),
            id="renewed",
            marks=pytest.mark.holds("same-holder-observed"),
        ),
        pytest.param(replace(HELD, holder=replace(ELSEWHERE, run="r1")), id="another run"),
    ],
)
def test_any_change_begins_the_observation_again(now: Inventory) -> None:
    assert now.holder is not None
    fresh = HolderObservation(now.uid, now.generation, now.holder, since=400.0)
    assert observe(FIRST, now, 400.0) == fresh


def test_nothing_is_known_of_a_free_lock() -> None:
    assert observe(FIRST, replace(HELD, holder=None), 400.0) is None


def test_lock_is_over_after_its_lease() -> None:
    assert FIRST.over_at == 115.0
