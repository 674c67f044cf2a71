"""Where in the text a field is that a problem names."""

from __future__ import annotations

import pytest

from applyprune.model.problem import Field, Mark, Origin
from applyprune.sources.load import point

BOTH = """apiVersion: v1
kind: Secret
metadata: {name: s}
stringData:
  a: one
data:
  b: dHdv
"""
PLAIN = BOTH.partition("data:\n  b")[0]
CASES: dict[str, tuple[str, Field, int]] = {
    "a key of stringData": (BOTH, ("data", "a"), 5),
    "a key of data": (BOTH, ("data", "b"), 7),
    "no key": (BOTH, ("data", "c"), 6),
    "no key beside stringData alone": (PLAIN, ("data", "c"), 4),
    "stringData": (PLAIN, ("data",), 4),
    "another field": (PLAIN, ("kind",), 2),
}


@pytest.mark.parametrize(("text", "field", "line"), CASES.values(), ids=CASES)
def test_field_of_a_secret_is_shown_where_the_manifest_has_it(
    text: str, field: Field, line: int
) -> None:
    """The server stores ``stringData`` in ``data``, and names it so."""
    origin, shown = point({"s.yaml": text}, Origin("s.yaml", 1, 1), [Mark(field, "said")])
    assert origin.line == line
    assert "said" in shown
