"""Marks on manifests and on live objects: left out, created once, only required to exist, kept."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import EmptyInput, InputError
from applyprune.model.fate import Fate
from applyprune.model.options import Adopt, Mode
from applyprune.model.plan import Guard
from applyprune.planning.marks import OWNER_MARKS, OwnerMark
from tests.decisions.rows import Row, rows
from tests.decisions.world import Change, annotated, changed, created, deleted
from tests.support.objects import config_map, of_kind

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
APPLIED = (
    {"kustomize.toolkit.fluxcd.io/ssa": "Merge"},
    {"kluctl.io/ignore": "false"},
    {"config.kubernetes.io/local-config": "false"},
    {"argocd.argoproj.io/hook": "PostSync"},
)
A, B, C = config_map("a"), config_map("b"), config_map("c")
B_LEFT = {"configmap/b": Fate.LEAVE}


def _b(mark: dict[str, Any], value: str = "new") -> dict[str, Any]:
    return config_map("b", value, **mark)


# Marks of manifests.

MANIFESTS = {
    **{
        f"left out by {tool}: {what}": Row(
            [A, *applied], before=before, given=[A, _b(mark)], fates=B_LEFT,
            because={"configmap/b": "its manifest is marked"}, sends={"configmap/b": "nothing"},
        )
        for tool, mark in LEFT_OUT.items()
        for what, applied, before in (("new", [], []), ("foreign", [], [B]), ("listed", [B], []))
    },
    **{
        f"no mark: {key}={value}": Row(
            [A], given=[A, _b({"annotations": {key: value}})], fates={"configmap/b": Fate.CREATE}
        )
        for mark in APPLIED
        for key, value in mark.items()
    },
    **{
        f"created once by {tool}: {what}": Row(
            [A, *applied], before=before, others=others, given=[A, _b(mark)],
            fates={"configmap/b": fate}, sends={"configmap/b": sends},
        )
        for tool, mark in ONCE.items()
        for what, applied, before, others, fate, sends in (
            ("new", [], [], [], Fate.CREATE, "create"),
            ("foreign", [], [B], [], Fate.LEAVE, "nothing"),
            ("changed by hand", [_b(mark, "v")], [],
                [changed("configmap/b", {"data": {"key": "hand"}})], Fate.LEAVE, "nothing"),
            ("deleted by hand", [_b(mark, "v")], [], [deleted("configmap/b")], Fate.CREATE,
                "create"),
        )
    },
    "created once, without the mark": Row(
        [A, _b(ONCE["ours"])], given=[A, B], fates={"configmap/b": Fate.CHANGE}
    ),
    "created once, gone from the input": Row(
        [A, _b(ONCE["ours"])], given=[A], fates={"configmap/b": Fate.PRUNE}
    ),
    **{
        f"must exist, by {tool}: {what}": Row(
            [A, *applied], before=before, given=[A, _b(mark)], fates={"configmap/b": fate},
            because={"configmap/b": because},
        )
        for tool, mark in EXISTS.items()
        for what, applied, before, fate, because in (
            ("foreign", [], [B], Fate.LEAVE, "it must exist, and does not belong to the set"),
            ("listed", [B], [], Fate.ORPHAN, "marked"),
        )
    },
}  # fmt: skip


@pytest.mark.holds("disabled-manifest", row="left out by ours: listed")
@pytest.mark.holds("released-is-orphaned", row="must exist, by ours: listed")
@rows(MANIFESTS)
def test_mark_of_a_manifest_decides_what_is_sent(row: Row) -> None:
    """Of all tools, each for a new object, one of others, and one of the set."""
    row.holds()


# An input of which a mark leaves out everything counts as empty: a renderer that marks everything
# looks just like one of no output.

EMPTY = frozenset({Guard.EMPTY_INPUT})
ALONE = {
    **{
        f"{tool}: {what}": Row(
            [A, B], given=[_b(mark)], options={"mode": mode, **allowed}, refused=refused,
            says=says, fates=fates,
        )
        for tool, mark in LEFT_OUT.items()
        for what, mode, allowed, refused, says, fates in (
            ("apply", Mode.APPLY, {}, EMPTY,
                ["no object in the input: a mark leaves out"], B_LEFT),
            ("prune", Mode.PRUNE, {}, EMPTY,
                ["no object in the input: a mark leaves out"], {}),
            ("allowed", Mode.APPLY, {"allow_empty": True}, frozenset(), [],
                {"configmap/a": Fate.PRUNE, **B_LEFT}),
        )
    },
    **{
        f"{tool}: a new set": Row(given=[_b(mark)], error=EmptyInput,
            says=["a mark leaves out each of its manifests"])
        for tool, mark in LEFT_OUT.items()
    },
}  # fmt: skip


@pytest.mark.holds("left-out-only", row="ours: apply")
@pytest.mark.holds("left-out-new-set", row="ours: a new set")
@rows(ALONE)
def test_input_of_left_out_manifests_alone_counts_as_empty(row: Row) -> None:
    """With --allow-empty the rest is pruned, and what is left out stays."""
    row.holds()


# Marks of live objects.

LIVE_MARKS = {name: mark["annotations"] for name, mark in LEFT_OUT.items() if "annotations" in mark}
LIVE = {
    **{
        f"{tool}: {what}": Row(
            [A, B], [annotated("configmap/b", marks)], given, options, fates,
            because={"configmap/b": "marked"},
        )
        for tool, marks in LIVE_MARKS.items()
        for what, given, options, fates in (
            ("applied", [A, config_map("b", "new")], {}, B_LEFT),
            # The mark of Flux also says to keep the object.
            ("gone from the input", [A], {},
                {"configmap/b": Fate.ORPHAN} if tool == "flux-paused" else B_LEFT),
            ("delete", None, {"mode": Mode.DELETE},
                {"configmap/a": Fate.PRUNE, "configmap/b": Fate.ORPHAN}),
        )
    },
    **{
        f"not understood: {key}={value}": Row(
            [A, B], [annotated("configmap/b", {key: value})], [A, config_map("b", "new")],
            fates=B_LEFT,
        )
        for key, value in (
            ("kluctl.io/ignore", "perhaps"), ("applyprune.dev/apply", "disabeld"),
        )
    },
    "the set's own, not understood": Row(
        [A, config_map("b", annotations={"kluctl.io/ignore": "0"})],
        given=[A, config_map("b", "new")], fates={"configmap/b": Fate.CHANGE},
    ),
}  # fmt: skip


@pytest.mark.holds("left-alone", row="ours: applied")
@pytest.mark.holds("left-alone-at-prune", row="ours: gone from the input")
@rows(LIVE)
def test_mark_of_a_live_object_leaves_it_alone(row: Row) -> None:
    """Doubt means to do less; a mark of the set's own last apply is up to the manifest."""
    row.holds()


# What is written wrongly, and what belongs to another tool.

WRONG = {
    f"{key}={value}": Row([A], given=[A, config_map("b", annotations={key: value})],
        error=InputError, says=[key])
    for key, value in (
        ("applyprune.dev/apply", "never"),
        ("applyprune.dev/recreate", "always"),
        ("applyprune.dev/timeout", "soon"),
        ("kapp.k14s.io/noop", "no"),
        ("kapp.k14s.io/exists", "true"),
        ("kluctl.io/ignore", "perhaps"),
        ("kustomize.toolkit.fluxcd.io/ssa", "Skip"),
        ("client.lifecycle.config.k8s.io/mutation", "never"),
        ("config.kubernetes.io/local-config", "yes"),
    )
}  # fmt: skip


@pytest.mark.holds("unknown-peer-value", row="kapp.k14s.io/noop=no")
@rows(WRONG)
def test_unknown_value_in_a_manifest_is_an_error(row: Row) -> None:
    """Nothing of the input is applied."""
    row.holds()


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


def _of_tool(mark: OwnerMark) -> Change:
    value = "x:/ConfigMap:y/z" if mark.ends_at else "x"
    marks = {mark.key: value} | ({mark.namespace: "y"} if mark.namespace else {})
    marked: dict[str, Any] = {mark.part: marks}
    return created(config_map("b", **marked), min(mark.managers, default="them"))


TAKES = {"take_over": frozenset({"them"})}
TOOLS = {
    **{
        f"{mark.key}: {what}": Row([A], [_of_tool(mark)], [A, B], {**TAKES, **options},
            {"configmap/b": fate}, because={"configmap/b": OWNERS[mark.key]}, sends=sends)
        for mark in OWNER_MARKS
        for what, options, fate, sends in (
            ("by default", {}, Fate.REFUSE, {"configmap/b": "nothing"}),
            ("--adopt=all", {"adopt": Adopt.ALL}, Fate.ADOPT, {}),
        )
    },
    "an instance that no tool has written": Row([A],
        [created(config_map("b", labels={"app.kubernetes.io/instance": "x"}))], [A, B], TAKES,
        {"configmap/b": Fate.ADOPT}),
    "our own, with the marks of a chart": Row(
        [A, config_map("b", labels={"app.kubernetes.io/managed-by": "Helm"},
            annotations={"meta.helm.sh/release-name": "web"})],
        given=[A, config_map("b", "new", labels={"app.kubernetes.io/managed-by": "Helm"},
            annotations={"meta.helm.sh/release-name": "web"})],
        fates={"configmap/b": Fate.CHANGE}),
}  # fmt: skip


@pytest.mark.holds("owned-by-tool", row="kapp.k14s.io/app: by default")
@rows(TOOLS)
def test_object_of_another_tool_is_adopted_only_if_that_is_meant(row: Row) -> None:
    """The plan names the other owner either way."""
    row.holds()


# Marks that say nothing here, and objects that cannot be resolved.

ROLE = of_kind("ClusterRole", "home")
OLD_ROLE = {**ROLE, "apiVersion": "rbac.authorization.k8s.io/v1beta1"}
MONITOR = of_kind("ServiceMonitor", "web", LEFT_OUT["ours"], api="monitoring.example.com/v1")
WAVE = {"argocd.argoproj.io/sync-wave": "1"}
ODD = {
    "a wave of Argo CD": Row(
        [A], given=[A, config_map("b", annotations=WAVE)], fates={"configmap/b": Fate.CREATE},
        warns=["sync-wave", "applyprune.dev/wave"],
    ),
    "force of Flux": Row(
        [A],
        given=[A, config_map("b", annotations={"kustomize.toolkit.fluxcd.io/force": "enabled"})],
        fates={"configmap/b": Fate.CREATE}, warns=["applyprune.dev/recreate"],
    ),
    "a null, which removes nothing": Row(
        [A, B], given=[A, {**B, "metadata": {"name": "b", "labels": {"team": None}}}],
        warns=["null is left out, and removes nothing, in metadata.labels.team"],
    ),
    "a kind that is not served": Row(
        [A], given=[A, MONITOR], fates={"servicemonitor.monitoring.example.com/web": Fate.LEAVE}
    ),
    **{
        f"a version that is not served: {mark}": Row(
            [A, ROLE], given=[A, {**OLD_ROLE, "metadata": {"name": "home", "annotations": marks}}],
            fates=fates,
        )
        for mark, marks, fates in (
            ("left out", LEFT_OUT["ours"]["annotations"],
                {"clusterrole.rbac.authorization.k8s.io/home": Fate.LEAVE}),
            ("a hook", {"helm.sh/hook": "test"},
                {"clusterrole.rbac.authorization.k8s.io/home": Fate.LEAVE}),
        )
    },
}  # fmt: skip


@pytest.mark.holds("scope-of-left-out", row="a version that is not served: left out")
@rows(ODD)
def test_marked_object_that_is_not_served_is_kept(row: Row) -> None:
    """Another version of its kind says whether it has a namespace; what is not read is named."""
    row.holds()
