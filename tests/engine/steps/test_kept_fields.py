"""What leaves a manifest while another manager owns it: it is released, or stays; both are said."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone, Planned
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun, Mode, PruneAlso
from applyprune.model.plan import ConsequenceKind
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage, Story, on

Body = dict[str, Any]
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SWITCHED_OFF = {"no_default_ignore": frozenset({"ca-bundle"})}


def _hook(name: str) -> Body:
    rule = {"apiGroups": ["absent.test"], "apiVersions": ["*"], "operations": ["CREATE"]}
    return {
        "name": f"{name}.absent.test",
        "clientConfig": {"url": "https://absent.test"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [{**rule, "resources": ["x"]}],
    }


def _hooks(name: str, *hooks: Body) -> Body:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }


@pytest.fixture
def hooks(stage: Stage, api: Api, plane: Plane) -> Iterator[str]:
    """Two entries of the set, in both of which an injector applies a caBundle; the path."""
    name = f"{stage.namespace}-hooks"
    both = _hooks(name, _hook("a"), _hook("b"))
    assert stage.run(both, wait=False).exit_code == 0
    authority = base64.b64encode(plane.ca_file.read_bytes()).decode()
    injected: Body = {"clientConfig": {"caBundle": authority}}
    parts = [{"name": f"{one}.absent.test", **injected} for one in "ab"]
    api.apply(f"{HOOKS}/{name}", _hooks(name, *parts), by="cainjector")
    yield f"{HOOKS}/{name}"
    also = frozenset({PruneAlso.SHARED})
    assert stage.run(mode=Mode.DELETE, also=also).exit_code == 0


def _bundles(api: Api, path: str) -> dict[str, bool]:
    return {
        one["name"].partition(".")[0]: "caBundle" in one["clientConfig"]
        for one in api.get(path)["webhooks"]
    }


def _owners(api: Api, path: str, manager: str) -> str:
    entries = api.get(path)["metadata"]["managedFields"]
    return json.dumps([one["fieldsV1"] for one in entries if one["manager"] == manager])


def _lost(story: Story) -> list[str]:
    found = story.plan.consequences
    return [one.message for one in found if one.kind is ConsequenceKind.FIELDS_LOST]


@pytest.mark.parametrize(
    "options",
    [
        {"check": True},
        {},
        {**SWITCHED_OFF, "conflicts": Conflicts.FORCE},
        {"take_over": frozenset({"cainjector"})},
    ],
    ids=["checked", "unchecked", "forced", "taken over"],
)
def test_entry_goes_with_what_an_injector_has_in_it(
    stage: Stage, api: Api, hooks: str, options: dict[str, Any]
) -> None:
    """And the entry that stays keeps its own; plan and result say who loses what."""
    name = hooks.rpartition("/")[2]
    ref = f"validatingwebhookconfiguration.admissionregistration.k8s.io/{name}"
    fewer = _hooks(name, _hook("a"))
    planned = stage.run(fewer, **{**options, "check": True}, dry_run=DryRun.SERVER)
    (step,) = planned.plan.applies
    assert step.taken_from == ("cainjector",)
    field = '.webhooks[name="b.absent.test"].clientConfig.caBundle'
    lost = f"1 field of cainjector is removed, because the manifest lacks it: {field}"
    assert _lost(planned) == [lost]
    story = stage.run(fewer, wait=False, **options)
    assert story.outcomes == {ref: Outcome.UPDATED}, story.events
    assert story.reasons[ref] == "took fields from cainjector"
    assert _bundles(api, hooks) == {"a": True}
    assert "caBundle" in _owners(api, hooks, "cainjector")
    assert stage.run(fewer, wait=False).outcomes == {ref: Outcome.UNCHANGED}


def test_entry_stays_without_the_rule_until_it_is_forced(
    stage: Stage, api: Api, hooks: str
) -> None:
    """Only what is in the entry that leaves is named, with its manager and the way out."""
    fewer, before = _hooks(hooks.rpartition("/")[2], _hook("a")), _bundles(api, hooks)
    for check in (True, False):
        (done,) = stage.run(fewer, wait=False, check=check, **SWITCHED_OFF).of(ObjectDone)
        told = str(done.problem)
        assert done.outcome is Outcome.FAILED
        assert 'name="b.absent.test"].clientConfig.caBundle: owned by cainjector' in told
        assert "a.absent.test" not in told
        assert "--conflicts force" in told
        assert done.problem is not None
        assert "spec.conflicts: force" in done.problem.remedy
    assert _bundles(api, hooks) == before


@pytest.mark.holds("unplanned-release")
def test_entry_in_which_others_own_more_by_now_stays(stage: Stage, api: Api, hooks: str) -> None:
    """What has changed hands between plan and apply is judged again, never taken unseen."""
    name = hooks.rpartition("/")[2]
    more = {"name": "b.absent.test", "timeoutSeconds": 7}

    def meddle() -> None:
        api.apply(hooks, _hooks(name, more), by="meddler")

    stage.seen = on(Planned, meddle)
    fewer = _hooks(name, _hook("a"))
    story = stage.run(fewer, wait=False, conflicts=Conflicts.FORCE, check=True)
    (done,) = story.of(ObjectDone)
    assert done.outcome is Outcome.FAILED
    assert "others own more of what leaves it" in str(done.problem)
    assert _bundles(api, hooks) == {"a": True, "b": True}


def _deployment(*containers: Body) -> Body:
    labels = {"app": "shop"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [*containers]}}
    return of_kind("Deployment", "shop", spec={"selector": {"matchLabels": labels},
                                               "template": template})  # fmt: skip


def _service(*ports: Body) -> Body:
    return of_kind("Service", "shop", spec={"selector": {"app": "shop"}, "ports": [*ports]})


A, B = ({"name": name, "image": "nginx"} for name in "ab")
WITH_ENV = [{"name": one["name"], "env": [{"name": "X", "value": "1"}]} for one in (A, B)]
PORTS = [{"port": 80, "name": "a"}, {"port": 443, "name": "b"}]
FIELDS = {
    "deployment.apps/shop": 'containers[name="b"].env',
    "service/shop": 'ports[port=443,protocol="TCP"].appProtocol',
}


def test_item_that_another_applier_holds_needs_force(stage: Stage, api: Api) -> None:
    """No default rule leaves that to others; with force, their fields in other items stay."""
    paths = stage.path("shop", "deployments", "/apis/apps/v1"), stage.path("shop", "services")
    theirs = _deployment(*WITH_ENV), _service(*({"port": n, "appProtocol": "h"} for n in (80, 443)))
    for body in theirs:
        del body["spec"]["selector"]
    del theirs[0]["spec"]["template"]["metadata"]
    assert stage.run(_deployment(A, B), _service(*PORTS), wait=False).exit_code == 0
    for path, body in zip(paths, theirs, strict=True):
        api.apply(path, body, by="mesh")
    after = _deployment(A), _service(PORTS[0])
    for options in ({}, {"conflicts": Conflicts.REVERT, "check": True}):
        story = stage.run(*after, wait=False, **options)
        assert story.outcomes == dict.fromkeys(FIELDS, Outcome.FAILED), story.events
        for name, field in FIELDS.items():
            assert field in story.problem(name)
            assert "mesh" in story.problem(name)
            assert story.problem(name).count("owned by") == 1
    story = stage.run(*after, wait=False, conflicts=Conflicts.FORCE, check=True)
    assert story.outcomes == dict.fromkeys(FIELDS, Outcome.UPDATED), story.events
    assert set(story.reasons.values()) == {"took fields from mesh"}
    (container,) = api.get(paths[0])["spec"]["template"]["spec"]["containers"]
    (port,) = api.get(paths[1])["spec"]["ports"]
    assert (container["name"], port["name"]) == ("a", "a")
    assert container["env"], "what mesh has in the item that stays"
    assert port["appProtocol"]


def test_field_that_another_applier_has_too_is_named(stage: Stage, api: Api) -> None:
    """By the plan, the diff and the result: it leaves the manifest, and stays."""
    both = {**config_map("c"), "data": {"a": "1", "b": "2"}}
    fewer = {**config_map("c"), "data": {"a": "1"}}
    said = "data.b stays: other owns it too"
    for checks in ({"check": False}, {"dry_run": DryRun.SERVER}, {"check": True}):
        if checks != {"check": True}:
            assert stage.run(both).exit_code == 0
            api.apply(stage.path("c"), {**config_map("c"), "data": {"b": "2"}}, by="other")
        story = stage.run(fewer, **checks)
        assert story.reasons == {"configmap/c": said}
        assert not checks.get("check") or said in story.plan.applies[0].reason
    assert stage.run(fewer).outcomes == {"configmap/c": Outcome.UNCHANGED}
    assert api.get(stage.path("c"))["data"] == both["data"]


def test_adoption_names_what_others_keep(stage: Stage, api: Api) -> None:
    """What they have applied or written, and no default of the server."""
    created = _deployment({**A, "env": [{"name": "X", "value": "1"}]})
    api.create(stage.path("", "deployments", "/apis/apps/v1"), created, by="kubectl-create")
    key = {**config_map("c"), "data": {"key": "v", "b": "2"}}
    api.apply(stage.path("c"), key, by="ci-script")
    env = 'spec.template.spec.containers[name="a"].env[name="X"].value'
    said = {
        "configmap/c": "data.b stays: ci-script owns it",
        "deployment.apps/shop": f"{env} stays: kubectl-create owns it",
    }
    for options in ({"dry_run": DryRun.SERVER}, {"check": True}):
        reasons = stage.run(_deployment(A), config_map("c"), wait=False, **options).reasons
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
