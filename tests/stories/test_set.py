"""The life of a set: applied, changed, shrunk, deleted; and steps that do not go as planned."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.model.events import InventoryWritten, ObjectDone, Phase, Planned, Started
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode, PruneAlso
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import DEPLOYMENT, SECRET, SERVICE, config_map, event
from tests.support.run_rows import RunRow
from tests.support.stage import Stage

KEEP = "helm.sh/resource-policy"
A, B = config_map("a"), config_map("b")


def test_unchanged_set_is_applied_again_without_a_write(stage: Stage, audit: AuditTrail) -> None:
    """By the server's own log; discovery, the inventory, and a LIST for each kind are read."""
    bodies = [*(config_map(f"a-{number}") for number in range(20)), SECRET, SERVICE, DEPLOYMENT]
    first = stage.run(*bodies)
    assert set(first.outcomes.values()) == {Outcome.CREATED}
    assert writes(audit), "the oracle sees writes where there are some"
    audit.restart()
    second = stage.run(*bodies)
    assert second.outcomes == dict.fromkeys(first.outcomes, Outcome.UNCHANGED)
    assert writes(audit) == []
    assert sorted(one["verb"] for one in audit.ours()) == ["get"] * 3 + ["list"] * 4


def test_run_creates_changes_and_prunes(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """One of each, in its order, and the rest is left alone; a dry run says so, and writes nothing.

    The union, the applies, the intent, the prunes, the shrunk inventory.
    """
    stage.run(config_map("same"), config_map("change"), config_map("go"))
    given = (config_map("same"), config_map("change", "new"), config_map("come"))
    outcomes = {
        "configmap/same": Outcome.UNCHANGED,
        "configmap/change": Outcome.UPDATED,
        "configmap/come": Outcome.CREATED,
        "configmap/go": Outcome.PRUNED,
    }
    audit.restart()
    for where in (DryRun.SERVER, DryRun.CLIENT):
        assert stage.run(*given, dry_run=where).outcomes == outcomes
    assert writes(audit) == []
    deletes = [one for one in audit.ours() if one["verb"] == "delete"]
    assert all(one["requestObject"]["dryRun"] == ["All"] for one in deletes)
    story = stage.run(*given)
    assert (story.exit_code, story.outcomes) == (0, outcomes)
    assert stage.listed() == {"configmap/same", "configmap/change", "configmap/come"}
    assert not api.exists(stage.path("go"))
    assert [type(one) for one in story.events[:2]] == [Started, Planned]
    ends = [one for one in story.events if isinstance(one, InventoryWritten | ObjectDone)]
    words = [str(one.phase if isinstance(one, InventoryWritten) else one.outcome) for one in ends]
    done = [word for word in words if word not in {"unchanged", "created"}]
    assert done == [Phase.BEFORE_APPLY, "updated", Phase.BEFORE_DELETE, "pruned", Phase.FINAL]


def test_delete_removes_the_set_and_nothing_else(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """Each delete has both preconditions and a propagation; a bystander stays as it was."""
    before = api.create(stage.path(), config_map("mine"))
    stage.run(A, DEPLOYMENT, SERVICE)
    audit.restart()
    assert set(stage.run(mode=Mode.DELETE).outcomes.values()) == {Outcome.DELETED}
    deletes = [one for one in audit.ours() if one["verb"] == "delete"]
    # A controller may write to an object meanwhile: then the first delete misses.
    done = [one for one in deletes if one["responseStatus"]["code"] < 300]
    assert len(done) == 4, "three objects and the inventory"
    for one in deletes:
        assert set(one["requestObject"]["preconditions"]) == {"uid", "resourceVersion"}
        assert one["requestObject"]["propagationPolicy"] == "Background"
    assert api.get(stage.path("mine")) == before
    left = {one["metadata"]["name"] for one in api.get(stage.path())["items"]}
    assert left == {"mine", "kube-root-ca.crt"}


PARTS = {
    # The next run with prune still finds it.
    "without a prune": RunRow(
        applied=[A, B], given=[A], options={"prune": False},
        outcomes={"configmap/b": Outcome.NOT_PRUNED},
        listed=frozenset({"configmap/a", "configmap/b"}),
    ),
    # It does not touch what is new or changed in the input.
    "only a prune": RunRow(
        applied=[A, B], given=[config_map("a", "new"), config_map("new")],
        options={"mode": Mode.PRUNE}, outcomes={"configmap/b": Outcome.PRUNED},
        live={"configmap/a": A, "configmap/new": None}, listed=frozenset({"configmap/a"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", PARTS.values(), ids=PARTS)
def test_run_does_one_half(stage: Stage, api: Api, row: RunRow) -> None:
    """An apply, or a prune."""
    row.holds(api, stage)


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


# Steps that do not go as planned: none turns into a delete, and none leaves a rule behind.


def test_object_that_loses_its_annotation_during_the_orphan_is_not_deleted(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The plan, not a step, deletes: the next run does, as the intent is not a rule to keep it."""
    spoiled.run(A, B)
    path = stage.path("b")
    api.patch(path, {"metadata": {"annotations": {KEEP: "keep"}}})
    happened = proxy.before_first(
        lambda seen: (seen.method, seen.path) == ("PATCH", path),
        lambda: api.patch(path, {"metadata": {"annotations": {KEEP: None}}}),
    )
    story = spoiled.run(A)
    assert happened
    assert (story.exit_code, story.outcomes["configmap/b"]) == (3, Outcome.FAILED)
    assert not [seen for seen in proxy.exchanges if (seen.method, seen.path) == ("DELETE", path)]
    assert "configmap/b" in spoiled.listed()
    assert stage.run(A).outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(path)


def test_failed_orphan_leaves_no_lasting_rule(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The next run may still be asked to delete what was adopted."""
    api.create(stage.path(), B)
    stage.run(A, B)
    spoiled.budget, path = 0.3, stage.path("b")
    is_patch = ("PATCH", path)
    proxy.rule = always(faults.reset(), where=lambda seen: (seen.method, seen.path) == is_patch)
    assert spoiled.run(A).outcomes["configmap/b"] is Outcome.FAILED
    (entry,) = [one for one in stage.inventory().entries.values() if one.ref.name == "b"]
    assert (entry.ownership, entry.orphan_reason) == (Ownership.ADOPTED, "")
    story = stage.run(A, also=frozenset({PruneAlso.ADOPTED}))
    assert (story.exit_code, story.outcomes["configmap/b"]) == (0, Outcome.PRUNED)
    assert not api.exists(path)


@pytest.mark.parametrize("order", [("", "events.k8s.io"), ("events.k8s.io", "")])
def test_prune_recognises_the_same_object_under_another_group(
    stage: Stage, api: Api, order: tuple[str, str]
) -> None:
    """It is in the input, which prune does not apply, so it stays listed; the missing ones go."""
    old, new = order
    path = stage.path("told", "events")
    assert stage.run(event(stage, old), A, B).exit_code == 0
    uid = api.get(path)["metadata"]["uid"]
    for _ in range(2):
        story = stage.run(event(stage, new), A, mode=Mode.PRUNE)
        assert story.exit_code == 0, story.events
        assert api.get(path)["metadata"]["uid"] == uid
    assert not api.exists(stage.path("b"))
    assert [name for name in stage.listed() if name.endswith("/told")]
    assert stage.run(event(stage, new), A).exit_code == 0
    assert stage.run(A).exit_code == 0
    assert not api.exists(path)


def test_recreated_object_without_a_reply_is_pruned_by_the_next_run(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Every reply to the create is lost: it counts as absent before, and so as ours."""
    stage.run(A, {**config_map("fixed"), "immutable": True})
    spoiled.budget = 0.5
    path = stage.path("fixed")
    proxy.rule = always(
        faults.lose_reply(),
        where=lambda seen: (
            seen.method == "PATCH" and seen.path == path and b'"resourceVersion":"1"' in seen.body
        ),
    )
    changed = {**config_map("fixed", "new"), "immutable": True}
    story = spoiled.run(A, changed, recreate=True)
    assert story.outcomes["configmap/fixed"] is Outcome.FAILED, story.events
    assert api.get(path)["data"] == {"key": "new"}
    (entry,) = [one for one in stage.inventory().entries.values() if one.ref.name == "fixed"]
    assert (entry.uid_before_apply, entry.uid, entry.ownership) == (None, "", Ownership.OWNED)
    assert not entry.deleting
    story = stage.run(A)
    assert (story.exit_code, story.outcomes["configmap/fixed"]) == (0, Outcome.PRUNED)
    assert not api.exists(path)
    assert stage.listed() == {"configmap/a"}
