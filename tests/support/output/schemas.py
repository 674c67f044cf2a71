"""The published JSON Schemas, and a strict form that allows only the keys that they name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

import applyprune.output

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(applyprune.output.__file__).parent / "schemas"
NAMES = ("events", "document", "version")


@cache
def schema(name: str) -> dict[str, Any]:
    """Return one schema as published."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def complaints(name: str, value: object, *, strict: bool = True) -> list[str]:
    """Return the errors in a value; with ``strict``, unnamed keys are errors too."""
    published = {one: schema(one) for one in NAMES}
    schemas = {one: _closed(known) for one, known in published.items()} if strict else published
    return complaints_by(schemas, name, value)


def complaints_by(schemas: Mapping[str, Any], name: str, value: object) -> list[str]:
    """Return the errors in a value by one of these schemas, which refer to each other."""
    registry: Registry[Any] = Registry().with_resources(
        (one["$id"], Resource.from_contents(one)) for one in schemas.values()
    )
    validator = Draft202012Validator(schemas[name], registry=registry)
    return [f"{one.json_path}: {one.message}" for one in validator.iter_errors(value)]


def _closed(part: Any) -> Any:
    """Return a schema in which an object must have exactly its required keys."""
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(value) for key, value in part.items()}
    # The root names one key for all events; each event names all its own keys.
    if part.get("type") == "object" and "properties" in part and "allOf" not in part:
        closed["additionalProperties"] = False
    return closed
