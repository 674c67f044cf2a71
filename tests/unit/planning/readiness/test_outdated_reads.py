"""A read that is older than the reply to this run says nothing about it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.readiness import Applied, outdated_read

REF = Ref("apps", "Deployment", "n", "web")


@pytest.mark.parametrize(
    ("seen", "replied", "says"),
    [
        pytest.param(("u", 1, "5"), ("u", 2, "9"), "still shows generation 1", id="older"),
        pytest.param(("u", 2, "9"), ("u", 2, "9"), "", id="the same"),
        pytest.param(("u", 3, "12"), ("u", 2, "9"), "", id="newer"),
        # A restored storage may count again; a status has no part in the generation.
        pytest.param(("u", 2, "7"), ("u", 2, "9"), "", id="an older version, the same generation"),
        pytest.param(("u", None, "7"), ("u", None, "9"), "as it was before", id="no generation"),
        pytest.param(("u", None, "10"), ("u", None, "9"), "", id="a number, and no text"),
        pytest.param(("u", None, "a"), ("u", None, "9"), "", id="a version that is text"),
        pytest.param(("u", None, "7"), ("", None, ""), "", id="nothing is known"),
        pytest.param(("v", 1, "12"), ("u", 2, "9"), "", id="another object"),
        pytest.param(("old", 7, "5"), ("u", 1, "9"), "has replaced", id="the one before"),
    ],
)
def test_older_reads_are_told_from_newer_ones(seen: Any, replied: Any, says: str) -> None:
    """By the generation, else by the version; another object is judged by its UID."""
    uid, generation, version = seen
    body = {"metadata": {"generation": generation}}
    live = LiveObject.of(REF, uid, version, body["metadata"], body)
    new_uid, new_generation, new_version = replied
    applied = Applied(0.0, new_uid, new_generation, new_version, replaced="old")
    found = outdated_read(live, applied)
    assert (says in found.message) if found and says else (not found and not says)
