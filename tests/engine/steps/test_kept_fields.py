"""What leaves a manifest while another manager owns it: it is released, or stays; both are said."""

from __future__ import annotations

import base64
import copy
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
from tests.support.plane import Kubectl
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
        {},
        {"check": False},
        {"conflicts": Conflicts.REVERT},
        {**SWITCHED_OFF, "conflicts": Conflicts.FORCE},
        {"take_over": frozenset({"cainjector"})},
    ],
    ids=["plain", "unchecked", "revert", "forced", "taken over"],
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


@pytest.mark.parametrize("check", [True, False])
def test_entry_stays_without_the_rule_until_it_is_forced(
    stage: Stage, api: Api, hooks: str, check: bool
) -> None:
    """Only what is in the entry that leaves is named, with its manager and the way out."""
    name = hooks.rpartition("/")[2]
    before = _bundles(api, hooks)
    story = stage.run(_hooks(name, _hook("a")), wait=False, check=check, **SWITCHED_OFF)
    (done,) = story.of(ObjectDone)
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
    return of_kind(
        "Deployment",
        "shop",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [*containers]}},
        },
    )


A, B = ({"name": name, "image": "nginx"} for name in "ab")
WITH_ENV = [{"name": one["name"], "env": [{"name": "X", "value": "1"}]} for one in (A, B)]
PORTS = [{"port": 80, "name": "a"}, {"port": 443, "name": "b"}]


def _service(*ports: Body) -> Body:
    return of_kind("Service", "shop", spec={"selector": {"app": "shop"}, "ports": [*ports]})


CASES: dict[str, tuple[Body, Body, Body, str]] = {
    "container": (
        _deployment(A, B), _deployment(A), _deployment(*WITH_ENV), 'containers[name="b"].env',
    ),
    "port": (
        _service(*PORTS), _service(PORTS[0]), _service(*({"port": one["port"], "appProtocol": "h"}
        for one in PORTS)), 'ports[port=443,protocol="TCP"].appProtocol',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_item_that_another_applier_holds_needs_force(stage: Stage, api: Api, name: str) -> None:
    """No default rule leaves that to others; with force, their fields in other items stay."""
    before, after, theirs, field = CASES[name]
    theirs = copy.deepcopy(theirs)
    if name == "container":
        del theirs["spec"]["selector"], theirs["spec"]["template"]["metadata"]
    else:
        del theirs["spec"]["selector"]
    assert stage.run(before, wait=False).exit_code == 0
    root = "/apis/apps/v1" if name == "container" else "/api/v1"
    plural = "deployments" if name == "container" else "services"
    path = f"{root}/namespaces/{stage.namespace}/{plural}/shop"
    api.apply(path, theirs, by="mesh")
    story = stage.run(after, wait=False)
    (done,) = story.of(ObjectDone)
    assert done.outcome is Outcome.FAILED
    assert field in str(done.problem)
    assert "mesh" in str(done.problem)
    assert str(done.problem).count("owned by") == 1
    for conflicts, outcome in (
        (Conflicts.REVERT, Outcome.FAILED),
        (Conflicts.FORCE, Outcome.UPDATED),
    ):
        story = stage.run(after, wait=False, conflicts=conflicts, check=True)
        assert set(story.outcomes.values()) == {outcome}, story.events
    assert set(story.reasons.values()) == {"took fields from mesh"}
    spec = api.get(path)["spec"]
    items = spec["ports"] if name == "port" else spec["template"]["spec"]["containers"]
    assert [one["name"] for one in items] == ["a"]
    assert {"env", "appProtocol"} & items[0].keys()  # what mesh has in the item that stays


def test_field_that_another_applier_has_too_is_named(stage: Stage, api: Api) -> None:
    """By the plan, the diff and the result: it leaves the manifest, and stays."""
    both = {**config_map("c"), "data": {"a": "1", "b": "2"}}
    assert stage.run(both).exit_code == 0
    other = {**config_map("c"), "data": {"b": "2"}}
    api.apply(stage.path("c"), other, by="other")
    fewer = {**config_map("c"), "data": {"a": "1"}}
    said = "data.b stays: other owns it too"
    for options in ({"dry_run": DryRun.SERVER}, {"check": True}, {}):
        story = stage.run(fewer, **options)
        if options:
            assert story.reasons == {"configmap/c": said}
            assert said in story.plan.applies[0].reason
    assert story.outcomes == {"configmap/c": Outcome.UNCHANGED}
    assert api.get(stage.path("c"))["data"] == both["data"]


def test_field_that_another_applier_has_too_is_named_without_a_check(
    stage: Stage, api: Api
) -> None:
    assert stage.run({**config_map("c"), "data": {"a": "1", "b": "2"}}).exit_code == 0
    api.apply(stage.path("c"), {**config_map("c"), "data": {"b": "2"}}, by="other")
    story = stage.run({**config_map("c"), "data": {"a": "1"}}, check=False)
    assert story.reasons == {"configmap/c": "data.b stays: other owns it too"}


def test_adoption_names_what_others_keep(stage: Stage, kubectl: Kubectl, api: Api) -> None:
    """What they have applied or written, and no default of the server."""
    ci = _deployment({**A, "env": [{"name": "X", "value": "1"}]})
    kubectl("create", "-n", stage.namespace, "-f", "-", stdin=json.dumps(ci))
    key = {**config_map("c"), "data": {"key": "v", "b": "2"}}
    api.apply(stage.path("c"), key, by="ci-script")
    manifests = (_deployment(A), config_map("c"))
    env = 'spec.template.spec.containers[name="a"].env[name="X"].value'
    said = {
        "configmap/c": "data.b stays: ci-script owns it",
        "deployment.apps/shop": f"{env} stays: kubectl-create owns it",
    }
    for options in ({"dry_run": DryRun.SERVER}, {"check": True}):
        reasons = stage.run(*manifests, wait=False, **options).reasons
        assert {ref: reason.rpartition("; ")[2] for ref, reason in reasons.items()} == said


@pytest.mark.holds("revoked-key")
def test_key_of_kubectls_string_data_goes_with_the_adoption(
    stage: Stage, kubectl: Kubectl, api: Api
) -> None:
    """The server has merged it into data without an owner; its plan names the key only."""
    body = {**of_kind("Secret", "s"), "stringData": {"keep": "one1", "revoked": "two2"}}
    apply = ("apply", "--server-side", "-n", stage.namespace, "-f", "-")
    kubectl(*apply, stdin=json.dumps(body))
    kept = {**body, "stringData": {"keep": "one1"}}
    planned = stage.run(kept, dry_run=DryRun.SERVER, check=True)
    lost = "1 field of kubectl is removed, because the manifest lacks it: .data.revoked"
    assert _lost(planned) == [lost]
    assert "two2" not in repr(planned.events)
    assert stage.run(kept).exit_code == 0
    path = stage.path("s", "secrets")
    assert api.get(path)["data"].keys() == {"keep"}
    assert stage.run(kept).outcomes == {"secret/s": Outcome.UNCHANGED}


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize("values", [True, False])
def test_key_without_an_owner_is_named(stage: Stage, api: Api, kind: str, values: bool) -> None:
    """By each diff that reads the object; by its name, never its value."""
    body = {**of_kind(kind, "s"), "data": {"keep": "b25l"}}
    path = stage.path("s", f"{kind.lower()}s")
    assert stage.run(body).exit_code == 0
    api.patch(path, {"data": {"left": "dHdv"}}, by="alice")
    entries = api.get(path)["metadata"]["managedFields"]
    ours = [one for one in entries if one["manager"] != "alice"]
    api.patch(
        path, [{"op": "replace", "path": "/metadata/managedFields", "value": ours}], by="alice"
    )
    options = {"dry_run": DryRun.SERVER, "diff": True}
    story = stage.run(body, reapply_all=values, **options)
    (warning,) = story.warnings
    assert "data.left" in warning
    assert "dHdv" not in warning
