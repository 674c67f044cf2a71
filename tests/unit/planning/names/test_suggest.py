"""Which existing set may be meant by the name of a new one."""

from __future__ import annotations

import pytest

from applyprune.planning.applyset import applyset_identity
from applyprune.planning.names import about_new_set, is_slip, similar_sets

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


@pytest.mark.parametrize(
    ("target", "creates", "said", "is_doubtful"),
    [
        ("monitoring home", False, "", False),
        ("monitoring home", True, "its namespace home is created for it", True),
        pytest.param(
            "shop far",
            False,
            "there is also the set shop in home",
            True,
            marks=pytest.mark.holds("doubtful-set"),
        ),
        ("web far", False, "there is also the set wep and web in home", True),
        ("we home", False, "there is also the set web and wep in far", True),
        ("shoppy home", False, "there is also the set shop", False),
        (
            "monitoring hone",
            True,
            "its namespace hone is created for it; there is also the namespace home",
            True,
        ),
        ("monitoring hone", False, "there is also the namespace home", True),
        ("monitoring elsewhere", False, "", False),
    ],
)
def test_new_set_that_may_be_a_mistake_is_doubtful(
    target: str, creates: bool, said: str, is_doubtful: bool
) -> None:
    """By its name elsewhere, by nearly its name here, or by its namespace."""
    found = about_new_set(applyset_identity(*target.split()), SETS, creates_namespace=creates)
    assert found == (said, is_doubtful)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("shop-prod", "shop-prd", True),
        ("shop-prod", "shop-prdo", True),
        ("shop-prod", "shop-pro-d", True),
        ("shop-prod", "shop-prdos", True),
        ("shop-prod", "shop-dev", False),
        ("shop", "shpo", True),
        ("shop", "chip", False),
        ("web", "wep", True),
        ("web", "db", False),
        ("web", "web", False),
        ("pr-123", "pr-124", False),
        ("shop", "shop2", False),
        ("", "a", True),
        ("a", "", True),
    ],
)
def test_slip_is_a_letter_or_two(one: str, other: str, expected: bool) -> None:
    """Of a short name, one; a number is no slip."""
    assert is_slip(one, other) is expected
    assert is_slip(other, one) is expected
