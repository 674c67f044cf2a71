"""The descriptions of ``spec`` in the CRD of Bundles, from the docstrings of the model's fields.

Everything else in the CRD is its own, and ``tests/controller`` compares it with the model.
"""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from pydantic.alias_generators import to_camel

from applyprune.controller.spec import SPEC
from tests.docs.pages import ROOT
from tests.support.package import tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE = ROOT / "deploy/crd.yaml"
_MODEL = SPEC.json_schema()
_WIDTH = 100
_KEY = "description: "
_SPEC = ["spec", "versions", "0", "schema", "openAPIV3Schema", "properties", "spec"]


def crd_text(text: str) -> str:
    """Return the text of a CRD with the descriptions of the model; its layout stays."""
    node = yaml.compose(text)
    for step in _SPEC:
        node = node.value[int(step)] if step.isdecimal() else _values(node)[step]
    wanted = _described(node, "Spec", _MODEL, docstrings())
    for schema, meaning in sorted(wanted, key=lambda one: -one[0].start_mark.index):
        found = _values(schema).get("description")
        assert found is not None, f"line {schema.start_mark.line + 1}: it has no description"
        if found.value == meaning:
            continue
        start, end = found.start_mark.index, found.end_mark.index
        column = found.start_mark.column - len(_KEY)
        if found.style == ">":  # a folded text ends where the next key begins
            end = text.rindex("\n", 0, end)
        text = text[:start] + _scalar(meaning, column) + text[end:]
    return text


def docstrings() -> Mapping[tuple[str, str], str]:
    """Return the docstring of each field of the spec, by its class and its name in the CRD."""
    found: dict[tuple[str, str], str] = {}
    for part in tree("applyprune.controller.spec").body:
        if not isinstance(part, ast.ClassDef):
            continue
        for field, after in zip(part.body, part.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                meaning = ""
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    meaning = str(after.value.value)
                found[part.name, to_camel(field.target.id)] = " ".join(meaning.split())
    return found


def _values(node: Any) -> dict[str, Any]:
    return {key.value: value for key, value in node.value}


def _resolved(schema: dict[str, Any], name: str = "") -> tuple[str, dict[str, Any]]:
    """Return the class that a field's schema is about, and its schema; of a list, of its items."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _resolved(_MODEL["$defs"][name], name)
    if "anyOf" in schema:
        (only,) = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return _resolved(only, name)
    return _resolved(schema["items"]) if "items" in schema else (name, schema)


def _described(
    node: Any, name: str, model: dict[str, Any], described: Mapping[tuple[str, str], str]
) -> Iterator[tuple[Any, str]]:
    """Yield the node of each field below a node of the CRD, and what the model says about it."""
    fields = _values(_values(node)["properties"])
    for field, part in model.get("properties", {}).items():
        yield fields[field], described[name, field]
        inner, below = _resolved(part)
        if "properties" in below:
            items = _values(fields[field]).get("items", fields[field])
            yield from _described(items, inner, below, described)


def _scalar(text: str, column: int) -> str:
    """Return a text as YAML writes it after its key: in one line if it fits, else folded."""
    fits = column + len(_KEY) + len(text) <= _WIDTH
    if fits and yaml.safe_load(f"a: {text}") == {"a": text}:
        return text
    margin = " " * (column + 2)
    lines = textwrap.wrap(
        text, _WIDTH - len(margin), break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([">-", *(margin + line for line in lines)])
