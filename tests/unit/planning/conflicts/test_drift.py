"""Whether an object has drifted, and in which fields, by managedFields alone."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.planning.conflicts import drifted_from_record, recorded_drift
from applyprune.planning.normalize import canonical_text
from applyprune.planning.ownership import fingerprint_of
from applyprune.values import packed, replace

MANAGER = "applyprune/shop/web"
REF = Ref("apps", "Deployment", "shop", "web")
THEN, LATER, EARLIER = "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z"
IMAGE: dict[str, Any] = {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}}}}
REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
OURS: dict[str, Any] = {"f:spec": {"f:paused": {}}, "f:metadata": {"f:labels": {"f:a": {}}}}


def managed(
    manager: str, fields: dict[str, Any], time: str = LATER, subresource: str = ""
) -> dict[str, Any]:
    found = {
        "manager": manager,
        "operation": "Apply" if manager.startswith(MANAGER) else "Update",
        "apiVersion": "apps/v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        found["subresource"] = subresource
    return {key: value for key, value in found.items() if value}


def live(
    *entries: dict[str, Any],
    version: str = "2",
    generation: int = 1,
    ours: dict[str, Any] | None = None,
) -> LiveObject:
    """Return a live object with our own entry and others."""
    metadata = {
        "generation": generation,
        "managedFields": [ours or managed(MANAGER, OURS, THEN), *entries],
    }
    body = {"spec": {"replicas": 5, "containers": [{"name": "c", "image": "x\x1b[1m"}]}}
    return LiveObject.of(REF, "uid", version, metadata, {**body, "metadata": metadata})


def entry(owned: dict[str, Any]) -> InventoryEntry:
    """Return the entry of the object whose last apply owned these fields."""
    return InventoryEntry(REF, "deployments", "v1", None, "uid", owned_fields=canonical_text(owned))


ALL: dict[str, Any] = {**REPLICAS, "f:metadata": OURS["f:metadata"]}
ALL["f:spec"] = {**REPLICAS["f:spec"], **IMAGE["f:spec"], **OURS["f:spec"], "f:gone": {}}
ANNOTATED: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:team": {}}}}
GONE = ("/spec/gone", None, "")
PATH = '/spec/containers[name="c"]/image'

CASES: dict[str, tuple[tuple[dict[str, Any], ...], list[tuple[str, str | None, str]]]] = {
    "all that is lost, and who has it": (
        (managed("kubectl-edit", IMAGE), managed("kubectl", REPLICAS, "", "scale")),
        [(PATH, '"x\\u001b[1m"', "kubectl-edit"), GONE, ("/spec/replicas", "5", "kubectl")],
    ),
    "the latest writer counts": (
        (managed("old", REPLICAS, EARLIER), managed("new", REPLICAS), managed("c", IMAGE)),
        [(PATH, '"x\\u001b[1m"', "c"), GONE, ("/spec/replicas", "5", "new")],
    ),
    "not what others have added, nor the status": (
        (
            managed("team-bot", ANNOTATED),
            managed("controller", {"f:status": {"f:replicas": {}}}),
            managed("controller", REPLICAS, subresource="status"),
        ),
        [(PATH, '"x\\u001b[1m"', ""), GONE, ("/spec/replicas", "5", "")],
    ),
    "not what is still ours": (
        (managed("kubectl-edit", OURS),),
        [(PATH, '"x\\u001b[1m"', ""), GONE, ("/spec/replicas", "5", "")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_drifted_fields_are_those_of_the_set(name: str) -> None:
    """What the last apply owned, and the set owns no longer; a field without a writer is gone."""
    others, expected = CASES[name]
    found = recorded_drift(entry(ALL), live(*others), MANAGER)
    assert [(one.path, one.found, one.manager) for one in found] == expected
    assert recorded_drift(entry(OURS), live(*others), MANAGER) == ()


def test_drift_of_a_secret_shows_nothing() -> None:
    """Neither a value nor what it looks like."""
    ref = Ref("", "Secret", "shop", "s")
    body = {"data": {"key": "Zm9v"}}
    fields: dict[str, Any] = {"f:data": {"f:key": {}}}
    metadata = {"managedFields": [managed(MANAGER, OURS, THEN), managed("kubectl-edit", fields)]}
    there = LiveObject.of(ref, "uid", "1", metadata, body)
    (one,) = recorded_drift(entry({**OURS, **fields}), there, MANAGER)
    assert (one.path, one.found, one.wanted) == ("/data/key", "(secret)", None)


def test_drift_is_detected() -> None:
    """By the evidence of the last apply; a moved generation alone is no drift of ours."""
    applied = live(version="1")
    left = fingerprint_of(applied, MANAGER, None)
    entry = InventoryEntry(REF, "deployments", "v1", None, "uid", digest="d", fingerprint=left)
    assert drifted_from_record(entry, applied, MANAGER) is False
    assert drifted_from_record(entry, live(generation=7), MANAGER) is False
    taken = live(ours=managed(MANAGER, REPLICAS, THEN))
    assert drifted_from_record(entry, taken, MANAGER) is True
    again = live(ours=managed(MANAGER, OURS, LATER))
    assert drifted_from_record(entry, again, MANAGER) is True
    # A run was killed while it applied the object: nobody knows whose change it is.
    begun = replace(entry, digest="")
    assert drifted_from_record(begun, applied, MANAGER) is False
    assert drifted_from_record(begun, again, MANAGER) is None
    bare = replace(
        applied, resource_version="3", packed_metadata=packed({}), packed_managers=packed([])
    )
    assert drifted_from_record(entry, bare, MANAGER) is True
    assert drifted_from_record(entry, replace(applied, uid="other"), MANAGER) is True
    assert drifted_from_record(replace(entry, fingerprint=None), applied, MANAGER) is None
    assert drifted_from_record(replace(entry, uid=""), applied, MANAGER) is None
