"""Steps that do not go as planned: none turns into a delete, and none leaves a rule behind."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode, PruneAlso
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.objects import CLAIM, config_map, event
from tests.support.plane import Kubectl
from tests.support.stage import Stage

KEPT: dict[str, tuple[dict[str, Any], str, str]] = {
    "configmap": (config_map("b"), "configmap/b", "configmaps/b"),
    "persistentvolumeclaim": (CLAIM, "persistentvolumeclaim/data", "persistentvolumeclaims/data"),
}


def _path(stage: Stage, rest: str) -> str:
    return f"/api/v1/namespaces/{stage.namespace}/{rest}"


def _lives(api: Api, path: str) -> bool:
    return "deletionTimestamp" not in api.get(path)["metadata"]


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.DELETE])
@pytest.mark.parametrize("kind", KEPT)
def test_object_that_loses_its_annotation_during_the_orphan_is_not_deleted(
    spoiled: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, kind: str, mode: Mode
) -> None:
    """The annotation is removed between the read and the patch: the plan, not a step, deletes."""
    body, name, rest = KEPT[kind]
    spoiled.run(config_map("a"), body)
    kubectl("annotate", name, "-n", spoiled.namespace, "helm.sh/resource-policy=keep")
    path = _path(spoiled, rest)

    happened = proxy.before_first(
        lambda seen: seen.method == "PATCH" and seen.path == path,
        lambda: kubectl("annotate", name, "-n", spoiled.namespace, "helm.sh/resource-policy-"),
    )
    left = () if mode is Mode.DELETE else (config_map("a"),)
    story = spoiled.run(*left, mode=mode)
    assert happened
    assert story.outcomes[name] in {Outcome.FAILED, Outcome.ORPHANED}
    assert not [seen for seen in proxy.exchanges if (seen.method, seen.path) == ("DELETE", path)]
    assert _lives(api, path)
    if story.outcomes[name] is Outcome.FAILED:
        assert story.exit_code != 0
        assert name in spoiled.listed()


def test_object_that_lost_its_annotation_is_decided_by_the_next_run(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """The recorded intent to orphan it is not a rule to keep it."""
    spoiled.run(config_map("a"), config_map("b"))
    kubectl("annotate", "configmap/b", "-n", stage.namespace, "helm.sh/resource-policy=keep")
    path = _path(stage, "configmaps/b")

    def before(seen: Exchange) -> None:
        if seen.method == "PATCH" and seen.path == path:
            kubectl("annotate", "configmap/b", "-n", stage.namespace, "helm.sh/resource-policy-")

    proxy.before_forward = before
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.FAILED
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(path)


def test_recreated_object_without_a_reply_is_pruned_by_the_next_run(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Every reply to the create is lost: it counts as absent before, and so as ours."""
    stage.run(config_map("a"), {**config_map("fixed"), "immutable": True})
    spoiled.budget = 0.5
    path = _path(stage, "configmaps/fixed")
    proxy.rule = always(
        faults.lose_reply(),
        where=lambda seen: (
            seen.method == "PATCH" and seen.path == path and b'"resourceVersion":"1"' in seen.body
        ),
    )
    changed = {**config_map("fixed", "new"), "immutable": True}
    story = spoiled.run(config_map("a"), changed, recreate=True)
    assert story.outcomes["configmap/fixed"] is Outcome.FAILED, story.events
    assert api.get(path)["data"] == {"key": "new"}
    (entry,) = [one for one in stage.inventory().entries.values() if one.ref.name == "fixed"]
    assert (entry.uid_before_apply, entry.uid, entry.ownership) == (None, "", Ownership.OWNED)
    assert not entry.deleting
    story = stage.run(config_map("a"))
    assert (story.exit_code, story.outcomes["configmap/fixed"]) == (0, Outcome.PRUNED)
    assert not api.exists(path)
    assert stage.listed() == {"configmap/a"}


@pytest.mark.parametrize("fault", ["refused", "no reply"])
def test_failed_orphan_leaves_no_lasting_rule(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, fault: str
) -> None:
    """The next run may still be asked to delete what was adopted."""
    kubectl("create", "configmap", "b", "-n", stage.namespace)
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.3
    path = _path(stage, "configmaps/b")
    proxy.rule = always(
        faults.status(403, reason="Forbidden") if fault == "refused" else faults.reset(),
        where=lambda seen: seen.method == "PATCH" and seen.path == path,
    )
    assert spoiled.run(config_map("a")).outcomes["configmap/b"] is Outcome.FAILED
    (entry,) = [one for one in stage.inventory().entries.values() if one.ref.name == "b"]
    assert (entry.ownership, entry.orphan_reason) == (Ownership.ADOPTED, "")
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED}))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.PRUNED)
    assert not api.exists(path)


ORDERS = [("", "events.k8s.io"), ("events.k8s.io", "")]


@pytest.mark.parametrize("order", ORDERS)
def test_prune_recognises_the_same_object_under_another_group(
    stage: Stage, api: Api, order: tuple[str, str]
) -> None:
    """It is in the input, which prune does not apply, so it stays; the missing ones are pruned."""
    old, new = order
    path = _path(stage, "events/told")
    assert stage.run(event(stage, old), config_map("a"), config_map("b")).exit_code == 0
    uid = api.get(path)["metadata"]["uid"]
    for _ in range(2):
        story = stage.run(event(stage, new), config_map("a"), mode=Mode.PRUNE)
        assert story.exit_code == 0, story.events
        assert api.get(path)["metadata"]["uid"] == uid
    assert not api.exists(_path(stage, "configmaps/b"))


@pytest.mark.parametrize("order", ORDERS)
def test_prune_keeps_the_entry_of_the_same_object_under_another_group(
    stage: Stage, api: Api, order: tuple[str, str]
) -> None:
    """Nothing else lists it yet; it is still the set's own, and goes as one."""
    old, new = order
    path = _path(stage, "events/told")
    stage.run(event(stage, old), config_map("a"))
    stage.run(event(stage, new), config_map("a"), mode=Mode.PRUNE)
    assert [name for name in stage.listed() if name.endswith("/told")]
    assert stage.run(event(stage, new), config_map("a")).exit_code == 0
    assert stage.run(config_map("a")).exit_code == 0
    assert not api.exists(path)
