"""The law of packed fields: each reading may give another dict, so parts are equal, never the same.

See ``applyprune.values``. An entry of managedFields that ``is not`` itself would count as another
manager's.
"""

from __future__ import annotations

import ast

from tests.support.package import modules, tree

READERS = {"own_writer"}
"""The functions that return a part of a packed field."""


def names_of_parts(module: ast.AST) -> set[str]:
    """Return the names to which a module assigns such a part."""
    return {
        target.id
        for node in ast.walk(module)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id in READERS
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def compared_by_identity(module: ast.AST) -> list[int]:
    """Return the lines on which a module compares such a part, but not with None, by identity."""
    parts = names_of_parts(module)
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.Is | ast.IsNot)
        and not isinstance(node.comparators[0], ast.Constant)
        and any(
            isinstance(one, ast.Name) and one.id in parts
            for one in (node.left, node.comparators[0])
        )
    ]


def test_parts_of_packed_fields_are_compared_by_value() -> None:
    """And the law finds them: many modules read our own entry."""
    assert sum(bool(names_of_parts(tree(module))) for module in modules()) >= 3
    wrong = [
        f"{module}, line {line}"
        for module in modules()
        for line in compared_by_identity(tree(module))
    ]
    assert wrong == []


def test_law_sees_a_comparison_by_identity() -> None:
    """In either order, and not that with None."""
    text = "ours = own_writer(live, name)\nours is None\n{} is ours\nours is not {}\nours == {}"
    assert compared_by_identity(ast.parse(text)) == [3, 4]
