"""Every event has a shape, every field of it is in that or is left out on purpose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator
from msgspec import Struct

from applyprune import errors
from applyprune.model import events, fate, fieldset, identity, inventory, live, plan, problem
from applyprune.model.events import FieldsOfManager, ObjectStatus, Started, WarningEvent, current
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Guard, GuardVerdict
from applyprune.model.problem import ContestedField, ManagerConflict, Origin
from applyprune.output.json import EVENT_NAMES, KEYS, data, event_data
from applyprune.values import replace
from tests.support.output import stream
from tests.support.output.printed import FILES, printed
from tests.support.output.schemas import NAMES, complaints, schema
from tests.support.planning import body, desired

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

EVENTS: tuple[type, ...] = get_args(events.Event)
OWN_EVENTS = {*EVENTS} - {events.SetEvent}
"""Those with a name of their own: an event of one of many sets has the name of what it wraps."""

_NAMES = {
    name: value
    for module in (events, fate, fieldset, identity, inventory, live, plan, problem)
    for name, value in vars(module).items()
    if not name.startswith("_")
} | {"DryRun": DryRun, "Mode": Mode, "Any": Any}


def test_stream_contains_every_event() -> None:
    """So that the golden files of each format show each of them."""
    assert {type(one) for one in stream.EVENTS} == set(EVENTS)
    assert EVENT_NAMES.keys() == OWN_EVENTS


@pytest.mark.parametrize("event", stream.EVENTS, ids=lambda one: type(one).__name__)
def test_shape_has_every_field(event: events.Event) -> None:
    """By its key, beside the event's name; nothing else, and nothing that is not for the wire."""
    more = {"patch", "changes"} if isinstance(event, events.ObjectDiff) else set()
    told = event_data(event)
    if isinstance(event, events.SetEvent):
        assert told.pop("set").keys() == {"name", "namespace", "input"}
        event = event.event
    assert told.keys() - more == {"event", *KEYS[type(event)].values()} - {None}
    assert more <= told.keys()
    assert told["event"] == EVENT_NAMES[type(event)]
    assert complaints("events", event_data(event)) == []


@pytest.mark.parametrize("kind", KEYS, ids=lambda one: one.__name__)
def test_every_field_has_a_key_or_is_left_out(kind: Any) -> None:
    """Two fields never share a key, and a key is camelCase."""
    keys = KEYS[kind]
    assert keys.keys() == set(kind.__struct_fields__)
    shown = [key for key in keys.values() if key is not None]
    assert len(set(shown)) == len(shown)
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)*", key) for key in shown)


def test_words_of_enums_are_kebab_case() -> None:
    """But for the states of kstatus and the operations of managedFields, which are not ours."""
    ours = (
        Outcome,
        events.Phase,
        inventory.MismatchType,
        inventory.Repair,
        Fate,
        Guard,
        GuardVerdict,
        Mode,
        DryRun,
    )
    words = [str(one) for kind in ours for one in kind]
    assert [one for one in words if not re.fullmatch("[a-z]+(-[a-z]+)*", one)] == []


def test_type_without_keys_raises() -> None:
    """A new type is shown only once somebody has decided how."""

    class More(Started, frozen=True):
        pass

    with pytest.raises(TypeError, match="More is not for output"):
        data(More("r", Mode.APPLY, "a", "b", DryRun.OFF))


def test_words_in_text() -> None:
    """One word for a fact: the same as on the wire, without its hyphens."""
    assert Outcome.NOT_PRUNED.text == "not pruned"
    assert Outcome.NOT_PRUNED.forecast == "would not be pruned"
    assert Outcome.UPDATED.forecast == "would be updated"
    assert events.Status.CURRENT.text == "Ready"


def test_events_contain_only_shaped_types() -> None:
    """A new type in an event needs a decision: to be shown, and which of its fields."""
    reached: set[type] = set()
    to_see: list[type] = list(OWN_EVENTS)
    while to_see:
        kind = to_see.pop()
        reached.add(kind)
        hints = get_type_hints(kind, localns=_NAMES | {"Mapping": dict})
        kept = {name for name, key in KEYS.get(kind, {}).items() if key is not None}
        found = {part for name in kept for part in _parts(hints[name])}
        # A plan is not taken apart field by field.
        to_see += [one for one in found if one not in reached | {plan.Plan}]
    assert reached - KEYS.keys() == set()


def _parts(hint: Any) -> set[type]:
    parts = get_args(hint)
    if not parts:
        return {hint} if isinstance(hint, type) and issubclass(hint, Struct) else set()
    return {found for part in parts for found in _parts(part)}


def test_type_that_is_not_for_output_raises() -> None:
    """A manifest's body cannot come out by mistake."""
    with pytest.raises(TypeError, match="Desired is not for output"):
        data(desired(body()))


DRIFTED = Drift("/data/a", '"b"', '"hand"', "kubectl", "Update", "2026-01-01T00:00:00Z")
FIELD = ContestedField(".data.a", "/data/a", '"b"', '"none"')


@pytest.mark.parametrize(
    ("value", "nulls"),
    [
        (DRIFTED, set()),
        (Drift("/data/a", None, None), {"desired", "live", "manager", "operation", "time"}),
        # The path of the whole object is a JSON pointer, too.
        (replace(DRIFTED, path="", wanted=None), {"desired"}),
        (ManagerConflict("m", "Update", "scale", "2026-01-01T00:00:00Z", (FIELD,)), set()),
        (ManagerConflict("m", "", "", ""), {"operation", "subresource", "time"}),
        (FIELD, set()),
        (replace(FIELD, ours=None, theirs="none"), {"ours", "theirs"}),
        (FieldsOfManager("m", ()), {"time"}),
        (WarningEvent("pod/a", "BackOff", "", 1, ""), {"last"}),
        (Origin("a.yaml", 1), {"line", "column"}),
    ],
)
def test_unknown_or_absent_is_null(value: object, nulls: set[str]) -> None:
    shown = data(value)
    assert {key for key, part in shown.items() if part is None} == nulls


def test_drift_without_values_fits_the_schema() -> None:
    drifted = ObjectStatus(
        Ref("", "ConfigMap", "shop", "a"),
        current("fine"),
        Ownership.OWNED,
        None,
        drifted=True,
        drift=(Drift("/data/a", None, None),),
    )
    assert complaints("events", event_data(drifted)) == []


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid_schemas(name: str) -> None:
    """Of draft 2020-12."""
    Draft202012Validator.check_schema(schema(name))


def test_event_schema_knows_every_event() -> None:
    """The header and every event, and each by its conditional."""
    names = ["output", *EVENT_NAMES.values()]
    assert sorted(schema("events")["properties"]["event"]["examples"]) == sorted(names)
    for name in names:
        assert complaints("events", {"event": name}) != []
    # What is not known is let be: that is the promise to readers of later versions.
    assert complaints("events", {"event": "new", "x": 1}) == []
    more = {**event_data(Started("r", Mode.APPLY, "a", "b", DryRun.OFF)), "new": 1}
    assert complaints("events", more, strict=False) == []
    assert complaints("events", more) != []


@pytest.mark.parametrize("name", NAMES)
def test_readiness_has_one_shape(name: str) -> None:
    """A readiness always has a status and a message."""
    shapes = [_without_null(one) for one in _properties(schema(name), "readiness")]
    assert shapes == [_READINESS[name]] * len(shapes)
    assert len(_properties(schema(name), "status")) == (1 if name == "events" else 0)


_READINESS = {
    "events": {"$ref": "#/$defs/readinessState"},
    "document": {"$ref": "events.json#/$defs/readinessState"},
    "version": {},
}


def _properties(part: Any, name: str) -> list[Any]:
    """Return the schema of every property of a name, however deep it is."""
    if isinstance(part, list):
        return [found for one in part for found in _properties(one, name)]
    if not isinstance(part, dict):
        return []
    here = [part["properties"][name]] if name in part.get("properties", {}) else []
    return here + [found for one in part.values() for found in _properties(one, name)]


def _without_null(part: Any) -> Any:
    return part["anyOf"][0] if "anyOf" in part else part


def test_schemas_name_every_outcome() -> None:
    """As examples, since more may come."""
    told = schema("events")["$defs"]["object"]["properties"]["outcome"]["examples"]
    assert told == [str(one) for one in Outcome]


@pytest.mark.parametrize("form", FILES)
def test_formats_match_their_golden_files(form: str, golden: SnapshotAssertion) -> None:
    """Changing one changes a contract: ``pytest --snapshot-update``, then look at it."""
    assert printed(form) == golden(name=FILES[form])


@pytest.mark.parametrize("form", FILES)
def test_output_contains_no_secret_and_no_control_character(form: str) -> None:
    """The stream holds both; what is printed neither."""
    text = printed(form)
    assert stream.SECRET_VALUE not in text
    assert "feed:" not in text
    assert "beef" not in text
    assert [char for char in text if not char.isprintable() and char != "\n"] == []


def test_error_classes_are_problem_kinds() -> None:
    """What ``kind`` says is a class of the one tree, so that a reader can look it up."""
    kinds = {one["problem"]["kind"] for one in map(event_data, stream.EVENTS) if one.get("problem")}
    assert all(issubclass(getattr(errors, kind), errors.ApplypruneError) for kind in kinds)
