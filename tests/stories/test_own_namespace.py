"""A set with the Namespace that holds its own inventory: created first, deleted last, or not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from applyprune.errors import ApplypruneError, Forbidden, NotReady, Unreachable
from applyprune.model.events import Finished, InventoryWritten, ObjectDone, Phase
from applyprune.model.fate import Fate, Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, DryRun, Mode, PruneAlso
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.objects import SERVICE, config_map
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import out_of_time

HOLD = "example.com/hold"
ALLOWED: dict[str, Any] = {
    "allow_kinds": frozenset({"namespace"}),
    "max_prune": Stage.most(99),
    "also": frozenset(PruneAlso),
}
"""Every option that widens what a prune may delete, but for cascades."""


@pytest.fixture
def name(api: Api, namespace: str) -> Iterator[str]:
    """The name of a Namespace that does not exist; whatever a test leaves of it is removed."""
    name = f"{namespace}-own"
    yield name
    path = f"/api/v1/namespaces/{name}"
    if api("GET", path)[0] == 200:
        set_finalizers(api, name)
        api("DELETE", path)


@pytest.fixture
def home(stage: Stage, name: str) -> Stage:
    """A set whose inventory belongs into that Namespace."""
    return Stage(stage.kubeconfig, name)


@pytest.fixture
def spoiled_home(spoiled: Stage, name: str) -> Stage:
    """The same set, through the proxy."""
    return Stage(spoiled.kubeconfig, name)


def own(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def live(api: Api, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/v1/namespaces/{name}")["metadata"]
    return found


def set_finalizers(api: Api, name: str, *finalizers: str) -> None:
    api.patch(
        f"/api/v1/namespaces/{name}", {"metadata": {"finalizers": list(finalizers)}}, by="holder"
    )


def is_gone(api: Api, name: str) -> bool:
    return not api.exists(f"/api/v1/namespaces/{name}")


def deletes(audit: AuditTrail) -> list[str]:
    """Return what applyprune has deleted, as the server saw it."""
    return [one.partition("?")[0] for one in writes(audit) if one.startswith("delete ")]


def is_create_of_inventory(seen: Exchange, name: str) -> bool:
    return (seen.method, seen.path) == ("POST", f"/api/v1/namespaces/{name}/configmaps")


def test_namespace_is_created_before_its_inventory_and_deleted_with_it(
    home: Stage, api: Api, name: str, namespace: str, audit: AuditTrail
) -> None:
    """In one create-only request with both marks; nothing deletes the inventory before.

    Slow: the server takes some seconds to delete a Namespace.
    """
    path, ref = f"/api/v1/namespaces/{name}", home.target.own_namespace
    rest = (config_map("a"), SERVICE, config_map("far", namespace=namespace))
    bodies = (*rest, own(name, labels={"team": "a"}))
    planned = home.run(*bodies, dry_run=DryRun.SERVER)
    assert [step.fate for step in planned.plan.applies] == [Fate.CREATE] * 4
    assert is_gone(api, name)
    audit.restart()
    assert set(home.run(*bodies, create_namespace=True).outcomes.values()) == {Outcome.CREATED}
    sent = [one.partition("?")[0] for one in writes(audit)]
    assert sent[:2] == [f"patch {path}", f"create {path}/configmaps"]
    assert sent.count(f"patch {path}") == 1
    found = live(api, name)
    assert found["labels"][PART_OF] == found["annotations"][OWNED_BY] == home.target.id
    entry = home.inventory().entries[ref]
    assert (entry.uid, entry.ownership) == (found["uid"], Ownership.OWNED)
    audit.restart()
    assert set(home.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    story = home.run(*rest, own(name, labels={"team": "b"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.UPDATED
    planned = home.run(mode=Mode.DELETE, dry_run=DryRun.SERVER)
    (step,) = [one for one in planned.plan.removals if one.entry.ref == ref]
    assert (step.fate, step.cascade) == (Fate.PRUNE, ())
    audit.restart()
    story = home.run(mode=Mode.DELETE)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.DELETED})
    assert list(story.outcomes)[-1] == f"namespace/{name}"
    assert deletes(audit)[-1] == f"delete {path}"
    assert not any(home.target.inventory.name in one for one in deletes(audit))
    assert story.of(InventoryWritten)[-1].phase is Phase.REMOVED
    assert is_gone(api, name)
    again = home.run(mode=Mode.DELETE)
    assert (again.exit_code, again.outcomes) == (0, {})
    assert any("there is no set web" in warning for warning in again.warnings)


def test_namespace_of_the_inventory_is_never_pruned(
    home: Stage, api: Api, name: str, audit: AuditTrail
) -> None:
    """Whatever the options allow, it is orphaned; a Bundle, which is in there, never deletes it."""
    home.run(own(name), config_map("a"))
    bundle = Stage(home.kubeconfig, name, owner=f"Bundle {name}/web", takes_over=True)
    assert bundle.run(own(name), config_map("a")).exit_code == 0
    audit.restart()
    cascade = frozenset({f"namespace/{name}"})
    shown = bundle.run(mode=Mode.DELETE, allow_cascade=cascade, dry_run=DryRun.SERVER, **ALLOWED)
    assert shown.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, shown.events
    story = bundle.run(config_map("a"), allow_cascade=cascade, **ALLOWED)
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, story.events
    (step,) = story.plan.removals
    assert step.reason == "it contains this set's inventory"
    assert deletes(audit) == []
    assert "deletionTimestamp" not in live(api, name)


@pytest.mark.holds("own-namespace-adopted")
def test_namespace_of_somebody_else_is_deleted_only_by_its_name(
    home: Stage, api: Api, name: str
) -> None:
    """No option that is for all objects does it; `repair --record-as owned` names it.

    Slow: the server takes some seconds to delete a Namespace.
    """
    api.create("/api/v1/namespaces", own(name))
    given = {"adopt": Adopt.ALL, "adopt_as": Ownership.OWNED}
    story = home.run(own(name), config_map("a"), **given)
    assert [step.fate for step in story.plan.applies] == [Fate.ADOPT, Fate.CREATE]
    named = frozenset({f"namespace/{name}"})
    dry: dict[str, Any] = {"mode": Mode.DELETE, "dry_run": DryRun.SERVER}
    story = home.run(allow_cascade=named, **dry, **ALLOWED)
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED
    (done,) = home.own(f"namespace/{name}").of(ObjectDone)
    assert "only a delete of the whole set deletes it" in done.reason, done.reason
    assert home.run(orphan=named, **dry).outcomes[f"namespace/{name}"] is Outcome.ORPHANED
    ended = home.run(mode=Mode.DELETE)
    assert ended.outcomes[f"namespace/{name}"] is Outcome.DELETED, ended.events


def test_namespace_that_somebody_else_creates_meanwhile_is_not_taken(
    spoiled_home: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """Between the plan and the create: nothing else is sent."""
    proxy.before_first(
        lambda seen: (seen.method, seen.path) == ("PATCH", f"/api/v1/namespaces/{name}"),
        lambda: api("POST", "/api/v1/namespaces", own(name)),
    )
    with pytest.raises(ApplypruneError, match="was created by somebody else during this run"):
        spoiled_home.run(own(name), config_map("a"))
    assert PART_OF not in live(api, name).get("labels", {})
    assert not spoiled_home.inventory().exists


def test_lost_reply_to_the_create_is_recognized(
    spoiled_home: Stage, proxy: FaultProxy, name: str
) -> None:
    """The next try meets what the first has created."""
    path = f"/api/v1/namespaces/{name}"
    proxy.rule = first(
        1, faults.lose_reply(), where=lambda seen: (seen.method, seen.path) == ("PATCH", path)
    )
    story = spoiled_home.run(own(name), config_map("a"))
    assert len([one for one in proxy.exchanges if (one.method, one.path) == ("PATCH", path)]) > 1
    assert story.outcomes[f"namespace/{name}"] is Outcome.CREATED, story.events


def test_namespace_without_its_inventory_belongs_to_the_set(
    spoiled_home: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """A run was interrupted in between: a delete takes it, and the next apply continues.

    Slow: the server takes some seconds to delete a Namespace.
    """
    bodies = (own(name), config_map("a"))
    path = f"/api/v1/namespaces/{name}/configmaps"

    def interrupt() -> None:
        proxy.rule = always(faults.reset(), where=lambda one: is_create_of_inventory(one, name))
        with pytest.raises(Unreachable):
            spoiled_home.run(*bodies)
        proxy.rule = lambda _: None

    interrupt()
    api.create(path, config_map("theirs"))
    refused = spoiled_home.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    assert "configmap/theirs" in refused.problem(f"namespace/{name}")
    assert api("DELETE", f"{path}/theirs")[0] == 200
    story = spoiled_home.run(mode=Mode.DELETE)
    assert story.outcomes == {f"namespace/{name}": Outcome.DELETED}
    assert is_gone(api, name)
    interrupt()
    story = spoiled_home.run(*bodies)
    assert (story.exit_code, story.warnings) == (0, [])
    entry = spoiled_home.inventory().entries[spoiled_home.target.own_namespace]
    assert (entry.uid, entry.ownership) == (live(api, name)["uid"], Ownership.OWNED)


@pytest.mark.holds("own-namespace-of-others")
def test_contents_of_others_keep_the_namespace(home: Stage, api: Api, name: str) -> None:
    """Before the first request; --allow-cascade does not reach the inventory of another set."""
    home.run(own(name), config_map("a"))
    api.create(f"/api/v1/namespaces/{name}/configmaps", config_map("theirs"))
    refused = home.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    problem = refused.problem(f"namespace/{name}")
    assert "configmap/theirs" in problem
    assert home.target.inventory.name not in problem
    assert home.listed() == {f"namespace/{name}", "configmap/a"}
    assert refused.refusal.startswith("the delete was refused: namespace/")
    (ended,) = refused.of(Finished)
    assert str(ended.problem) == "the delete was refused: nothing was deleted"
    other = Stage(home.kubeconfig, name, name="other")
    other.run(config_map("b"))
    story = home.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, story.events
    assert "deletionTimestamp" not in live(api, name)
    assert other.listed() == {"configmap/b"}
    assert not home.inventory().exists


@pytest.mark.holds("own-namespace-recount", row="configmap")
@pytest.mark.holds("own-namespace-occupied-late", row="inventory")
@pytest.mark.parametrize("what", ["configmap", "inventory"])
def test_contents_are_counted_again_before_the_delete(
    spoiled_home: Stage, home: Stage, proxy: FaultProxy, api: Api, name: str, what: str
) -> None:
    """What has come since the plan keeps the Namespace, and the inventory.

    --allow-cascade allows what cannot be counted; another set's inventory it never does.
    """
    home.run(own(name), config_map("a"))
    other = Stage(home.kubeconfig, name, name="other")
    path = f"/api/v1/namespaces/{name}/configmaps"

    def is_count(seen: Exchange) -> bool:
        return (seen.method, seen.path) == ("GET", path) and "labelSelector" not in seen.target

    def after(seen: Exchange) -> None:
        if seen.method != "DELETE" or not seen.path.endswith("/configmaps/a"):
            return
        if what == "configmap":
            api.create(path, config_map("late"))
        else:
            other.run(config_map("late"))
            proxy.rule = always(faults.status(403), where=is_count)

    proxy.before_reply = after
    story = spoiled_home.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert story.outcomes["configmap/a"] is Outcome.DELETED
    assert story.exit_code != 0
    told = "another set's inventory" if what == "inventory" else f"namespace/{name} was not deleted"
    assert told in story.problem(f"namespace/{name}")
    assert "deletionTimestamp" not in live(api, name)
    assert home.listed() == {f"namespace/{name}"}


def test_namespace_stays_while_an_object_of_the_set_is_left(
    home: Stage, api: Api, name: str, namespace: str
) -> None:
    """Even one elsewhere, of a later place in the order."""
    home.run(own(name), config_map("a"), config_map("held", namespace=namespace))
    path = f"/api/v1/namespaces/{namespace}/configmaps/held"
    api.patch(path, {"metadata": {"finalizers": [HOLD]}})
    out_of_time(home, HOLD)
    story = home.run(mode=Mode.DELETE, timeout=3600.0)
    api.patch(path, {"metadata": {"finalizers": None}})
    problem = story.problem(f"namespace/{name}")
    assert "1 object of the set is still there: configmap/held" in problem
    assert story.outcomes[f"namespace/{name}"] is Outcome.SKIPPED
    assert home.listed() == {f"namespace/{name}", "configmap/held"}
    assert "deletionTimestamp" not in live(api, name)


@pytest.mark.holds("leaving-inventory")
def test_delete_of_a_namespace_that_hangs_continues(home: Stage, api: Api, name: str) -> None:
    """The inventory is gone then; the Namespace itself says which set waits for it.

    Slow: the server takes some seconds to delete a Namespace.
    """
    home.run(own(name), config_map("a"))
    set_finalizers(api, name, HOLD)
    inventory = f"/api/v1/namespaces/{name}/configmaps/{home.target.inventory.name}"
    for _ in range(2):
        out_of_time(home)
        try:
            story = home.run(mode=Mode.DELETE, timeout=3600.0)
        except Forbidden as error:
            raise AssertionError("something is written in the Namespace") from error
        assert story.exit_code == 5, story.events
        assert HOLD in story.problem(f"namespace/{name}")
        eventually(lambda: not api.exists(inventory), lambda: "the inventory gone")
    with pytest.raises(NotReady, match="is being deleted"):
        home.run(own(name), config_map("a"))
    set_finalizers(api, name)
    assert home.run(mode=Mode.DELETE).exit_code == 0
    eventually(lambda: is_gone(api, name), lambda: "the namespace gone")
    assert home.run(own(name), config_map("a")).exit_code == 0


def test_two_runs_create_one_namespace(stage: Stage, name: str) -> None:
    """Both plan its creation; one creates it, and the other waits for that run."""
    plans = Barrier(2)

    def run() -> int:
        def seen(event: object) -> None:
            if type(event).__name__ == "Planned" and not met:
                met.append(True)
                plans.wait()

        met: list[bool] = []
        one = Stage(stage.kubeconfig, name, seen=seen)
        return one.run(own(name), config_map("a")).exit_code

    with ThreadPoolExecutor(2) as runs:
        assert [one.result() for one in [runs.submit(run), runs.submit(run)]] == [0, 0]
    home = Stage(stage.kubeconfig, name)
    assert home.listed() == {f"namespace/{name}", "configmap/a"}
