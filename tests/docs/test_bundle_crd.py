"""The CRD of Bundles is written from the model of the spec."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import yaml  # type: ignore[import-untyped]
from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema
from pydantic.dataclasses import dataclass

from tests.docs.bundle_crd import FILE, AsDeclared, crd, crd_text, structural


def test_crd_is_up_to_date() -> None:
    """In every word of its text."""
    assert FILE.read_text(encoding="utf-8") == crd_text(), "run `make docs`"


def test_text_of_the_crd_is_the_crd() -> None:
    """Also where a text looks like another type, or has to be quoted."""
    assert yaml.safe_load(crd_text()) == crd()


_RULE = {"rule": "self != oldSelf", "message": "it must change"}
_Seconds = Annotated[float, BeforeValidator(float), WithJsonSchema({"type": "string"})]


@dataclass
class Part:
    """What no field says about itself."""

    name: Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 9})]
    kind: Annotated[str, Field(json_schema_extra={"x-kubernetes-validations": [_RULE]})] = ""


@dataclass
class Whole:
    one: Part
    optional: Part | None = None
    text: Annotated[str, Field(json_schema_extra={"maxLength": 5})] | None = None
    several: Annotated[tuple[Part, ...], Field(json_schema_extra={"maxItems": 2})] = ()
    defaulted: Part = Field(default=Part("a"))
    bounded: Annotated[int, Field(ge=1)] = 3
    hours: _Seconds = 7200.0
    minutes: _Seconds = 90 * 60.0
    seconds: _Seconds = 90.0


PART = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "description": "Part.name", "minLength": 1, "maxLength": 9},
        "kind": {
            "type": "string",
            "description": "Part.kind",
            "x-kubernetes-validations": [_RULE],
        },
    },
}
FIELDS: dict[str, dict[str, Any]] = {
    "one": PART,
    "optional": PART,
    "text": {"type": "string", "maxLength": 5},
    "several": {"type": "array", "maxItems": 2, "items": PART},
    "defaulted": {**PART, "default": {}},
    "bounded": {"type": "integer", "minimum": 1, "default": 3},
    "hours": {"type": "string", "default": "2h"},
    "minutes": {"type": "string", "default": "90m"},
    "seconds": {"type": "string", "default": "90s"},
}
DESCRIBED = {
    **{("Whole", name): f"Whole.{name}" for name in FIELDS},
    **{("Part", name): f"Part.{name}" for name in ("name", "kind")},
}


def test_schema_has_only_what_a_server_accepts() -> None:
    """Without references and unions, and with what the model says of each field."""
    found = structural(TypeAdapter(Whole).json_schema(schema_generator=AsDeclared), DESCRIBED)
    assert found == {
        "type": "object",
        "required": ["one"],
        "properties": {
            name: {**schema, "description": f"Whole.{name}"} for name, schema in FIELDS.items()
        },
    }


def test_field_without_a_docstring_is_a_mistake() -> None:
    """``kubectl explain`` would show nothing."""
    with pytest.raises(KeyError):
        structural(TypeAdapter(Part).json_schema(), {("Part", "name"): "A name."})
