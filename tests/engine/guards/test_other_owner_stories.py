"""People migrate to another tool: the object leaves the input when the other tool applies it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, Mode, PruneAlso
from applyprune.planning.marks import OWNER_MARKS
from tests.support.api import Api
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage

RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}


def _apply(kubectl: Kubectl, stage: Stage, manager: str, body: dict[str, Any]) -> None:
    """Write like Flux: by a server-side apply that is forced."""
    kubectl(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={manager}",
        "-n", stage.namespace, "-f", "-", stdin=json.dumps(body),
    )  # fmt: skip


def _labelled(name: str, **labels: str) -> dict[str, Any]:
    body = config_map(name)
    return {**body, "metadata": {**body["metadata"], "labels": labels}}


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "data"}


MOVES: dict[str, tuple[str, dict[str, Any], str]] = {
    "Helm": ("helm", {"metadata": {"annotations": RELEASE}}, "it now carries Helm's mark"),
    "Flux": (
        "kustomize-controller",
        _labelled("b", **{"kustomize.toolkit.fluxcd.io/name": "web"}),
        "it now carries Flux's mark",
    ),
    "kapp": (
        "kapp",
        {"metadata": {"labels": {"kapp.k14s.io/app": "1"}}},
        "it now carries kapp's mark",
    ),
    "a full applier": ("some-applier", config_map("b"), "some-applier applies it too (.data.key)"),
}


@pytest.mark.holds("other-owner", row="apply-Helm")
@pytest.mark.parametrize("tool", MOVES)
@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
def test_object_that_another_tool_runs_is_orphaned(
    stage: Stage, api: Api, kubectl: Kubectl, tool: str, mode: Mode
) -> None:
    """And the tool is named; the set's label goes."""
    manager, body, expected = MOVES[tool]
    stage.run(*map(config_map, "abc"))
    if "kind" in body:
        _apply(kubectl, stage, manager, body)
    else:
        api.patch(stage.path("b"), body, by=manager)
    story = stage.run(*map(config_map, "ac")) if mode is Mode.APPLY else stage.run(mode=mode)
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    reasons = {step.entry.ref.name: step.reason for step in story.plan.removals}
    assert expected in reasons["b"]
    assert api.get(stage.path("b"))["data"] == {"key": "v"}
    assert "configmap/b" not in stage.listed()


def test_each_mark_of_a_tool_counts(stage: Stage, api: Api) -> None:
    """Argo CD, cli-utils, OLM and the others: what each writes on an object keeps that object."""
    marks = {f"m{number}": mark for number, mark in enumerate(OWNER_MARKS)}
    stage.run(*map(config_map, ("a", *marks)))
    for name, mark in marks.items():
        manager = min(mark.managers, default="their-tool")
        api.patch(stage.path(name), {"metadata": {mark.part: {mark.key: "x"}}}, by=manager)
    story = stage.run(config_map("a"))
    assert {story.outcomes[f"configmap/{name}"] for name in marks} == {Outcome.ORPHANED}
    reasons = {step.entry.ref.name: step.reason for step in story.plan.removals}
    for name, mark in marks.items():
        assert reasons[name].startswith(f"it now carries {mark.tool}'s mark")


@pytest.mark.holds("mark-of-a-later-tool")
def test_apply_after_the_take_over_does_not_hide_it(stage: Stage, api: Api) -> None:
    """The pipeline still applies the object a few times before it leaves the input."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    changed = config_map("b", "new")
    for body in (changed, config_map("b", "newer", annotations={"note": "x"})):
        assert stage.run(config_map("a"), body, config_map("c")).exit_code == 0
    assert stage.run(*map(config_map, "ac")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


def test_prune_of_shared_deletes_it(stage: Stage, api: Api) -> None:
    """It is the user's word that the other tool is gone."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    story = stage.run(*map(config_map, "ac"), also=frozenset({PruneAlso.SHARED}))
    assert story.outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


@pytest.mark.holds("applier-of-other-fields")
def test_object_of_which_another_team_applies_a_part_is_orphaned(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """The two share no field; its values stay, and only --prune-also shared deletes the object."""
    stage.run(*map(config_map, "abc"))
    theirs = {**config_map("b"), "data": {"theirs": "1"}}
    _apply(kubectl, stage, "other-team", theirs)
    _apply(kubectl, stage, "other-team", {**theirs, "metadata": {"name": "c"}})
    story = stage.run(*map(config_map, "ac"))
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    (step,) = story.plan.removals
    assert step.reason == "other-team applies a part of it (.data.theirs)"
    assert api.get(stage.path("b"))["data"] == {"key": "v", "theirs": "1"}
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.SHARED}))
    assert story.outcomes["configmap/c"] is Outcome.PRUNED


@pytest.mark.holds("applier-needs-backend")
def test_webhook_configuration_of_which_another_team_applies_a_part_stays(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Orphaned without its backend it could block the cluster, so a person decides."""
    name = f"{stage.namespace}.example.com"
    hook = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"no": "namespace"}},
    }
    body = of_kind(
        "ValidatingWebhookConfiguration",
        name,
        api="admissionregistration.k8s.io/v1",
        webhooks=[hook],
    )
    stage.run(config_map("a"), body)
    second = {**hook, "name": f"other.{name}"}
    _apply(kubectl, stage, "other-team", {**body, "webhooks": [second]})
    short = f"validatingwebhookconfiguration.admissionregistration.k8s.io/{name}"
    story = stage.run(config_map("a"))
    assert story.exit_code != 0
    assert "other-team applies a part of it" in story.problem(short)
    assert f"--prune-also shared. To orphan it: --orphan {short}" in story.problem(short)
    assert short in stage.listed()
    story = stage.run(config_map("a"), orphan=frozenset({short}))
    assert (story.exit_code, story.outcomes[short]) == (0, Outcome.ORPHANED)
    path = f"/apis/{body['apiVersion']}/validatingwebhookconfigurations/{name}"
    assert api("DELETE", path)[0] == 200


def test_recreation_of_what_another_team_applies_in_part_is_refused(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """It would delete what that team has declared."""
    fixed = {**config_map("b"), "immutable": True}
    stage.run(config_map("a"), config_map("b"))
    _apply(kubectl, stage, "other-team", {**config_map("b"), "data": {"theirs": "1"}})
    stage.run(config_map("a"), fixed)
    uid = api.get(stage.path("b"))["metadata"]["uid"]
    changed = {**fixed, "data": {"key": "w"}}
    story = stage.run(config_map("a"), changed, recreate=True)
    assert "other-team applies a part of it" in story.problem("configmap/b")
    assert api.get(stage.path("b"))["metadata"]["uid"] == uid


def test_decorated_object_is_pruned(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """By labels and annotations, through an apply or an Update, and by fields of an Update."""
    stage.run(DEPLOYMENT, *map(config_map, "ab"))
    _apply(kubectl, stage, "labeller", _bare(_labelled("b", team="x")))
    api.patch(stage.path("b"), {"data": {"theirs": "1"}}, by="writer")
    kubectl("scale", "deployment/web", "-n", stage.namespace, "--replicas=2")
    api.patch(stage.path("b"), {"metadata": {"annotations": {"note": "x"}}}, by="noter")
    story = stage.run(config_map("a"), max_prune=stage.most(9))
    assert story.outcomes["configmap/b"] is Outcome.PRUNED
    assert story.outcomes["deployment.apps/web"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


def test_tool_that_was_left_behind_is_no_owner(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Its marks outlive it: they were there at the set's last apply already."""
    body = config_map("b", annotations=RELEASE)
    kubectl(
        "create", "-f", "-", "-n", stage.namespace, "--field-manager=helm2", stdin=json.dumps(body)
    )
    stage.run(*map(config_map, "ab"), adopt=Adopt.ALL)
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


@pytest.mark.holds("other-owner-recreate")
def test_recreation_of_what_another_tool_runs_is_refused(stage: Stage, api: Api) -> None:
    """It would delete the other tool's object."""
    fixed = {**config_map("b"), "immutable": True}
    stage.run(config_map("a"), fixed)
    uid = api.get(stage.path("b"))["metadata"]["uid"]
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    changed = {**fixed, "data": {"key": "w"}}
    story = stage.run(config_map("a"), changed, recreate=True)
    assert "it now carries Helm's mark" in story.problem("configmap/b")
    assert api.get(stage.path("b"))["metadata"]["uid"] == uid
