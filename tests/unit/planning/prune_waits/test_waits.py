"""What a prune waits for, and what it keeps: by who uses what goes, and by what has changed."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import Readiness
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import Mode, Options, WaitMode, WaitOptions
from applyprune.model.plan import (
    ApplyRule,
    ApplyStep,
    Cause,
    Desired,
    Plan,
    PruneWait,
    RemoveStep,
    wait_reason,
)
from applyprune.model.problem import ProblemKind
from applyprune.planning.approval import with_approval
from applyprune.planning.plan import make_plan
from applyprune.planning.prune_waits import (
    PodUse,
    kinds_to_judge,
    pod_use,
    unless_unready,
    unless_used,
    unready_problem,
    with_waits,
)
from applyprune.planning.readiness import assess
from applyprune.values import replace
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    recorded,
    world,
)

SERVICES = Resource("", "v1", "Service", "services", namespaced=True)
INGRESSES = Resource("networking.k8s.io", "v1", "Ingress", "ingresses", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)
WIDGETS = Resource("x.io", "v1", "Widget", "widgets", namespaced=True)
OLD = Ref("", "ConfigMap", "home", "old")
RS = Ref("apps", "ReplicaSet", "home", "web-1")
WEB = Ref("apps", "Deployment", "home", "web")
Body = dict[str, Any]


def _ref(kind: str, group: str = "", name: str = "old") -> Ref:
    return Ref(group, kind, "home", name)


def _template(*names: str, **labels: str) -> Body:
    """Return a Pod template whose container reads ConfigMaps."""
    reads = [{"configMapRef": {"name": name}} for name in names]
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"envFrom": reads}]}}


def _workload(
    name: str = "web", resource: Resource = DEPLOYMENTS, *names: str, **spec: Any
) -> Desired:
    template = _template(*names, app=name)
    raw = body(resource.kind, name, spec={"template": template, **spec})
    return desired(raw, resource)


def _step(one: Desired, fate: Fate = Fate.CHANGE, *, changed: bool = False) -> ApplyStep:
    entry = InventoryEntry(one.ref, one.resource.plural, "v1", None, changed=changed)
    return ApplyStep(one, fate, entry, live(one.ref))


def _removal(ref: Ref = OLD, fate: Fate = Fate.PRUNE, **more: Any) -> RemoveStep:
    entry = InventoryEntry(ref, "plural", "v1", None)
    return RemoveStep(entry, None, fate, live(ref, uid=f"uid-{ref.name}", **more))


def _owner(ref: Ref, uid: str) -> Body:
    version = f"{ref.group}/v1" if ref.group else "v1"
    return {"apiVersion": version, "kind": ref.kind, "name": ref.name, "uid": uid,
            "controller": True}  # fmt: skip


def _pod(*names: str, owner: Body | None = None, phase: str = "Running", **meta: Any) -> LiveObject:
    full = {**_template(*names, app="web"), "status": {"phase": phase}}
    owners: Body = {"ownerReferences": [owner]} if owner else {}
    return live(_ref("Pod", name="p"), uid="uid-p", full=full, **owners, **meta)


def _replica_set(*names: str, replicas: int = 1) -> LiveObject:
    full = {"spec": {"replicas": replicas, "template": _template(*names, app="web")}}
    owners = [_owner(WEB, "uid-web")]
    return live(RS, uid="uid-rs", full=full, ownerReferences=owners)


def _use(*pods: LiveObject, sets: tuple[LiveObject, ...] = ()) -> PodUse:
    return pod_use(pods, sets, {"old"})


IN_SET = _owner(RS, "uid-rs")


def _says(text: str, owner: Body | None = IN_SET) -> LiveObject:
    full = {"spec": {"containers": [{"name": "c", "args": [text]}]}, "status": {}}
    owners: Body = {"ownerReferences": [owner]} if owner else {}
    return live(_ref("Pod", name="p"), uid="uid-p", full=full, **owners)


USES: dict[str, tuple[PodUse, Desired, str]] = {
    "nobody": (_use(_pod("other")), _workload(), ""),
    "a Pod of nobody": (_use(_pod("old")), _workload(), "pod/p still uses it"),
    "a Pod that has ended": (_use(_pod("old", phase="Succeeded")), _workload(), ""),
    "a Pod that is going": (_use(_pod("old", deletionTimestamp="x")), _workload(), ""),
    "an old Pod of a rollout": (
        _use(_pod("old", owner=IN_SET), sets=(_replica_set("old"),)), _workload(), "waits: web",
    ),
    "a ReplicaSet that wants Pods": (_use(sets=(_replica_set("old"),)), _workload(), "waits: web"),
    "a ReplicaSet without Pods": (_use(sets=(_replica_set("old", replicas=0),)), _workload(), ""),
    "a Pod of a paused Deployment": (
        _use(_pod("old", owner=IN_SET), sets=(_replica_set(),)),
        _workload(paused=True),
        "pod/p still uses it",
    ),
    "a Pod of a template that names it": (
        _use(_pod("old", owner=IN_SET), sets=(_replica_set(),)),
        _workload("web", DEPLOYMENTS, "old"),
        "pod/p still uses it",
    ),
    "a Pod of a StatefulSet": (
        _use(_pod("old", owner=_owner(_ref("StatefulSet", "apps", "db"), "uid-db"))),
        _workload("db", STATEFUL_SETS),
        "waits: db",
    ),
    **{
        f"a Pod of a StatefulSet with {strategy}": (
            _use(_pod("old", owner=_owner(_ref("StatefulSet", "apps", "db"), "uid-db"))),
            _workload("db", STATEFUL_SETS, updateStrategy=strategy),
            "pod/p still uses it",
        )
        for strategy in ({"type": "OnDelete"}, {"rollingUpdate": {"partition": 2}})
    },
    "a Pod of a DaemonSet with OnDelete": (
        _use(_pod("old", owner=_owner(_ref("DaemonSet", "apps", "agent"), "uid-agent"))),
        _workload("agent", DAEMON_SETS, updateStrategy={"type": "OnDelete"}),
        "pod/p still uses it",
    ),
    "a Pod of a Job": (
        _use(_pod("old", owner=_owner(_ref("Job", "batch", "once"), "uid-job"))),
        _workload("once", JOBS),
        "pod/p still uses it",
    ),
    "a Pod of a custom resource": (
        _use(_pod("old", owner=_owner(_ref("Widget", "x.io", "w"), "uid-w"))),
        desired(body("Widget", "w", spec={"size": 1}), WIDGETS),
        "waits: w",
    ),
    "a Pod of a custom resource that names it": (
        _use(_pod("old", owner=_owner(_ref("Widget", "x.io", "w"), "uid-w"))),
        desired(body("Widget", "w", spec={"config": "old"}), WIDGETS),
        "pod/p still uses it",
    ),
    "an old Pod whose arguments name it": (
        _use(_says("--config=home/old"), sets=(_replica_set(),)), _workload(), "waits: web",
    ),
    "an old Pod whose arguments name it, of a paused Deployment": (
        _use(_says("--config=home/old"), sets=(_replica_set(),)),
        _workload(paused=True),
        "pod/p still uses it",
    ),
    "a Pod whose arguments name it as before": (
        _use(_says("--config=home/old"), sets=(_replica_set(),)),
        desired(body("Deployment", "web", spec={"x": ["a:old"]}), DEPLOYMENTS),
        "",
    ),
    "a Pod of nobody whose arguments name it": (_use(_says("old", None)), _workload(), ""),
    "a Pod of what goes too": (
        _use(_pod("old", owner=_owner(_ref("DaemonSet", "apps"), "uid-old"))), _workload(), "",
    ),
}  # fmt: skip


@pytest.mark.holds("used-by-a-live-pod", row="a Pod of nobody")
@pytest.mark.holds("named-in-a-text", row="an old Pod whose arguments name it")
@pytest.mark.parametrize("name", USES)
def test_object_is_kept_while_a_live_pod_uses_it(name: str) -> None:
    """Only a rollout of the set ends that, and the run waits for it."""
    use, member, expected = USES[name]
    also = _removal(_ref("DaemonSet", "apps"))
    step, _ = unless_used((_removal(), also), use, (member,), Options())
    if expected.startswith("waits: "):
        assert (step.fate, [ref.name for ref in step.rollouts]) == (Fate.PRUNE, [expected[7:]])
    elif expected:
        assert (step.fate, step.reason, step.cause) == (Fate.LEAVE, expected, Cause.IN_USE)
        assert step.request is None
    else:
        assert (step.fate, step.rollouts) == (Fate.PRUNE, ())


@pytest.mark.parametrize(
    ("sets", "fate"),
    [
        ((), Fate.PRUNE),
        pytest.param(
            (live(RS, uid="uid-rs", full={"spec": {}}),),
            Fate.LEAVE,
            marks=pytest.mark.holds("orphaned-replica-set"),
        ),
    ],
    ids=["gone", "orphaned"],
)
def test_pods_of_a_deleted_workload_are_known_by_the_replica_set_of_the_plan(
    sets: tuple[LiveObject, ...], fate: Fate
) -> None:
    """It goes before its Pods; if it stays without an owner, so do they, and use the object."""
    planned = pod_use((), (_replica_set("old"),), ())
    use = pod_use((_pod("old", owner=IN_SET),), sets, {"old"}, planned)
    also = _removal(WEB)
    step, _ = unless_used((_removal(), also), use, (), Options())
    assert (step.fate, step.cause is Cause.IN_USE) == (fate, fate is Fate.LEAVE)


def test_run_without_waits_names_who_uses_an_object() -> None:
    """With --no-wait nothing is kept; a run that applies nothing ends no rollout."""
    use, member, _ = USES["an old Pod of a rollout"]
    at_once = replace(Options(), wait=WaitOptions(WaitMode.NONE))
    (step,) = unless_used((_removal(),), use, (member,), at_once)
    assert (step.fate, step.rollouts) == (Fate.PRUNE, (WEB,))
    (step,) = unless_used((_removal(),), use, (member,), replace(Options(), mode=Mode.PRUNE))
    assert (step.fate, step.reason) == (Fate.LEAVE, "pod/p still uses it")
    (step,) = unless_used((_removal(),), use, (member,), replace(Options(), mode=Mode.DELETE))
    assert (step.fate, step.rollouts) == (Fate.PRUNE, ())


CUSTOM = desired(body("Widget", "w", spec={"size": 1}), WIDGETS)
NAMING = desired(body("Widget", "n", spec={"config": "old"}), WIDGETS)
SERVICE = desired(body("Service", "s", spec={"selector": {"app": "web"}}), SERVICES)
CHANGED = "changed since last ready"
WAITS: dict[str, tuple[Ref, tuple[ApplyStep, ...], list[tuple[str, str]]]] = {
    "a Deployment, for what changes": (
        _ref("Deployment", "apps"),
        (_step(_workload()), _step(CUSTOM), _step(SERVICE), _step(desired())),
        [("web", CHANGED), ("w", CHANGED)],
    ),
    "a Deployment, for what has changed": (
        _ref("Deployment", "apps"),
        (_step(_workload(), Fate.LEAVE, changed=True), _step(CUSTOM, Fate.LEAVE)),
        [("web", CHANGED)],
    ),
    "a Deployment, beside an APIService": (
        _ref("Deployment", "apps"),
        (_step(desired(body("APIService", "v1.x.io"), API_SERVICES)),),
        [],
    ),
    "a Service, for another one": (
        _ref("Service"), (_step(SERVICE), _step(_workload())), [("s", CHANGED), ("web", CHANGED)],
    ),
    "a Namespace": (Ref("", "Namespace", "", "old"), (_step(_workload()),), [("web", CHANGED)]),
    "a CRD": (
        Ref("apiextensions.k8s.io", "CustomResourceDefinition", "", "old"),
        (_step(_workload()),),
        [("web", CHANGED)],
    ),
    "a custom resource": (_ref("Widget", "x.io"), (_step(_workload()),), [("web", CHANGED)]),
    "a StorageClass": (
        Ref("storage.k8s.io", "StorageClass", "", "old"), (_step(_workload()),), [("web", CHANGED)],
    ),
    "a Role": (_ref("Role", "rbac.authorization.k8s.io"), (_step(_workload()),), []),
    "an Ingress": (_ref("Ingress", "networking.k8s.io"), (_step(_workload()),), []),
    "a ConfigMap that nobody uses": (OLD, (_step(_workload()),), []),
    "a Secret, for an operator": (
        _ref("Secret"), (_step(_workload()), _step(CUSTOM)), [("w", CHANGED)],
    ),
    "a ConfigMap that a custom resource names": (
        OLD, (_step(NAMING, Fate.LEAVE),), [("n", "names it")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_prune_waits_for_what_may_need_the_object(name: str) -> None:
    """By its kind, and by what has changed since it was last ready."""
    ref, applies, expected = WAITS[name]
    (step,) = with_waits((_removal(ref),), applies)
    assert [(wait.ref.name, wait.reason) for wait in step.waits_for] == expected
    assert with_waits((step,), ())[0].waits_for == ()
    unread = replace(_removal(OLD), pods_unread="no right")
    (step,) = with_waits((unread,), (_step(_workload()),))
    assert [wait.ref for wait in step.waits_for] == [WEB]


def test_finished_and_removed_jobs_use_nothing() -> None:
    """Neither as what goes nor as what stays."""
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    job = _removal(_ref("Job", "batch"), full=done)
    assert with_waits((job,), (_step(_workload()),))[0].waits_for == ()
    entry = InventoryEntry(_ref("Job", "batch", "once"), "jobs", "v1", None, changed=True)
    gone = ApplyStep(_workload("once", JOBS), Fate.LEAVE, entry)
    (step,) = with_waits((_removal(_ref("Deployment", "apps")),), (gone,))
    assert step.waits_for == ()


ROUTE = desired(
    body(
        "Ingress",
        "both",
        spec={
            "rules": [
                {"http": {"paths": [{"backend": {"service": {"name": name}}} for name in "ab"]}}
            ]
        },
    ),
    INGRESSES,
)


def _service(name: str, **selector: str) -> ApplyStep:
    return _step(desired(body("Service", name, spec={"selector": selector}), SERVICES), Fate.LEAVE)


@pytest.mark.parametrize(
    ("others", "selector", "reason"),
    [
        ((), {"app": "web"}, ""),
        ((), {"part": "x"}, "selects its Pods"),
        ((_service("a", app="web"),), {"app": "web"}, ""),
        ((_service("a", part="x", app="web"),), {"app": "web"}, ""),
        ((_service("a", app="web"), _service("b", part="x")), {"app": "web"}, ""),
        (
            (_service("a", app="web"), _service("b", part="x"), _step(ROUTE, Fate.LEAVE)),
            {"app": "web"},
            "ingress.networking.k8s.io/both leads to both",
        ),
        ((_service("a", tier="front"),), {"app": "web"}, "service/a leads to both"),
    ],
)
def test_prune_waits_for_what_serves_the_same_clients(
    others: tuple[ApplyStep, ...], selector: dict[str, str], reason: str
) -> None:
    """A workload that was ready before may have failed since, and replaces the pruned one."""
    member = _workload(selector={"matchLabels": selector})
    template = _template(app="web", tier="front")
    member = desired(
        body("Deployment", "web", spec={**member.body["spec"], "template": template}), DEPLOYMENTS
    )
    labels = {"app": "blue", "part": "x", "tier": "front"}
    step = replace(_removal(_ref("Deployment", "apps")), pod_labels=(labels,))
    (step,) = with_waits((step,), (_step(member, Fate.LEAVE), *others))
    assert [(wait.ref, wait.reason) for wait in step.waits_for] == (
        [(WEB, reason)] if reason else []
    )


@pytest.mark.parametrize("fate", sorted(set(Fate) - {Fate.PRUNE}))
def test_only_deletions_wait(fate: Fate) -> None:
    """What stays in the cluster stays in use."""
    step = _removal(_ref("Deployment", "apps"), fate)
    assert with_waits((step,), (_step(_workload()),)) == (step,)


def test_object_that_is_being_deleted_needs_no_wait() -> None:
    """An earlier run has decided that; there is nothing left to protect."""
    step = _removal(_ref("Deployment", "apps"), deletionTimestamp="x")
    assert with_waits((step,), (_step(_workload()),))[0].waits_for == ()


def test_unready_object_holds_only_what_waits_for_it() -> None:
    """With the reason; the rest is pruned."""
    held, free = with_waits(
        (_removal(_ref("Deployment", "apps")), _removal()), (_step(_workload()),)
    )
    left = unless_unready(held, {WEB})
    reason = "deployment.apps/web is not ready (changed since last ready)"
    assert (left.fate, left.reason) == (Fate.LEAVE, reason)
    assert unless_unready(free, {WEB}) == free
    assert unless_unready(held, set()) == held


# What is not ready, and is not waited for.


ALL = replace(Options(), wait=WaitOptions(WaitMode.ALL))
PURE = replace(Options(), mode=Mode.PRUNE)
KEEPS = replace(Options(), prune=replace(Options().prune, enabled=False))


@pytest.mark.parametrize(
    ("kinds", "leaves", "options", "expected"),
    [
        ((DEPLOYMENTS, SERVICES, JOBS, CONFIG_MAPS, WIDGETS), True, Options(),
         {"Deployment", "Service", "Job"}),
        ((DEPLOYMENTS,), False, Options(), set()),
        ((DEPLOYMENTS,), True, ALL, set()),
        ((DEPLOYMENTS,), True, PURE, set()),
        ((DEPLOYMENTS,), True, KEEPS, set()),
    ],
)  # fmt: skip
def test_run_reads_in_full_only_what_a_prune_may_name(
    kinds: tuple[Resource, ...], leaves: bool, options: Options, expected: set[str]
) -> None:
    """A run that prunes nothing, or waits for everything, reads only metadata."""
    members = [desired(body(kind.kind, "m"), kind) for kind in kinds]
    entries = [InventoryEntry(one.ref, one.resource.plural, "v1", None) for one in members]
    gone = [InventoryEntry(OLD, "configmaps", "v1", None)] if leaves else []
    found = kinds_to_judge(members, inventory(*entries, *gone), options)
    assert {kind.kind for kind in found} == expected
    # A new kind has no state yet.
    assert kinds_to_judge(members, inventory(*gone), options) == frozenset()


def _unready_among(
    *steps: ApplyStep, removals: tuple[RemoveStep, ...] = (), options: Options | None = None
) -> str:
    """Return the warning beside a prune; each Deployment that was read is broken."""

    def state_of(step: ApplyStep) -> Readiness | None:
        return assess(step.live.body) if step.live and step.live.body else None

    plan = Plan(steps, removals or (_removal(),))
    problem = unready_problem(plan, TARGET, options or Options(), state_of)
    return str(problem or "")


def _broken(name: str = "web", fate: Fate = Fate.LEAVE, **more: Any) -> ApplyStep:
    step = _step(_workload(name), fate)
    return replace(step, live=live(step.desired.ref, full=body("Deployment", name)), **more)


def test_plan_names_what_is_not_ready_and_not_waited_for() -> None:
    """At most ten of them, in one line."""
    many = [_broken(f"web-{number:02}") for number in range(12)]
    names = ", ".join(f"deployment.apps/web-{number:02}" for number in range(10))
    assert _unready_among(*many) == (
        f"12 objects are not ready, and the prune does not wait for them: {names} and 2 more"
        "\n  See: applyprune status web -n home"
    )


SILENT: dict[str, tuple[tuple[ApplyStep, ...], dict[str, Any]]] = {
    "what the run changes": ((_broken(fate=Fate.CHANGE),), {}),
    "what is left alone": ((_broken(cause=Cause.LEAVE_MARK),), {}),
    "what was not read in full": ((_step(_workload(), Fate.LEAVE),), {}),
    "what belongs to somebody else": (
        (replace(_broken(), desired=replace(_workload(), apply=ApplyRule.EXISTS)),), {},
    ),
    "what it waits for": (
        (_broken(),), {"removals": (replace(_removal(), waits_for=(PruneWait(WEB, "why"),)),)},
    ),
    "a prune that deletes nothing": (
        (_broken(),), {"removals": (_removal(fate=Fate.ORPHAN), _removal(deletionTimestamp="x"))},
    ),
    "a wait for everything": ((_broken(),), {"options": ALL}),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_said_about(name: str) -> None:
    """Of the rest, nobody expects that a prune waits for it, or it does."""
    steps, given = SILENT[name]
    assert _unready_among(*steps, **given) == ""
    assert "1 object is not ready" in _unready_among(_broken())


def _plan(**options: Any) -> Plan:
    """Return the plan of a set whose Deployment ``old`` has become ``web``."""
    old, web = desired(body("Deployment", "old"), DEPLOYMENTS), _workload()
    states = {one.ref: live(one.ref, uid=one.ref.name) for one in (old, web)}
    before = inventory(recorded(old, states[old.ref]), recorded(web, states[web.ref], digest=""))
    snapshot = cluster(states)
    given = replace(Options(), **options)
    return with_approval(make_plan(world((web,), before, snapshot, given)), TARGET, given)


@pytest.mark.parametrize("mode", WaitMode)
def test_plan_holds_the_wait_or_the_warning(mode: WaitMode) -> None:
    """With --no-wait there is a warning, with the same reason."""
    plan = _plan(wait=WaitOptions(mode))
    told = wait_reason(plan.removals) or plan.warnings[0].reason
    word = "before" if mode is WaitMode.NONE else "after"
    assert told == f"deployment.apps/old {word} deployment.apps/web ({CHANGED})"
    assert plan.waits_for == (set() if mode is WaitMode.NONE else {WEB})
    assert [one.kind for one in plan.warnings] == (
        [ProblemKind.NO_WAIT] if mode is WaitMode.NONE else []
    )


def test_plan_without_deletions_has_no_wait() -> None:
    """A refused prune deletes nothing; a pure prune and a delete apply nothing."""
    refused = _plan(prune=replace(Options().prune, enabled=False), wait=WaitOptions(WaitMode.NONE))
    assert not refused.waits_for
    assert not refused.warnings
    for mode in (Mode.PRUNE, Mode.DELETE):
        assert not _plan(mode=mode).waits_for
