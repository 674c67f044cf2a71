"""Numbers of things, in words."""

from __future__ import annotations

from applyprune.model.text import counted


def test_one_thing_is_singular() -> None:
    """With a verb or without."""
    assert counted(1, "object") == "1 object"
    assert counted(0, "object") == "0 objects"
    assert counted(1, "object", "has", "have") == "1 object has"
    assert counted(2, "object", "has", "have") == "2 objects have"
