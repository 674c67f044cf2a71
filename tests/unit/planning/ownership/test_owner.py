"""No write without need, and none left out that is needed: each half of the evidence alone."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.live import LiveObject, Resource
from applyprune.model.plan import Desired
from applyprune.planning.applyset import PART_OF
from applyprune.planning.ownership import has_values, needs_values, unchanged
from applyprune.values import replace
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    SECRETS,
    TARGET,
    body,
    desired,
    live,
    managed,
    recorded,
)

DEPLOYMENT = desired(body("Deployment", spec={"replicas": 1}), DEPLOYMENTS)
CONFIG_MAP = desired(body("ConfigMap", data={"k": "v"}), CONFIG_MAPS)
SECRET = desired(body("Secret", data={"k": "dg=="}), SECRETS)
PRIORITY_CLASS = desired(
    body("PriorityClass", description="ours"),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
)


def _as_live(one: Desired, **changes: Any) -> LiveObject:
    full = {**one.body, "metadata": {**one.body["metadata"], "uid": "u1"}}
    return live(one.ref, **{"full": full, **changes})


AFTER: dict[str, tuple[Desired, dict[str, Any], bool]] = {
    "nothing moved": (DEPLOYMENT, {}, True),
    "status moved the resourceVersion": (DEPLOYMENT, {"version": "6"}, True),
    "somebody changed a value of ours": (
        DEPLOYMENT,
        {"version": "6", "generation": 2, "full": {**DEPLOYMENT.body, "spec": {"replicas": 2}}},
        False,
    ),
    "somebody changed the spec, and its values were not read": (
        DEPLOYMENT,
        {"version": "6", "generation": 2, "full": None},
        False,
    ),
    "somebody changed what we leave open of the spec": (
        DEPLOYMENT,
        {"version": "6", "generation": 2},
        True,
    ),
    "an admission policy rewrote a label of ours": (
        DEPLOYMENT,
        {"version": "6", "full": None, "labels": {PART_OF: "another"}},
        False,
    ),
    "somebody added a label and a finalizer": (
        DEPLOYMENT,
        {
            "version": "6",
            "full": None,
            "labels": {PART_OF: TARGET.id, "foreign": "1"},
            "finalizers": ["foreign"],
        },
        True,
    ),
    "a kind whose generation never moves": (
        PRIORITY_CLASS,
        {"version": "6", "full": {**PRIORITY_CLASS.body, "description": "theirs"}},
        False,
    ),
    "somebody took a label of ours": (
        DEPLOYMENT,
        {"version": "6", "entries": [managed(fields="other")]},
        False,
    ),
    "our own manager applied again": (
        DEPLOYMENT,
        {"version": "6", "entries": [managed(time="2026-11-21T11:00:00Z")]},
        False,
    ),
    "managedFields were wiped": (DEPLOYMENT, {"version": "6", "entries": []}, False),
    "only a status entry bears our name": (
        DEPLOYMENT,
        {"version": "6", "entries": [managed(subresource="status")]},
        False,
    ),
    "re-created": (DEPLOYMENT, {"uid": "u2"}, False),
    "being deleted": (DEPLOYMENT, {"deletionTimestamp": "2026-11-21T11:00:00Z"}, False),
    "no generation, nothing moved": (CONFIG_MAP, {"generation": None}, True),
    "no generation, moved, values stand": (CONFIG_MAP, {"generation": None, "version": "6"}, True),
    "no generation, moved, a value is another": (
        CONFIG_MAP,
        {"generation": None, "version": "6", "full": {**CONFIG_MAP.body, "data": {"k": "w"}}},
        False,
    ),
    "no generation, moved, values not read": (
        CONFIG_MAP,
        {"generation": None, "version": "6", "full": None},
        False,
    ),
    "a Secret, nothing moved": (SECRET, {"generation": None}, True),
    "a Secret, whose values were not read": (SECRET, {"generation": None, "full": None}, False),
    "a Secret, with the manifest's value not in it": (
        SECRET,
        {"generation": None, "full": {**SECRET.body, "data": {"k": "eA=="}}},
        False,
    ),
}


@pytest.mark.parametrize("name", AFTER)
def test_unchanged_object_is_recognised(name: str) -> None:
    """Whether sending the manifest again would move nothing."""
    one, changes, expected = AFTER[name]
    generation = 1 if one in (DEPLOYMENT, PRIORITY_CLASS) else None
    before = _as_live(one, generation=generation)
    now = _as_live(one, **{"generation": generation, **changes})
    entry = recorded(one, before)
    assert unchanged(one, entry, now, manager=TARGET.manager, schema=None) is expected


def test_changed_manifest_is_always_sent() -> None:
    """The digest is the first thing that is compared."""
    now = _as_live(DEPLOYMENT, generation=1)
    entry = replace(recorded(DEPLOYMENT, now), digest="another")
    assert not unchanged(DEPLOYMENT, entry, now, manager=TARGET.manager, schema=None)


def test_unconfirmed_entry_is_always_sent() -> None:
    """The union write clears the evidence: a lost reply must not read as done."""
    now = _as_live(DEPLOYMENT, generation=1)
    entry = replace(recorded(DEPLOYMENT, now), fingerprint=None)
    assert not unchanged(DEPLOYMENT, entry, now, manager=TARGET.manager, schema=None)


def test_custom_resource_with_a_changed_schema_is_sent() -> None:
    """A new CRD generation alters what is read without touching the object."""
    now = _as_live(DEPLOYMENT, generation=1)
    entry = recorded(DEPLOYMENT, now)
    assert not unchanged(DEPLOYMENT, entry, now, manager=TARGET.manager, schema=2)


def test_values_are_requested_only_where_they_decide() -> None:
    """Every Secret; what has moved, unless a generation that stands speaks for its spec."""
    secret = _as_live(SECRET, generation=None)
    still = _as_live(CONFIG_MAP, generation=None)
    moved = _as_live(CONFIG_MAP, generation=None, version="6")
    scaled = _as_live(DEPLOYMENT, generation=1, version="6")
    assert needs_values(SECRET, recorded(SECRET, secret), secret)
    assert not needs_values(CONFIG_MAP, recorded(CONFIG_MAP, still), still)
    assert needs_values(CONFIG_MAP, recorded(CONFIG_MAP, still), moved)
    assert not needs_values(DEPLOYMENT, recorded(DEPLOYMENT, scaled), scaled)
    assert needs_values(
        DEPLOYMENT, recorded(DEPLOYMENT, _as_live(DEPLOYMENT, generation=0)), scaled
    )


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [{"n": "x"}]}, {"a": [{"n": "x", "protocol": "TCP"}]}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": "1"}, {"a": 1}, False),
    ],
)
def test_matching_values_are_recognised(wanted: object, there: object, expected: bool) -> None:
    """A field that only the server knows is passed over; everything else must be the same."""
    assert has_values(wanted, there) is expected
