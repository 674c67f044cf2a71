"""A mark shows whether somebody else may have changed an object; in doubt, it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.controller.task import ABSENT, SeenState, shows_change
from tests.support.planning import TARGET, desired, live, managed, recorded

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject

REF = desired().ref
OTHER = managed("kubectl-edit", "g", operation="Update")


def seen(version: str = "6", generation: int | None = 1, **parts: Any) -> LiveObject:
    """Return an object as a watch shows it."""
    entries = [managed(**parts), OTHER]
    found: dict[str, Any] = {} if generation is None else {"generation": generation}
    return live(REF, version=version, entries=entries, **found)


LEFT = live(REF, generation=1)
UNCOUNTED = live(REF)
CASES: dict[str, tuple[LiveObject, LiveObject, bool]] = {
    "the same": (LEFT, LEFT, False),
    "a foreign field or the status": (LEFT, seen(), False),
    "a field of ours": (LEFT, seen(fields="h"), True),
    "another apply as our manager": (LEFT, seen(time="2026-11-21T10:00:01Z"), True),
    "another order of a list": (LEFT, seen(generation=2), True),
    "what our Apply entry was removed from": (LEFT, live(REF, version="6", entries=[]), True),
    "anything, of a kind without generations": (UNCOUNTED, seen(generation=None), True),
    "a watch that is behind": (LEFT, seen("4", generation=2, fields="h"), False),
    "a version that is no number": (LEFT, seen("x", generation=2), True),
    "one more digit": (LEFT, seen("10", generation=2), True),
}


@pytest.mark.parametrize("what", CASES)
def test_change_of_a_field_of_the_set_may_be_drift(what: str) -> None:
    """By its metadata alone."""
    known, now, expected = CASES[what]
    marks = [SeenState.of(one, TARGET.manager) for one in (known, now)]
    assert shows_change(*marks) is expected


def test_deleted_object_has_drifted() -> None:
    """Unless the reconcile has left it so; then one that is back may be somebody else's."""
    known, there = SeenState.of(LEFT, TARGET.manager), SeenState.of(seen(), TARGET.manager)
    assert shows_change(known, SeenState("6", exists=False))
    assert not shows_change(known, SeenState("4", exists=False))
    assert not shows_change(ABSENT, SeenState("6", exists=False))
    assert shows_change(ABSENT, there)


def test_reply_to_an_apply_has_the_mark_of_its_object() -> None:
    """So the watch event of the set's own write is no hint, nor is an unknown reply a proof."""
    fingerprint = recorded(desired(), LEFT).fingerprint
    assert fingerprint is not None
    assert SeenState.applied(fingerprint) == SeenState.of(LEFT, TARGET.manager)
    assert shows_change(SeenState(), SeenState.of(LEFT, TARGET.manager))
