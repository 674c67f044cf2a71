"""failures §1.1: the inventory and the crash. A test a row, named after it, or in its own file."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from applyprune.cluster.inventory_format import lines_digest
from applyprune.errors import InventoryError, InventoryLocked
from applyprune.model.events import Waiting
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.options import Mode, PruneAlso
from applyprune.planning.applyset import GROUP_KINDS, PART_OF, SET_ID
from applyprune.values import replace
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, of_kind
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.plane import Kubectl
from tests.support.stage import Stage
from tests.support.waiting import eventually


def _applies(seen: Exchange) -> bool:
    return seen.method == "PATCH" and seen.path.endswith("/configmaps/b")


def _stored(api: Api, stage: Stage) -> dict[str, Any]:
    return dict(api.get(stage.path(f"applyprune-{stage.name}")))


def _rewrite(api: Api, stage: Stage, header: dict[str, Any], **data: str) -> None:
    """Put other data into the inventory, as a hand with the right to update it would."""
    body = _stored(api, stage)
    body["data"] |= data
    body["data"]["header"] = json.dumps(json.loads(body["data"]["header"]) | header)
    status, reply = api("PUT", stage.path(f"applyprune-{stage.name}"), body)
    assert status == 200, reply


def test_crash_between_apply_and_inventory_write(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Killed at the write that confirms: a smaller input next prunes what was never confirmed.

    Every other request of every kind of run: tests/sweeps.
    """
    source = write_input(tmp_path / "set.json", [config_map("a"), config_map("b")])
    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", source, "--no-check"]
    applied: list[str] = []

    def confirms(seen: Exchange) -> bool:
        # Also a renewal could come before both are applied.
        return seen.method == "PUT" and len(applied) == 2

    def replied(seen: Exchange) -> None:
        if seen.method == "PATCH":
            applied.append(seen.path)

    proxy.before_reply = replied
    kill_at_first(proxy, confirms, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    assert api.exists(stage.path("b"))
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))


def test_write_ahead_entry_has_no_uid_yet(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl
) -> None:
    """Ours is known by its marks; an object of that name without them is somebody else's."""
    spoiled.budget = 0.3
    proxy.rule = always(faults.lose_reply(), where=_applies)
    spoiled.run(config_map("a"), config_map("b"))
    assert {entry.uid for entry in stage.inventory().entries.values()} != {""}
    assert stage.inventory().entries[Ref("", "ConfigMap", stage.namespace, "b")].uid == ""
    kubectl("delete", "configmap/b", "-n", stage.namespace)
    kubectl("create", "configmap", "b", "-n", stage.namespace, "--from-literal=mine=1")
    kubectl("label", "configmap/b", "-n", stage.namespace, f"{PART_OF}={stage.target.id}")
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    assert api.get(stage.path("b"))["data"] == {"mine": "1"}


def test_failed_prune_forgotten(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """A policy denies the delete: the entry stays until the object is gone."""
    name = f"deny-{stage.namespace}"
    policy = of_kind(
        "ValidatingAdmissionPolicy",
        name,
        api="admissionregistration.k8s.io/v1",
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["DELETE"],
                        "resources": ["configmaps"],
                    }
                ],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": stage.namespace}
                },
            },
            "validations": [{"expression": "false", "message": "not today"}],
        },
    )
    binding = of_kind(
        "ValidatingAdmissionPolicyBinding",
        name,
        api="admissionregistration.k8s.io/v1",
        spec={"policyName": name, "validationActions": ["Deny"]},
    )
    stage.run(config_map("a"), config_map("b"))
    tried = f"{stage.path('a')}?dryRun=All"
    for body in (policy, binding):
        kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        # The API server takes a moment to load it.
        eventually(lambda: api("DELETE", tried)[0] == 422, lambda: "the policy")
        story = stage.run(config_map("a"))
        assert (story.exit_code, story.outcomes["configmap/b"]) == (3, Outcome.FAILED)
        assert "not today" in story.problem("configmap/b")
        assert stage.listed() == {"configmap/a", "configmap/b"}
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            kubectl("delete", kind, name)
    eventually(lambda: api("DELETE", tried)[0] == 200, lambda: "the end of the policy")
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert stage.listed() == {"configmap/a"}


def test_inventory_deleted_with_the_objects_left(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """The next run warns, records the set's objects again as adopted, and prunes nothing."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    kubectl("create", "configmap", "copied", "-n", stage.namespace)
    kubectl("label", "configmap/copied", "-n", stage.namespace, f"{PART_OF}={stage.target.id}")
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    story = stage.run(config_map("a"))
    assert story.outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "configmap/b": Outcome.NOT_PRUNED,
        "configmap/c": Outcome.NOT_PRUNED,
    }
    (warning,) = story.warnings
    assert (
        "the inventory of the set web was lost, and 3 objects have its label and field manager"
        in warning
    )
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/c"}
    # Nobody can know who created them: only the user can decide to delete them.
    later = stage.run(config_map("a"), config_map("c"))
    assert later.outcomes["configmap/b"] is Outcome.ORPHANED
    assert (
        stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED})).outcomes["configmap/c"]
        is Outcome.PRUNED
    )
    assert api.exists(stage.path("b"))
    assert not api.exists(stage.path("c"))


def test_lost_inventory_is_as_before_after_the_command_that_the_warning_names(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Everything is owned and prunable again, also what has left the input."""
    stage.run(config_map("a"), config_map("b"))
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    (warning,) = stage.run(config_map("a")).warnings
    *_, command = next(line for line in warning.splitlines() if "prunable" in line).split(": ")
    owned = "--record-as owned configmap/a configmap/b"
    assert command == f"applyprune inventory repair web -n {stage.namespace} {owned}"
    ended = applyprune(*command.split()[1:], "--yes", kubeconfig=stage.kubeconfig)
    assert (ended.code, ended.summary.partition(" in ")[0]) == (0, "web: 2 updated")
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))
    assert stage.listed() == {"configmap/a"}


def test_destroy_removes_the_inventory_first(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """It goes last, and not while anything that it lists is there; without it nothing goes."""
    stage.run(config_map("a"), config_map("b", finalizers=["example.com/hold"]))
    story = stage.run(mode=Mode.DELETE, timeout=1.0)
    assert story.exit_code == 5
    assert stage.listed() == {"configmap/b"}
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    with pytest.raises(InventoryError, match="has no inventory, but 1 object has its label"):
        stage.run(mode=Mode.DELETE)
    assert api.exists(stage.path("b"))
    release = '{"metadata":{"finalizers":null}}'
    kubectl("patch", "configmap/b", "-n", stage.namespace, "--type=merge", "-p", release)


@pytest.mark.parametrize("how", ["deleted", "deleted and re-created", "edited"])
def test_inventory_vanishes_while_running(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, kubectl: Kubectl, how: str
) -> None:
    """The run stops before any delete, and writes no inventory of its own over it."""
    stage.run(config_map("a"), config_map("b"))
    mine = f"configmap/applyprune-{stage.name}"
    done: list[int] = []

    def before(seen: Exchange) -> None:
        # The change of `a` comes after the union write and before the intent to delete.
        if seen.method != "PATCH" or done:
            return
        done.append(seen.number)
        body = _stored(api, stage)
        if how == "edited":
            # What other tools write to its metadata does not matter.
            patch = '{"data":{"somebody":"was-here"}}'
            kubectl("patch", mine, "-n", stage.namespace, "--type=merge", "-p", patch)
            return
        kubectl("delete", mine, "-n", stage.namespace)
        if how == "deleted and re-created":
            for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
                body["metadata"].pop(key, None)
            kubectl("create", "-f", "-", stdin=json.dumps(body))

    proxy.before_forward = before
    with pytest.raises(InventoryLocked):
        spoiled.run(config_map("a", "changed"))
    assert done
    assert api.exists(stage.path("b"))
    assert api.exists(stage.path("applyprune-web")) is (how != "deleted")


def test_crash_lock_never_released(stage: Stage) -> None:
    """A holder that does not move is timed by our own clock, whatever its own one says."""
    stage.run(config_map("a"))
    # Short, because this run waits in real time; the exact times: inventory/test_observed_lock.py.
    take_from_elsewhere(stage, replace(ELSEWHERE, lease=0.3))
    story = stage.run(config_map("b"))
    waits = {(one.what, one.reason) for one in story.of(Waiting)}
    assert waits == {(f"the lock of the set {stage.name}", f"held by {ELSEWHERE.who}")}
    assert story.outcomes == {"configmap/a": Outcome.PRUNED, "configmap/b": Outcome.CREATED}
    assert stage.inventory().holder is None


def test_too_large(stage: Stage) -> None:
    """Counted before anything is applied; test_shards.py tests how many fit."""
    stage.run(config_map("a"))
    refs = (Ref("", "ConfigMap", stage.namespace, f"c-{number}") for number in range(100_001))
    many = {ref: InventoryEntry(ref, "configmaps", "v1", None) for ref in refs}
    with pytest.raises(InventoryError, match="a set may have at most 100000 objects"):
        stage.rewrite(entries=many)
    assert stage.listed() == {"configmap/a"}


def test_key_encoding_collides(stage: Stage, api: Api) -> None:
    """RBAC names hold nearly anything; each comes out as it went in, and only its own goes."""
    names = ["a_b", "a__b", "A.B", "system:x", "x" * 253]

    def role(name: str) -> dict[str, Any]:
        return of_kind("Role", name, rules=[])

    assert set(stage.run(*map(role, names)).outcomes.values()) == {Outcome.CREATED}
    left = [name for name in names if name != "a__b"]
    story = stage.run(*map(role, left))
    assert story.outcomes["role.rbac.authorization.k8s.io/a__b"] is Outcome.PRUNED
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stage.namespace}/roles"
    assert {item["metadata"]["name"] for item in api.get(path)["items"]} == set(left)


@pytest.mark.parametrize("how", ["no data", "another digest", "a newer format", "half", "garbage"])
def test_unreadable_inventory_read_as_empty(stage: Stage, api: Api, how: str) -> None:
    """An error, with what to do; nothing is applied, nothing pruned, the inventory untouched."""
    stage.run(config_map("a"), config_map("b"))
    entries = _stored(api, stage)["data"]["entries"]
    match how:
        case "no data":
            body = _stored(api, stage)
            del body["data"]
            api("PUT", stage.path("applyprune-web"), body)
        case "another digest":
            _rewrite(api, stage, {"digest": "0" * 64})
        case "a newer format":
            _rewrite(api, stage, {"schema": 99})
        case "half":
            _rewrite(api, stage, {}, entries=entries[: len(entries) // 2])
        case _:
            _rewrite(api, stage, {}, entries="?")
    before = _stored(api, stage)
    for options in ({}, {"mode": Mode.DELETE}, {"mode": Mode.PRUNE}):
        bodies = () if options.get("mode") is Mode.DELETE else (config_map("c"),)
        with pytest.raises(InventoryError):
            stage.run(*bodies, **options)
    assert _stored(api, stage) == before
    assert api.exists(stage.path("a"))
    assert not api.exists(stage.path("c"))


@pytest.mark.holds("label-hint")
def test_hand_edited_inventory_is_a_confused_deputy(
    stage: Stage, api: Api, kubectl: Kubectl
) -> None:
    """An entry added by hand, for an object that the set never made, deletes nothing.

    Not with its right UID, and not with our label forged on it besides. Nobody is told to do so.
    """
    stage.run(config_map("a"))
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    other.run(config_map("theirs"))
    kubectl("create", "configmap", "plain", "-n", stage.namespace)
    kubectl("create", "configmap", "forged", "-n", stage.namespace)
    kubectl("label", "configmap/forged", "-n", stage.namespace, f"{PART_OF}={stage.target.id}")
    fields, line = _stored(api, stage)["data"]["entries"].splitlines(keepends=True)
    lines = [line]
    system = {"kind": "Namespace", "namespace": "", "name": "kube-system", "plural": "namespaces"}
    system["uid"] = api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    lines.append(json.dumps(json.loads(line) | system, separators=(",", ":")) + "\n")
    for name in ("theirs", "plain", "forged"):
        uid = api.get(stage.path(name))["metadata"]["uid"]
        entry = json.loads(line) | {"name": name, "uid": uid, "found": None}
        lines.append(json.dumps(entry, separators=(",", ":")) + "\n")
    text = fields + "".join(sorted(lines))
    _rewrite(api, stage, {"count": 5, "digest": lines_digest(text.encode())}, entries=text)
    with pytest.raises(InventoryError, match="contains-group-kinds lacks Namespace"):
        stage.run(config_map("a"))
    kinds = {"metadata": {"annotations": {GROUP_KINDS: "ConfigMap,Namespace"}}}
    merge = "application/merge-patch+json"
    api("PATCH", stage.path("applyprune-web"), kinds, content_type=merge)
    assert len(stage.listed()) == 5
    story = stage.run(config_map("a"))
    assert Outcome.PRUNED not in story.outcomes.values()
    for name in ("configmap/plain", "configmap/forged", "namespace/kube-system"):
        told = story.problem(name)
        assert "was not applied by this set" in told
        # Whoever follows the advice must not give the set what it never made.
        assert "kubectl label" not in told
        assert f"inventory orphan web -n {stage.namespace} {name}" in told
    for name in ("theirs", "plain", "forged"):
        assert api.exists(stage.path(name)), name


def test_inventory_copied_to_another_name_is_not_believed(stage: Stage, api: Api) -> None:
    """The id is derived from name and namespace; another one's is an error."""
    stage.run(config_map("a"))
    body = _stored(api, stage)
    body["metadata"] = {
        "name": "applyprune-evil",
        "labels": {SET_ID: body["metadata"]["labels"][SET_ID]},
    }
    api("POST", stage.path(), body)
    evil = Stage(stage.kubeconfig, stage.namespace, name="evil")
    with pytest.raises(InventoryError, match="is not this set's inventory"):
        evil.run(mode=Mode.DELETE)
    assert api.exists(stage.path("a"))


def test_grows_without_bound(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Run after run that fails: the same ConfigMaps, the same size."""
    stage.run(config_map("a"), config_map("b", finalizers=["example.com/hold"]))
    sizes = set()
    for _ in range(12):
        assert stage.run(config_map("a"), timeout=0.2).exit_code == 5
        items = api.get(stage.path())["items"]
        sizes.add((len(items), len(_stored(api, stage)["data"]["entries"])))
    assert len(sizes) == 1
    release = '{"metadata":{"finalizers":null}}'
    kubectl("patch", "configmap/b", "-n", stage.namespace, "--type=merge", "-p", release)


def test_bomb_in_the_inventory_is_not_unpacked(stage: Stage, api: Api) -> None:
    """What unpacks to more than an inventory may hold is an error like any other."""
    stage.run(config_map("a"))
    body = _stored(api, stage)
    bomb = b64encode(gzip.compress(b"\0" * (65 * 1024 * 1024))).decode()
    del body["data"]["entries"]
    body["binaryData"] = {"entries.gz": bomb}
    api("PUT", stage.path("applyprune-web"), body)
    with pytest.raises(InventoryError, match="cannot be read"):
        stage.run(config_map("a"))


def test_late_delete_does_not_hit_another_object(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Its run was killed, and the next one wants the object again: the delete misses."""
    stage.run(config_map("a"), config_map("b"))
    less = write_input(tmp_path / "set.json", [config_map("a")])
    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", less]

    def deletes(seen: Exchange) -> bool:
        return seen.method == "DELETE"

    kill_at_first(proxy, deletes, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    killed = next(filter(deletes, proxy.exchanges))
    story = stage.run(config_map("a"), config_map("b"))
    assert story.exit_code == 0
    status, reply = api("DELETE", killed.target, json.loads(killed.body))
    assert status == 409, reply
    assert api.exists(stage.path("b"))
    assert stage.run(config_map("a"), config_map("b")).outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "configmap/b": Outcome.UNCHANGED,
    }


def test_late_create_is_found(stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path) -> None:
    """It arrived after the next run had proven it absent: every later run reports it."""
    both = write_input(tmp_path / "set.json", [config_map("a"), config_map("b")])
    command: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", both, "--no-check"]

    def applies(seen: Exchange) -> bool:
        return seen.method == "PATCH"

    kill_at_first(proxy, applies, Moment.BEFORE, command, proxy.kubeconfig(tmp_path))
    killed = next(filter(applies, proxy.exchanges))
    name = killed.path.rpartition("/")[2]
    left = "b" if name == "a" else "a"
    assert stage.run(config_map(left)).exit_code == 0
    status, reply = api(
        "PATCH", killed.target, json.loads(killed.body), content_type="application/apply-patch+yaml"
    )
    assert status == 201, reply
    (warning,) = stage.run(config_map(left)).warnings
    assert f"configmap/{name} in namespace" in warning
    assert "inventory repair web" in warning
    assert stage.repair(ownership=Ownership.OWNED).exit_code == 0
    assert stage.run(config_map(left)).outcomes[f"configmap/{name}"] is Outcome.PRUNED
