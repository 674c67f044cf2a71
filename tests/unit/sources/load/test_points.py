"""Where in the text a field is that a problem names."""

from __future__ import annotations

import pytest

from applyprune.model.problem import Field, Mark, Origin
from applyprune.planning.desired import defined_twice
from applyprune.sources.load import Input, point
from applyprune.values import replace

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


BLOCK, FLOW = "metadata:\n  name: a\n", "metadata: {name: a}\n"
MAP, SECRET = "kind: ConfigMap\n", "kind: Secret\n"
TWINS: dict[str, tuple[str, list[str]]] = {
    "both are shown": (
        f"{MAP}{FLOW}---\n{MAP}{BLOCK}",
        ["a.yaml:6:3 is defined twice: it is also in a.yaml:2:12", "6 |   name: a", "  |   ^ here",
         "2 | metadata: {name: a}", "  |            ^ and here"],
    ),
    "the second is shown": (
        f"{SECRET}{FLOW}---\n{SECRET}{BLOCK}",
        ["a.yaml:6:3 is defined twice: it is also in a.yaml:2:12", "6 |   name: …", "  |   ^ here"],
    ),
    "the first is shown": (
        f"{SECRET}{BLOCK}---\n{SECRET}{FLOW}",
        ["a.yaml:6:12 is defined twice: it is also in a.yaml:3:3", "--> a.yaml:3:3",
         "3 |   name: …", "  |   ^ and here"],
    ),
    "none is shown": (
        f"{SECRET}{FLOW}---\n{SECRET}{FLOW}",
        ["a.yaml:5:12 is defined twice: it is also in a.yaml:2:12"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_message_and_excerpt_name_the_same_places(name: str) -> None:
    """Each line that is shown is that of the place above it."""
    text, expected = TWINS[name]
    second = text[: text.index("---")].count("\n") + 2
    origins = Origin("a.yaml", 0, second), Origin("a.yaml", 0, 1)
    found = Input((), {"a.yaml": text}).pointed(defined_twice("x", *origins).problem)
    lines = [f"{found.location} is defined twice: {found.reason}", *found.excerpt.splitlines()]
    assert lines == expected


def test_only_whole_places_are_replaced_in_a_reason() -> None:
    """``a.yaml:1`` is also a part of ``b/a.yaml:12``, which is another place."""
    text, others = f"{MAP}{BLOCK}", "b/a.yaml:1, a.yaml:12 and a.yaml:1:5"
    problem = defined_twice("x", Origin("c.yaml", 0, 1), Origin("a.yaml", 0, 1)).problem
    given = replace(problem, reason=f"{others}, but not a.yaml:1, (a.yaml:1)")
    found = Input((), {"a.yaml": text, "c.yaml": text}).pointed(given)
    assert found.reason == f"{others}, but not a.yaml:3:3, (a.yaml:3:3)"
