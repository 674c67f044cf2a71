"""What happens to the volumes of deleted claims."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Fate
from applyprune.model.live import LiveObject
from applyprune.model.plan import ConsequenceKind
from tests.support.consequences import change, found, live, told

CLAIM = "PersistentVolumeClaim"


def _volume(name: str, claim: str, policy: str) -> LiveObject:
    spec = {"claimRef": {"uid": claim}, "persistentVolumeReclaimPolicy": policy}
    return live("PersistentVolume", name, spec=spec)


@pytest.mark.parametrize("fate", [Fate.PRUNE, Fate.RECREATE])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "Delete",
            "volume-deleted: its volume pv-x is deleted with its data (reclaim policy Delete)",
        ),
        ("Retain", "volume-kept: its volume pv-x stays with its data (reclaim policy Retain)"),
        (
            "Recycle",
            "volume-deleted: its volume pv-x is wiped of its data (reclaim policy Recycle)",
        ),
    ],
)
def test_volume_follows_its_reclaim_policy(fate: Fate, policy: str, expected: str) -> None:
    """Whether the claim is created again does not matter."""
    read = [_volume("pv-x", "data", policy), _volume("pv-y", "other", "Delete")]
    caused = found(change(CLAIM, "data", fate), volumes=read)
    assert told(caused) == [expected]
    assert [ref.name for ref in caused[0].refs] == ["pv-x"]


def test_claim_without_a_volume_loses_nothing() -> None:
    """Nor does one that stays, or one whose volumes were not read."""
    assert found(change(CLAIM, "data", Fate.PRUNE), volumes=[]) == []
    read = [_volume("pv-x", "data", "Delete")]
    assert found(change(CLAIM, "data", Fate.LEAVE), volumes=read) == []
    assert found(change(CLAIM, "data", Fate.PRUNE)) == []


def test_volumes_that_go_with_an_owner_are_counted_by_policy() -> None:
    """What it cascades to was counted for the guards, with the UIDs of the claims."""
    claims = [live(CLAIM, name, namespace="old") for name in "abcd"]
    place = change("Namespace", "old", Fate.PRUNE, cascade=claims)
    read = [
        _volume("pv-a", "a", "Delete"),
        _volume("pv-b", "b", "Delete"),
        _volume("pv-c", "c", "Retain"),
    ]
    assert told(found(place, volumes=read)) == [
        "cascade: deleted with it: 4 PersistentVolumeClaims",
        "volume-deleted: 2 volumes are deleted with their data: pv-a, pv-b (reclaim policy Delete)",
        "volume-kept: the volume pv-c stays with its data (reclaim policy Retain)",
    ]


def test_volumes_that_cannot_be_listed_leave_a_doubt() -> None:
    """The claim may be bound, and its volume may be deleted."""
    why = "no right to list persistentvolumes"
    (caused,) = found(change(CLAIM, "data", Fate.PRUNE), volumes=why)
    assert caused.kind is ConsequenceKind.VOLUME_DELETED
    assert caused.message == f"its volume may be deleted with the data: {why}"
    assert not caused.certain
