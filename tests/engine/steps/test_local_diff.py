"""A diff without the server's check, for an account that may only read: it shows the fields."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, SECRET, config_map
from tests.support.stage import Stage, Story

Body = dict[str, Any]
READ = ["get", "list", "watch"]
BOOKKEEPING = frozenset({"generation", "managedFields", "resourceVersion"})


def _deployment(name: str) -> Body:
    body = copy.deepcopy(DEPLOYMENT)
    body["metadata"]["name"] = name
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": name, "value": "1"} for name in ("A", "B")]
    container["ports"] = [{"containerPort": 80}]
    return body


def _containers(body: Body) -> list[Body]:
    found: list[Body] = body["spec"]["template"]["spec"]["containers"]
    return found


def _image(body: Body) -> None:
    _containers(body)[0]["image"] = "changed"


def _variable(body: Body) -> None:
    _containers(body)[0]["env"][1]["name"] = "C"


def _label(body: Body) -> None:
    body["metadata"]["labels"] = {"new": "label"}


def _ports(body: Body) -> None:
    del _containers(body)[0]["ports"]


CHANGES: list[Callable[[Body], None]] = [_image, _variable, _label, _ports]


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
    bodies = [_deployment(change.__name__.strip("_")) for change in CHANGES]
    stage.run(*bodies, config_map("a"))
    theirs = {"metadata": {"labels": {"theirs": "label"}}}
    for body, change in zip(bodies, CHANGES, strict=True):
        path = stage.path(body["metadata"]["name"], "deployments", "/apis/apps/v1")
        api.patch(path, theirs, by="kubectl-label")
        change(body)
    audit.restart()
    by_server, local = (
        stage.run(*bodies, config_map("a", "new"), dry_run=dry_run, diff=True)
        for dry_run in (DryRun.SERVER, DryRun.CLIENT)
    )
    assert _shown(local) == _shown(by_server)
    names = {f"deployment.apps/{body['metadata']['name']}" for body in bodies}
    assert set(_shown(local)) == {"configmap/a", *names}
    assert all(one.not_checked == "not checked by the server" for one in local.of(ObjectDiff))
    assert writes(audit) == []


def test_local_diff_of_a_new_item_lacks_its_defaults_only(stage: Stage) -> None:
    body = _deployment("web")
    stage.run(body)
    _containers(body).append({"name": "second", "image": "x"})
    (shown,) = _shown(stage.run(body, dry_run=DryRun.CLIENT, diff=True)).values()
    before, after = (_containers(state) for state in shown)
    assert after == [*before, {"name": "second", "image": "x"}]


def test_local_diff_masks_secrets(stage: Stage) -> None:
    stage.run(SECRET)
    changed = {**SECRET, "stringData": {"password": "geheim-4712"}}
    story = stage.run(changed, dry_run=DryRun.CLIENT, diff=True)
    assert "secret/s" in _shown(story)
    assert "geheim" not in str(story.events)


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
