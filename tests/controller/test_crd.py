"""The CRD and the Python types say the same: fields, defaults, words."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from applyprune.controller import bundle as types
from applyprune.controller.bundle import Prune, Source, Spec
from applyprune.controller.following import FailedObject, RunResult
from applyprune.controller.names import Condition, Reason
from applyprune.controller.status import ConditionStatus, ReconcileResult, after
from applyprune.model.builtin import BUNDLES
from applyprune.model.events import Outcome
from applyprune.model.options import Adopt, PruneLimit
from applyprune.model.plan import Plan
from applyprune.model.problems import Problem, ProblemKind
from applyprune.model.refs import Ref
from applyprune.planning.durations import seconds_of
from applyprune.sources import read

CRD = Path(__file__).parents[2] / "deploy" / "crd.yaml"


def definition() -> dict[str, Any]:
    """Return the CRD as we read it ourselves."""
    (manifest,) = read([str(CRD)])
    return dict(manifest.body)


def schema(*path: str) -> dict[str, Any]:
    """Return the schema of a field of a Bundle."""
    found: dict[str, Any] = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path:
        found = found["items"] if step == "[]" else found["properties"][step]
    return found


def camel(name: str) -> str:
    """Return the API's way of writing a name."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def test_crd_is_the_resource_the_controller_requests() -> None:
    """Group, version, plural, scope, and that nobody prunes it with its Bundles."""
    spec = definition()["spec"]
    assert (spec["group"], spec["names"]["plural"], spec["names"]["kind"]) == (
        BUNDLES.group,
        BUNDLES.plural,
        BUNDLES.kind,
    )
    assert (spec["scope"], spec["names"]["shortNames"]) == ("Namespaced", ["bdl"])
    assert [one["name"] for one in spec["versions"]] == [BUNDLES.version]
    assert definition()["metadata"]["annotations"] == {"applyprune.dev/prune": "disabled"}


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        (Spec, ("spec",)),
        (Source, ("spec", "source")),
        (types.SourceRef, ("spec", "source", "configMapRefs", "[]")),
        (types.SourceRef, ("spec", "source", "secretRefs", "[]")),
        (Prune, ("spec", "prune")),
        (types.Dependency, ("spec", "dependsOn", "[]")),
        (types.IgnoreFields, ("spec", "ignoreFields", "[]")),
    ],
)
def test_types_have_the_fields_of_the_schema(type_: Any, path: tuple[str, ...]) -> None:
    """No more, no fewer, and each a field of its kind."""
    properties = schema(*path)["properties"]
    assert {camel(one.name) for one in fields(type_)} == properties.keys()
    hints = get_type_hints(type_)
    kinds: dict[Any, str] = {bool: "boolean", str: "string", float: "string", tuple: "array"}
    for one in fields(type_):
        hint, said = hints[one.name], properties[camel(one.name)]
        plain = next(iter(get_args(hint)), hint) if isinstance(hint, UnionType) else hint
        origin = getattr(plain, "__origin__", plain)
        if plain is PruneLimit:
            assert said["x-kubernetes-int-or-string"] is True
        elif is_dataclass(plain):
            assert said["type"] == "object", one.name
        else:
            assert said["type"] == kinds.get(origin, "string"), one.name


def test_defaults_match_the_schema() -> None:
    """Those that the server writes into an object, and those that stand in without it."""
    for type_, path in ((Spec, ("spec",)), (Prune, ("spec", "prune"))):
        properties = schema(*path)["properties"]
        for one in fields(type_):
            said = properties[camel(one.name)].get("default")
            if said is None or isinstance(said, dict):
                continue
            assert one.default is not MISSING
            told = seconds_of(said) if isinstance(one.default, float) else said
            assert one.default == told, one.name


def test_enums_match_the_schema() -> None:
    """The enums."""
    assert schema("spec", "adopt")["enum"] == [str(one) for one in Adopt]
    assert schema("spec", "deletionPolicy")["enum"] == [str(one) for one in types.DeletionPolicy]


def test_status_fields_are_all_in_the_schema() -> None:
    """The server would drop what it does not know without a word."""
    ref = Ref("", "ConfigMap", "shop", "a")
    followed = RunResult(
        plan=Plan((), (), approval="d"),
        refusal=Problem(ProblemKind.PRUNE_REFUSED, "w"),
        failing={ref: FailedObject(ref, "m", ProblemKind.RUN_FAILED)},
    )
    followed.outcomes[Outcome.CREATED] = 1
    status = after(
        {},
        ReconcileResult(ConditionStatus.READY, Reason.APPLIED, "m", "sha256:a", followed),
        generation=1,
        now="2026-01-01T00:00:00Z",
        requested="x",
        inventory=("applyprune-web", "id"),
    )
    assert status.keys() == schema("status")["properties"].keys()
    assert {one["type"] for one in status["conditions"]} == {str(one) for one in Condition}

    def check(value: Any, said: dict[str, Any], where: str) -> None:
        if isinstance(value, dict):
            assert value.keys() <= said["properties"].keys(), where
            assert set(said.get("required", ())) <= value.keys(), where
            for key, part in value.items():
                check(part, said["properties"][key], f"{where}.{key}")
        elif isinstance(value, list):
            for part in value:
                check(part, said["items"], f"{where}[]")
        else:
            types_: dict[str, Any] = {"string": str, "integer": int, "number": float}
            assert isinstance(value, types_[said["type"]]), where

    check(status, schema("status"), "status")
