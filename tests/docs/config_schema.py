"""The JSON Schema of ``applyprune.yaml``, from the one table of its keys."""

from __future__ import annotations

import json
from typing import Any

from applyprune.cli.config import Form
from applyprune.cli.options import KEYS, ROWS
from applyprune.sources.folders import API_VERSION, KIND, SCHEMA_ID
from tests.docs.pages import ROOT

FILE = ROOT / "applyprune/output/schemas/config.json"
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
BY_KEY = {row.key: row for row in ROWS if row.config is not None}
_NAME = "The name of the set."
_CONTEXT = (
    "A condition: if another context is in use, applyprune refuses to run. With `use: true`, "
    "applyprune uses the context, if you run it in this folder or below."
)


def config_schema() -> str:
    """Return the text of the schema."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": "applyprune.yaml",
        "description": "The name, the input and the options of one set, or options for all below.",
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            **{key: _value(key, form) for key, form in KEYS.forms.items()},
        },
        "required": ["apiVersion", "kind"],
        "additionalProperties": False,
    }
    return f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n"


def _value(key: str, form: Form) -> dict[str, Any]:
    if form is Form.CONTEXT:
        chosen = {
            "type": "object",
            "properties": {"name": _TEXT, "use": {"type": "boolean", "default": False}},
            "required": ["name"],
            "additionalProperties": False,
        }
        return {"description": meaning(key), "anyOf": [_TEXT, chosen]}
    if key == "name":
        return {"description": meaning(key), **_TEXT}
    # A value that would disable a guard for every run.
    unsafe = KEYS.unsafe.get(key)
    about = {"description": meaning(key)}
    if form is Form.FLAG:
        return {**about, "const": True} if unsafe is False else {**about, "type": "boolean"}
    if form is Form.TEXT:
        choices = getattr(BY_KEY[key].type, "choices", None)
        if choices is None:
            return {**about, **_TEXT}
        return {**about, "enum": [one for one in choices if one != unsafe]}
    return {**about, "anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}


def meaning(key: str) -> str:
    """Return what a key says."""
    told = {"name": _NAME, "context": _CONTEXT}.get(key) or getattr(BY_KEY[key], "help", "")
    return " ".join(str(told).partition("  [")[0].split())
