"""Every event has a shape, every field of it is in that or is left out on purpose."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from applyprune import errors
from applyprune.model import (
    events,
    findings,
    inventory,
    live,
    manifests,
    plan,
    problems,
    readiness,
    refs,
    resources,
)
from applyprune.model.events import Outcome, Started
from applyprune.model.options import DryRun, Mode
from applyprune.output.shapes import EVENTS, LEFT_OUT, SHOWN, camel, data, shape, word
from tests.support.output import stream
from tests.support.output.golden import FILES, FOLDER, SUMMARY, printed
from tests.support.output.schemas import NAMES, complaints, schema
from tests.support.planning import body, desired

_NAMES = {
    name: value
    for module in (
        events,
        findings,
        inventory,
        live,
        manifests,
        plan,
        problems,
        readiness,
        refs,
        resources,
    )
    for name, value in vars(module).items()
    if not name.startswith("_")
} | {"DryRun": DryRun, "Mode": Mode, "Any": Any}


def test_the_stream_holds_every_event() -> None:
    """So that the files of ``fixtures/output`` show each of them."""
    assert {type(one) for one in stream.EVENTS} == set(EVENTS)


@pytest.mark.parametrize("event", stream.EVENTS, ids=lambda one: type(one).__name__)
def test_every_field_is_in_the_shape(event: events.Event) -> None:
    """In camelCase, beside the event's name; nothing else."""
    more = {"patch", "changes"} if isinstance(event, events.Compared) else set()
    assert shape(event).keys() - more == {"event", *(camel(one.name) for one in fields(event))}
    assert more <= shape(event).keys()
    assert complaints("events", shape(event)) == []


def test_what_is_left_out_exists() -> None:
    """A field that was renamed would come out again under its new name."""
    for kind, names in LEFT_OUT.items():
        assert names <= {one.name for one in fields(kind)}


def test_no_event_holds_what_has_no_shape() -> None:
    """A new type in an event needs a decision: to be shown, and which of its fields."""
    reached: set[type] = set()
    to_see: list[type] = list(EVENTS)
    while to_see:
        kind = to_see.pop()
        reached.add(kind)
        hints = get_type_hints(kind, localns=_NAMES | {"Mapping": dict})
        kept = {one.name for one in fields(kind) if one.name not in LEFT_OUT.get(kind, frozenset())}
        found = {part for name in kept for part in _parts(hints[name])}
        # A plan is not taken apart field by field.
        to_see += [one for one in found if one not in reached | {plan.Plan}]
    assert reached - set(SHOWN) == set()


def _parts(hint: Any) -> set[type]:
    parts = get_args(hint)
    if not parts:
        return {hint} if isinstance(hint, type) and is_dataclass(hint) else set()
    return {found for part in parts for found in _parts(part)}


def test_what_is_not_for_output_raises() -> None:
    """A manifest's body cannot come out by mistake."""
    with pytest.raises(TypeError, match="Desired is not for output"):
        data(desired(body()))


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_are_schemas(name: str) -> None:
    """Of draft 2020-12."""
    Draft202012Validator.check_schema(schema(name))


def test_the_schema_of_events_knows_all() -> None:
    """The header and every event, and each by its conditional."""
    names = ["output", *map(word, EVENTS)]
    assert sorted(schema("events")["properties"]["event"]["examples"]) == sorted(names)
    for name in names:
        assert complaints("events", {"event": name}) != []
    # What is not known is let be: that is the promise to readers of later versions.
    assert complaints("events", {"event": "new", "x": 1}) == []
    more = {**shape(Started("r", Mode.APPLY, "a", "b", DryRun.OFF)), "new": 1}
    assert complaints("events", more, strict=False) == []
    assert complaints("events", more) != []


def test_the_schemas_name_every_outcome() -> None:
    """As examples, since more may come."""
    told = schema("events")["$defs"]["done"]["properties"]["outcome"]["examples"]
    assert told == [str(one) for one in Outcome]


@pytest.mark.parametrize("form", FILES)
def test_golden_files(form: str) -> None:
    """Changing one changes a contract; ``python -m tests.support.output.golden`` writes them."""
    assert printed(form) == (FOLDER / FILES[form]).read_text(encoding="utf-8")


@pytest.mark.parametrize("form", [*FILES, "summary"])
def test_no_secret_and_no_control_character(form: str) -> None:
    """The stream holds both; what is printed neither."""
    name = SUMMARY if form == "summary" else FILES[form]
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert stream.SECRET_VALUE not in text
    assert "feed:" not in text
    assert "beef" not in text
    assert [char for char in text if not char.isprintable() and char != "\n"] == []


def test_the_error_classes_are_kinds() -> None:
    """What ``kind`` says is a class of the one tree, so that a reader can look it up."""
    kinds = {one["problem"]["kind"] for one in map(shape, stream.EVENTS) if one.get("problem")}
    assert all(issubclass(getattr(errors, kind), errors.ApplypruneError) for kind in kinds)
