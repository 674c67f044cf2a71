"""Deletions: what counts as gone, how long that is waited for, and what is said of the rest."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from applyprune.engine.context import WorkerPool
from applyprune.engine.ports import Cancellation
from applyprune.engine.waiting import DeletedObject, DeletionWait, Gone
from applyprune.errors import Forbidden
from applyprune.model.events import ObjectDone, Waiting
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    Absent,
    LiveObject,
    Resource,
    State,
    Unknown,
)
from applyprune.model.options import Mode
from tests.support.api import Api
from tests.support.clocks import AGES, ManualClock
from tests.support.fault_proxy import FaultProxy, blind_after_delete, faults
from tests.support.fault_proxy.exchange import Wire
from tests.support.objects import (
    DEPLOYMENT,
    SERVICE,
    config_map,
    crd,
    crd_name,
    custom_resource,
    of_kind,
)
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import out_of_time

# What the reply to a DELETE says: gone, kept by a finalizer, or unknown.


HOLD = "example.com/hold"
ACCOUNT: dict[str, Any] = of_kind("ServiceAccount", "web")
ROLE: dict[str, Any] = of_kind("Role", "web", rules=[])
NAME = "role.rbac.authorization.k8s.io/web"
KEPT = config_map("kept")


def _path(stage: Stage, body: dict[str, Any]) -> str:
    version, plural = body["apiVersion"], f"{body['kind'].lower()}s"
    root = "/apis" if "/" in version else "/api"
    return f"{root}/{version}/namespaces/{stage.namespace}/{plural}/{body['metadata']['name']}"


def test_object_in_the_reply_that_is_not_marked_is_gone(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The server answers with the deleted object; one read shows that this is true."""
    spoiled.run(KEPT, SERVICE, ACCOUNT)
    story = spoiled.run(KEPT, max_prune=Stage.most(2))
    assert story.exit_code == 0, story.events
    assert list(story.outcomes.values()).count(Outcome.PRUNED) == 2
    for path in (_path(spoiled, SERVICE), _path(spoiled, ACCOUNT)):
        (sent,) = (one for one in proxy.exchanges if one.method == "DELETE" and one.path == path)
        after = proxy.exchanges[proxy.exchanges.index(sent) + 1 :]
        assert [(one.method, one.status) for one in after if one.path == path] == [("GET", 404)]
        assert not api.exists(path)


def _twice(body: dict[str, Any], **metadata: Any) -> list[dict[str, Any]]:
    """Return two objects: of several, a list is asked for."""
    names = (body["metadata"]["name"], "other")
    return [{**body, "metadata": {"name": name, **metadata}} for name in names]


@pytest.mark.holds("deletion-without-mark")
def test_marked_object_in_the_reply_is_not_gone(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """A finalizer keeps it, whatever a list says: it stays listed until somebody removes that."""
    held = _twice(SERVICE, finalizers=[HOLD])
    spoiled.run(KEPT, *held)
    names = {"service/web", "service/other"}
    proxy.rule = blind_after_delete("services")
    story = spoiled.run(KEPT, timeout=0.1, max_prune=Stage.most(2))
    failed = dict.fromkeys(names, Outcome.FAILED)
    assert (story.exit_code, {name: story.outcomes[name] for name in names}) == (5, failed)
    assert spoiled.listed() == {"configmap/kept", *names}
    proxy.rule = lambda _seen: None
    for one in held:
        api.patch(_path(spoiled, one), {"metadata": {"finalizers": None}})
    assert spoiled.run(KEPT).exit_code == 0
    assert spoiled.listed() == {"configmap/kept"}


@pytest.mark.holds("deletion-by-another-server")
def test_unmarked_object_of_another_group_is_looked_for(
    spoiled: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Its server may be an aggregated one, which may answer with what it has not deleted yet."""
    roles = _twice(ROLE)
    spoiled.run(KEPT, *roles)
    there = {_path(spoiled, one): api.get(_path(spoiled, one)) for one in roles}

    def as_it_is(wire: Wire) -> None:
        body = json.dumps(there[wire.exchange.path]).encode()
        faults.answer(200, body, (("Content-Type", "application/json"),))(wire)

    proxy.rule = blind_after_delete("roles", as_it_is)
    story = spoiled.run(KEPT, timeout=0.1, max_prune=Stage.most(2))
    assert (story.exit_code, story.outcomes[NAME]) == (3, Outcome.FAILED)
    assert "was not deleted" in story.problem(NAME)
    assert all(map(api.exists, there))
    assert {"configmap/kept", NAME} < spoiled.listed()


# What does not go: the finalizer's owner is named, and no finalizer is removed.


def _finalize(api: Api, path: str, *finalizers: str, manager: str) -> None:
    """Set an object's finalizers as a controller does."""
    api.patch(path, {"metadata": {"finalizers": list(finalizers)}}, by=manager)


def _why(story: Story, name: str) -> Sequence[str]:
    """Return the clauses of a diagnosis."""
    (done,) = (one for one in story.of(ObjectDone) if one.ref.short == name)
    assert done.problem is not None
    assert done.problem.message.endswith("is deleted but not gone yet")
    return done.problem.reason.split("; ")


def test_finalizer_is_attributed_to_who_has_set_it(stage: Stage, api: Api) -> None:
    """The object stays listed until it is really gone; later turns wait for it.

    Within its turn, only what it needs does.
    """

    def of_wave(name: str, wave: int) -> dict[str, Any]:
        return config_map(name, annotations={"applyprune.dev/wave": str(wave)})

    bodies = (of_wave("held", 1), of_wave("beside", 1), of_wave("below", 0), of_wave("above", 2))
    stage.run(*bodies)
    _finalize(api, stage.path("held"), HOLD, manager="holder")
    out_of_time(stage, "held by")
    story = stage.run(mode=Mode.DELETE, timeout=3600.0)
    assert (story.exit_code, story.outcomes) == (
        5,
        {
            "configmap/above": Outcome.DELETED,
            "configmap/held": Outcome.FAILED,
            "configmap/beside": Outcome.DELETED,
            "configmap/below": Outcome.SKIPPED,
        },
    )
    assert _why(story, "configmap/held") == [f"finalizer {HOLD}, set by holder"]
    assert api.get(stage.path("held"))["metadata"]["finalizers"] == [HOLD]
    assert "configmap/held is deleted first, and is not gone" in story.problem("configmap/below")
    assert stage.listed() == {"configmap/held", "configmap/below"}
    _finalize(api, stage.path("held"), manager="holder")
    stage.stop, stage.seen = Cancellation(), lambda _: None
    assert stage.run(mode=Mode.DELETE, timeout=AGES).exit_code == 0
    assert not stage.inventory().exists


def test_custom_resource_holds_its_crd_and_what_may_be_its_controller(
    crds: Api, crd_stage: Stage
) -> None:
    """Nobody could remove its finalizer any more."""
    operator = {**DEPLOYMENT, "metadata": {"name": "operator"}}
    operator["spec"] = {**operator["spec"], "replicas": 0}
    account, stuck = of_kind("ServiceAccount", "operator"), custom_resource("stuck", "Kept")
    assert crd_stage.run(crd("Kept"), stuck, operator, account, wait=False).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/kepts/stuck"
    _finalize(crds, path, HOLD, manager="operator")
    story = crd_stage.run(mode=Mode.DELETE, timeout=1.0)
    assert story.exit_code == 5
    kept = (crd_name("Kept"), "deployment.apps/operator", "serviceaccount/operator")
    assert [story.outcomes[name] for name in kept] == [Outcome.SKIPPED] * 3
    assert "its controller may need it" in story.problem("deployment.apps/operator")
    _finalize(crds, path, manager="operator")
    assert crd_stage.run(mode=Mode.DELETE, timeout=AGES).exit_code == 0


@pytest.mark.parametrize("what", ["namespace", "crd"])
def test_object_names_the_contents_that_block_it(crds: Api, crd_stage: Stage, what: str) -> None:
    """Those of others wait for their controller; nothing in it is touched."""
    home = f"{crd_stage.namespace}-shop"
    body, place, theirs = of_kind("Namespace", home), f"/api/v1/namespaces/{home}", "configmap"
    if what == "crd":
        body, theirs = crd("Blocked"), "blocked.x.example.com"
        place = "/apis/x.example.com/v1/namespaces/kube-public"
    within, plural = " in namespace kube-public" * (what == "crd"), theirs.partition(".")[0]
    name = crd_name("Blocked") if what == "crd" else f"namespace/{home}"
    crd_stage.run(body)
    eventually(lambda: crds.exists(f"{place}/{plural}s"), lambda: "the kind is served")
    other = custom_resource("f", "Blocked") if what == "crd" else config_map("f")
    crds.create(f"{place}/{plural}s", other)
    path = f"{place}/{plural}s/f"
    _finalize(crds, path, HOLD, manager="foo-operator")
    story = crd_stage.run(mode=Mode.DELETE, timeout=1.0, allow_cascade=frozenset({name}))
    assert (story.exit_code, story.outcomes) == (5, {name: Outcome.FAILED})
    *_, contents, holder = _why(story, name)
    assert contents.startswith(f"it still contains {theirs}/f{within} (finalizer {HOLD})")
    assert holder == f"finalizer {HOLD}, set by foo-operator"
    assert crds.get(path)["metadata"]["finalizers"] == [HOLD]
    assert crd_stage.listed() == {name}
    _finalize(crds, path, manager="foo-operator")


# How long the wait for deleted objects takes, exactly.

REF = Ref("", "ConfigMap", "default", "a")
OTHER = Ref("", "ConfigMap", "default", "b")
UNREAD = Unknown(Forbidden("no", code=403).problem)


def _live(uid: str, *finalizers: str) -> LiveObject:
    return LiveObject.of(REF, uid, "1", {"finalizers": list(finalizers)})


def _wait(read: Callable[[Ref], State], *refs: Ref, timeout: float = 30.0) -> DeletionWait:
    deleted = [DeletedObject(CONFIG_MAPS, ref, "uid") for ref in refs or [REF]]
    stop = Cancellation(clock=ManualClock())
    return DeletionWait(deleted, timeout, stop, lambda _, ref: read(ref))


@pytest.mark.parametrize(
    ("states", "replaced"),
    [
        ([Absent()], False),
        ([_live("uid"), Absent()], False),
        ([UNREAD, _live("uid"), _live("new")], True),
    ],
)
def test_object_is_gone_when_its_uid_is(states: Sequence[State], replaced: bool) -> None:
    """A state that could not be read proves nothing."""
    left = iter(states)
    wait = _wait(lambda _: next(left))
    assert list(wait.run()) == [Gone(REF, replaced)]
    assert not wait.pending


def test_timeout_leaves_what_is_not_gone_as_it_was_last_read() -> None:
    """The object that is gone is reported anyway."""
    states: dict[Ref, State] = {REF: _live("uid", "hold"), OTHER: Absent()}
    wait = _wait(lambda ref: states[ref], REF, OTHER, timeout=0.0)
    assert list(wait.run()) == [Gone(OTHER, replaced=False)]
    assert [one.ref for one in wait.pending] == [REF]
    assert wait.last[REF].finalizers == ("hold",)


def test_looks_become_rarer_and_end_at_the_timeout() -> None:
    """What is waited for is said about every second."""
    clock, wait = ManualClock(), _wait(lambda _: _live("uid", "hold"), timeout=12.0)
    wait.cancellation.clock = clock
    events = list(wait.run())
    assert clock.waits[:4] == pytest.approx([0.05, 0.075, 0.1125, 0.16875])
    assert clock.waits[-3:] == [2.0] * 3
    assert clock.passed - 2.0 <= 12.0 < clock.passed
    said = [one for one in events if isinstance(one, Waiting)]
    assert [round(one.elapsed, 1) for one in said] == [1.0, 2.5, 3.7, 5.7, 7.7, 9.7, 11.7]
    assert {one.reason for one in said} == {"held by hold"}


def test_pod_in_its_grace_period_says_until_when() -> None:
    """A Pod that ignores the signal to end is deleted no sooner."""
    ref, until = Ref("", "Pod", "default", "a"), "2026-11-29T12:10:00Z"
    metadata = {"deletionTimestamp": until, "deletionGracePeriodSeconds": 600}
    pod = LiveObject.of(ref, "uid", "1", metadata)
    deleted = [DeletedObject(PODS, ref, "uid")]
    wait = DeletionWait(deleted, 30.0, Cancellation(clock=ManualClock()), lambda *_: pod)
    reasons = {one.reason for one in wait.run() if isinstance(one, Waiting)}
    assert reasons == {f"its containers may run until {until}, 600 s in all"}


@pytest.mark.parametrize(
    ("resource", "most"),
    [
        pytest.param(CONFIG_MAPS, 0.0, marks=pytest.mark.holds("unmarked-is-not-deleted")),
        (DEPLOYMENTS, 7.0),
    ],
)
def test_unmarked_object_is_not_waited_for(resource: Resource, most: float) -> None:
    """The core group marks what it deletes before it answers; an aggregated API gets 5 seconds."""
    clock = ManualClock()
    deleted = [DeletedObject(resource, REF, "uid")]
    wait = DeletionWait(deleted, 300.0, Cancellation(clock), lambda *_: _live("uid"), is_own=True)
    list(wait.run())
    assert clock.passed <= most
    assert wait.is_unmarked(deleted[0])


def test_marked_object_is_waited_for_beside_an_unmarked_one() -> None:
    """And of what this run has not deleted, nothing is known."""
    marked = LiveObject.of(OTHER, "uid", "1", {"deletionTimestamp": "2026-11-21T10:00:00Z"})
    states: dict[Ref, State] = {REF: _live("uid"), OTHER: marked}
    for refs, is_own in (([REF, OTHER], True), ([REF], False)):
        clock = ManualClock()
        deleted = [DeletedObject(CONFIG_MAPS, ref, "uid") for ref in refs]
        wait = DeletionWait(
            deleted, 12.0, Cancellation(clock), lambda _, ref: states[ref], is_own=is_own
        )
        list(wait.run())
        assert clock.passed > 12.0


def test_end_of_the_run_leaves_what_was_not_looked_at() -> None:
    """Its state is unknown, so it does not count as gone."""
    wait = _wait(lambda _: Absent())
    wait.cancellation.request(signal.SIGINT)
    with WorkerPool(1, wait.cancellation) as wait.workers:
        assert list(wait.run()) == []
    assert [one.ref for one in wait.pending] == [REF]
