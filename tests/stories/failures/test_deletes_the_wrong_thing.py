"""What deletes the wrong thing: failures §1.2, as far as no decision and no other file has it."""

from __future__ import annotations

import copy

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, PruneAlso
from applyprune.planning.applyset import PART_OF
from applyprune.values import replace
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always
from tests.support.fault_proxy.exchange import Wire
from tests.support.objects import (
    DEPLOYMENT,
    SERVICE,
    config_map,
    crd,
    crd_name,
    custom_resource,
    event,
    of_kind,
)
from tests.support.plane import Kubectl
from tests.support.stage import Stage


def _list_twice(stage: Stage) -> None:
    """List the Event under its other group too, as an earlier version of applyprune did."""
    listed = stage.inventory().entries
    (entry,) = [one for one in listed.values() if one.ref.kind == "Event"]
    other = replace(entry, ref=replace(entry.ref, group="events.k8s.io"))
    stage.rewrite(entries={**listed, other.ref: other})


@pytest.mark.holds("object-once")
def test_object_listed_under_two_groups_counts_once(stage: Stage, api: Api) -> None:
    """It is one deletion: for the limit of the prune, in the plan, and for the server."""
    told = event(stage, "")
    stage.run(told, config_map("a"), config_map("b"))
    _list_twice(stage)
    assert len(stage.listed()) == 4
    story = stage.run(config_map("a"), config_map("b"), max_prune=stage.most(1))
    assert story.refusal == ""
    assert story.outcomes == {
        "configmap/a": Outcome.UNCHANGED,
        "configmap/b": Outcome.UNCHANGED,
        "event/told": Outcome.PRUNED,
        "event.events.k8s.io/told": Outcome.REMOVED_FROM_INVENTORY,
    }
    assert not api.exists(stage.path("told", "events"))
    assert len(stage.listed()) == 2
    stage.run(told, config_map("a"))
    _list_twice(stage)
    orphaned = stage.orphan()
    assert orphaned.exit_code == 0, orphaned.events
    assert list(orphaned.outcomes.values()).count(Outcome.ORPHANED) == 2
    assert api.exists(stage.path("told", "events"))
    assert stage.listed() == set()


def test_labels_copied_to_children(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """Endpoints, EndpointSlices, ReplicaSets, Pods, StatefulSet PVCs: in no list of ours.

    Not even where our label is in the templates, by hand, and after the inventory was lost.
    """
    ours = {PART_OF: stage.target.id}
    claim = {
        "metadata": {"name": "data", "labels": ours},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    labels = {"app": "db", **ours}
    stateful = of_kind(
        "StatefulSet",
        "db",
        spec={
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
            "volumeClaimTemplates": [claim],
        },
    )
    deployment = copy.deepcopy(DEPLOYMENT)
    deployment["spec"]["template"]["metadata"]["labels"] |= ours
    bodies = (SERVICE, stateful, deployment)
    assert stage.run(*bodies).exit_code == 0
    for what in ("pvc/data-db-0", "replicaset", "endpointslice", "endpoints/web"):
        name = what if "/" in what else f"{what}"
        selector = () if "/" in what else ("-l", f"{PART_OF}={stage.target.id}")
        kubectl("wait", name, "-n", stage.namespace, "--for=create", "--timeout=300s", *selector)
    kubectl("delete", "configmap/applyprune-web", "-n", stage.namespace)
    story = stage.run(*bodies)
    assert set(story.outcomes) == {"service/web", "statefulset.apps/db", "deployment.apps/web"}
    assert len(stage.listed()) == 3
    assert not stage.check().found
    everything = frozenset({"statefulset"})
    allowed = {
        "also": frozenset({PruneAlso.ADOPTED}),
        "allow_kinds": everything,
        "max_prune": stage.most(3),
    }
    story = stage.run(config_map("a"), **allowed)
    assert story.exit_code == 0, story.events
    assert api.exists(stage.path("data-db-0", "persistentvolumeclaims"))


def test_wait_for_delete_hangs_because_name_was_recreated(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """It waits for the UID to go: the same name again is another object, and stays."""
    held = config_map("b", finalizers=["example.com/hold"])
    spoiled.run(config_map("a"), held)
    done: list[int] = []

    def after(seen: Exchange) -> None:
        if seen.method != "GET" or not seen.path.endswith("/configmaps/b") or done:
            return
        done.append(seen.number)
        api.patch(spoiled.path("b"), {"metadata": {"finalizers": None}})
        api.create(spoiled.path(), of_kind("ConfigMap", "b", data={"mine": "1"}))

    proxy.after_reply = after
    story = spoiled.run(config_map("a"))
    assert done
    assert story.outcomes["configmap/b"] is Outcome.PRUNED
    assert api.get(spoiled.path("b"))["data"] == {"mine": "1"}


def test_aggregated_api_ignores_label_selector(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The proxy removes the selector of each list: objects without the label are dropped here."""
    stage.run(config_map("a"), config_map("b"))
    api.create(stage.path(), config_map("foreign"))
    unselected: list[str] = []

    def unselective(wire: Wire) -> None:
        wire.reply(wire.forward())

    def where(seen: Exchange) -> bool:
        if "labelSelector=" not in seen.target or seen.method != "GET":
            return False
        head, _, query = seen.target.partition("?")
        kept = "&".join(one for one in query.split("&") if not one.startswith("labelSelector="))
        seen.target = f"{head}?{kept}"
        unselected.append(seen.target)
        return True

    proxy.rule = always(unselective, where=where)
    story = spoiled.run(config_map("a"))
    assert unselected
    assert story.outcomes == {"configmap/a": Outcome.UNCHANGED, "configmap/b": Outcome.PRUNED}
    assert not story.warnings
    assert api.exists(stage.path("foreign"))


def test_crd_pruned_takes_all_custom_resources(crds: Api, crd_stage: Stage) -> None:
    """15 custom resources, 12 of them not ours: refused with these numbers; allowed, in order."""
    other = Stage(crd_stage.kubeconfig, crd_stage.namespace, name="other")
    ours = [custom_resource(f"ours-{number}", "Full") for number in range(3)]
    theirs = [custom_resource(f"theirs-{number}", "Full") for number in range(12)]
    assert crd_stage.run(crd("Full"), *ours, config_map("a")).exit_code == 0
    assert other.run(*theirs).exit_code == 0
    name = crd_name("Full")
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/fulls"
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = crd_stage.run(config_map("a"), dry_run=dry_run)
        assert story.exit_code == 6
        told = "it would cascade-delete 12 objects that must stay\n"
        assert told in story.problem(name)
        assert story.problem(name).count(": it is not in this set\n") == 10
        assert "\n    and 2 more\n" in story.problem(name)
        # Ours and the CRD are 4, and with them go 12 that are not ours.
        assert "it would delete 16 objects, including 12 cascaded deletions" in story.refusal
        needed = f"--max-prune 16 --allow-cascade {name}"
        assert story.refusal.endswith(f"To allow this: {needed}")
        assert story.outcomes["full.x.example.com/ours-0"] is Outcome.NOT_PRUNED
        assert len(crds.get(path)["items"]) == 15
    story = crd_stage.run(
        config_map("a"), allow_cascade=frozenset({name}), max_prune=crd_stage.most(16)
    )
    assert story.exit_code == 0, story.events
    order = [done for done, outcome in story.outcomes.items() if outcome is Outcome.PRUNED]
    assert len(order) == 4
    assert order[-1] == name
    assert crds("GET", path)[0] == 404


def test_backup_restore_or_cluster_clone_gives_every_object_a_new_uid(
    stage: Stage, plane: Plane, running: Plane, crds: Api
) -> None:
    """Objects and inventory restored into another cluster: nothing is pruned until repaired.

    Runs in between keep that state: they recognize what they apply by its label and manager.
    """
    stage.run(*(config_map(name) for name in "abc"))
    _restore(plane, running, stage)
    there = Stage(running.kubeconfig, stage.namespace)
    for _ in range(2):
        story = there.run(config_map("a"))
        assert story.exit_code == 6
        assert "restored from a backup" in story.refusal
        assert f"inventory repair web -n {stage.namespace} --dry-run" in story.refusal
        assert story.outcomes["configmap/b"] is Outcome.NOT_PRUNED
        assert crds.exists(stage.path("b"))
    assert len(there.check().found) >= 2
    assert there.repair(Ownership.OWNED).exit_code == 0
    assert not there.check().found
    # The user has said what they were: created by this set.
    story = there.run(config_map("a"), max_prune=stage.most(2))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.PRUNED), story.events


def _restore(source: Plane, target: Plane, stage: Stage) -> None:
    """Copy a namespace's ConfigMaps as a backup does: everything but UIDs and versions."""
    old, new = Api(source), Api(target)
    home = of_kind("Namespace", stage.namespace)
    new("POST", "/api/v1/namespaces", home)
    path = stage.path()
    for item in old.get(path)["items"]:
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            del item["metadata"][key]
        if item["metadata"]["name"] != "kube-root-ca.crt":
            status, reply = new("POST", path, item)
            assert status == 201, reply
