"""Marks on manifests and on live objects: left out, created once, or only required to exist."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.errors import EmptyInput, InputError, InputErrors
from applyprune.model.events import Event, Planned, ReadinessReported
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, DryRun, Mode
from applyprune.planning.applyset import PART_OF
from applyprune.planning.marks import OWNER_MARKS
from tests.support.api import Api
from tests.support.objects import SECRET, config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage, on

LEFT_OUT: dict[str, dict[str, Any]] = {
    "ours": {"annotations": {"applyprune.dev/apply": "disabled"}},
    "kapp": {"annotations": {"kapp.k14s.io/noop": ""}},
    "kluctl": {"annotations": {"kluctl.io/ignore": "true"}},
    "flux": {"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "Ignore"}},
    "flux-label": {"labels": {"kustomize.toolkit.fluxcd.io/ssa": "ignore"}},
    "flux-paused": {"annotations": {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}},
    "argo": {"annotations": {"argocd.argoproj.io/hook": "Skip"}},
    "argo-failed": {"annotations": {"argocd.argoproj.io/hook": "SyncFail"}},
    "kpt": {"annotations": {"config.kubernetes.io/local-config": "true"}},
}
ONCE: dict[str, dict[str, Any]] = {
    "ours": {"annotations": {"applyprune.dev/apply": "once"}},
    "flux": {"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}},
    "cli-utils": {"annotations": {"client.lifecycle.config.k8s.io/mutation": "ignore"}},
}
EXISTS: dict[str, dict[str, Any]] = {
    "ours": {"annotations": {"applyprune.dev/apply": "exists"}},
    "kapp": {"annotations": {"kapp.k14s.io/exists": ""}},
}
APPLIED = [
    {"kustomize.toolkit.fluxcd.io/ssa": "Merge"},
    {"kluctl.io/ignore": "false"},
    {"config.kubernetes.io/local-config": "false"},
    {"argocd.argoproj.io/hook": "PostSync"},
]


def _annotate(kubectl: Kubectl, stage: Stage, name: str, *marks: str) -> None:
    kubectl("annotate", f"configmap/{name}", "-n", stage.namespace, *marks)


def _create(kubectl: Kubectl, stage: Stage, *bodies: dict[str, Any], manager: str = "them") -> None:
    for body in bodies:
        kubectl(
            "create", "-f", "-", "-n", stage.namespace, f"--field-manager={manager}",
            stdin=json.dumps(body),
        )  # fmt: skip


@pytest.mark.holds("disabled-manifest")
def test_manifest_that_is_left_out_changes_nothing(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """It is not created, changed, adopted or pruned; a listed object stays listed."""
    new = [config_map(f"new-{name}", **mark) for name, mark in LEFT_OUT.items()]
    hook = {"helm.sh/hook": "pre-install", **LEFT_OUT["ours"]["annotations"]}
    new.append(config_map("new-hook", annotations=hook))
    foreign = [config_map(f"foreign-{name}", "mine", **mark) for name, mark in LEFT_OUT.items()]
    listed = [config_map(f"listed-{name}", "later", **mark) for name, mark in LEFT_OUT.items()]
    names = [body["metadata"]["name"] for body in listed]
    _create(kubectl, stage, *(config_map(body["metadata"]["name"]) for body in foreign))
    stage.run(config_map("a"), *map(config_map, names))
    plain = [config_map(f"plain-{at}", annotations=marks) for at, marks in enumerate(APPLIED)]
    story = stage.run(config_map("a"), *new, *foreign, *listed, *plain)
    assert story.exit_code == 0
    left = {f"configmap/{body['metadata']['name']}" for body in (*new, *foreign, *listed)}
    assert {story.outcomes[name] for name in left} == {Outcome.SKIPPED}
    assert story.reasons["configmap/new-kapp"] == "its manifest is marked kapp.k14s.io/noop"
    assert {story.outcomes[f"configmap/plain-{at}"] for at in range(len(APPLIED))} == {
        Outcome.CREATED
    }
    assert not any(api.exists(stage.path(body["metadata"]["name"])) for body in new)
    for body in foreign:
        live = api.get(stage.path(body["metadata"]["name"]))
        assert live["data"] == {"key": "v"}
        assert "labels" not in live["metadata"]
    assert {api.get(stage.path(name))["data"]["key"] for name in names} == {"v"}
    assert stage.listed() == {"configmap/a"} | {f"configmap/{name}" for name in names} | {
        f"configmap/plain-{at}" for at in range(len(APPLIED))
    }
    told = stage.explain("configmap/listed-ours", config_map("a"), *listed).explanation
    assert told.verdict == (
        "It would be left alone: its manifest is marked applyprune.dev/apply: disabled."
    )
    # In the input again, or gone from it, it is an object of the set as before.
    story = stage.run(config_map("a"), config_map(names[0], "x"), *plain, max_prune=stage.most(20))
    assert story.outcomes[f"configmap/{names[0]}"] is Outcome.UPDATED
    # This one says to keep the object too.
    assert story.outcomes["configmap/listed-flux-paused"] is Outcome.ORPHANED
    gone = {*names[1:]} - {"listed-flux-paused"}
    assert {story.outcomes[f"configmap/{name}"] for name in gone} == {Outcome.PRUNED}


@pytest.mark.holds("left-out-only", "left-out-new-set", row="ours")
@pytest.mark.parametrize("name", LEFT_OUT)
def test_input_of_left_out_manifests_alone_prunes_nothing(
    stage: Stage, api: Api, name: str
) -> None:
    """It counts as empty: a renderer that marks everything looks just like one of no output."""
    left_out = config_map("b", "later", **LEFT_OUT[name])
    with pytest.raises(EmptyInput, match="a mark leaves out each of its manifests"):
        stage.run(left_out)
    stage.run(*map(config_map, "ab"))
    for mode in (Mode.APPLY, Mode.PRUNE):
        story = stage.run(left_out, mode=mode)
        assert (story.exit_code, story.outcomes["configmap/a"]) == (6, Outcome.NOT_PRUNED)
        assert "no object in the input: a mark leaves out" in story.refusal
    assert api.exists(stage.path("a"))
    assert stage.listed() == {"configmap/a", "configmap/b"}
    story = stage.run(left_out, allow_empty=True)
    assert story.outcomes["configmap/a"] is Outcome.PRUNED
    assert api.exists(stage.path("b"))


def test_mark_against_deletion_of_a_manifest_that_is_left_out_is_recorded(
    stage: Stage, api: Api
) -> None:
    """Nothing is sent, so only the inventory can know it when the manifest is gone."""
    stage.run(*map(config_map, "abc"))
    kept = {"applyprune.dev/prune": "disabled"}
    stage.run(
        config_map("a"),
        config_map("b", annotations=LEFT_OUT["ours"]["annotations"] | kept),
        config_map("c", annotations=ONCE["ours"]["annotations"] | kept),
    )
    story = stage.run(config_map("a"))
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    assert story.outcomes["configmap/c"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


def test_unserved_kind_may_be_left_out(stage: Stage) -> None:
    """Its CRD is not there, and that is why the user leaves it out."""
    monitor = {
        "apiVersion": "monitoring.example.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": "web", **LEFT_OUT["ours"]},
    }
    story = stage.run(config_map("a"), monitor)
    assert story.exit_code == 0
    assert story.outcomes["servicemonitor.monitoring.example.com/web"] is Outcome.SKIPPED
    assert stage.listed() == {"configmap/a"}


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(LEFT_OUT["ours"], marks=pytest.mark.holds("scope-of-left-out")),
        {"annotations": {"helm.sh/hook": "test"}},
    ],
)
def test_left_out_object_is_kept_though_its_version_is_not_served(
    stage: Stage, api: Api, mark: dict[str, Any]
) -> None:
    """Another version of its kind is: that says whether it has a namespace."""
    version = "rbac.authorization.k8s.io/v1"
    named = {"name": stage.namespace}
    role = {"apiVersion": version, "kind": "ClusterRole", "metadata": named}
    path = f"/apis/{version}/clusterroles/{stage.namespace}"
    try:
        stage.run(role, config_map("a"))
        old = {**role, "apiVersion": f"{version}beta1", "metadata": {**named, **mark}}
        assert stage.run(old, config_map("a")).exit_code == 0
        assert api.exists(path)
        assert len(stage.listed()) == 2
    finally:
        api("DELETE", path)


def test_created_once_and_never_touched_again(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Whoever has created it; only what the set has created is pruned."""
    own = [config_map(f"own-{name}", **mark) for name, mark in ONCE.items()]
    foreign = [config_map(f"foreign-{name}", "mine", **mark) for name, mark in ONCE.items()]
    _create(kubectl, stage, *(config_map(body["metadata"]["name"]) for body in foreign))
    first = stage.run(config_map("a"), *own, *foreign)
    assert {first.outcomes[f"configmap/own-{name}"] for name in ONCE} == {Outcome.CREATED}
    assert {first.outcomes[f"configmap/foreign-{name}"] for name in ONCE} == {Outcome.SKIPPED}
    kubectl("patch", "configmap/own-ours", "-n", stage.namespace, "-p", '{"data":{"key":"theirs"}}')
    assert stage.status(fail_on_drift=True).exit_code == 0
    changed = [{**body, "data": {"key": "new"}} for body in own]
    story = stage.run(config_map("a"), *changed, *foreign, reapply_all=True, wait=True)
    assert story.exit_code == 0
    assert {story.outcomes[f"configmap/own-{name}"] for name in ONCE} == {Outcome.UNCHANGED}
    assert api.get(stage.path("own-ours"))["data"] == {"key": "theirs"}
    assert api.get(stage.path("own-flux"))["data"] == {"key": "v"}
    assert not any(
        PART_OF in (api.get(stage.path(f"foreign-{name}"))["metadata"].get("labels") or {})
        for name in ONCE
    )
    assert stage.listed() == {"configmap/a", *(f"configmap/own-{name}" for name in ONCE)}
    kubectl("delete", "configmap/own-flux", "-n", stage.namespace)
    assert stage.run(config_map("a"), *changed, *foreign).outcomes["configmap/own-flux"] is (
        Outcome.CREATED
    )
    # Without the mark, the manifest is applied again.
    unmarked = config_map("own-cli-utils", "plain")
    story = stage.run(config_map("a"), unmarked, max_prune=stage.most(9))
    assert story.outcomes["configmap/own-cli-utils"] is Outcome.UPDATED
    assert story.outcomes["configmap/own-ours"] is Outcome.PRUNED
    assert api.exists(stage.path("foreign-ours"))


@pytest.mark.holds("unlisted-object")
def test_object_that_must_exist_is_never_ours(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """The run waits for it, and what depends on it follows; nothing of it changes."""
    bodies = [config_map(f"must-{name}", "mine", **mark) for name, mark in EXISTS.items()]
    needs = f"/namespaces/{stage.namespace}/ConfigMap/must-ours"
    after = config_map("after", annotations={"config.kubernetes.io/depends-on": needs})
    creations: list[bool] = []

    def create_late(event: Event) -> None:
        if type(event).__name__ == "Waiting" and not creations:
            creations.append(api.exists(stage.path("after")))
            _create(kubectl, stage, *(config_map(body["metadata"]["name"]) for body in bodies))

    planned = stage.run(config_map("a"), *bodies, after, dry_run=DryRun.SERVER)
    assert planned.exit_code == 0
    assert "it does not exist yet" in planned.reasons["configmap/must-ours"]
    stage.seen = create_late
    story = stage.run(config_map("a"), *bodies, after)
    assert story.exit_code == 0
    assert creations == [False]
    assert story.outcomes["configmap/after"] is Outcome.CREATED
    assert story.outcomes["configmap/must-ours"] is Outcome.UNCHANGED
    for body in bodies:
        live = api.get(stage.path(body["metadata"]["name"]))
        assert live["data"] == {"key": "v"}
        assert "labels" not in live["metadata"]
    assert stage.listed() == {"configmap/a", "configmap/after"}
    stage.run(mode=Mode.DELETE)
    assert all(api.exists(stage.path(body["metadata"]["name"])) for body in bodies)


def test_object_that_does_not_come_is_an_error(stage: Stage, api: Api) -> None:
    """After its own time; only what depends on it is held back, and nothing is pruned."""
    stage.run(*map(config_map, "ab"))
    must = config_map("must", **EXISTS["ours"])
    must["metadata"]["annotations"] = {
        **must["metadata"]["annotations"], "applyprune.dev/timeout": "200ms",
    }  # fmt: skip
    needs = f"/namespaces/{stage.namespace}/ConfigMap/must"
    after = config_map("after", annotations={"config.kubernetes.io/depends-on": needs})
    story = stage.run(config_map("a"), config_map("c"), must, after)
    assert story.exit_code == 5
    assert "timed out waiting for configmap/must" in story.problem("configmap/must").lower()
    assert story.outcomes["configmap/after"] is Outcome.SKIPPED
    assert story.outcomes["configmap/c"] is Outcome.CREATED
    assert story.outcomes["configmap/b"] is Outcome.NOT_PRUNED
    assert not api.exists(stage.path("must"))
    assert "configmap/must" not in stage.listed()


@pytest.mark.holds("released-is-orphaned")
def test_own_object_that_shall_only_exist_is_released(stage: Stage, api: Api) -> None:
    """It is orphaned, never deleted."""
    stage.run(*map(config_map, "ab"))
    released = config_map("b", **EXISTS["ours"])
    planned = stage.explain("configmap/b", config_map("a"), released).explanation
    assert "It would be orphaned: marked applyprune.dev/apply: exists" in planned.verdict
    story = stage.run(config_map("a"), released)
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    live = api.get(stage.path("b"))
    assert PART_OF not in (live["metadata"].get("labels") or {})
    assert stage.listed() == {"configmap/a"}
    assert stage.run(config_map("a"), released).outcomes["configmap/b"] is Outcome.UNCHANGED


@pytest.mark.holds("left-alone", "left-alone-at-prune")
def test_marked_live_object_is_left_alone(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """It is not changed, pruned or waited for; the deletion of the set orphans it."""
    names = [f"m-{name}" for name in LEFT_OUT if name != "flux-label"]
    marks = {f"m-{name}": mark for name, mark in LEFT_OUT.items() if name != "flux-label"}
    stage.run(config_map("a"), *map(config_map, names))
    for name, mark in marks.items():
        ((key, value),) = mark["annotations"].items()
        _annotate(kubectl, stage, name, f"{key}={value}")
    story = stage.run(config_map("a"), *(config_map(name, "new") for name in names), wait=True)
    assert {story.outcomes[f"configmap/{name}"] for name in names} == {Outcome.SKIPPED}
    assert {api.get(stage.path(name))["data"]["key"] for name in names} == {"v"}
    story = stage.run(config_map("a"), max_prune=stage.most(20))
    kept = [name for name in names if name != "m-flux-paused"]  # this one is a keep mark too
    assert {story.outcomes[f"configmap/{name}"] for name in kept} == {Outcome.NOT_PRUNED}
    assert {f"configmap/{name}" for name in kept} < stage.listed()
    assert story.reasons["configmap/m-kluctl"] == "marked kluctl.io/ignore: true"
    assert (
        "marked kluctl.io/ignore: true" in stage.explain("configmap/m-kluctl").explanation.verdict
    )
    story = stage.run(mode=Mode.DELETE)
    assert {story.outcomes[f"configmap/{name}"] for name in kept} == {Outcome.ORPHANED}
    assert all(api.exists(stage.path(name)) for name in names)


def test_mark_that_is_not_understood_leaves_the_live_object_alone(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Doubt means to do less. A mark of the set's own last apply is up to the manifest."""
    stage.run(
        config_map("a"), config_map("b"), config_map("c", annotations={"kluctl.io/ignore": "0"})
    )
    _annotate(kubectl, stage, "a", "kluctl.io/ignore=perhaps")
    _annotate(kubectl, stage, "b", "applyprune.dev/apply=disabeld")
    story = stage.run(*(config_map(name, "new") for name in "abc"))
    assert [story.outcomes[f"configmap/{name}"] for name in "abc"] == [
        Outcome.SKIPPED, Outcome.SKIPPED, Outcome.UPDATED,
    ]  # fmt: skip
    assert api.get(stage.path("b"))["data"] == {"key": "v"}


def test_unready_object_that_is_left_alone_holds_nothing_back(
    stage: Stage, kubectl: Kubectl
) -> None:
    """No run waits for it, and no status."""
    never = config_map("b", annotations={"applyprune.dev/ready-when": "false"})
    stage.run(config_map("a"), never)
    _annotate(kubectl, stage, "b", "applyprune.dev/apply=disabled")
    story = stage.run(config_map("a", "new"), never, wait=True)
    assert story.exit_code == 0
    assert stage.status(wait=True).exit_code == 0


@pytest.mark.holds("unknown-peer-value")
def test_unknown_values_in_manifests_are_errors(stage: Stage) -> None:
    """In a manifest, each at its own place; nothing is applied."""
    wrong = [
        {"applyprune.dev/apply": "never"},
        {"applyprune.dev/recreate": "always"},
        {"applyprune.dev/timeout": "soon"},
        {"kapp.k14s.io/noop": "no"},
        {"kapp.k14s.io/exists": "true"},
        {"kluctl.io/ignore": "perhaps"},
        {"kustomize.toolkit.fluxcd.io/ssa": "Skip"},
        {"client.lifecycle.config.k8s.io/mutation": "never"},
        {"config.kubernetes.io/local-config": "yes"},
    ]
    bodies = [config_map(f"w{at}", annotations=marks) for at, marks in enumerate(wrong)]
    with pytest.raises(InputErrors) as caught:
        stage.run(*bodies)
    errors = [one for one in caught.value.errors if isinstance(one, InputError)]
    assert {one.problem.field[-1] for one in errors} == {key for marks in wrong for key in marks}
    assert not stage.inventory().exists


def test_marks_that_are_not_read_are_named(stage: Stage) -> None:
    """Once for each, with its places, and the annotation of applyprune."""
    waves = [
        config_map(f"w{at}", annotations={"argocd.argoproj.io/sync-wave": str(at)})
        for at in range(3)
    ]
    forced = config_map("f", annotations={"kustomize.toolkit.fluxcd.io/force": "enabled"})
    story = stage.run(*waves, forced)
    assert story.exit_code == 0
    (wave,) = [one for one in story.warnings if "sync-wave" in one]
    assert "configmap/w1 in set.yaml:2, configmap/w2 in set.yaml:3" in wave
    assert "w0" not in wave
    assert "applyprune.dev/wave" in wave
    (force,) = [one for one in story.warnings if "force" in one]
    assert "applyprune.dev/recreate" in force


OWNERS = {
    "meta.helm.sh/release-name": "the Helm release x in namespace y",
    "kustomize.toolkit.fluxcd.io/name": "the Flux Kustomization x in namespace y",
    "helm.toolkit.fluxcd.io/name": "the Flux HelmRelease x in namespace y",
    "argocd.argoproj.io/tracking-id": "the Argo CD application x",
    "argocd.argoproj.io/instance": "the Argo CD application x",
    "app.kubernetes.io/instance": "the Argo CD application x",
    "kapp.k14s.io/app": "the kapp app x",
    "config.k8s.io/owning-inventory": "the cli-utils inventory x",
    "kluctl.io/discriminator": "the kluctl target x",
    "configsync.gke.io/resource-id": "Config Sync, as x",
    "objectset.rio.cattle.io/id": "the Fleet bundle x",
    "olm.owner": "the OLM operator x",
}


@pytest.mark.holds("owned-by-tool")
def test_object_of_another_tool_is_not_adopted(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """By default; --adopt=all says that it is meant, and the plan names the other owner."""
    names = {f"o{at}": mark for at, mark in enumerate(OWNER_MARKS)}
    for name, mark in names.items():
        value = "x:/ConfigMap:y/z" if mark.ends_at else "x"
        marks = {mark.key: value} | ({mark.namespace: "y"} if mark.namespace else {})
        marked: dict[str, Any] = {mark.part: marks}
        manager = min(mark.managers, default="them")
        _create(kubectl, stage, config_map(name, **marked), manager=manager)
    _create(kubectl, stage, config_map("free", labels={"app.kubernetes.io/instance": "x"}))
    secret = {
        **SECRET,
        "metadata": {"name": "s", "annotations": {"meta.helm.sh/release-name": "pw"}},
    }
    _create(kubectl, stage, secret)
    versions = {name: api.get(stage.path(name))["metadata"]["resourceVersion"] for name in names}
    wanted = [config_map(name) for name in (*names, "free")]
    story = stage.run(*wanted, SECRET, take_over=frozenset({"them"}))
    assert story.exit_code == 3
    for name, mark in names.items():
        assert f"belongs to {OWNERS[mark.key]}" in story.problem(f"configmap/{name}")
        assert "--adopt=all" in story.problem(f"configmap/{name}")
    assert "belongs to the Helm release (secret)" in story.problem("secret/s")
    assert "configmap/free" not in {step.desired.ref.short for step in story.plan.faults}
    assert versions == {
        name: api.get(stage.path(name))["metadata"]["resourceVersion"] for name in names
    }
    told = stage.explain("configmap/o0", *wanted).explanation
    assert any("the Helm release x in namespace y" in reason for reason in told.reasons)
    story = stage.run(*wanted, adopt=Adopt.ALL)
    assert story.exit_code == 0
    taken = {step.desired.ref.name: step.taken_from for step in story.plan.applies}
    assert "the Helm release x in namespace y" in taken["o0"]
    assert story.reasons["configmap/o0"] == (
        "adopted: it existed and belonged to the Helm release x in namespace y"
    )
    entries = stage.inventory().entries.values()
    assert {entry.ownership for entry in entries} == {Ownership.ADOPTED}


def test_own_object_with_marks_of_a_tool_stays_ours(stage: Stage, kubectl: Kubectl) -> None:
    """A rendered chart has Helm's label, and some have more: no other tool has written it."""
    charted = config_map(
        "b",
        labels={"app.kubernetes.io/managed-by": "Helm"},
        annotations={"meta.helm.sh/release-name": "web"},
    )
    stage.run(charted)
    changed = {**charted, "data": {"key": "new"}}
    assert stage.run(changed).outcomes["configmap/b"] is Outcome.UPDATED
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    assert stage.run(charted).outcomes["configmap/b"] is Outcome.UPDATED


@pytest.mark.holds("left-alone-recreate")
def test_object_marked_after_the_plan_is_not_recreated(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """The live object is looked at again before it is deleted."""
    fixed = {**config_map("f"), "immutable": True}
    stage.run(fixed)

    stage.seen = on(
        Planned, lambda: _annotate(kubectl, stage, "f", "applyprune.dev/apply=disabled")
    )
    story = stage.run({**fixed, "data": {"key": "new"}}, recreate=True)
    assert "it is marked applyprune.dev/apply: disabled" in story.problem("configmap/f")
    assert api.get(stage.path("f"))["data"] == {"key": "v"}


def test_own_timeout_of_an_object(stage: Stage) -> None:
    """It ends the wait for it before the timeout of the run."""
    marks = {"applyprune.dev/timeout": "300ms", "applyprune.dev/ready-when": "false"}
    story = stage.run(
        config_map("a"), config_map("b", annotations=marks), wait=True, timeout=3600.0
    )
    assert story.exit_code == 5
    (ready,) = [one for one in story.of(ReadinessReported) if one.problem]
    assert ready.ref.name == "b"
