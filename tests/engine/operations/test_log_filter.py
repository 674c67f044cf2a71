"""Which lines of the controller's log are about a Bundle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.api.bundles import LogFilter
from applyprune.model.identity import Ref

POD = Ref("", "Pod", "applyprune-system", "a")
WANTED = LogFilter("shop", "web", "front")
BOTH = {"namespace": "shop", "bundle": "web"}


@pytest.mark.parametrize(
    ("fields", "is_about"),
    [
        (BOTH, True),
        ({"set": "shop/front"}, True),
        ({"set": "shop/web"}, False),
        ({**BOTH, "namespace": "blog"}, False),
        ({"set": "blog/front"}, False),
        ({"namespace": "shop"}, False),
        ({}, False),
    ],
)
def test_line_names_the_bundle_or_its_set(fields: dict[str, Any], is_about: bool) -> None:
    """In the fields that the controller writes."""
    told = {"time": "t", "level": "info", "message": "m", **fields, "more": {"a": 1}}
    line = WANTED.parsed(POD, json.dumps(told))
    assert (line is not None) is is_about
    if line is not None:
        assert (line.pod, line.time, line.level, line.message) == (POD, "t", "info", "m")
        assert line.fields == {**fields, "more": {"a": 1}}


@pytest.mark.parametrize("text", ["", "plain", "[]", "3", "{", "[" * 100_000])
def test_other_output_is_no_line(text: str) -> None:
    """A process may print anything before it logs."""
    assert WANTED.parsed(POD, text) is None
