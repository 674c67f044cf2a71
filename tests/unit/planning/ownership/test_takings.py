"""From whom an apply takes an object, or fields of it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.live import LiveObject
from applyprune.model.options import Adopt, Conflicts
from applyprune.model.plan import OnConflict
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.ownership import confirmed_takings
from applyprune.planning.plan import make_plan
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import (
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    managed,
    recorded,
    world,
)

ONE = desired(body(data={"k": "v", "other": "x"}))
FORCING = replace(ONE, conflicts=OnConflict.FORCE)
OURS = managed()
SHOP = ApplySetIdentity("web", "shop")


def owns(manager: str, key: str = "k", **parts: Any) -> dict[str, Any]:
    """Return an entry of a manager that owns one key of the data."""
    return managed(manager, fieldsV1={"f:data": {f"f:{key}": {}}}, **parts)


def there(*entries: dict[str, Any], label: str = TARGET.id, data: Any = None) -> LiveObject:
    full = None if data is None else {**body(), "data": data}
    return live(ONE.ref, label=label, entries=list(entries), full=full)


FORCE = {"conflicts": Conflicts.FORCE}
NOT_OURS: dict[str, tuple[LiveObject, dict[str, Any], tuple[str, ...]]] = {
    "a tool's": (there(owns("kubectl-create"), label=""), {}, ("kubectl-create",)),
    "several tools'": (
        there(owns("b"), owns("a"), owns("c", subresource="status"), label=""),
        {},
        ("a", "b"),
    ),
    "nobody's": (there(label=""), {}, ()),
    "ours, but not listed": (there(OURS), {}, ()),
    "another set's": (
        there(owns(SHOP.manager), owns("kubectl"), label=SHOP.id),
        {"adopt": Adopt.ALL},
        ("kubectl", "the set web in namespace shop"),
    ),
    "an unknown set's": (there(label="applyset-x-v1"), {"adopt": Adopt.ALL}, ("another set",)),
}
RECORDED: dict[str, tuple[LiveObject, dict[str, Any], tuple[str, ...]]] = {
    "no conflict may be decided": (there(OURS, owns("hpa")), {}, ()),
    "forced": (there(OURS, owns("hpa")), FORCE, ("hpa",)),
    "forced, by a subresource": (there(OURS, owns("hpa", subresource="scale")), FORCE, ("hpa",)),
    "forced, of a field that the manifest lacks": (there(OURS, owns("hpa", "z")), FORCE, ()),
    "forced, of an equal value": (there(OURS, owns("hpa"), data={"k": "v"}), FORCE, ()),
    "forced, of another value": (there(OURS, owns("hpa"), data={"k": "w"}), FORCE, ("hpa",)),
    "taken over": (there(OURS, owns("ci")), {"take_over": frozenset({"ci"})}, ("ci",)),
    "ours from before": (there(OURS, owns("before-first-apply")), {}, ()),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_adoption_names_who_loses_the_object(name: str) -> None:
    """The field managers, and a set by its own name."""
    state, options, expected = NOT_OURS[name]
    snapshot = cluster({ONE.ref: state})
    (step,) = make_plan(world((ONE,), inventory(), snapshot, options_of(**options))).applies
    assert step.taken_from == expected


@pytest.mark.parametrize("name", RECORDED)
def test_forced_change_names_who_loses_fields(name: str) -> None:
    """As far as the read state shows it; the manifest's annotation counts like the option."""
    state, options, expected = RECORDED[name]
    entry = replace(recorded(ONE, state), digest="old")
    snapshot = cluster({ONE.ref: state})
    (step,) = make_plan(world((ONE,), inventory(entry), snapshot, options_of(**options))).applies
    assert step.taken_from == expected
    if options == FORCE:
        (step,) = make_plan(world((FORCING,), inventory(entry), snapshot, options_of())).applies
        assert step.taken_from == expected


CONFIRMED: dict[str, tuple[LiveObject, LiveObject, dict[str, Any], tuple[str, ...]]] = {
    "an equal value": (
        there(OURS, owns("hpa"), data={"k": "v"}),
        there(OURS, owns("hpa")),
        FORCE,
        (),
    ),
    "the only field": (
        there(OURS, owns("hpa"), owns("ci")),
        there(OURS, owns("ci")),
        FORCE,
        ("hpa",),
    ),
    "one of two fields": (
        there(OURS, owns("hpa"), owns("hpa", "other")),
        there(OURS, owns("hpa", "other")),
        FORCE,
        ("hpa",),
    ),
    "by a subresource": (
        there(OURS, owns("hpa", subresource="scale")),
        there(OURS),
        FORCE,
        ("hpa",),
    ),
    "our own, and what the set ignores": (
        there(OURS, owns(TARGET.manager, "other"), owns(TARGET.yielded)),
        there(OURS),
        FORCE,
        (),
    ),
    "nothing yet, but the rest is taken over": (
        there(OURS, owns("ci")),
        there(OURS, owns("ci")),
        {"take_over": frozenset({"ci"})},
        ("ci",),
    ),
    "ours from before": (there(OURS, owns("before-first-apply")), there(OURS), {}, ()),
}


@pytest.mark.parametrize("name", CONFIRMED)
def test_dry_run_confirms_who_loses_fields(name: str) -> None:
    """The managedFields of the server's reply have the last word about a change."""
    state, reply, options, expected = CONFIRMED[name]
    entry = replace(recorded(ONE, state), digest="old")
    snapshot = cluster({ONE.ref: state})
    (step,) = make_plan(world((ONE,), inventory(entry), snapshot, options_of(**options))).applies
    assert confirmed_takings(step, state, reply, TARGET) == expected


def test_adoption_takes_the_object_whatever_the_reply() -> None:
    """Its tool loses it, even if that tool keeps its fields."""
    state, options, expected = NOT_OURS["a tool's"]
    snapshot = cluster({ONE.ref: state})
    (step,) = make_plan(world((ONE,), inventory(), snapshot, options_of(**options))).applies
    assert confirmed_takings(step, state, state, TARGET) == expected
