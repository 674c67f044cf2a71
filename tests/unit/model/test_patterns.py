"""Patterns that are compiled when they are used."""

from __future__ import annotations

import importlib
import re

import pytest

from applyprune.values import pattern
from tests.support.package import modules


def test_pattern_is_that_of_the_standard_library() -> None:
    """All of its names work, flags included."""
    number = pattern(r"(?P<digits>[0-9]+)x", re.IGNORECASE)
    found = number.fullmatch("42X")
    assert found is not None
    assert found["digits"] == "42"
    assert number.sub("", "a1xb2X") == "ab"
    assert number.pattern == r"(?P<digits>[0-9]+)x"
    assert number.flags & re.IGNORECASE


def test_wrong_name_is_an_attribute_error() -> None:
    """As with any object."""
    with pytest.raises(AttributeError, match="fulmatch"):
        _ = pattern("a").fulmatch  # type: ignore[attr-defined]


def test_every_pattern_of_the_package_compiles() -> None:
    """What nobody compiles at the start could be wrong until somebody needs it."""
    found = 0
    for module in modules():
        if module.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module)).values():
            if type(value).__name__ == "pattern":
                assert value.groups >= 0
                found += 1
    assert found > 100
