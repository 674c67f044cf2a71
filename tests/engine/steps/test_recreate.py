"""Fields that are immutable: refused by name, and re-created only if that is allowed."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Conflicts, DryRun
from applyprune.planning.applyset import MANIFEST_DIGEST
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _changed_deployment() -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["selector"]["matchLabels"] = {"app": "other"}
    body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    return body


def _service(address: str) -> dict[str, Any]:
    return of_kind(
        "Service",
        "web",
        spec={"clusterIP": address, "selector": {"app": "web"}, "ports": [{"port": 80}]},
    )


def _job(image: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}
    return of_kind("Job", "once", spec={"template": {"spec": pod}})


def _claim(mode: str) -> dict[str, Any]:
    return of_kind(
        "PersistentVolumeClaim",
        "data",
        spec={
            "accessModes": [mode],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    )


def _secret(kind: str, value: str = "geheim-4711") -> dict[str, Any]:
    return of_kind("Secret", "s", type=kind, stringData={"username": "u", "password": value})


def _immutable(value: str) -> dict[str, Any]:
    return {**config_map("fixed", value), "immutable": True}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "Deployment selector": (
        DEPLOYMENT,
        _changed_deployment(),
        "deployment.apps/web",
        "spec.selector",
    ),
    "Service clusterIP": (_service(""), _service("None"), "service/web", "spec.clusterIP"),
    "Job template": (_job("x"), _job("y"), "job.batch/once", "spec.template"),
    "Secret type": (_secret("Opaque"), _secret("kubernetes.io/basic-auth"), "secret/s", "type"),
    "immutable ConfigMap": (_immutable("a"), _immutable("b"), "configmap/fixed", "data"),
    "immutable Secret": (
        {**_secret("Opaque"), "immutable": True},
        {**_secret("Opaque", "geheim-4712"), "immutable": True},
        "secret/s",
        "data.password",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_immutable_change_is_refused_with_its_field_and_recreated_where_allowed(
    stage: Stage, name: str
) -> None:
    """By the option, and by the annotation in the manifest; the object is ours as before."""
    before, after, ref, field = CASES[name]
    stage.run(before, config_map("a"))
    uid = _uid(stage, ref)
    refused = stage.run(after, config_map("a", "changed"))
    assert refused.exit_code == 3
    assert refused.outcomes == {ref: Outcome.FAILED, "configmap/a": Outcome.UPDATED}
    assert "cannot be changed in place" in refused.problem(ref)
    assert field in refused.problem(ref)
    assert "--recreate" in refused.problem(ref)
    assert "geheim" not in refused.problem(ref)
    assert _uid(stage, ref) == uid

    told = stage.run(after, config_map("a"), recreate=True, dry_run=DryRun.SERVER)
    assert told.outcomes[ref] is Outcome.RECREATED
    assert _uid(stage, ref) == uid
    story = stage.run(after, config_map("a"), recreate=True, timeout=AGES)
    assert (story.exit_code, story.outcomes[ref]) == (0, Outcome.RECREATED), story.events
    assert _uid(stage, ref) != uid
    assert stage.run(after, config_map("a")).outcomes[ref] is Outcome.UNCHANGED
    assert {entry.ownership for entry in stage.inventory().entries.values()} == {Ownership.OWNED}

    if name == "Service clusterIP":
        return  # letting the server choose the address again is not a change
    marked = copy.deepcopy(before)
    marked["metadata"]["annotations"] = {"applyprune.dev/recreate": "allowed"}
    story = stage.run(marked, config_map("a"), timeout=AGES)
    assert (story.exit_code, story.outcomes[ref]) == (0, Outcome.RECREATED), story.events
    assert stage.run(config_map("a"), timeout=AGES).outcomes[ref] is Outcome.PRUNED


@pytest.mark.parametrize("check", [True, False])
def test_immutable_secret_is_recreated_where_drift_is_reverted(
    stage: Stage, api: Api, check: bool
) -> None:
    """No digest shows that its values have changed. What others have changed is drift even so."""
    before, after, ref, _ = CASES["immutable Secret"]
    given: dict[str, Any] = {"conflicts": Conflicts.REVERT, "recreate": True, "check": check}
    stage.run(before)
    story = stage.run(after, timeout=AGES, **given)
    assert (story.exit_code, story.outcomes) == (0, {ref: Outcome.RECREATED}), story.problem(ref)
    assert [one.drift for one in story.plan.applies] == [()]
    loose = {key: value for key, value in after.items() if key != "immutable"}
    story = stage.run(loose, timeout=AGES, **given)
    assert (story.exit_code, story.outcomes) == (0, {ref: Outcome.RECREATED}), story.problem(ref)
    path = stage.path("s", "secrets")
    api.patch(path, {"data": {"password": "dGhlaXJz"}, "immutable": True}, by="opponent")
    uid = api.get(path)["metadata"]["uid"]
    told = stage.run(loose, timeout=AGES, **given).problem(ref)
    assert "its manifest has not changed, and reverting drift deletes nothing" in told
    assert "geheim" not in told
    assert api.get(path)["metadata"]["uid"] == uid


def _uid(stage: Stage, ref: str) -> str:
    (uid,) = [one.uid for one in stage.inventory().entries.values() if one.ref.short == ref]
    return uid


def test_claim_is_never_recreated(stage: Stage, api: Api) -> None:
    """It holds data: refused with the field named, whatever is allowed."""
    stage.run(_claim("ReadWriteOnce"))
    path = f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims/data"
    uid = api.get(path)["metadata"]["uid"]
    marked = _claim("ReadWriteMany")
    marked["metadata"]["annotations"] = {"applyprune.dev/recreate": "allowed"}
    story = stage.run(marked, recreate=True)
    problem = story.problem("persistentvolumeclaim/data")
    assert story.exit_code == 3
    assert "spec" in problem
    assert "is never recreated" in problem
    now = api.get(path)["metadata"]
    assert (now["uid"], now.get("deletionTimestamp")) == (uid, None)


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


@pytest.mark.parametrize(
    "how",
    [
        "adopted",
        "kept",
        pytest.param("unclear", marks=pytest.mark.holds("mark-before-recreation")),
        "owned",
    ],
)
def test_foreign_object_is_not_recreated(
    stage: Stage, api: Api, kubectl: Kubectl, how: str
) -> None:
    """Adopted, marked to be kept, maybe marked so, or somebody else's by an ownerReference."""
    before, after = _immutable("a"), _immutable("b")
    if how == "adopted":
        kubectl("create", "-n", stage.namespace, "-f", "-", stdin=json.dumps(before))
    stage.run(before, config_map("a"))
    if how in {"kept", "unclear"}:
        word = "disabled" if how == "kept" else "never"
        kubectl(
            "annotate", "configmap/fixed", "-n", stage.namespace, f"applyprune.dev/prune={word}"
        )
    path = stage.path()
    if how == "owned":
        owner = api.get(f"{path}/a")["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner["uid"]}
        patch = json.dumps({"metadata": {"ownerReferences": [reference]}})
        kubectl("patch", "configmap/fixed", "-n", stage.namespace, "--type=merge", "-p", patch)
    uid = api.get(f"{path}/fixed")["metadata"]["uid"]
    story = stage.run(after, config_map("a"), recreate=True, conflicts=Conflicts.FORCE)
    assert story.outcomes["configmap/fixed"] is Outcome.FAILED
    assert "It cannot be recreated" in story.problem("configmap/fixed")
    assert api.get(f"{path}/fixed")["metadata"]["uid"] == uid


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


def test_create_that_fails_after_the_delete_is_recovered(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The object is missing for a moment, but stays listed."""
    stage.run(_immutable("a"))
    spoiled.budget = 0.2

    def creates(seen: Exchange) -> bool:
        return (
            seen.method == "PATCH"
            and b'"resourceVersion":"1"' in seen.body
            and (seen.path.endswith("/fixed"))
        )

    proxy.rule = always(faults.status(500, reason="InternalError"), where=creates)
    assert spoiled.run(_immutable("b"), recreate=True).exit_code == 3
    assert not api.exists(stage.path("fixed"))
    assert stage.listed() == {"configmap/fixed"}
    assert stage.run(_immutable("b")).outcomes == {"configmap/fixed": Outcome.CREATED}


def test_create_with_a_lost_reply_is_recognised_as_ours(
    spoiled: Stage, stage: Stage, proxy: FaultProxy
) -> None:
    """The retry answers 409; the object must not look adopted."""
    stage.run(_immutable("a"))

    def creates(seen: Exchange) -> bool:
        return (
            seen.method == "PATCH"
            and seen.path.endswith("/fixed")
            and (b'"resourceVersion":"1"' in seen.body)
        )

    proxy.rule = first(1, faults.lose_reply(), where=creates)
    story = spoiled.run(_immutable("b"), recreate=True)
    assert story.outcomes == {"configmap/fixed": Outcome.RECREATED}, story.events
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}
