"""Which existing set may be meant by the name of a new one."""

from __future__ import annotations

import pytest

from applyprune.planning.applyset import applyset_identity
from applyprune.planning.names import similar_sets

SETS = [applyset_identity(*arguments.split()) for arguments in ("web home", "shop home", "wep far")]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("wep", ["web home", "wep far"]),
        ("wbe", ["web home", "wep far"]),
        ("shops", ["shop home"]),
        ("web", ["wep far"]),
        ("monitoring", []),
    ],
)
def test_similar_set_is_found_here_and_elsewhere(name: str, found: list[str]) -> None:
    """One of the namespace, and one of another, which may have the same name."""
    similar = similar_sets(applyset_identity(name, "home"), SETS)
    assert [f"{other.name} {other.namespace}" for other in similar] == found
