"""What a run compares when it is asked to, with nothing written: by the server, or without it."""

from __future__ import annotations

import base64
import copy
import secrets
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.values import replace
from tests.support.accounts import kubeconfig_as, rule
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import (
    CRON_JOB,
    DEPLOYMENT,
    SECRET,
    config_map,
    crd,
    custom_resource,
    manifest,
    of_kind,
)  # fmt: skip
from tests.support.stage import Stage, Story
from tests.support.workloads import run_ahead

Body = dict[str, Any]
KUBECTL = "kubectl-client-side-apply"
FORCE = {"conflicts": Conflicts.FORCE}
WRITES = {"create", "update", "patch", "delete"}


def compare(stage: Stage, *bodies: Body, **options: Any) -> Story:
    """Return what an apply would change."""
    return stage.run(*bodies, dry_run=DryRun.SERVER, diff=True, **options)


def compared(story: Story) -> dict[str, ObjectDiff]:
    return {one.ref.short: one for one in story.of(ObjectDiff)}


def secret(**values: str) -> Body:
    return of_kind("Secret", "s", stringData=values)


def test_diff_compares_exactly_what_would_change(stage: Stage, audit: AuditTrail) -> None:
    """In the order of the apply, then the prunes; what stays as it is costs no request."""
    stage.run(*(config_map(name) for name in ("a", "b", "c", "d")))
    audit.restart()
    story = compare(stage, config_map("e"), config_map("b", "new"), config_map("a"))
    found = compared(story)
    assert [(one.ref.name, one.fate) for one in found.values()] == [
        ("b", Fate.CHANGE),
        ("e", Fate.CREATE),
        ("c", Fate.PRUNE),
        ("d", Fate.PRUNE),
    ]
    before, after = found["configmap/b"].before, found["configmap/b"].after
    assert before is not None
    assert after == {**before, "data": {"key": "new"}}
    assert set(after["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert (found["configmap/e"].before, found["configmap/c"].after) == (None, None)
    assert not any(one.drifted for one in found.values())
    # The plane's own parts write whenever they like.
    events = audit.ours()
    assert {
        "dryRun=All" in one["requestURI"] or "delete" in one["verb"]
        for one in events
        if one["verb"] in WRITES
    } == {True}
    asked = {one["objectRef"].get("name") for one in events if "objectRef" in one}
    assert {"b", "c", "d", "e"} < asked
    assert "a" not in asked
    assert stage.listed() == {f"configmap/{name}" for name in "abcd"}
    assert stage.run(*(config_map(name) for name in "abcd")).outcomes["configmap/c"] == "unchanged"


def test_diff_masks_a_secret_everywhere(stage: Stage, api: Api) -> None:
    """Raw, base64 and hex: no value is in the run's output."""
    token = secrets.token_hex(8)
    values = [f"{token}-{number}" for number in range(4)]
    stage.run(secret(a=values[0], b=values[1]))
    copied = {"metadata": {"annotations": {"copied": values[0]}}}
    api.patch(stage.path("s", "secrets"), {**copied, "stringData": {"a": values[2]}}, by=ALICE)
    for options in ({}, {"conflicts": Conflicts.FORCE}):
        story = compare(stage, secret(a=values[0], b=values[3]), **options)
        texts = str([(one, getattr(one, "before", 0), getattr(one, "after", 0))
                     for one in story.events])  # fmt: skip
        for value in values:
            for form in (value, base64.b64encode(value.encode()).decode(), value.encode().hex()):
                assert form not in texts
    found = compared(story)["secret/s"]
    assert found.before is not None
    assert found.after is not None
    assert found.before["data"] == {"a": "*** (before)", "b": "*** (before)"}
    assert found.after["data"] == {"a": "*** (after)", "b": "*** (after)"}
    assert found.after["metadata"]["annotations"] == {"copied": "***", OWNED_BY: stage.target.id}


def test_diff_separates_drift_from_a_new_manifest(stage: Stage, api: Api) -> None:
    """An object that is gone has drifted too; one that is being deleted is not waited for."""
    stage.run(*map(config_map, "abc"), config_map("held", finalizers=["x.example.com/held"]))
    api.patch(stage.path("a"), {"data": {"key": "theirs", "more": "x"}}, by=ALICE)
    api.patch(stage.path("b"), {"data": {"more": "x"}}, by=ALICE)
    for name in ("c", "held"):
        api("DELETE", stage.path(name))
    given = config_map("a"), config_map("b", "new"), config_map("c")
    run_ahead(stage, last=0.0)
    story = compare(stage, *given, **FORCE)
    found = compared(story)
    (drift,) = found["configmap/a"].drift
    assert (drift.path, drift.wanted, drift.found) == ("/data/key", '"v"', '"theirs"')
    assert (drift.manager, drift.operation) == (ALICE, "Update")
    drifted = {name: found[f"configmap/{name}"].drifted for name in "abc"}
    assert drifted == {"a": True, "b": False, "c": True}
    assert story.outcomes["configmap/held"] is Outcome.PRUNED
    api.patch(stage.path("held"), {"metadata": {"finalizers": None}})


def test_adoption_of_the_same_manifest_changes_only_the_label(stage: Stage, api: Api) -> None:
    """kubectl owns the server's defaults too: they are not removed, but set again."""
    wanted = {**CRON_JOB, "spec": {**CRON_JOB["spec"], "suspend": True}}
    api.create(stage.path("", "cronjobs", "/apis/batch/v1"), wanted, by=KUBECTL)
    (found,) = compared(compare(stage, wanted)).values()
    assert found.before is not None
    assert found.after is not None
    labels = found.after["metadata"].pop("labels")
    assert (set(labels), found.not_checked) == ({PART_OF}, "")
    before = {key: one for key, one in found.before["metadata"].items() if key != "labels"}
    assert {**found.after} == {**found.before, "metadata": before}


def test_diff_shows_what_another_set_loses_and_what_is_recreated(stage: Stage) -> None:
    """The label and the fields that only the other set has set; what the server would create."""
    other, fixed = replace(stage, name="other"), {"immutable": True}
    other.run({**config_map("a"), "data": {"key": "v", "gone": "x"}})
    stage.run({**config_map("fixed"), **fixed})
    given = config_map("a", "new"), {**config_map("fixed", "new"), **fixed}
    found = compared(compare(stage, *given, adopt=Adopt.ALL, recreate=True))
    taken, recreated = found["configmap/a"], found["configmap/fixed"]
    assert taken.before is not None
    assert taken.after is not None
    assert taken.after["data"] == {"key": "new"}
    assert taken.before["metadata"]["labels"] != taken.after["metadata"]["labels"]
    assert recreated.fate is Fate.RECREATE
    assert recreated.after is not None
    after = recreated.after
    assert (after["metadata"]["name"], after["data"]) == ("fixed", {"key": "new"})
    # So that a pipeline can point at the line.
    assert taken.origin == manifest(given[0]).origin


def test_diff_uses_a_substitute_for_a_new_namespace(stage: Stage, api: Api) -> None:
    """Under the object's own name, or another if that is taken; errors are the server's.

    What a policy of the substitute refuses is not checked, and no failure.
    """
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    api.patch(f"/api/v1/namespaces/{stage.namespace}", label)
    stage.run(config_map("taken"), prune=False)
    name = f"{stage.namespace}-new"
    home, there = of_kind("Namespace", name), {"namespace": name}
    service, wrong = (
        of_kind("Service", "web", there, spec={"ports": [{"port": port}]}) for port in (80, 0)
    )
    spec = {"hostNetwork": True, "containers": [{"name": "c", "image": "c"}]}
    pod = of_kind("Pod", "p", there, spec=spec)
    other = replace(stage, name="other")
    story = compare(other, home, service, config_map("taken", **there), pod)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.CREATED})
    found = compared(story)
    for short in ("service/web", "configmap/taken"):
        after = found[short].after or {}
        assert after["metadata"]["namespace"] == name
        assert f"checked in {stage.namespace}" in found[short].not_checked
    assert (found["configmap/taken"].after or {})["metadata"]["name"] == "taken"
    spec = (found["service/web"].after or {})["spec"]
    assert (spec["type"], spec["ports"][0]["protocol"]) == ("ClusterIP", "TCP")
    assert "not checked by the server" in found["pod/p"].not_checked
    assert f"{stage.namespace}, tried instead, would reject it" in found["pod/p"].not_checked
    story = compare(other, home, wrong, config_map("lost", namespace=f"{name}-absent"))
    assert story.exit_code == 3
    assert "spec.ports[0].port" in story.problem("service/web")
    assert "there is no namespace" in story.problem("configmap/lost")


@pytest.fixture
def kinds(running: Plane) -> Stage:
    """A set in the default namespace of the plane for CRDs."""
    return Stage(running.kubeconfig, "default", name=f"set-{secrets.token_hex(3)}")


def sized(kind: str, **schema: Any) -> Body:
    one = crd(kind)
    size = {"type": "integer", "minimum": 1}
    spec = {"type": "object", "properties": {"size": size, **schema}}
    root = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["spec"] = spec
    return one


def test_diff_checks_the_fields_of_a_new_kind_by_its_crd(kinds: Stage) -> None:
    """Names and types; the server judges the values once it knows the kind."""
    crd = sized("Coming", mode={"type": "string"})
    one = {**custom_resource("a", "Coming"), "spec": {"size": 2, "mode": "small"}}
    low = {**custom_resource("b", "Coming"), "spec": {"size": 0}}
    typo = {**custom_resource("c", "Coming"), "spec": {"sise": 1}}
    story = compare(kinds, crd, one, low, typo)
    assert story.exit_code == 3
    why = story.problem("coming.x.example.com/c")
    assert "set.yaml:4" in why
    assert "spec.sise: unknown field" in why
    story = compare(kinds, crd, one, low)
    assert story.exit_code == 0
    assert "only its fields were compared" in compared(story)["coming.x.example.com/b"].not_checked
    found = compared(story)["coming.x.example.com/a"]
    assert found.after is not None
    assert found.after["spec"] == {"size": 2, "mode": "small"}
    assert "only its fields were compared with its CRD" in found.not_checked
    # What was foretold comes.
    assert kinds.run(crd, one).exit_code == 0
    assert (
        compare(kinds, crd, one, reapply_all=True).outcomes["coming.x.example.com/a"] == "unchanged"
    )


def test_diff_checks_the_fields_of_a_changing_kind_by_its_new_crd(kinds: Stage) -> None:
    """Where the server knows only today's."""
    one: Body = {**custom_resource("a", "Changing"), "spec": {"size": 2}}
    kinds.run(sized("Changing"), one)
    wider = sized("Changing", note={"type": "string"})
    one["spec"] = {"size": 3, "note": "x"}
    new = {**custom_resource("b", "Changing"), "spec": {"size": 3, "note": "x"}}
    bad = {**custom_resource("c", "Changing"), "spec": {"size": 3, "note": 1}}
    story = compare(kinds, wider, one, new, bad)
    why = story.problem("changing.x.example.com/c")
    assert "spec.note: expected string, got integer" in why
    story = compare(kinds, wider, one, new)
    found = compared(story)["changing.x.example.com/a"]
    assert (found.before or {})["spec"] == {"size": 2}
    assert (found.after or {})["spec"] == {"size": 3, "note": "x"}
    assert "only its fields were compared with the new one" in found.not_checked
    assert compared(story)["changing.x.example.com/b"].fate is Fate.CREATE


@pytest.mark.holds("namespace-of-a-new-kind")
def test_resource_of_a_new_kind_needs_its_namespace(crd_stage: Stage) -> None:
    """A check finds that the namespace is not there, unless the set brings it."""
    lost = custom_resource("one", "Lost", namespace="nowhere-at-all")
    story = crd_stage.run(crd("Lost"), lost, check=True)
    name = "lost.x.example.com/one"
    assert (story.exit_code, story.outcomes) == (3, {name: Outcome.FAILED})
    assert "there is no namespace nowhere-at-all" in story.problem(name)
    assert "kubectl create namespace nowhere-at-all" in story.problem(name)
    own = f"{crd_stage.namespace}-own"
    given = crd("Lost"), of_kind("Namespace", own), custom_resource("one", "Lost", namespace=own)
    assert crd_stage.run(*given, check=True).exit_code == 0


# Without the server's check, for an account that may only read.

READ = ["get", "list", "watch"]
BOOKKEEPING = frozenset({"generation", "managedFields", "resourceVersion"})


def _shown(story: Story) -> dict[str, tuple[Any, Any]]:
    """Return both states of each object that has a diff, without what the server counts."""
    return {
        one.ref.short: tuple(_settled(state) for state in (one.before, one.after))
        for one in story.of(ObjectDiff)
    }


def _settled(state: Any) -> Any:
    if state is None:
        return None
    metadata = {key: one for key, one in state["metadata"].items() if key not in BOOKKEEPING}
    return {**state, "metadata": metadata}


def test_local_diff_is_that_of_the_server(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """For what the set has owned: items of lists by their keys, and what the manifest gives up."""
    body = copy.deepcopy(DEPLOYMENT)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": name, "value": "1"} for name in ("A", "B")]
    container["ports"] = [{"containerPort": 80}]
    stage.run(body, config_map("a"))
    path = stage.path("web", "deployments", "/apis/apps/v1")
    api.patch(path, {"metadata": {"labels": {"theirs": "label"}}}, by="kubectl-label")
    body["metadata"]["labels"] = {"new": "label"}
    container["image"], container["env"][1]["name"] = "changed", "C"
    del container["ports"]
    audit.restart()
    by_server, local = (
        stage.run(body, config_map("a", "new"), dry_run=dry_run, diff=True)
        for dry_run in (DryRun.SERVER, DryRun.CLIENT)
    )
    assert _shown(local) == _shown(by_server)
    assert set(_shown(local)) == {"configmap/a", "deployment.apps/web"}
    assert all(one.not_checked == "not checked by the server" for one in local.of(ObjectDiff))
    assert writes(audit) == []


def test_secret_that_may_not_be_read_keeps_no_plan_from_its_end(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """As with the role ``view``; what the run would do is said as far as it is known."""
    stage = Stage(plane.kubeconfig, namespace)
    stage.run(SECRET, config_map("a"))
    rules = (rule("", ["configmaps"], READ),)
    path = kubeconfig_as(f"{namespace}-viewer", plane, api, namespace, tmp_path, *rules)
    viewer = Stage(path, namespace)
    kept = viewer.run(SECRET, config_map("a", "new"), dry_run=DryRun.CLIENT)
    assert (kept.exit_code, kept.outcomes) == (
        0,
        {"secret/s": Outcome.UPDATED, "configmap/a": Outcome.UPDATED},
    )
    (secret,) = (step for step in kept.plan.applies if step.desired.ref.kind == "Secret")
    assert secret.not_checked == "if it has changed: this account may not read it"
    gone = viewer.run(config_map("a"), dry_run=DryRun.CLIENT)
    assert (gone.exit_code, gone.outcomes["secret/s"]) == (0, Outcome.PRUNED)
    assert gone.plan.removals[0].not_checked == "not checked: this account may not read it"
    # A run itself does not guess.
    assert viewer.run(SECRET, config_map("a"), dry_run=DryRun.SERVER).exit_code == 3
