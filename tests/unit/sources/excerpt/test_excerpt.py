"""Lines of the input in messages: cut, neutralised, and never a Secret's."""

from __future__ import annotations

import pytest

from applyprune.errors import InputError
from applyprune.model.problem import Mark, Origin, Problem, ProblemKind
from applyprune.sources.excerpt import excerpt, line_may_be_secret
from applyprune.sources.load import Input

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n"

SHOWN: dict[str, tuple[str, int, list[str]]] = {
    "as it is": ("  a: b", 3, ["6 |   a: b", "  |   ^"]),
    "a tab": ("  a:\tb", 6, ["6 |   a:    b", "  |         ^"]),
    "a control character": ("  a: \x1b[31m", 6, ["6 |   a: \\x1b[31m", "  |      ^"]),
    "a change of direction": ("  \u202ea: b", 4, ["6 |   \\u202ea: b", "  |         ^"]),
    "wide characters": ("  名: b", 5, ["6 |   名: b", "  |      ^"]),
    "a combining accent": ("  e\u0301: b", 5, ["6 |   e\u0301: b", "  |    ^"]),
    "past the end": ("  a", 99, ["6 |   a", "  |    ^"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_caret_is_below_its_place(name: str) -> None:
    line, column, expected = SHOWN[name]
    assert excerpt(f"{CONFIG_MAP}{line}\n", 6, column).splitlines() == expected


@pytest.mark.parametrize("column", [1, 50, 5_000, 10_000])
def test_long_line_is_cut_around_the_place(column: int) -> None:
    line = "".join(f"{number:05}" for number in range(2_000))
    shown, caret = excerpt(f"{CONFIG_MAP}  {line}\n", 6, column).splitlines()
    assert len(shown) < 100
    assert shown[caret.index("^")] == f"  {line}"[column - 1]


SECRETS: dict[str, str] = {
    "plain": "kind: Secret\ndata: {a: hunter2}\n",
    "quoted": "kind: 'Secret'\ndata: {a: hunter2}\n",
    "escaped": 'kind: "\\x53ecret"\ndata: {a: hunter2}\n',
    "escaped in JSON": '{"kind": "\\u0053ecret", "data": {"a": "hunter2"}}\n',
    "by an alias": "x: &x Secret\nkind: *x\ndata: {a: hunter2}\n",
    "tagged": "kind: !!str Secret\ndata: {a: hunter2}\n",
    "on another line": "kind:\n  Secret\ndata: {a: hunter2}\n",
    "in another case": "kind: secret\ndata: {a: hunter2}\n",
    "mistyped": "kind: Secrt\ndata: {a: hunter2}\n",
    "of somebody's own": "kind: VaultSecret\ndata: {a: hunter2}\n",
    "without a kind": "data: {a: hunter2}\n",
    "with a kind deeper down": "x:\n  kind: ConfigMap\ndata: {a: hunter2}\n",
    "in a list": "kind: List\nitems:\n- kind: ConfigMap\n- kind: Secret\n  data: {a: hunter2}\n",
    "a list of them": "kind: SecretList\nitems:\n- data: {a: hunter2}\n",
    "twice a kind": "kind: ConfigMap\nkind: Secret\ndata: {a: hunter2}\n",
    "after its data": "data: {a: hunter2}\nkind: Secret\n",
    "cut off in JSON": '{"kind": "ConfigMap"}\n{"data": {"a": "hunter2"\n',
    "with the kind of what it holds": '{"data": {"kind": "ConfigMap", "a": "hunter2"',
    "behind a separator": "kind: ConfigMap\n---\ndata: {a: hunter2}\n",
    "before a separator": "data: {a: hunter2}\n--- # next\nkind: ConfigMap\n",
}


@pytest.mark.parametrize("name", SECRETS)
def test_possible_secret_is_never_shown(name: str) -> None:
    text = SECRETS[name]
    line = next(at for at, line in enumerate(text.split("\n"), 1) if "hunter2" in line)
    assert line_may_be_secret(text, line)
    for column in range(1, 40):
        for key in ("", "a", "data", "items", "kind"):
            assert "hunter2" not in excerpt(text, line, column, key=key)


def test_other_kinds_are_shown() -> None:
    shown = (
        "kind: Deployment\nspec: {secretName: a, envFrom: [{secretRef: {name: b}}]}\n",
        '{"metadata": {}, "kind": "ConfigMap",\n "data": {"a": "b"}}\n',
        "# about a\n---\nkind: ConfigMap # a comment\ndata: {}\n",
    )
    for text in shown:
        assert not line_may_be_secret(text, len(text.rstrip().split("\n")))


def test_missing_field_is_located_by_its_nearest_parent() -> None:
    given = Input((), {"a.yaml": f"{CONFIG_MAP}  a: b\n"})
    problem = Problem(
        ProblemKind.RUN_FAILED,
        "no",
        "a.yaml:1",
        origin=Origin("a.yaml", 1, 1),
        field=("data", "z", 0),
    )
    pointed = given.pointed(problem)
    assert (pointed.location, pointed.excerpt) == ("a.yaml:5:1", "5 | data:\n  | ^")
    assert given.pointed(pointed) == pointed


def test_message_without_a_field_is_unchanged() -> None:
    given = Input((), {"a.yaml": CONFIG_MAP})
    whole = Problem(ProblemKind.RUN_FAILED, "no", "a.yaml:1", origin=Origin("a.yaml", 1, 1))
    elsewhere = Problem(
        ProblemKind.RUN_FAILED, "no", "b.yaml:1", origin=Origin("b.yaml", 1, 1), field=("kind",)
    )
    assert given.pointed(whole) == whole
    assert given.pointed(elsewhere) == elsewhere


def test_several_fields_are_sorted_by_line() -> None:
    text = CONFIG_MAP + "".join(f"  key-{number}: v\n" for number in range(9))
    marks = (Mark(("data", "key-8"), "two"), Mark(("kind",), "one"), Mark(("kind",), "and more"))
    error = InputError("wrong", location=Origin("a.yaml", 1, 1), marks=marks)
    shown = Input((), {"a.yaml": text}).pointed(error.problem)
    assert str(shown).splitlines() == [
        "a.yaml:2:1: wrong",
        "   2 | kind: ConfigMap",
        "     | ^ one",
        "     | ^ and more",
        "  14 |   key-8: v",
        "     |   ^ two",
    ]
