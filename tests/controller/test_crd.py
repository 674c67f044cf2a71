"""The CRD as the server takes it: its defaults, its descriptions, its status, and older Bundles."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]

from applyprune._version import __version__
from applyprune.controller.clusters import ClusterIdentity
from applyprune.controller.drift import DriftReport, RevertCount
from applyprune.controller.pending_plan import PendingPlan, Scope, count_key
from applyprune.controller.reasons import ConditionType, Reason
from applyprune.controller.result import FailedObject, RunResult
from applyprune.controller.spec import SPEC, read_bundle
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    status_after,
)
from applyprune.controller.task import SourceContent, SourceState
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.model.plan import Plan
from applyprune.model.problem import ProblemKind
from applyprune.sources import read
from tests.formats.written import FORMATS
from tests.support.controller import BUNDLE_CRD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api

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


def test_crd_is_the_resource_the_controller_requests() -> None:
    """Group, version, plural, scope, and that nobody prunes it together with its Bundles."""
    spec = definition()["spec"]
    assert (spec["group"], spec["names"]["plural"], spec["names"]["kind"]) == (
        BUNDLES.group,
        BUNDLES.plural,
        BUNDLES.kind,
    )
    assert (spec["scope"], spec["names"]["shortNames"]) == ("Namespaced", ["bdl"])
    assert [one["name"] for one in spec["versions"]] == [BUNDLES.version]
    assert definition()["metadata"]["annotations"] == {"applyprune.dev/prune": "disabled"}


def defaulted(crd: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the server stores it: with the defaults of the CRD."""
    filled = dict(value)
    for name, part in crd.get("properties", {}).items():
        if "default" in part:
            filled.setdefault(name, part["default"])
        if isinstance(filled.get(name), dict):
            filled[name] = defaulted(part, filled[name])
    return filled


@pytest.mark.parametrize(
    "source",
    [
        {"inline": ""},
        {"git": {"url": "https://git.example.com/a", "verify": {"secretRef": {"name": "keys"}}}},
        {"oci": {"url": "oci://ghcr.io/org/app", "verify": {"secretRef": {"name": "keys"}}}},
    ],
    ids=lambda source: str(*source),
)
def test_defaults_of_the_crd_are_in_the_model(source: dict[str, Any]) -> None:
    """Those that the server writes into an object, and those that the model uses without it."""
    least = {"source": source, "decryption": {"secretRef": {"name": "keys"}}}
    stored = defaulted(schema("spec"), least)
    assert stored["prune"] == {"enabled": True, "allowEmpty": False}
    assert SPEC.validate_python(stored) == SPEC.validate_python(least)


def test_status_fields_are_all_in_the_schema() -> None:
    """The server would drop what it does not know without a word."""
    ref = Ref("", "ConfigMap", "shop", "a")
    followed = RunResult(
        plan=Plan((), ()),
        failing={ref: FailedObject(ref, "m", ProblemKind.RUN_FAILED)},
    )
    fates = [fate for fate in Fate if fate is not Fate.LEAVE]
    pending = PendingPlan(
        "sha256:d",
        Scope.PLAN,
        {"cascaded": 1, **{count_key(fate): 1 for fate in fates}},
        tuple((fate, ref) for fate in fates),
        Reason.PENDING_APPROVAL,
        "w",
        "s",
        {ref: "cascade-delete 1 object"},
    )
    followed.outcomes[Outcome.CREATED] = 1
    now = datetime(2026, 1, 1, tzinfo=UTC)
    writer = ObjectWriter("configmap/a", "shop", "kubectl-edit")
    drift = DriftReport(
        ("True", Reason.CONTENDED, "m"),
        (RevertCount(writer, 1, now),),
        ({"object": "configmap/b", "namespace": "shop", "fields": [".data.key"]},),
    )
    # It is recorded before the run.
    status = status_after(
        {"cluster": ClusterIdentity("uid", "kube-system").status},
        ReconcileResult(
            ConditionStatus.READY,
            Reason.APPLIED,
            "m",
            "sha256:a",
            followed,
            pending,
            drift=drift,
            source=SourceState("check", "web", SourceContent("c", "artifact", "main@sha1:1")),
        ),
        generation=1,
        now="2026-01-01T00:00:00Z",
        requested="x",
        inventory=("applyprune-web", "id"),
        replica="r",
    )
    assert status.keys() == schema("status")["properties"].keys()
    assert {one["type"] for one in status["conditions"]} == {str(one) for one in ConditionType}

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


def test_server_takes_every_word_of_it(site_api: Api) -> None:
    """It is a structural schema, its rules compile, and nothing is dropped or added."""
    query = "dryRun=All&fieldValidation=Strict&fieldManager=test&force=true"
    status, reply = site_api(
        "PATCH",
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{BUNDLES.full_plural}?{query}",
        definition(),
        content_type="application/apply-patch+yaml",
    )
    assert status in {200, 201}, reply
    assert reply["spec"]["versions"] == definition()["spec"]["versions"]


OF_THE_SERVER = {"apiVersion", "kind", "metadata"}
"""The server describes these itself."""


def fields_of(said: dict[str, Any], where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each field below a schema by its path."""
    for name, part in said.get("properties", {}).items():
        yield f"{where}{name}", part
        yield from fields_of(part.get("items", part), f"{where}{name}.")


DESCRIBED = {path: one for path, one in fields_of(schema()) if path not in OF_THE_SERVER}


def test_every_field_has_a_description() -> None:
    """``kubectl explain`` shows it, and nothing else."""
    assert {"spec", "spec.source.git.ref.semver", "status.conditions.type"} <= DESCRIBED.keys()
    assert [path for path, one in DESCRIBED.items() if not one.get("description")] == []


def test_description_is_a_sentence() -> None:
    """It ends as one, and begins with a capital letter or with a word that is written so."""
    for path, one in DESCRIBED.items():
        meaning = one["description"]
        first = meaning.split()[0]
        assert meaning.endswith("."), path
        assert first[0].isupper() or first.startswith(("https:", "oci:", "sha256")), path


def of(spec: dict[str, Any], name: str = "web") -> dict[str, Any]:
    """Return a Bundle."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Bundle", "metadata": metadata,
            "spec": spec}  # fmt: skip


PATH = "/apis/applyprune.dev/v1alpha1/namespaces/default/bundles"
INLINE: dict[str, Any] = {"source": {"inline": ""}}
BETWEEN = "it must be between 1s and 720h"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no source": ({"source": {}}, "source"),
    "two sources": ({"source": {"inline": "", "secretRefs": [{"name": "a"}]}}, "source"),
    "an interval of nothing": ({**INLINE, "interval": "0s"}, "interval"),
    "no interval": ({**INLINE, "interval": "soon"}, "interval"),
    "a maxPrune": ({**INLINE, "prune": {"maxPrune": "101%"}}, "maxPrune"),
    "itself": ({**INLINE, "dependsOn": [{"name": "web"}]}, "depend on itself"),
    "a policy": ({**INLINE, "deletionPolicy": "Keep"}, "deletionPolicy"),
    "an account elsewhere": ({**INLINE, "serviceAccountName": "a/b"}, "serviceAccountName"),
    "a rule without a rule": ({**INLINE, "readyWhen": ["cm"]}, "spec.readyWhen[0]"),
    "a rule without a kind": ({**INLINE, "readyWhen": ["=true"]}, "spec.readyWhen[0]"),
    "a rule of a space": ({**INLINE, "readyWhen": ["cm= "]}, "spec.readyWhen[0]"),
    "a timeout": ({**INLINE, "timeout": "9000h"}, BETWEEN),
    "an interval": ({**INLINE, "interval": "500ms"}, BETWEEN),
    "the interval of a source": (
        {"source": {"git": {"url": "https://git.example.com/a", "interval": "721h"}}}, BETWEEN,
    ),
    "a URL as of scp": (
        {"source": {"git": {"url": "git@git.example.com:org/repo.git"}}},
        "it must be written as ssh://git@git.example.com/org/repo.git",
    ),
    "a URL of Git with a query": (
        {"source": {"git": {"url": "https://git.example.com/a?b"}}},
        "it must be https://HOST/PATH or ssh://USER@HOST/PATH, without a password",
    ),
    "an artifact without a scheme": (
        {"source": {"oci": {"url": "ghcr.io/org/app"}}},
        "it must be oci://HOST/NAME, without a tag: that is in ref",
    ),
}  # fmt: skip


def test_server_says_in_words_which_spec_it_refuses(site_api: Api) -> None:
    """Not by a regular expression, and before the controller has to."""
    assert site_api("POST", f"{PATH}?dryRun=All", of(INLINE))[0] == 201
    for case, (spec, why) in REFUSED.items():
        status, reply = site_api("POST", f"{PATH}?dryRun=All", of(spec))
        assert (status, why in reply["message"]) == (422, True), (case, reply)
        # The pattern of a duration is the server's own.
        assert "should match" not in reply["message"] or " " not in why, case


def test_inventory_name_cannot_be_changed(site_api: Api) -> None:
    """The old set would be left behind; the name of a Bundle must be one of a set, too."""
    new = site_api.create(PATH, of({**INLINE, "inventoryName": "one"}))
    # So nobody takes it for ready, for as long as no controller has seen it.
    assert new["status"] == {"observedGeneration": -1}
    for name in ("two", None):
        change = {"spec": {"inventoryName": name}}
        kind = "application/merge-patch+json"
        status, reply = site_api("PATCH", f"{PATH}/web", change, content_type=kind)
        assert (status, "inventoryName" in reply["message"]) == (422, True), reply
    status, reply = site_api("POST", PATH, of(INLINE, "web.example"))
    assert (status, "DNS label" in reply["message"]) == (422, True), reply
    # Naming its current name is not a change, and is consent to take over a set.
    site_api.create(PATH, of(INLINE, "same"))
    site_api.patch(f"{PATH}/same", {"spec": {"inventoryName": "same"}})


FILES = sorted(FORMATS.glob("*/bundles.yaml"))
OLD = [(path.parent.name, body) for path in FILES for body in yaml.safe_load_all(path.read_text())]
IDS = [f"{version}-{body['metadata']['name']}" for version, body in OLD]
each = pytest.mark.parametrize("body", [body for _, body in OLD], ids=IDS)


@each
def test_bundle_of_a_release_is_parsed(body: dict[str, Any]) -> None:
    """Without a fault, and with each value that it gives."""
    metadata = body["metadata"]
    ref = Ref(BUNDLES.group, BUNDLES.kind, metadata["namespace"], metadata["name"])
    live = LiveObject.of(ref, "u", "1", {**metadata, "generation": 1}, body)
    bundle = read_bundle(live)
    assert (bundle.name, bundle.namespace) == (metadata["name"], "default")


@each
def test_crd_takes_a_bundle_of_a_release(body: dict[str, Any], site_api: Api) -> None:
    """The server rejects a field or a value that the CRD does not know."""
    strict = "?dryRun=All&fieldValidation=Strict"
    status, stored = site_api("POST", f"{PATH}{strict}", body)
    assert status == 201, stored
    assert set(_paths(body["spec"])) - set(_paths(stored["spec"])) == set()


def test_every_field_of_the_spec_is_frozen() -> None:
    """A new field needs a Bundle that has it."""
    (crd,) = read([str(BUNDLE_CRD)])
    schema = crd.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = set(_fields(schema["properties"]["spec"]))
    ours = [body["spec"] for version, body in OLD if version == __version__]
    assert known - {path for spec in ours for path in _paths(spec)} == set()


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of each field in a schema."""
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _fields(below, f"{path}.{name}")
    if "items" in schema:
        yield from _fields(schema["items"], path)


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each field in a value, without the places in lists."""
    if isinstance(value, list):
        for one in value:
            yield from _paths(one, path)
    elif isinstance(value, dict):
        for name, below in value.items():
            yield f"{path}.{name}"
            yield from _paths(below, f"{path}.{name}")
