"""What is lost or killed, and what an inventory says then: failures §1.1 (sweeps kill all else)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.cluster.inventory_format import lines_digest
from applyprune.errors import InventoryError, InventoryLocked
from applyprune.model.events import Waiting
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.options import Mode
from applyprune.planning.applyset import GROUP_KINDS, PART_OF
from applyprune.values import replace
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, of_kind
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.stage import Stage


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


def test_write_ahead_entry_has_no_uid_yet(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Ours is known by its marks; an object of that name without them is somebody else's."""
    spoiled.budget = 0.3
    proxy.rule = always(faults.lose_reply(), where=_applies)
    spoiled.run(config_map("a"), config_map("b"))
    assert {entry.uid for entry in stage.inventory().entries.values()} != {""}
    assert stage.inventory().entries[Ref("", "ConfigMap", stage.namespace, "b")].uid == ""
    api("DELETE", stage.path("b"))
    theirs = of_kind("ConfigMap", "b", {"labels": {PART_OF: stage.target.id}}, data={"mine": "1"})
    api.create(stage.path(), theirs)
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.REMOVED_FROM_INVENTORY
    assert api.get(stage.path("b"))["data"] == {"mine": "1"}


def test_lost_inventory_is_as_before_after_the_command_that_the_warning_names(
    stage: Stage, api: Api
) -> None:
    """Everything is owned and prunable again, also what has left the input."""
    stage.run(config_map("a"), config_map("b"))
    api("DELETE", stage.path("applyprune-web"))
    (warning,) = stage.run(config_map("a")).warnings
    *_, command = next(line for line in warning.splitlines() if "prunable" in line).split(": ")
    owned = "--record-as owned configmap/a configmap/b"
    assert command == f"applyprune inventory repair web -n {stage.namespace} {owned}"
    ended = applyprune(*command.split()[1:], "--yes", kubeconfig=stage.kubeconfig)
    assert (ended.code, ended.summary.partition(" in ")[0]) == (0, "web: 2 updated")
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))
    assert stage.listed() == {"configmap/a"}


def test_destroy_removes_the_inventory_first(stage: Stage, api: Api) -> None:
    """It goes last, and not while anything that it lists is there; without it nothing goes."""
    stage.run(config_map("a"), config_map("b", finalizers=["example.com/hold"]))
    story = stage.run(mode=Mode.DELETE, timeout=1.0)
    assert story.exit_code == 5
    assert stage.listed() == {"configmap/b"}
    api("DELETE", stage.path("applyprune-web"))
    with pytest.raises(InventoryError, match="has no inventory, but 1 object has its label"):
        stage.run(mode=Mode.DELETE)
    assert api.exists(stage.path("b"))
    api.patch(stage.path("b"), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "deleted and re-created"])
def test_inventory_vanishes_while_running(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, again: bool
) -> None:
    """The run stops before any delete, and writes no inventory of its own over it."""
    stage.run(config_map("a"), config_map("b"))

    def vanish() -> None:
        body = _stored(api, stage)
        api("DELETE", stage.path("applyprune-web"))
        if again:
            for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
                body["metadata"].pop(key, None)
            api.create(stage.path(), body)

    # The change of `a` comes after the union write and before the intent to delete.
    done = proxy.before_first(lambda seen: seen.method == "PATCH", vanish)
    with pytest.raises(InventoryLocked):
        spoiled.run(config_map("a", "changed"))
    assert done
    assert api.exists(stage.path("b"))
    assert api.exists(stage.path("applyprune-web")) is again


def test_crash_lock_never_released(stage: Stage) -> None:
    """A holder that does not move is timed by our own clock, whatever its own one says."""
    stage.run(config_map("a"))
    # Short, because this run waits in real time; the exact times: inventory/test_lease.py.
    take_from_elsewhere(stage, replace(ELSEWHERE, lease=0.3))
    story = stage.run(config_map("b"))
    waits = {(one.what, one.reason) for one in story.of(Waiting)}
    assert waits == {(f"the lock of the set {stage.name}", f"held by {ELSEWHERE.who}")}
    assert story.outcomes == {"configmap/a": Outcome.PRUNED, "configmap/b": Outcome.CREATED}
    assert stage.inventory().holder is None


@pytest.mark.holds("label-hint")
def test_hand_edited_inventory_is_a_confused_deputy(stage: Stage, api: Api) -> None:
    """An entry added by hand, for an object that the set never made, deletes nothing.

    Not with its right UID, and not with our label forged on it besides. Nobody is told to do so.
    """
    stage.run(config_map("a"))
    other = Stage(stage.kubeconfig, stage.namespace, name="other")
    other.run(config_map("theirs"))
    api.create(stage.path(), config_map("plain"))
    api.create(stage.path(), config_map("forged", labels={PART_OF: stage.target.id}))
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
    api.patch(stage.path("applyprune-web"), kinds)
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
