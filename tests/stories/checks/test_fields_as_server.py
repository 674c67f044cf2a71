"""The check of fields beside a strict dry run of the server, over every field of every kind.

What the check refuses, the server refuses: a false refusal would stop a run for no reason.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from applyprune.model.identity import GVK
from applyprune.planning.schemas import field_faults, kind_schema
from tests.support.api import Api
from tests.support.field_samples import VALUES, Kind, served_kinds
from tests.support.objects import crd
from tests.support.stage import Stage
from tests.support.waiting import eventually

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
OBJECT = {"type": "object", "properties": {"a": TEXT}}
EITHER = {"x-kubernetes-int-or-string": True}
PRESERVING = {"x-kubernetes-preserve-unknown-fields": True}
ODD: dict[str, Any] = {
    "text": TEXT,
    "number": NUMBER,
    "share": {"type": "number"},
    "on": {"type": "boolean"},
    "date": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "duration": {"type": "string", "format": "duration"},
    "either": EITHER,
    "any-of": {**EITHER, "anyOf": [NUMBER, TEXT]},
    "all-of": {**EITHER, "allOf": [{"anyOf": [NUMBER, TEXT]}, {"pattern": "^.*$"}]},
    "object": {"type": "object"},
    "free": PRESERVING,
    "free-object": {"type": "object", **PRESERVING},
    "partly": {"type": "object", **PRESERVING, "properties": {"a": TEXT, "part": OBJECT}},
    "embedded": {**OBJECT, "x-kubernetes-embedded-resource": True},
    "embedded-free": {"type": "object", **PRESERVING, "x-kubernetes-embedded-resource": True},
    "map": {"type": "object", "additionalProperties": TEXT},
    "map-of-objects": {"type": "object", "additionalProperties": OBJECT},
    "map-of-either": {"type": "object", "additionalProperties": EITHER},
    "map-of-free": {"type": "object", "additionalProperties": PRESERVING},
    "nullable": {**TEXT, "nullable": True},
    "nullable-object": {**OBJECT, "nullable": True},
    "filled": {**TEXT, "default": "x"},
    "list": {"type": "array", "items": TEXT},
    "lists": {"type": "array", "items": {"type": "array", "items": NUMBER}},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "atomic": {"type": "array", "items": OBJECT, "x-kubernetes-list-type": "atomic"},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "required": ["port"],
            "properties": {"port": NUMBER, "protocol": {**TEXT, "default": "TCP"}, "a": TEXT},
        },
    },
    "one-of": {**OBJECT, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "restricted": {**TEXT, "anyOf": [{"minLength": 1}, {"pattern": "^$"}]},
    "a.b": TEXT,
}
QUERY = "fieldManager=x&force=true&dryRun=All&fieldValidation=Strict"
# The server's words for a wrong name or type, and for a duplicate.
ABOUT_FIELDS = re.compile(
    r"not declared in schema|unknown field|: expected |in body must be of type|duplicate entries"
    r"|cannot unmarshal|cannot convert|null element|explicit null|non-map elements"
)
# Values of the right type in a wrong format, which the check leaves to the server.
ABOUT_FORMATS = re.compile(r"must be of type (date-time|byte|duration)|with format")


@pytest.fixture
def kinds(crds: Api, crd_stage: Stage) -> list[Kind]:
    """Every kind of the server, and custom kinds with every form of a schema."""
    schemas = {
        "Odd": {"type": "object", "properties": {"spec": {"type": "object", "properties": ODD}}},
        "Loose": {"type": "object", **PRESERVING},
        "Bare": {"type": "object"},
    }
    for name, schema in schemas.items():
        definition = crd(name)
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, reply = crds("POST", path, definition)
        assert status in {201, 409}, reply

    def published() -> list[Kind]:
        if not crds.exists("/openapi/v3/apis/x.example.com/v1"):
            return []
        found = list(served_kinds(crds, crd_stage.namespace))
        return found if schemas.keys() <= {kind.kind for kind in found} else []

    found: list[Kind] = eventually(published, lambda: "the schemas are published")
    return found


@pytest.mark.parametrize(
    ("depth", "count"), [(6, 8), pytest.param(7, 400, marks=pytest.mark.sweep)]
)
def test_whatever_is_refused_the_server_refuses(
    crds: Api, kinds: list[Kind], depth: int, count: int
) -> None:
    """And most of what it refuses for its fields is found: all but formats and odd corners.

    Slow: every kind of the server is asked about eight fields or more.
    """
    chosen = random.Random(1)  # noqa: S311 -- the same ones in each run
    caught = missed = 0
    for kind in kinds:
        custom = kind.group == "x.example.com"
        schema = kind_schema(kind.schemas, GVK(kind.group, kind.version, kind.kind), custom=custom)
        assert schema is not None
        places = list(kind.places(depth))
        more = 30 if kind.kind == "Odd" else 1
        for path in chosen.choices(places, k=count * more):
            body = kind.body(path, chosen.choice(VALUES))
            status, reply = crds(
                "PATCH", f"{kind.path}/x?{QUERY}", body, content_type="application/apply-patch+yaml"
            )
            words = "" if status < 400 else str(reply["message"])
            if found := field_faults(body, schema):
                assert words, (body, found)
            if ABOUT_FIELDS.search(words) and not ABOUT_FORMATS.search(words):
                caught, missed = caught + bool(found), missed + (not found)
    assert caught > 10 * count
    assert missed < caught / 10, f"{caught} caught, {missed} missed"
