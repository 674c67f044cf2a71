"""``explain``: what a run would do with one object, and why."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import EmptyInput, InventoryError, UsageError
from applyprune.model.events import Explanation
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import SECRET, config_map, of_kind
from tests.support.stage import Stage


def explain(stage: Stage, named: str, *bodies: dict[str, Any]) -> Explanation:
    return stage.explain(named, *bodies).explanation


def test_explain_names_the_conflict_that_an_apply_would_meet(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """It asks the server, by a dry run of that object alone."""
    stage.run(config_map("a"))
    api.patch(stage.path("a"), {"data": {"key": "hers"}}, by="alice")
    audit.restart()
    one = explain(stage, "configmap/a", config_map("a", "mine"), config_map("other"))
    asked = audit.events()
    assert one.verdict.startswith("It would not be applied.")
    (conflict,) = (reason for reason in one.reasons if "alice" in reason)
    told = stage.run(config_map("a", "mine"), check=True).problem("configmap/a")
    for way in ("--conflicts revert", "ignore-fields: /data/key", ": skip", "--conflicts force"):
        assert (conflict.count(way), told.count(way)) == (1, 1), way
    # The plane's own parts patch their Events whenever they like.
    sent = [
        event
        for event in asked
        if event["verb"] == "patch" and event["userAgent"].startswith("applyprune/")
    ]
    assert [event["requestURI"].partition("?")[0].rpartition("/")[2] for event in sent] == ["a"]
    assert "dryRun=All" in sent[0]["requestURI"]


def test_explain_says_what_holds_the_whole_run(stage: Stage, api: Api) -> None:
    """A conflict of another object that can be seen, or a refused prune: nothing is applied."""
    bodies = [config_map(name) for name in "abcd"]
    stage.run(*bodies)
    api.patch(stage.path("a"), {"data": {"key": "hers"}}, by="alice")
    others = [config_map("a", "mine"), *bodies[1:], config_map("new")]
    told = explain(stage, "configmap/new", *others)
    assert told.verdict == "It would be created, but the reasons below prevent it."
    assert told.reasons[0] == "nothing is applied in this run, because of configmap/a"
    assert stage.run(*others).exit_code == 4
    few = explain(stage, "configmap/new", config_map("new"))
    assert few.verdict == "It would be created, but the reasons below prevent it."
    assert "--max-prune 4" in few.reasons[0]
    assert stage.run(config_map("new")).exit_code == 6
    assert stage.listed() == {f"configmap/{name}" for name in "abcd"}


def test_explain_refuses_what_a_run_refuses(stage: Stage, api: Api) -> None:
    """A set without objects and input, and a lost inventory: each with what to do."""
    with pytest.raises(EmptyInput):
        explain(stage, "configmap/a")
    stage.run(config_map("a"))
    path = stage.path(stage.target.inventory.name)
    assert api("DELETE", path)[0] == 200
    with pytest.raises(InventoryError, match="has no inventory, but 1 object has"):
        alone(stage, "configmap/a")


def alone(stage: Stage, named: str) -> Explanation:
    return stage.explain(named, given=False).explanation


def test_explain_says_what_a_run_would_do(stage: Stage, api: Api) -> None:
    """With an input, and without one as if only this object had left the set.

    The words of each verdict and reason: tests/unit/planning/test_explain.py.
    """
    for name in ("there", "adopted"):
        api.create(stage.path(), of_kind("ConfigMap", name))
    a, b, adopted = config_map("a"), config_map("b"), config_map("adopted")
    kept = config_map("kept", annotations={"helm.sh/resource-policy": "keep"})
    stage.run(a, b, adopted, kept, config_map("gone"))
    api("DELETE", stage.path("gone"))
    same = explain(stage, "configmap/a", a)
    assert same.verdict.startswith("Nothing would be sent: it is unchanged since the last apply")
    assert same.origin is not None
    assert same.reasons[0] == "it is in the input: set.yaml:1"
    rest = (b, adopted, kept)
    given = {
        "a": ("It would be applied: its manifest has changed.", (config_map("a", "x"), *rest)),
        "new": ("It would be created.", (a, *rest, config_map("new"))),
        "there": ("adopted: it existed and belonged to no set", (a, *rest, config_map("there"))),
        "b": ("It would be deleted. To orphan it instead: --orphan", (a, adopted, kept)),
    }
    for name, (words, bodies) in given.items():
        assert words in explain(stage, f"configmap/{name}", *bodies).verdict
    removed = {
        "a": "be deleted. To orphan it instead: --orphan configmap/a",
        "adopted": "be orphaned: it was adopted, not created",
        "kept": "be orphaned: marked helm.sh/resource-policy: keep.",
        "gone": "only be removed from the inventory: it is gone.",
    }
    for name, words in removed.items():
        told = alone(stage, f"configmap/{name}").verdict
        assert told.startswith(f"If removed from the input: it would {words}"), told
    assert alone(stage, "configmaps/a").verdict == alone(stage, "configmap/a").verdict
    api.patch(stage.path("a"), {"metadata": {"labels": {PART_OF: None}}})
    unlabelled = alone(stage, "configmap/a")
    assert any("kubectl label configmap/a" in reason for reason in unlabelled.reasons)


def test_explain_recognises_an_object_outside_the_set(stage: Stage, api: Api) -> None:
    """Another set's, with its name; nobody's; none at all; and an unlisted one with our label."""
    stage.run(config_map("a"))
    Stage(stage.kubeconfig, stage.namespace, name="shop").run(config_map("s"))
    theirs = alone(stage, "configmap/s")
    assert theirs.verdict == "No run of this set changes it: it belongs to another set."
    where = f"shop in namespace {stage.namespace}"
    assert f"it has the label of another set: {where}" in theirs.reasons
    nobody = alone(stage, f"{stage.namespace}/configmaps/kube-root-ca.crt")
    assert nobody.verdict.endswith("it is neither in the input nor in the inventory.")
    assert alone(stage, "clusterrole/nix").verdict.startswith("No such object")
    api.create(stage.path(), config_map("copied", labels={PART_OF: stage.target.id}))
    copied = alone(stage, "configmap/copied")
    assert "it has the set's label, but is not in the inventory" in copied.verdict


def test_explain_writes_nothing_and_shows_no_secret(stage: Stage, audit: AuditTrail) -> None:
    """Whatever is asked about."""
    stage.run(SECRET, config_map("a"))
    audit.restart()
    told = [explain(stage, "secret/s", SECRET), explain(stage, "secret/s", config_map("a"))]
    told.append(alone(stage, "secret/s"))
    assert writes(audit) == []
    text = repr(told)
    assert SECRET["stringData"]["password"] not in text
    assert "Y29ycmVjdCBob3JzZQ" not in text
    assert told[0].verdict.startswith("Nothing would be sent")


def test_explain_of_a_missing_set_is_an_error(stage: Stage) -> None:
    """Without an input there must be one; with one it may be about to be made."""
    with pytest.raises(UsageError, match="there is no set web"):
        alone(stage, "configmap/a")
    assert explain(stage, "configmap/a", config_map("a")).verdict == "It would be created."
