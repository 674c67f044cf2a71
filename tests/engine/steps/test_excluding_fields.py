"""Fields of other managers that exclude ours: a conflict that names them, and no recreation."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api
from tests.support.objects import crd, of_kind
from tests.support.stage import Stage

Body = dict[str, Any]
ALLOWED = {"applyprune.dev/recreate": "allowed"}
CONTAINER = "/spec/template/spec/containers/0"
THEM = "kubectl-patch"


def _deployment(name: str, volumes: tuple[Body, ...] = (), **container: Any) -> Body:
    labels = {"app": name}
    pod: Body = {"containers": [{"name": "c", "image": "nginx", **container}]}
    if volumes:
        pod["volumes"] = list(volumes)
    template = {"metadata": {"labels": labels}, "spec": pod}
    return of_kind(
        "Deployment", name, spec={"selector": {"matchLabels": labels}, "template": template}
    )


def _replace(path: str, value: Any) -> list[Body]:
    return [{"op": "replace", "path": path, "value": value}]


PORTS = {"selector": {"app": "shop"}, "ports": [{"name": "http", "port": 80}]}
VALUE_FROM = {"fieldRef": {"fieldPath": "metadata.name"}}
LIMITS = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
TCP = _replace(f"{CONTAINER}/livenessProbe", {"tcpSocket": {"port": 80}})
PROBE = _deployment("probe", livenessProbe={"httpGet": {"path": "/", "port": 80}})
CASES: dict[str, tuple[Body, list[Body], str]] = {
    "deployment.apps/probe": (PROBE, TCP, "livenessProbe.tcpSocket"),
    "deployment.apps/limits": (
        _deployment("limits", resources={"requests": {"cpu": "1"}}),
        _replace(f"{CONTAINER}/resources", LIMITS), "resources.limits.cpu",
    ),
    "deployment.apps/variable": (
        _deployment("variable", env=[{"name": "A", "value": "1"}]),
        _replace(f"{CONTAINER}/env/0", {"name": "A", "valueFrom": VALUE_FROM}), "valueFrom",
    ),
    "deployment.apps/volume": (
        _deployment("volume", volumes=({"name": "v", "configMap": {"name": "c"}},)),
        _replace("/spec/template/spec/volumes/0", {"name": "v", "secret": {"secretName": "s"}}),
        "secret",
    ),
    "service/port": (
        of_kind("Service", "port", spec=PORTS), _replace("/spec/ports/0/port", 81), "[port=81"
    ),
}  # fmt: skip
BODIES = [body for body, _, _ in CASES.values()]
ALL_UPDATED = dict.fromkeys(CASES, Outcome.UPDATED)


def _path(stage: Stage, ref: str) -> str:
    kind, _, name = ref.partition("/")
    group = "/apis/apps/v1" if kind.endswith(".apps") else "/api/v1"
    return stage.path(name, f"{kind.partition('.')[0]}s", group)


def _meddle(stage: Stage, api: Api) -> None:
    for ref, (_, patch, _) in CASES.items():
        api.patch(_path(stage, ref), patch, by=THEM)


def _read(stage: Stage, api: Api, part: str) -> dict[str, Any]:
    """Return a part of every object, as it is on the server."""
    bodies = {ref: api.get(_path(stage, ref)) for ref in CASES}
    return {ref: {**body["metadata"], **body}[part] for ref, body in bodies.items()}


@pytest.mark.holds("excluded-by-others", row="True")
@pytest.mark.parametrize("check", [True, False])
def test_field_that_excludes_ours_is_a_conflict_with_its_manager(
    stage: Stage, api: Api, check: bool
) -> None:
    """It names manager, field and way out, with another manifest, and in a check."""
    marked = copy.deepcopy(BODIES)
    for body in marked:
        body["metadata"]["annotations"] = ALLOWED
    assert stage.run(*marked, wait=False).exit_code == 0
    uids = _read(stage, api, "uid")
    _meddle(stage, api)
    for body in marked:
        body["metadata"]["labels"] = {"new": "label"}
    ways: tuple[dict[str, Any], ...] = ({}, {"check": True}, {"dry_run": DryRun.SERVER})
    for options in ways:
        story = stage.run(*marked, wait=False, recreate=True, **options)
        for ref, (_, _, field) in CASES.items():
            told = story.problem(ref)
            assert THEM in told, (options, told)
            if ref.endswith("/limits"):
                # The request too is the other manager's now: that conflict comes first.
                assert "To revert" in told or "To overwrite" in told, (options, told)
                continue
            for words in ("--conflicts revert", f"--take-over {THEM}", field):
                assert words in told, (options, told)
            assert "in place" not in told, (options, told)
        assert set(story.outcomes.values()) == {Outcome.FAILED}
    taken: dict[str, Any] = {"wait": False, "take_over": frozenset({THEM})}
    assert stage.run(*marked, dry_run=DryRun.SERVER, **taken).outcomes == ALL_UPDATED
    assert stage.run(*marked, check=check, **taken).outcomes == ALL_UPDATED
    _meddle(stage, api)
    story = stage.run(*marked, wait=False, recreate=True, conflicts=Conflicts.FORCE)
    assert story.outcomes == ALL_UPDATED, story.events
    assert _read(stage, api, "uid") == uids


@pytest.mark.parametrize("check", [True, False])
def test_drift_that_excludes_ours_is_set_back(stage: Stage, api: Api, check: bool) -> None:
    """With the part that somebody has put in its place; the plan names it."""
    assert stage.run(*BODIES, wait=False).exit_code == 0
    uids, before = _read(stage, api, "uid"), _read(stage, api, "spec")
    _meddle(stage, api)
    drifted = _read(stage, api, "spec")
    options: dict[str, Any] = {"wait": False, "conflicts": Conflicts.REVERT}
    planned = stage.run(*BODIES, dry_run=DryRun.SERVER, **options)
    assert planned.outcomes == ALL_UPDATED, planned.events
    for step in planned.plan.applies:
        part = CASES[step.desired.ref.short][2].split("[")[-1].split(".")[0]
        assert any(part in pointer for pointer, _ in step.reverts)
        assert {who for _, who in step.reverts} == {THEM}
    assert _read(stage, api, "spec") == drifted
    story = stage.run(*BODIES, check=check, **options)
    assert story.outcomes == ALL_UPDATED, story.events
    assert all(f"that {THEM} had changed" in one.reason for one in story.of(ObjectDone))
    assert (_read(stage, api, "uid"), _read(stage, api, "spec")) == (uids, before)
    again = stage.run(*BODIES, wait=False)
    assert again.outcomes == dict.fromkeys(CASES, Outcome.UNCHANGED)


@pytest.mark.holds("excluded-by-drift")
def test_field_that_another_applier_has_put_there_is_not_set_back(stage: Stage, api: Api) -> None:
    """That is no drift: two want the object, and a person must say who has it."""
    ref = "deployment.apps/probe"
    path = _path(stage, ref)
    assert stage.run(PROBE, wait=False).exit_code == 0
    api.patch(path, [{"op": "remove", "path": f"{CONTAINER}/livenessProbe"}], by=THEM)
    theirs = _deployment("probe", livenessProbe={"tcpSocket": {"port": 80}})
    api.apply(path, theirs, by="team")
    live = api.get(path)["spec"]
    for check in (True, False):
        story = stage.run(PROBE, wait=False, conflicts=Conflicts.REVERT, check=check)
        assert story.outcomes == {ref: Outcome.FAILED}
        assert "--take-over team" in story.problem(ref)
    assert api.get(path)["spec"] == live


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        (frozenset(), {}),
        (frozenset({"ca-bundle"}), {"conflicts": Conflicts.FORCE}),
        (frozenset({"ca-bundle"}), {"take_over": frozenset({"injector"})}),
    ],
    ids=["by the default rule", "by force", "by taking it over"],
)
def test_conversion_goes_with_what_an_injector_has_in_it(
    crd_stage: Stage,
    crds: Api,
    running: Plane,
    rules: frozenset[str],
    asked: dict[str, Any],
) -> None:
    """The CRD drops its conversion; the caBundle of another manager would stay, and excludes it."""
    group = f"{crd_stage.namespace}.example.com"
    body = crd("Conv", group=group)
    body["metadata"]["name"] = f"convs.{group}"
    service = {"namespace": "default", "name": "absent", "path": "/c"}
    before = copy.deepcopy(body)
    before["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}},
    }
    assert crd_stage.run(before, wait=False).exit_code == 0
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/convs.{group}"
    authority = base64.b64encode(running.ca_file.read_bytes()).decode()
    change = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": authority}}}}}
    crds.patch(path, change, by="injector")
    ref = f"customresourcedefinition.apiextensions.k8s.io/convs.{group}"
    off = frozenset({"ca-bundle"})
    for options in ({}, {"recreate": True}, {"dry_run": DryRun.SERVER}):
        told = crd_stage.run(body, wait=False, no_default_ignore=off, **options).problem(ref)
        assert "--conflicts force" in told, (options, told)  # nothing of the set has drifted
        assert "caBundle: owned by injector" in told, (options, told)
    story = crd_stage.run(body, wait=False, check=True, no_default_ignore=rules, **asked)
    assert story.reasons == {ref: "took fields from injector"}
    assert crds.get(path)["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.holds("fields-beside")
def test_recreation_needs_a_field_of_ours_alone(stage: Stage, api: Api) -> None:
    """An immutable field has changed too; what another manager has set would be lost unsaid."""
    ref = "deployment.apps/probe"
    path = _path(stage, ref)
    assert stage.run(PROBE, wait=False).exit_code == 0
    uid = api.patch(path, TCP, by=THEM)["metadata"]["uid"]
    other = copy.deepcopy(PROBE)
    other["spec"]["selector"]["matchLabels"] = {"app": "other"}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    story = stage.run(other, wait=False, recreate=True)
    assert story.outcomes == {ref: Outcome.FAILED}
    assert f"{THEM} owns fields beside it" in story.problem(ref)
    assert api.get(path)["metadata"]["uid"] == uid
    story = stage.run(other, wait=False, recreate=True, take_over=frozenset({THEM}))
    assert story.outcomes == {ref: Outcome.RECREATED}, story.events
