"""The life of a set: applied, applied again, changed, shrunk, deleted."""

from __future__ import annotations

import pytest

from applyprune.errors import EmptyInput, UsageError
from applyprune.model.events import InventoryWritten, ObjectDone, Phase, Planned, Started
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import DEPLOYMENT, SECRET, SERVICE, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.renewals import without_renewals
from tests.support.stage import Stage


def test_unchanged_set_is_applied_again_without_a_write(stage: Stage, audit: AuditTrail) -> None:
    """Every object unchanged, and by the server's own log no write of ours."""
    bodies = (config_map("a"), SECRET, SERVICE, DEPLOYMENT)
    first = stage.run(*bodies)
    assert set(first.outcomes.values()) == {Outcome.CREATED}
    assert writes(audit), "the oracle sees writes where there are some"
    audit.restart()
    second = stage.run(*bodies)
    assert first.outcomes.keys() == second.outcomes.keys()
    assert set(second.outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []


def test_no_op_run_costs_one_list_per_kind(stage: Stage, audit: AuditTrail) -> None:
    """Discovery, the inventory, and a LIST for each kind, however many objects there are."""
    bodies = [config_map(f"a-{number}") for number in range(40)] + [SERVICE, DEPLOYMENT]
    stage.run(*bodies)
    audit.restart()
    stage.run(*bodies)
    ours = audit.ours()
    assert sorted(event["verb"] for event in ours) == ["get"] * 3 + ["list"] * 3


def test_run_creates_changes_and_prunes(stage: Stage, api: Api) -> None:
    """One of each, and the rest is left alone."""
    stage.run(config_map("same"), config_map("change"), config_map("go"))
    story = stage.run(config_map("same"), config_map("change", "new"), config_map("come"))
    assert story.outcomes == {
        "configmap/same": Outcome.UNCHANGED,
        "configmap/change": Outcome.UPDATED,
        "configmap/come": Outcome.CREATED,
        "configmap/go": Outcome.PRUNED,
    }
    assert story.exit_code == 0
    assert stage.listed() == {"configmap/same", "configmap/change", "configmap/come"}
    assert not api.exists(stage.path("go"))


def test_events_come_in_the_order_of_the_run(stage: Stage) -> None:
    """Started, planned, the union, the applies, the intent, the prunes, the shrunk inventory."""
    stage.run(config_map("go"))
    story = stage.run(config_map("come"))
    words = [
        str(one.phase if isinstance(one, InventoryWritten) else one.outcome)
        for one in story.events
        if isinstance(one, InventoryWritten | ObjectDone)
    ]
    assert isinstance(story.events[0], Started)
    assert isinstance(story.events[1], Planned)
    assert words == [Phase.BEFORE_APPLY, "created", Phase.BEFORE_DELETE, "pruned", Phase.FINAL]


def test_first_run_writes_the_inventory_twice_and_a_pruning_one_three_times(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Design §7: two writes a run, three when something is pruned, and renewals of the lock."""
    ends = (f"/configmaps/{spoiled.target.inventory.name}", "/configmaps")

    def count() -> int:
        sent = without_renewals(proxy.exchanges)
        proxy.exchanges.clear()
        return sum(one.method != "GET" and one.path.endswith(ends) for one in sent)

    spoiled.run(config_map("a"), config_map("b"))
    assert count() == 2
    spoiled.run(config_map("a"))
    assert count() == 3


def test_delete_carries_both_preconditions_and_a_propagation(
    stage: Stage, audit: AuditTrail
) -> None:
    """Safety rule 3, by the server's own record of the request bodies."""
    stage.run(config_map("a"), DEPLOYMENT, SERVICE)
    audit.restart()
    stage.run(mode=Mode.DELETE)
    deletes = [event for event in audit.ours() if event["verb"] == "delete"]
    # A controller may write to an object meanwhile: then the first delete misses.
    done = [event for event in deletes if event["responseStatus"]["code"] < 300]
    assert len(done) == 4, "three objects and the inventory"
    for event in deletes:
        body = event["requestObject"]
        assert set(body["preconditions"]) == {"uid", "resourceVersion"}
        assert body["propagationPolicy"] == "Background"


def test_delete_removes_the_set_and_nothing_else(stage: Stage, api: Api, kubectl: Kubectl) -> None:
    """The inventory goes last; a bystander stays as it was."""
    kubectl("create", "configmap", "mine", "-n", stage.namespace)
    path = stage.path()
    before = api.get(f"{path}/mine")
    stage.run(config_map("a"), DEPLOYMENT, SERVICE)
    story = stage.run(mode=Mode.DELETE)
    assert set(story.outcomes.values()) == {Outcome.DELETED}
    assert api.get(f"{path}/mine") == before
    assert {item["metadata"]["name"] for item in api.get(path)["items"]} == {
        "mine",
        "kube-root-ca.crt",
    }


def test_delete_of_a_missing_set_is_no_error(stage: Stage) -> None:
    """It is what the user wanted."""
    story = stage.run(mode=Mode.DELETE)
    assert (story.exit_code, story.outcomes) == (0, {})
    assert "there is no set web" in story.warnings[0]


def test_no_prune_keeps_entries_of_objects_that_left_the_set(stage: Stage) -> None:
    """The next run with prune still finds it."""
    stage.run(config_map("a"), config_map("b"))
    story = stage.run(config_map("a"), prune=False)
    assert story.outcomes["configmap/b"] is Outcome.NOT_PRUNED
    assert stage.listed() == {"configmap/a", "configmap/b"}
    assert stage.run(config_map("a")).outcomes["configmap/b"] is Outcome.PRUNED


def test_prune_runs_without_applying(stage: Stage) -> None:
    """The verb prune does not touch what is new or changed in the input."""
    stage.run(config_map("a"), config_map("b"))
    story = stage.run(config_map("a", "changed"), config_map("new"), mode=Mode.PRUNE)
    assert story.outcomes == {"configmap/b": Outcome.PRUNED}
    assert stage.listed() == {"configmap/a"}


@pytest.mark.holds("empty-input")
def test_empty_input_is_refused(stage: Stage, api: Api) -> None:
    """A missing mount looks just like it, even if nothing would be deleted."""
    with pytest.raises(EmptyInput):
        stage.run()
    stage.run(config_map("a"))
    story = stage.run()
    assert story.exit_code == 6
    why = "no object in the input"
    assert f"the prune was refused: it would delete 1 object: {why}" in story.refusal
    assert stage.listed() == {"configmap/a"}
    api("DELETE", stage.path("a"))
    assert f"the prune was refused: {why}" in stage.run().refusal
    assert stage.listed() == {"configmap/a"}


@pytest.mark.parametrize("where", [DryRun.SERVER, DryRun.CLIENT])
def test_dry_run_reports_and_writes_nothing(stage: Stage, audit: AuditTrail, where: DryRun) -> None:
    """The same outcomes as the run itself; by the server's log no write at all."""
    stage.run(config_map("same"), config_map("change"), config_map("go"))
    audit.restart()
    bodies = (config_map("same"), config_map("change", "new"), config_map("come"))
    story = stage.run(*bodies, dry_run=where)
    assert writes(audit) == []
    ours = audit.ours()
    deletes = [one for one in ours if one["verb"] == "delete"]
    assert all(event["requestObject"]["dryRun"] == ["All"] for event in deletes)
    assert story.outcomes == stage.run(*bodies).outcomes


def test_missing_inventory_namespace_is_named_with_the_option_that_creates_it(
    stage: Stage, api: Api
) -> None:
    """The namespace stays outside the set: it is there after the set is deleted."""
    elsewhere = Stage(stage.kubeconfig, f"{stage.namespace}-new")
    with pytest.raises(UsageError, match="does not exist") as caught:
        elsewhere.run(config_map("a"))
    assert "--create-namespace" in caught.value.hint
    elsewhere.run(config_map("a"), create_namespace=True)
    elsewhere.run(mode=Mode.DELETE)
    found = api.get(f"/api/v1/namespaces/{elsewhere.namespace}")
    assert PART_OF not in (found["metadata"].get("labels") or {})
    api("DELETE", f"/api/v1/namespaces/{elsewhere.namespace}")


def test_missing_namespace_is_reported_with_a_hint(stage: Stage) -> None:
    """Of an object it is the place, not the request, that somebody must see to."""
    story = stage.run(config_map("a", namespace="nowhere"))
    (problem,) = (event.problem for event in story.of(ObjectDone))
    assert problem is not None
    assert problem.message == "configmap/a in namespace nowhere: there is no namespace nowhere"
    assert (problem.reason, problem.field) == ("", ("metadata", "namespace"))
    assert "kubectl create namespace nowhere" in problem.hint


def test_set_members_are_listed_by_the_standard_label(stage: Stage, kubectl: Kubectl) -> None:
    """Any tool that knows ApplySets finds them."""
    stage.run(config_map("a"), SERVICE)
    listed = kubectl(
        "get", "cm,svc", "-n", stage.namespace, "-l", f"{PART_OF}={stage.target.id}", "-o", "name"
    )
    assert set(listed.split()) == {"configmap/a", "service/web"}


def test_set_spans_several_namespaces(stage: Stage, api: Api) -> None:
    """Its own Namespace among them: created first, deleted last."""
    other = f"{stage.namespace}-b"
    bodies = (config_map("far", namespace=other), config_map("near"), of_kind("Namespace", other))
    assert stage.run(*bodies).exit_code == 0
    assert api.exists(f"/api/v1/namespaces/{other}/configmaps/far")
    story = stage.run(mode=Mode.DELETE)
    assert list(story.outcomes)[-1] == f"namespace/{other}"
    assert not api.exists(f"/api/v1/namespaces/{other}")


def test_inventory_contains_no_secret_value(stage: Stage, api: Api) -> None:
    """Not raw, not as base64, not as a digest that trying would find."""
    stage.run(SECRET)
    (entry,) = stage.inventory().entries.values()
    stage.run({**SECRET, "stringData": {"password": "another"}})
    (changed,) = stage.inventory().entries.values()
    assert entry.digest == changed.digest, "the digest says nothing about the value"
    live = api.get(f"/api/v1/namespaces/{stage.namespace}/secrets/s")
    assert live["data"] == {"password": "YW5vdGhlcg=="}
