"""A set with the Namespace that holds its own inventory: created first, deleted last, or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from applyprune.errors import ApplypruneError, Forbidden, NotReady, Unreachable, UsageError
from applyprune.model.events import InventoryWritten, ObjectDone, Phase
from applyprune.model.fate import Fate, Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, DryRun, Mode, PruneAlso
from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
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


def test_namespace_is_created_before_its_inventory(
    home: Stage, api: Api, name: str, audit: AuditTrail
) -> None:
    """In one request, create-only, with both marks; afterwards it is an object like any other."""
    bodies = (config_map("a"), own(name, labels={"team": "a"}))
    planned = home.run(*bodies, dry_run=DryRun.SERVER)
    assert [step.fate for step in planned.plan.applies] == [Fate.CREATE, Fate.CREATE]
    assert is_gone(api, name)
    audit.restart()
    story = home.run(*bodies)
    assert story.outcomes == dict.fromkeys([f"namespace/{name}", "configmap/a"], Outcome.CREATED)
    sent = [one.partition("?")[0] for one in writes(audit)]
    path = f"/api/v1/namespaces/{name}"
    assert sent[:2] == [f"patch {path}", f"create {path}/configmaps"]
    assert sent.count(f"patch {path}") == 1
    found = live(api, name)
    assert found["labels"][PART_OF] == home.target.id
    assert found["annotations"][OWNED_BY] == home.target.id
    (entry,) = [
        one for one in home.inventory().entries.values() if one.ref == home.target.own_namespace
    ]
    assert (entry.uid, entry.ownership) == (found["uid"], Ownership.OWNED)
    audit.restart()
    assert set(home.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    story = home.run(config_map("a"), own(name, labels={"team": "b"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.UPDATED


def test_delete_removes_the_namespace_last_and_the_inventory_with_it(
    home: Stage, api: Api, name: str, namespace: str, audit: AuditTrail
) -> None:
    """Nothing deletes the inventory before; a second delete finds no set."""
    home.run(own(name), config_map("a"), SERVICE, config_map("far", namespace=namespace))
    planned = home.run(mode=Mode.DELETE, dry_run=DryRun.SERVER)
    (step,) = [one for one in planned.plan.removals if one.entry.ref == home.target.own_namespace]
    assert (step.fate, step.cascade) == (Fate.PRUNE, ())
    audit.restart()
    story = home.run(mode=Mode.DELETE)
    assert story.exit_code == 0, story.events
    assert list(story.outcomes)[-1] == f"namespace/{name}"
    assert set(story.outcomes.values()) == {Outcome.DELETED}
    sent = deletes(audit)
    assert sent[-1] == f"delete /api/v1/namespaces/{name}"
    assert not any(home.target.inventory.name in one for one in sent)
    written = story.of(InventoryWritten)
    assert written[-1].phase is Phase.REMOVED
    assert is_gone(api, name)
    again = home.run(mode=Mode.DELETE)
    assert (again.exit_code, again.outcomes) == (0, {})
    assert any("there is no set web" in warning for warning in again.warnings)


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(
            Mode.APPLY, marks=pytest.mark.holds("own-namespace-with-the-set", "own-namespace-stays")
        ),
        Mode.PRUNE,
    ],
)
def test_namespace_that_left_the_input_is_never_pruned(
    home: Stage, api: Api, name: str, audit: AuditTrail, mode: Mode
) -> None:
    """Whatever the options allow: it is orphaned, and a later delete keeps it."""
    home.run(own(name), config_map("a"))
    audit.restart()
    cascade = frozenset({f"namespace/{name}"})
    story = home.run(config_map("a"), mode=mode, allow_cascade=cascade, **ALLOWED)
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, story.events
    (step,) = story.plan.removals
    assert step.reason == "it contains this set's inventory"
    assert home.run(mode=Mode.DELETE, allow_cascade=cascade, **ALLOWED).exit_code == 0
    assert f"delete /api/v1/namespaces/{name}" not in deletes(audit)
    assert "deletionTimestamp" not in live(api, name)


@pytest.mark.holds("own-namespace-owned", row="adopted")
@pytest.mark.holds("own-namespace-adopted", row="owned")
@pytest.mark.parametrize("adopt_as", Ownership)
def test_namespace_of_somebody_else_is_never_deleted(
    home: Stage, api: Api, name: str, audit: AuditTrail, adopt_as: Ownership
) -> None:
    """It is adopted as any object; no option that is for all objects deletes it with the set."""
    api.create("/api/v1/namespaces", own(name))
    story = home.run(own(name), config_map("a"), adopt=Adopt.ALL, adopt_as=adopt_as)
    assert [step.fate for step in story.plan.applies] == [Fate.ADOPT, Fate.CREATE]
    story = home.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}), **ALLOWED)
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED
    assert deletes(audit)[-1].endswith(home.target.inventory.name)
    assert "deletionTimestamp" not in live(api, name)


def test_namespace_that_somebody_else_creates_meanwhile_is_not_taken(
    spoiled_home: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """Between the plan and the create: nothing else is sent."""

    def before(seen: Exchange) -> None:
        if seen.method == "PATCH" and seen.path == f"/api/v1/namespaces/{name}":
            api("POST", "/api/v1/namespaces", own(name))

    proxy.before_forward = before
    with pytest.raises(ApplypruneError, match="was created by somebody else during this run"):
        spoiled_home.run(own(name), config_map("a"))
    assert PART_OF not in live(api, name).get("labels", {})
    assert not spoiled_home.inventory().exists


def test_lost_reply_to_the_create_is_recognized(
    spoiled_home: Stage, proxy: FaultProxy, name: str
) -> None:
    """The next try meets what the first has created."""
    patches: list[str] = []

    def where(seen: Exchange) -> bool:
        if seen.method == "PATCH" and seen.path == f"/api/v1/namespaces/{name}":
            patches.append(seen.path)
        return bool(patches) and seen.method == "PATCH" and len(patches) == 1

    proxy.rule = always(faults.lose_reply(), where=where)
    story = spoiled_home.run(own(name), config_map("a"))
    assert len(patches) > 1
    assert story.outcomes[f"namespace/{name}"] is Outcome.CREATED, story.events


def _interrupt(spoiled_home: Stage, proxy: FaultProxy, name: str, *bodies: dict[str, Any]) -> None:
    """Let a run end between the Namespace and its inventory."""
    proxy.rule = always(faults.reset(), where=lambda seen: is_create_of_inventory(seen, name))
    with pytest.raises(Unreachable):
        spoiled_home.run(*bodies)
    proxy.rule = lambda _: None


def test_namespace_without_its_inventory_is_owned(
    spoiled_home: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """A run was interrupted in between; the next one continues, and warns of nothing."""
    bodies = (own(name), config_map("a"))
    _interrupt(spoiled_home, proxy, name, *bodies)
    uid = live(api, name)["uid"]
    story = spoiled_home.run(*bodies)
    assert (story.exit_code, story.warnings) == (0, [])
    (entry,) = [
        one
        for one in spoiled_home.inventory().entries.values()
        if one.ref == spoiled_home.target.own_namespace
    ]
    assert (entry.uid, entry.ownership) == (uid, Ownership.OWNED)
    assert spoiled_home.run(mode=Mode.DELETE).outcomes[f"namespace/{name}"] is Outcome.DELETED


def test_namespace_without_its_inventory_is_deleted_with_the_set(
    spoiled_home: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """Nothing else exists; what others have put into it refuses that."""
    _interrupt(spoiled_home, proxy, name, own(name), config_map("a"))
    path = f"/api/v1/namespaces/{name}/configmaps"
    api.create(path, config_map("theirs"))
    refused = spoiled_home.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    assert "configmap/theirs" in refused.problem(f"namespace/{name}")
    assert api("DELETE", f"{path}/theirs")[0] == 200
    story = spoiled_home.run(mode=Mode.DELETE)
    assert story.outcomes == {f"namespace/{name}": Outcome.DELETED}
    assert is_gone(api, name)


@pytest.mark.parametrize("mark", ["label", "annotation", "manager"])
def test_namespace_with_one_mark_only_is_not_owned(
    home: Stage, api: Api, name: str, mark: str
) -> None:
    """Anybody may have copied it."""
    marks: dict[str, Any] = {}
    if mark != "annotation":
        marks["labels"] = {PART_OF: home.target.id}
    if mark != "label":
        marks["annotations"] = {OWNED_BY: home.target.id}
    api.apply(f"/api/v1/namespaces/{name}", own(name, **marks), by="somebody")
    story = home.run(own(name), config_map("a"), adopt=Adopt.ALL)
    assert story.exit_code == 0, story.events
    home.run(mode=Mode.DELETE)
    assert "deletionTimestamp" not in live(api, name)


def test_lost_inventory_is_not_taken_for_a_new_set(home: Stage, api: Api, name: str) -> None:
    """Other objects have its label: they are found, and a delete is refused as always."""
    home.run(own(name), config_map("a"))
    path = f"/api/v1/namespaces/{name}/configmaps/{home.target.inventory.name}"
    assert api("DELETE", path)[0] == 200
    with pytest.raises(ApplypruneError, match="has no inventory, but 1 object has its label"):
        home.run(mode=Mode.DELETE)
    home.run(own(name), config_map("a"))
    ownership = {one.ref.short: one.ownership for one in home.inventory().entries.values()}
    assert ownership["configmap/a"] is Ownership.ADOPTED
    refused = home.run(mode=Mode.DELETE)
    assert refused.exit_code == 6, refused.events
    assert "configmap/a" in refused.problem(f"namespace/{name}")
    assert "deletionTimestamp" not in live(api, name)


def test_contents_of_others_refuse_the_delete(home: Stage, api: Api, name: str) -> None:
    """All of it, before the first request; --allow-cascade allows exactly that."""
    home.run(own(name), config_map("a"))
    path = f"/api/v1/namespaces/{name}/configmaps"
    api.create(path, config_map("theirs"))
    refused = home.run(mode=Mode.DELETE)
    assert refused.exit_code == 6
    problem = refused.problem(f"namespace/{name}")
    assert "configmap/theirs" in problem
    assert home.target.inventory.name not in problem
    assert home.listed() == {f"namespace/{name}", "configmap/a"}
    story = home.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.DELETED


@pytest.mark.holds("own-namespace-of-others")
def test_namespace_with_another_inventory_stays(home: Stage, api: Api, name: str) -> None:
    """--allow-cascade does not reach the inventory of another set."""
    home.run(own(name), config_map("a"))
    other = Stage(home.kubeconfig, name, name="other")
    other.run(config_map("b"))
    story = home.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, story.events
    assert "deletionTimestamp" not in live(api, name)
    assert other.listed() == {"configmap/b"}
    assert not home.inventory().exists


@pytest.mark.holds("own-namespace-recount", row="allowed-configmap")
@pytest.mark.parametrize("what", ["configmap", "inventory"])
@pytest.mark.parametrize("allowed", [False, True], ids=["counted", "allowed"])
def test_contents_are_counted_again_before_the_delete(
    spoiled_home: Stage, home: Stage, proxy: FaultProxy, api: Api, what: str, allowed: bool
) -> None:
    """What has come since the plan keeps the Namespace, and the inventory."""
    name = home.namespace
    home.run(own(name), config_map("a"))
    other = Stage(home.kubeconfig, name, name="other")

    def after(seen: Exchange) -> None:
        if seen.method != "DELETE" or not seen.path.endswith("/configmaps/a"):
            return
        if what == "inventory":
            other.run(config_map("late"))
        else:
            path = f"/api/v1/namespaces/{name}/configmaps"
            api.create(path, config_map("late"))

    proxy.before_reply = after
    cascade = frozenset({f"namespace/{name}"}) if allowed else frozenset()
    story = spoiled_home.run(mode=Mode.DELETE, allow_cascade=cascade)
    assert story.outcomes["configmap/a"] is Outcome.DELETED
    assert story.exit_code != 0
    assert f"namespace/{name} was not deleted" in story.problem(f"namespace/{name}")
    assert "deletionTimestamp" not in live(api, name)
    assert home.listed() == {f"namespace/{name}"}


@pytest.mark.holds("own-namespace-occupied-late")
def test_late_inventory_is_noticed_even_if_contents_cannot_be_counted(
    spoiled_home: Stage, home: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """--allow-cascade allows what is uncounted; another set's inventory it never does."""
    home.run(own(name), config_map("a"))
    other = Stage(home.kubeconfig, name, name="other")
    path = f"/api/v1/namespaces/{name}/configmaps"

    def after(seen: Exchange) -> None:
        if seen.method == "DELETE" and seen.path.endswith("/configmaps/a"):
            other.run(config_map("late"))
            proxy.rule = always(faults.status(403), where=is_count)

    def is_count(seen: Exchange) -> bool:
        return (seen.method, seen.path) == ("GET", path) and "labelSelector" not in seen.target

    proxy.before_reply = after
    story = spoiled_home.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert "another set's inventory" in story.problem(f"namespace/{name}")
    assert "deletionTimestamp" not in live(api, name)
    assert other.listed() == {"configmap/late"}


@pytest.mark.holds("own-namespace-last")
def test_namespace_stays_while_an_object_of_the_set_is_left(
    home: Stage, api: Api, name: str, namespace: str
) -> None:
    """Even one elsewhere, of a later place in the order; the next delete continues."""
    home.run(own(name), config_map("a"), config_map("held", namespace=namespace))
    path = f"/api/v1/namespaces/{namespace}/configmaps/held"
    held = {"metadata": {"finalizers": [HOLD]}}
    api.patch(path, held)
    out_of_time(home, HOLD)
    story = home.run(mode=Mode.DELETE, timeout=3600.0)
    problem = story.problem(f"namespace/{name}")
    assert "1 object of the set is still there: configmap/held" in problem
    assert story.outcomes[f"namespace/{name}"] is Outcome.SKIPPED
    assert home.listed() == {f"namespace/{name}", "configmap/held"}
    assert "deletionTimestamp" not in live(api, name)
    free: dict[str, Any] = {"metadata": {"finalizers": []}}
    api.patch(path, free)
    ended = Stage(home.kubeconfig, home.namespace, name=home.name).run(mode=Mode.DELETE)
    assert ended.outcomes[f"namespace/{name}"] is Outcome.DELETED, ended.problem(
        f"namespace/{name}"
    )


def test_part_of_a_set_keeps_the_namespace(home: Stage, api: Api, name: str) -> None:
    """By its name, and by its labels: only a delete of the whole set takes it."""
    home.run(own(name, labels={"part": "x"}), config_map("a", labels={"part": "x"}), SERVICE)
    story = home.run(mode=Mode.DELETE, select=frozenset({f"namespace/{name}", "configmap/a"}))
    problem = story.problem(f"namespace/{name}")
    assert "it contains this set's inventory" in problem
    assert "deletionTimestamp" not in live(api, name)
    assert f"namespace/{name}" in home.listed()


def test_namespace_that_is_owned_by_its_name_goes_with_the_set(
    home: Stage, api: Api, name: str
) -> None:
    """`repair --record-as owned` says so; with --orphan, that delete keeps it nevertheless."""
    api.create("/api/v1/namespaces", own(name))
    home.run(own(name), config_map("a"))
    story = home.own(f"namespace/{name}")
    (done,) = story.of(ObjectDone)
    assert "only a delete of the whole set deletes it" in done.reason, done.reason
    planned = home.run(
        mode=Mode.DELETE, orphan=frozenset({f"namespace/{name}"}), dry_run=DryRun.SERVER
    )
    assert planned.outcomes[f"namespace/{name}"] is Outcome.ORPHANED
    ended = Stage(home.kubeconfig, home.namespace, name=home.name).run(mode=Mode.DELETE)
    assert ended.outcomes[f"namespace/{name}"] is Outcome.DELETED, ended.problem(
        f"namespace/{name}"
    )


@pytest.mark.holds("own-namespace-of-a-bundle")
def test_bundle_keeps_its_own_namespace(home: Stage, api: Api, name: str) -> None:
    """It is in there itself: its deletion orphans the Namespace, whoever has created that."""
    home.run(own(name), config_map("a"))
    bundle = Stage(home.kubeconfig, name, owner=f"Bundle {name}/web", takes_over=True)
    assert bundle.run(own(name), config_map("a")).exit_code == 0
    story = bundle.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, story.events
    assert story.outcomes["configmap/a"] is Outcome.DELETED
    assert "deletionTimestamp" not in live(api, name)


@pytest.mark.holds("leaving-inventory")
def test_delete_of_a_namespace_that_hangs_continues(home: Stage, api: Api, name: str) -> None:
    """The inventory is gone then; the Namespace itself says which set waits for it."""
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
    ended = Stage(home.kubeconfig, home.namespace, name=home.name).run(mode=Mode.DELETE)
    assert ended.outcomes[f"namespace/{name}"] is Outcome.DELETED, ended.problem(
        f"namespace/{name}"
    )


def test_missing_namespace_is_named_unless_the_set_creates_it(
    home: Stage, api: Api, name: str
) -> None:
    """A part of the input without it, and a manifest that is not applied, do not create it."""
    with pytest.raises(UsageError, match="does not exist") as caught:
        home.run(config_map("a"))
    assert "Add the Namespace to the input" in caught.value.hint
    disabled = own(name, annotations={"applyprune.dev/apply": "exists"})
    with pytest.raises(UsageError, match="does not exist"):
        home.run(disabled, config_map("a"))
    assert is_gone(api, name)


def test_create_namespace_leaves_it_to_the_set(home: Stage, api: Api, name: str) -> None:
    """If the set has it, the option changes nothing."""
    assert home.run(own(name), config_map("a"), create_namespace=True).exit_code == 0
    assert live(api, name)["annotations"][OWNED_BY] == home.target.id


def test_moved_namespace_goes_with_its_new_set(
    stage: Stage, home: Stage, api: Api, name: str
) -> None:
    """A set elsewhere keeps it as long as an inventory is in it."""
    home.run(own(name), config_map("a"))
    assert home.move(stage, f"namespace/{name}").exit_code == 0
    story = stage.run(mode=Mode.DELETE, allow_cascade=frozenset({f"namespace/{name}"}))
    assert story.outcomes[f"namespace/{name}"] is Outcome.ORPHANED, story.events
    assert home.run(mode=Mode.DELETE).outcomes == {"configmap/a": Outcome.DELETED}
    assert "deletionTimestamp" not in live(api, name)


def test_large_inventory_goes_with_its_namespace(home: Stage, api: Api, name: str) -> None:
    """Its shards count as little as itself."""
    size = 900
    bodies = [config_map(f"c{number}", json.dumps({"n": number})) for number in range(size)]
    home.run(own(name), *bodies)
    story = home.run(mode=Mode.DELETE)
    assert story.exit_code == 0, story.refusal
    assert is_gone(api, name)
