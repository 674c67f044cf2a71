"""Recreations: of what they never delete, what meets them on the way, and how they end."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Conflicts
from applyprune.planning.applyset import MANIFEST_DIGEST
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage


def _immutable(value: str) -> dict[str, Any]:
    return {**config_map("fixed", value), "immutable": True}


def _secret(value: str, **parts: Any) -> dict[str, Any]:
    return of_kind("Secret", "s", stringData={"password": value}, **parts)


@pytest.mark.parametrize("check", [True, False])
def test_immutable_secret_is_recreated_where_drift_is_reverted(
    stage: Stage, api: Api, check: bool
) -> None:
    """No digest shows that its values have changed. What others have changed is drift even so."""
    ref, after = "secret/s", _secret("geheim-4712", immutable=True)
    given: dict[str, Any] = {"conflicts": Conflicts.REVERT, "recreate": True, "check": check}
    stage.run(_secret("geheim-4711", immutable=True))
    story = stage.run(after, timeout=AGES, **given)
    assert (story.exit_code, story.outcomes) == (0, {ref: Outcome.RECREATED}), story.problem(ref)
    assert [one.drift for one in story.plan.applies] == [()]
    loose = _secret("geheim-4712")
    story = stage.run(loose, timeout=AGES, **given)
    assert (story.exit_code, story.outcomes) == (0, {ref: Outcome.RECREATED}), story.problem(ref)
    path = stage.path("s", "secrets")
    api.patch(path, {"data": {"password": "dGhlaXJz"}, "immutable": True}, by="opponent")
    uid = api.get(path)["metadata"]["uid"]
    told = stage.run(loose, timeout=AGES, **given).problem(ref)
    assert "its manifest has not changed, and reverting drift deletes nothing" in told
    assert "geheim" not in told
    assert api.get(path)["metadata"]["uid"] == uid


def test_invalid_change_is_not_taken_for_immutable(stage: Stage, api: Api) -> None:
    """The manifest would be refused at its creation, too: nothing is deleted for it."""
    stage.run(DEPLOYMENT)
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/web"
    uid = api.get(path)["metadata"]["uid"]
    wrong = copy.deepcopy(DEPLOYMENT)
    wrong["spec"]["template"]["metadata"]["labels"] = {"app": "does-not-match"}
    labelled = copy.deepcopy(DEPLOYMENT)
    labelled["metadata"]["labels"] = {"app": "not a label"}
    for body in (wrong, labelled):
        story = stage.run(body, recreate=True)
        assert story.outcomes == {"deployment.apps/web": Outcome.FAILED}
        assert "in place" not in story.problem("deployment.apps/web")
        assert api.get(path)["metadata"]["uid"] == uid


@pytest.mark.holds("mark-before-recreation")
def test_foreign_object_is_not_recreated(stage: Stage, api: Api) -> None:
    """Adopted, marked to be kept, maybe marked so, or somebody else's by an ownerReference."""
    names = ("adopted", "kept", "unclear", "owned")
    before, after = (
        [{**config_map(name, value), "immutable": True} for name in names] for value in "ab"
    )
    api.create(stage.path(), before[0])
    stage.run(*before, config_map("a"))
    uid = api.get(stage.path("a"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid}
    for name, metadata in (
        ("kept", {"annotations": {"applyprune.dev/prune": "disabled"}}),
        ("unclear", {"annotations": {"applyprune.dev/prune": "never"}}),
        ("owned", {"ownerReferences": [owner]}),
    ):
        api.patch(stage.path(name), {"metadata": metadata})
    uids = [api.get(stage.path(name))["metadata"]["uid"] for name in names]
    story = stage.run(*after, config_map("a"), recreate=True, conflicts=Conflicts.FORCE)
    for name in names:
        assert story.outcomes[f"configmap/{name}"] is Outcome.FAILED
        assert "It cannot be recreated" in story.problem(f"configmap/{name}")
    assert [api.get(stage.path(name))["metadata"]["uid"] for name in names] == uids


@pytest.mark.parametrize(
    ("moment", "smaller"),
    [
        (Moment.AFTER, True),
        *(
            pytest.param(moment, smaller, marks=pytest.mark.sweep)
            for moment, smaller in product(Moment, (False, True))
            if (moment, smaller) != (Moment.AFTER, True)
        ),
    ],
)
def test_recreation_killed_anywhere_recovers(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path, moment: Moment, smaller: bool
) -> None:
    """At each request from the trial on: the next run ends with what it is given, nothing more.

    What follows a kill begins by waiting for the dead, so many wait side by side.
    """
    killed_at: list[str] = []

    def recover(here: Stage, new: dict[str, Any], where: str) -> None:
        bodies = () if smaller else (new,)
        story = here.run(*bodies, recreate=True, allow_empty=True)
        assert story.exit_code == 0, (where, story.events)
        path = f"/api/v1/namespaces/{stage.namespace}/configmaps/{new['metadata']['name']}"
        if smaller:
            assert not api.exists(path), where
            assert here.listed() == set()
        else:
            assert api.get(path)["data"] == {"key": "b"}
            assert {one.ownership for one in here.inventory().entries.values()} == {Ownership.OWNED}

    with ThreadPoolExecutor() as recoveries:
        ends = []
        for number in count(8):
            here = Stage(stage.kubeconfig, stage.namespace, name=f"s{number}")
            name = f"fixed-{number}"
            old, new = ({**config_map(name, v), "immutable": True} for v in "ab")
            here.run(old)
            source = write_input(tmp_path / f"{number}.json", [new])
            where = ("-n", stage.namespace)
            command: list[str | Path] = ["apply", here.name, *where, "--recreate", "--no-check"]
            killed = kill_at(
                proxy, number, moment, [*command, "-f", source], proxy.kubeconfig(tmp_path)
            )
            if killed is None:
                break
            killed_at.append(f"{killed.method} {killed.path.rpartition('/')[2]}")
            ends.append(recoveries.submit(recover, here, new, killed_at[-1]))
        for end in ends:
            end.result()
    # The look after the refusal, the trial, the lists of claims and StatefulSets, the intent, the
    # delete, the look that finds it gone, the note that it is gone, the create, the end.
    assert len(killed_at) == 10, killed_at


@pytest.mark.holds("recreated-by-others")
def test_recreation_that_others_were_faster_than_is_not_reported_as_done(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Another tool takes the name between the delete and the create."""
    stage.run(_immutable("a"))
    path = stage.path()

    def before(seen: Exchange) -> None:
        is_create = seen.method == "PATCH" and seen.path == f"{path}/fixed"
        if is_create and not api.exists(seen.path):
            marks = {"meta.helm.sh/release-name": "web"}
            api.create(path, config_map("fixed", "theirs", annotations=marks))

    proxy.before_forward = before
    story = spoiled.run(_immutable("b"), recreate=True)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/fixed": Outcome.FAILED})
    assert api.get(f"{path}/fixed")["data"] == {"key": "theirs"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("a value", marks=pytest.mark.holds("recreation-judged-again")),
        "a mark",
        "always",
    ],
)
def test_object_that_changes_before_its_delete_is_judged_again(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, change: str
) -> None:
    """A controller writes to it, somebody protects it, or it never stays as it is."""
    stage.run(_immutable("a"))
    path = stage.path("fixed")
    uid = api.get(path)["metadata"]["uid"]
    deletes = count(1)

    def before(seen: Exchange) -> None:
        is_delete = seen.method == "DELETE" and seen.path == path and "dryRun" not in seen.query
        if not is_delete or ((number := next(deletes)) > 1 and change != "always"):
            return
        marks = {"applyprune.dev/prune": "disabled"} if change == "a mark" else {"n": str(number)}
        patch = {"metadata": {"annotations": marks}}
        api.patch(path, patch, by="job-controller")

    proxy.before_forward = before
    story = spoiled.run(_immutable("b"), recreate=True)
    if change == "a value":
        assert story.outcomes == {"configmap/fixed": Outcome.RECREATED}, story.events
        assert (api.get(path)["metadata"]["uid"] != uid, next(deletes)) == (True, 3)
        return
    expected = {"a mark": "applyprune.dev/prune", "always": "changes faster than it can be deleted"}
    assert (story.exit_code, story.outcomes) == (3, {"configmap/fixed": Outcome.FAILED})
    assert expected[change] in story.problem("configmap/fixed")
    assert (api.get(path)["metadata"]["uid"], api.get(path)["data"]) == (uid, {"key": "a"})


def test_object_of_an_earlier_version_is_changed_in_place(stage: Stage, api: Api) -> None:
    """It has ``recreate: on-change`` and the digest of its manifest: neither drift nor a doubt."""
    recreate = "applyprune.dev/recreate"
    with pytest.raises(InputError, match=r"invalid applyprune\.dev/recreate: 'on-change'") as wrong:
        stage.run(config_map("a", annotations={recreate: "on-change"}))
    assert 'Use "allowed"' in wrong.value.hint
    allowed = [config_map(name, annotations={recreate: "allowed"}) for name in "ab"]
    stage.run(*allowed)
    for name in "ab":
        path = stage.path(name)
        live = api.get(path)["metadata"]
        marks = {**live["annotations"], recreate: "on-change", MANIFEST_DIGEST: "0" * 32}
        old = config_map(name, annotations=marks, labels=live["labels"])
        api.apply(path, old, by=stage.target.manager, force=True)
    first = stage.run(*allowed)
    assert set(first.outcomes.values()) == {Outcome.UPDATED}
    live = api.get(stage.path("a"))["metadata"]
    assert MANIFEST_DIGEST not in live["annotations"]
    assert set(stage.run(*allowed).outcomes.values()) == {Outcome.UNCHANGED}


def _creates(seen: Exchange) -> bool:
    is_new = b'"resourceVersion":"1"' in seen.body
    return seen.method == "PATCH" and is_new and seen.path.endswith("/fixed")


def test_create_that_fails_after_the_delete_is_recovered(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The object is missing for a moment, but stays listed."""
    stage.run(_immutable("a"))
    spoiled.budget = 0.2

    proxy.rule = always(faults.status(500, reason="InternalError"), where=_creates)
    assert spoiled.run(_immutable("b"), recreate=True).exit_code == 3
    assert not api.exists(stage.path("fixed"))
    assert stage.listed() == {"configmap/fixed"}
    assert stage.run(_immutable("b")).outcomes == {"configmap/fixed": Outcome.CREATED}


def test_create_with_a_lost_reply_is_recognised_as_ours(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """The retry answers 409; the object must not look adopted."""
    stage.run(_immutable("a"))
    proxy.rule = first(1, faults.lose_reply(), where=_creates)
    story = spoiled.run(_immutable("b"), recreate=True)
    assert story.outcomes == {"configmap/fixed": Outcome.RECREATED}, story.events
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}
