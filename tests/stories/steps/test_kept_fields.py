"""Fields of other managers in what leaves a manifest, or that exclude ours: kept, taken, named."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from applyprune.model.plan import ConsequenceKind
from tests.support.api import Api
from tests.support.objects import config_map, crd, of_kind
from tests.support.stage import Stage, Story, on

Body = dict[str, Any]
ALLOWED = {"applyprune.dev/recreate": "allowed"}
CONTAINER = "/spec/template/spec/containers/0"
THEM = "kubectl-patch"
WITHOUT_RULE = {"no_default_ignore": frozenset({"ca-bundle"})}
FORCE = {"conflicts": Conflicts.FORCE}

# Fields that exclude ours: a conflict that names their manager, and no recreation.


def _deployment(name: str, *containers: Body, **container: Any) -> Body:
    labels = {"app": name}
    pod = {"containers": [*containers] or [{"name": "c", "image": "nginx", **container}]}
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


@pytest.mark.holds("excluded-by-others")
def test_field_that_excludes_ours_is_a_conflict_with_its_manager(stage: Stage, api: Api) -> None:
    """It names manager, field and way out, with another manifest, and in a check.

    Drift is set back, with the part that somebody has put in its place; the plan names it.

    Slow: it is eleven runs over four objects.
    """
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
    for more in ({"dry_run": DryRun.SERVER}, {"check": True}):
        assert stage.run(*marked, **taken, **more).outcomes == ALL_UPDATED
    before = _read(stage, api, "spec")
    _meddle(stage, api)
    revert: dict[str, Any] = {"wait": False, "conflicts": Conflicts.REVERT}
    planned = stage.run(*marked, dry_run=DryRun.SERVER, **revert)
    assert planned.outcomes == ALL_UPDATED, planned.events
    for step in planned.plan.applies:
        part = CASES[step.desired.ref.short][2].split("[")[-1].split(".")[0]
        assert any(part in pointer for pointer, _ in step.reverts)
        assert {who for _, who in step.reverts} == {THEM}
    story = stage.run(*marked, **revert)
    assert story.outcomes == ALL_UPDATED, story.events
    assert all(f"that {THEM} had changed" in reason for reason in story.reasons.values())
    assert _read(stage, api, "spec") == before
    _meddle(stage, api)
    story = stage.run(*marked, wait=False, recreate=True, **FORCE)
    assert story.outcomes == ALL_UPDATED, story.events
    assert _read(stage, api, "uid") == uids


@pytest.mark.holds("excluded-by-drift")
def test_field_that_another_applier_has_put_there_is_not_set_back(stage: Stage, api: Api) -> None:
    """That is not drift: two want the object, and a person must say who has it."""
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
    ("rules", "asked"), [({}, {}), (WITHOUT_RULE, FORCE)], ids=["by the default rule", "by force"]
)
def test_conversion_goes_with_what_an_injector_has_in_it(
    crd_stage: Stage, crds: Api, running: Plane, rules: Body, asked: Body
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
    for options in ({"recreate": True}, {"dry_run": DryRun.SERVER}):
        told = crd_stage.run(body, wait=False, **WITHOUT_RULE, **options).problem(ref)
        assert "--conflicts force" in told, (options, told)  # nothing of the set has drifted
        assert "caBundle: owned by injector" in told, (options, told)
    story = crd_stage.run(body, wait=False, check=True, **rules, **asked)
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


# What others have in what leaves: it goes with it, or stays, and both are said.


def _lost(story: Story) -> list[str]:
    found = story.plan.consequences
    return [one.message for one in found if one.kind is ConsequenceKind.FIELDS_LOST]


def _service(*ports: Body) -> Body:
    return of_kind("Service", "shop", spec={"selector": {"app": "shop"}, "ports": [*ports]})


A, B = ({"name": name, "image": "nginx"} for name in "ab")
WITH_ENV = [{"name": one["name"], "env": [{"name": "X", "value": "1"}]} for one in (A, B)]
BOTH = [{"port": 80, "name": "a"}, {"port": 443, "name": "b"}]
FIELDS = {
    "deployment.apps/shop": 'containers[name="b"].env',
    "service/shop": 'ports[port=443,protocol="TCP"].appProtocol',
}


@pytest.mark.holds("unplanned-release")
def test_item_that_another_applier_holds_needs_force(stage: Stage, api: Api) -> None:
    """No default rule leaves that to others; with force, their fields in other items stay.

    What has changed hands between plan and apply is judged again, never taken unseen.
    """
    paths = [_path(stage, ref) for ref in FIELDS]
    theirs = [_deployment("shop", *WITH_ENV)]
    theirs += [_service(*({"port": port, "appProtocol": "h"} for port in (80, 443)))]
    for body in theirs:
        del body["spec"]["selector"]
    del theirs[0]["spec"]["template"]["metadata"]
    assert stage.run(_deployment("shop", A, B), _service(*BOTH), wait=False).exit_code == 0
    for path, body in zip(paths, theirs, strict=True):
        api.apply(path, body, by="mesh")
    after = _deployment("shop", A), _service(BOTH[0])
    for options in ({}, {"conflicts": Conflicts.REVERT, "check": True}):
        story = stage.run(*after, wait=False, **options)
        assert story.outcomes == dict.fromkeys(FIELDS, Outcome.FAILED), story.events
        for name, field in FIELDS.items():
            assert field in story.problem(name)
            assert story.problem(name).count("owned by mesh") == 1
    more = {"name": "b", "env": [{"name": "Y", "value": "1"}]}
    late = _deployment("shop", more)
    del late["spec"]["selector"], late["spec"]["template"]["metadata"]
    stage.seen = on(Planned, lambda: api.apply(paths[0], late, by="meddler"))
    story = stage.run(after[0], wait=False, prune=False, check=True, **FORCE)
    stage.seen = lambda _: None
    assert story.outcomes["deployment.apps/shop"] is Outcome.FAILED, story.events
    assert "others own more of what leaves it" in story.problem("deployment.apps/shop")
    planned = stage.run(*after, check=True, dry_run=DryRun.SERVER, **FORCE)
    lost = [told.partition(",")[0] for told in _lost(planned)]
    assert sorted(lost) == [f"1 field of {who} is removed" for who in ("meddler", "mesh", "mesh")]
    story = stage.run(*after, wait=False, check=True, **FORCE)
    assert story.outcomes == dict.fromkeys(FIELDS, Outcome.UPDATED), story.events
    assert story.reasons["service/shop"] == "took fields from mesh"
    (container,) = api.get(paths[0])["spec"]["template"]["spec"]["containers"]
    (port,) = api.get(paths[1])["spec"]["ports"]
    assert (container["name"], port["name"]) == ("a", "a")
    assert container["env"], "what mesh has in the item that stays"
    assert port["appProtocol"]
    unchanged = dict.fromkeys(FIELDS, Outcome.UNCHANGED)
    assert stage.run(*after, wait=False).outcomes == unchanged


def test_field_that_another_applier_has_too_is_named(stage: Stage, api: Api) -> None:
    """By the plan and the result: it leaves the manifest, and stays."""
    both = {**config_map("c"), "data": {"a": "1", "b": "2"}}
    fewer = {**config_map("c"), "data": {"a": "1"}}
    assert stage.run(both).exit_code == 0
    api.apply(stage.path("c"), {**config_map("c"), "data": {"b": "2"}}, by="other")
    for options in ({"dry_run": DryRun.SERVER}, {"check": True}):
        story = stage.run(fewer, **options)
        assert story.reasons == {"configmap/c": "data.b stays: other owns it too"}
    assert stage.run(fewer).outcomes == {"configmap/c": Outcome.UNCHANGED}
    assert api.get(stage.path("c"))["data"] == both["data"]


def test_adoption_names_what_others_keep(stage: Stage, api: Api) -> None:
    """What they have applied or written, and no default of the server."""
    created = _deployment("shop", {**A, "env": [{"name": "X", "value": "1"}]})
    api.create(_path(stage, "deployment.apps/"), created, by="kubectl-create")
    key = {**config_map("c"), "data": {"key": "v", "b": "2"}}
    api.apply(stage.path("c"), key, by="ci-script")
    env = 'spec.template.spec.containers[name="a"].env[name="X"].value'
    said = {
        "configmap/c": "data.b stays: ci-script owns it",
        "deployment.apps/shop": f"{env} stays: kubectl-create owns it",
    }
    given = _deployment("shop", A), config_map("c")
    for options in ({"dry_run": DryRun.SERVER}, {"check": True}):
        reasons = stage.run(*given, wait=False, **options).reasons
        assert {ref: reason.rpartition("; ")[2] for ref, reason in reasons.items()} == said


@pytest.mark.holds("revoked-key")
def test_key_of_kubectls_string_data_goes_with_the_adoption(stage: Stage, api: Api) -> None:
    """The server has merged it into data without an owner; its plan names the key only."""
    path = stage.path("s", "secrets")
    body = {**of_kind("Secret", "s"), "stringData": {"keep": "one1", "revoked": "two2"}}
    api.apply(path, body, by="kubectl")
    kept = {**body, "stringData": {"keep": "one1"}}
    planned = stage.run(kept, dry_run=DryRun.SERVER, check=True)
    lost = "1 field of kubectl is removed, because the manifest lacks it: .data.revoked"
    assert _lost(planned) == [lost]
    assert "two2" not in repr(planned.events)
    assert stage.run(kept).exit_code == 0
    assert api.get(path)["data"].keys() == {"keep"}
    assert stage.run(kept).outcomes == {"secret/s": Outcome.UNCHANGED}


def test_key_without_an_owner_is_named(stage: Stage, api: Api) -> None:
    """By each diff that reads the object; by its name, never its value."""
    bodies = [{**of_kind(kind, "s"), "data": {"keep": "b25l"}} for kind in ("ConfigMap", "Secret")]
    assert stage.run(*bodies).exit_code == 0
    for path in (stage.path("s"), stage.path("s", "secrets")):
        found = api.patch(path, {"data": {"left": "dHdv"}}, by="alice")
        ours = [one for one in found["metadata"]["managedFields"] if one["manager"] != "alice"]
        change = {"op": "replace", "path": "/metadata/managedFields", "value": ours}
        api.patch(path, [change], by="alice")
    for values in (True, False):
        story = stage.run(*bodies, reapply_all=values, dry_run=DryRun.SERVER, diff=True)
        told = " ".join(story.warnings)
        assert all(name in told for name in ("configmap/s", "secret/s")), told
        assert "data.left" in told
        assert "dHdv" not in told
