"""Ranges of versions, as Flux reads them."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.sources.address import best_version

TAGS = (
    *("0.0.3", "0.1.0", "0.2.0", "0.2.5", "1.0.0-alpha.1", "1.0.0-rc.1", "1.0.0", "v1.2.0"),
    *("1.2.3", "1.2.10", "1.3.0-rc.2", "1.3.0-rc.10", "2.0.0-alpha", "2.0.0", "2.1.0+build.7"),
    *("latest", "v3", "3.0", "03.0.0", "prod-9.9.9", "9.9.9 ", ""),
)


@pytest.mark.parametrize(
    ("wanted", "best"),
    [
        ("*", "2.1.0+build.7"),
        ("x", "2.1.0+build.7"),
        (">=1.0.0 <2.0.0", "1.2.10"),
        (">=1.0.0, <2.0.0", "1.2.10"),
        (">=1.0.0,<2.0.0", "1.2.10"),
        (">= 1.0.0 < 1.2.3", "v1.2.0"),
        (">1.2.3 <2", "1.2.10"),
        (">1.2", "2.1.0+build.7"),
        (">2", None),
        ("<=1.2", "1.2.10"),
        ("<=1.2.3", "1.2.3"),
        ("<1.0.0", "0.2.5"),
        ("<1", "0.2.5"),
        ("=1.2.3", "1.2.3"),
        ("1.2.0", "v1.2.0"),
        ("v1.2.0", "v1.2.0"),
        ("1.2", "1.2.10"),
        ("1.2.x", "1.2.10"),
        ("1.X", "1.2.10"),
        ("1", "1.2.10"),
        ("~1.2.3", "1.2.10"),
        ("~1.2", "1.2.10"),
        ("~>0.1", "0.1.0"),
        ("~1", "1.2.10"),
        ("^1.0.0", "1.2.10"),
        ("^0.2.1", "0.2.5"),
        ("^0.2", "0.2.5"),
        ("^0.0.3", "0.0.3"),
        ("^0.0", "0.0.3"),
        ("^0", "0.2.5"),
        ("^1.2.11", None),
        ("0.1.0 - 1.2", "1.2.10"),
        ("0.1.0 - 1.2.3", "1.2.3"),
        ("<0.2.0 || >=1.0.0 <1.2.0", "1.0.0"),
        (">=1.0.0 !=1.2.10 <2.0.0", "1.2.3"),
        ("!=2.x", "1.2.10"),
        ("!=2.1.0", "2.0.0"),
        # A prerelease counts only where the range names one.
        (">=1.2.11 <2.0.0", None),
        (">=1.2.11-0 <2.0.0-0", "1.3.0-rc.10"),
        (">=1.0.0-alpha <1.0.0", "1.0.0-rc.1"),
        ("1.0.0-alpha.1", "1.0.0-alpha.1"),
        ("~1.3.0-rc.1", "1.3.0-rc.10"),
        # The next version's prerelease is not in the range, although it is lower.
        ("^1.2.0-0", "1.3.0-rc.10"),
        ("^7", None),
    ],
)
def test_best_version_is_the_highest_in_the_range(wanted: str, best: str | None) -> None:
    assert best_version(wanted, TAGS) == best


def test_equal_versions_have_one_best() -> None:
    """Whatever the order in which the server names them."""
    assert best_version("*", ["v1.0.0", "1.0.0"]) == best_version("*", ["1.0.0", "v1.0.0"])


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        " ",
        "latest",
        ">=",
        "1.0.0 ||",
        "1.2.3.4",
        ">=1.0.0,",
        "1.0.0 & 2",
        "-1",
        "1" * 300,
        "~a",
    ],
)
def test_invalid_range_is_refused(wanted: str) -> None:
    with pytest.raises(UsageError, match="range of versions"):
        best_version(wanted, TAGS)
