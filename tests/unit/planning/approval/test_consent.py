"""What a person must agree to before a run, and when two plans need the same consent."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Fate
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.planning.approval import needed_consent
from applyprune.values import replace
from tests.support.planning import body, desired, live, recorded

ONE = desired(body())
THERE = live(ONE.ref)
ENTRY = recorded(ONE, THERE)
DRIFT = (("/spec/replicas", "kubectl-edit"),)


def applied(fate: Fate, *taken: str, reverts: tuple[tuple[str, str], ...] = ()) -> Plan:
    """Return a plan that applies one object."""
    return Plan((ApplyStep(ONE, fate, ENTRY, THERE, taken_from=taken, reverts=reverts),), ())


def removed(fate: Fate, reason: str = "", uid: str = "u1") -> Plan:
    """Return a plan in which one object leaves the set."""
    return Plan((), (RemoveStep(ENTRY, None, fate, replace(THERE, uid=uid), reason),))


ASKED = {
    "prune": removed(Fate.PRUNE),
    "recreate": applied(Fate.RECREATE),
    "adopt from somebody": applied(Fate.ADOPT, "kubectl"),
    "take fields": applied(Fate.CHANGE, "hpa"),
    "revert fields": applied(Fate.CHANGE, reverts=DRIFT),
}
NOT_ASKED = {
    "create": applied(Fate.CREATE),
    "change": applied(Fate.CHANGE),
    "adopt from nobody": applied(Fate.ADOPT),
    "left, as a check has shown": applied(Fate.LEAVE, "hpa", reverts=DRIFT),
    "refused": applied(Fate.REFUSE),
    "orphan": removed(Fate.ORPHAN),
    "remove the entry": removed(Fate.REMOVE_FROM_INVENTORY),
    "no prune": replace(removed(Fate.PRUNE), no_prune="--no-prune"),
}


@pytest.mark.holds("revert-asks", row="revert fields")
@pytest.mark.parametrize("name", [*ASKED, *NOT_ASKED])
def test_consent_is_needed_for_what_cannot_be_undone(name: str) -> None:
    """Deletions, recreations, and what others lose."""
    plan = (ASKED | NOT_ASKED)[name]
    assert bool(needed_consent(plan, Mode.APPLY)) is (name in ASKED)


@pytest.mark.parametrize("fate", [Fate.PRUNE, Fate.ORPHAN, Fate.REMOVE_FROM_INVENTORY])
def test_consent_is_needed_for_every_object_of_a_deleted_set(fate: Fate) -> None:
    """Nobody lists them afterwards."""
    assert needed_consent(removed(fate), Mode.DELETE)
    assert not needed_consent(removed(Fate.REFUSE), Mode.DELETE)


def test_consent_is_for_exactly_what_was_shown() -> None:
    """Another object of the same name, or another cascade, was not."""
    agreed = needed_consent(removed(Fate.PRUNE), Mode.APPLY)
    assert needed_consent(removed(Fate.PRUNE), Mode.APPLY) == agreed
    assert not needed_consent(removed(Fate.PRUNE, uid="u2"), Mode.APPLY) <= agreed
    reverted = needed_consent(applied(Fate.CHANGE, reverts=DRIFT), Mode.APPLY)
    another = (*DRIFT, ("/spec/paused", "kubectl-edit"))
    assert not needed_consent(applied(Fate.CHANGE, reverts=another), Mode.APPLY) <= reverted
    cascade = removed(Fate.PRUNE, reason="cascade-deletes 3 objects")
    assert not needed_consent(cascade, Mode.APPLY) <= agreed


@pytest.mark.holds("own-asks")
def test_adoption_as_owned_needs_consent() -> None:
    """A later prune deletes the object, also one that nobody loses."""
    plan = applied(Fate.ADOPT)
    (step,) = plan.applies
    owned = replace(plan, applies=(replace(step, becomes_owned=True),))
    assert bool(needed_consent(owned, Mode.APPLY)) is True
