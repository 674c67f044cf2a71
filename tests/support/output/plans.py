"""One made-up plan with every fate, guard and consequence.

``ALLOWED`` is the plan as it may run. ``REFUSED`` is the same plan, and everything is wrong that
can be wrong with one. What the code words itself, such as a conflict, is worded by the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.engine.dry_run import FIELDS_TRANSFERRED, NOT_THERE_YET
from applyprune.errors import Conflict, Forbidden
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.live import BUNDLES, NotListed, Resource, Unknown
from applyprune.model.options import Mode, Options, PruneLimit
from applyprune.model.plan import (
    IN_PLACE,
    ApplyStep,
    Cause,
    Consequence,
    ConsequenceKind,
    Guard,
    GuardResult,
    GuardVerdict,
    Plan,
    RemoveStep,
    ToolRecord,
    wait_reason,
)
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.planning.approval import with_approval
from applyprune.planning.cascade import Cascade, Cascades
from applyprune.planning.conflicts import explain_conflict
from applyprune.planning.guards import GuardedPrune, check_guards, hinted, refusal_of
from applyprune.planning.plan import make_plan, settled
from applyprune.planning.prune_waits import no_wait_warning, with_waits
from applyprune.planning.recovery import restored_problem
from applyprune.planning.removals import ADOPTED, remove_step
from applyprune.planning.schemas import UNKNOWN, FieldFault, fields_problem
from applyprune.planning.server_errors import cannot_be_dry_run
from applyprune.planning.world import ControllerUse, World
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import TARGET, body, cluster, inventory, live, managed, recorded, world
from tests.support.planning import desired as resolved

if TYPE_CHECKING:
    from collections.abc import Collection

    from applyprune.model.live import State
    from applyprune.model.plan import Desired

_GROUPS = {
    "CustomResourceDefinition": "apiextensions.k8s.io",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Job": "batch",
    "StatefulSet": "apps",
}
_CLUSTER = {"CustomResourceDefinition", "Namespace"}


def wanted(name: str, kind: str = "ConfigMap", line: int = 1, **parts: Any) -> Desired:
    """Return an object of the input, which has a place in a file of its kind."""
    group = _GROUPS.get(kind, "")
    resource = Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=kind not in _CLUSTER)
    one = resolved(body(kind, name, **parts), resource)
    return replace(one, origin=Origin(f"manifests/{kind.lower()}.yaml", 1, line))


def applied(fate: Fate, name: str, kind: str = "ConfigMap", **parts: Any) -> ApplyStep:
    """Return the step for an object of the input."""
    one = wanted(name, kind)
    there = None if fate is Fate.CREATE else live(one.ref, uid=f"u-{name}")
    return ApplyStep(one, fate, recorded(one, there or live(one.ref)), there, **parts)


def removed(
    fate: Fate, name: str, kind: str = "ConfigMap", reason: str = "", **parts: Any
) -> RemoveStep:
    """Return the step for an object that has left the set."""
    one = wanted(name, kind)
    there = live(one.ref, uid=f"u-{name}")
    entry = recorded(one, there, ownership=Ownership.OWNED)
    return RemoveStep(entry, one.resource, fate, there, reason, **parts)


_NOT_DELETED = cannot_be_dry_run(Forbidden('User "ci" cannot delete resource "services"', code=403))
_NEW_NAMESPACE = applied(Fate.CREATE, "blue", "Namespace")
_CRD = applied(Fate.CHANGE, "crontabs.example.com", "CustomResourceDefinition")
_CLAIM = removed(Fate.PRUNE, "data-old-0", "PersistentVolumeClaim")
_OTHER_CLAIM = removed(Fate.PRUNE, "cache", "PersistentVolumeClaim")
_STATEFUL_SET = removed(Fate.PRUNE, "old", "StatefulSet")
_NAMESPACE = removed(Fate.PRUNE, "green", "Namespace")
_STRANGERS = tuple(sorted(wanted(name, "Secret").ref for name in ("mine", "token")))
_OTHER_NAMESPACE = removed(Fate.PRUNE, "yellow", "Namespace")
_CASCADES = Cascades(
    {_NAMESPACE.entry.ref: Cascade(7, _STRANGERS), _OTHER_NAMESPACE.entry.ref: Cascade(4, ())}, ()
)

APPLIES = (
    _NEW_NAMESPACE,
    _CRD,
    applied(Fate.CREATE, "new", not_checked=NOT_THERE_YET),
    applied(Fate.CHANGE, "settings"),
    applied(Fate.CHANGE, "forced", taken_from=("hpa", "kubectl")),
    applied(
        Fate.ADOPT,
        "found",
        taken_from=("kubectl",),
        reason="adopted: it existed and belonged to no set",
    ),
    applied(
        Fate.ADOPT,
        "moved",
        taken_from=("the set web in namespace shop",),
        reason="adopted: it existed and belonged to another set",
    ),
    applied(Fate.LEAVE, "same"),
    applied(
        Fate.LEAVE,
        "left",
        reason="applyprune.dev/conflicts: skip, and .data.k is owned by kubectl",
        cause=Cause.CONFLICT_SKIPPED,
    ),
    applied(Fate.LEAVE, "once", "Job", reason="finished, and removed by its TTL"),
    applied(Fate.RECREATE, "fixed", "Deployment", reason=IN_PLACE),
    applied(Fate.CHANGE, "web", "Deployment"),
    applied(Fate.CHANGE, "paused", "Deployment"),
    applied(Fate.CHANGE, "agent", "DaemonSet"),
    applied(Fate.CHANGE, "db", "StatefulSet", not_checked=FIELDS_TRANSFERRED),
    applied(Fate.LEAVE, "front", "Service"),
)
REMOVALS = (
    _STATEFUL_SET,
    removed(Fate.PRUNE, "back", "Service", not_checked=_NOT_DELETED),
    _CLAIM,
    _OTHER_CLAIM,
    removed(Fate.ORPHAN, "theirs", reason=ADOPTED, cause=Cause.ADOPTED),
    removed(Fate.ORPHAN, "kept", reason="applyprune.dev/prune: disabled"),
    removed(Fate.REMOVE_FROM_INVENTORY, "gone", reason="it is gone"),
    removed(Fate.LEAVE, "migrate", "Job", reason="a chart hook, left out"),
    *(
        replace(step, reason=_CASCADES.described(step.entry.ref))
        for step in (_NAMESPACE, _OTHER_NAMESPACE)
    ),
)

_USED = removed(Fate.LEAVE, "used", reason="pod/web-1 still uses it", cause=Cause.IN_USE)


def _caused(
    kind: ConsequenceKind, step: ApplyStep | RemoveStep, message: str, count: int, *refs: Ref
) -> Consequence:
    return Consequence(kind, step.entry.ref, message, count, refs)


_SETTINGS, _FOUND, _FIXED, _PAUSED, _AGENT, _FRONT, _ROLLED = (
    step
    for name in ("settings", "found", "fixed", "paused", "agent", "front", "web")
    for step in APPLIES
    if step.desired.ref.name == name
)
_WEB = _ROLLED.desired.ref
CONSEQUENCES = (
    _caused(ConsequenceKind.READ_BY, _SETTINGS, "read by deployment.apps/web", 1, _WEB),
    _caused(
        ConsequenceKind.OLD_VALUE,
        _SETTINGS,
        "deployment.apps/web (environment) keeps the old values until its Pods restart",
        1,
        _WEB,
    ),
    _caused(
        ConsequenceKind.SWITCHES,
        _FRONT,
        "switches to deployment.apps/web before its Pods are ready",
        1,
        _WEB,
    ),
    _caused(ConsequenceKind.RESTART, _FIXED, "3 Pods stop, then start", 3),
    _caused(ConsequenceKind.ROLLOUT, _ROLLED, "rollout, 12 Pods", 12),
    _caused(ConsequenceKind.PAUSED, _PAUSED, "2 Pods change when the rollout is resumed", 2),
    _caused(
        ConsequenceKind.SCALES,
        _ROLLED,
        "scales from 5 to 1: its manifest does not set replicas",
        5,
    ),
    _caused(ConsequenceKind.ON_DELETE, _AGENT, "5 Pods change when they are deleted", 5),
    _caused(
        ConsequenceKind.CASCADE,
        _STATEFUL_SET,
        "deleted with it: 1 PersistentVolumeClaim",
        1,
        wanted("data-old-1", "PersistentVolumeClaim").ref,
    ),
    _caused(
        ConsequenceKind.FIELDS_LOST,
        _FOUND,
        "1 field of kubectl-client-side-apply is removed, because the manifest lacks it: "
        ".data.stale",
        1,
    ),
    _caused(
        ConsequenceKind.VOLUME_DELETED,
        _CLAIM,
        "its volume pv-1 is deleted with its data (reclaim policy Delete)",
        1,
    ),
    _caused(
        ConsequenceKind.VOLUME_KEPT,
        _OTHER_CLAIM,
        "its volume pv-2 stays with its data (reclaim policy Retain)",
        1,
    ),
)
RECORDS = (
    ToolRecord("Argo CD", "application web", 1, runs=True),
    ToolRecord(
        "Helm",
        "release legacy in namespace shop",
        2,
        "kubectl delete secret -n shop -l owner=helm,name=legacy",
    ),
)
MISSING = Problem(
    ProblemKind.MISSING_REFERENCE,
    "deployment.apps/web refers to configmap/setings in namespace home, which is neither in the "
    "set nor in the cluster",
    "manifests/deployment.yaml:9:3",
    "1 other object does the same",
    "Did you mean settings?",
    origin=Origin("manifests/deployment.yaml", 1, 9, 3),
)


_DOOMED = [step for step in REMOVALS if step.fate is Fate.PRUNE]
_COUNT = len(_DOOMED) + len(_STRANGERS)
_OWN = {step.entry.ref: f"u-{step.entry.ref.name}" for step in _DOOMED}
_OWN |= {wanted(name).ref: f"u-{name}" for name in ("settings", "same", "left")}


_BUNDLES = tuple(Ref(BUNDLES.group, BUNDLES.kind, "shop", name) for name in ("api", "web"))


def _guarded(options: Options, cascades: Cascades) -> GuardedPrune:
    """Return the removals as the guards see them, beside an input that each of them detects."""
    allowed = options.prune.allow_cascade
    refs = [replace(step.entry.ref, namespace="blue") for step in REMOVALS]
    world = World(
        TARGET,
        inventory(*(step.entry for step in REMOVALS)),
        options,
        desired=[replace(wanted(ref.name, ref.kind), ref=ref) for ref in refs],
        empty_inputs=("manifests/empty.yaml",),
        controller=ControllerUse(frozenset({_NAMESPACE.entry.ref}), _BUNDLES),
    )
    steps = [_with_cascade(step, cascades, allowed) for step in REMOVALS]
    return GuardedPrune(world, steps, cascades, own=_OWN, shares=False)


def _with_cascade(step: RemoveStep, cascades: Cascades, allowed: Collection[str]) -> RemoveStep:
    if step.fate is not Fate.PRUNE:
        return step
    problem = cascades.refusal(step.entry.ref, allowed)
    fate = Fate.PRUNE if problem is None else Fate.REFUSE
    return replace(step, fate=fate, problem=problem)


_GENEROUS = options_of(
    allow_empty=True,
    max_prune=PruneLimit(_COUNT, 0.0),
    allow_kinds=frozenset({"namespace", "persistentvolumeclaim", "statefulset"}),
    allow_cascade=frozenset({_NAMESPACE.entry.ref.short}),
)
LIFTED = check_guards(_guarded(_GENEROUS, _CASCADES))
"""Every guard that an option lifts is lifted; the others pass."""
_CONTAINING = frozenset({replace(wanted("inside").ref, namespace="yellow")})
WRONG = _guarded(
    options_of(orphan=frozenset({"configmap/kep"})),
    replace(_CASCADES, desired={_OTHER_NAMESPACE.entry.ref: _CONTAINING}),
)
"""A prune that every guard refuses."""
_RESTORED = restored_problem(inventory())
_UNAPPROVED = with_approval(
    Plan((), REMOVALS),
    TARGET,
    options_of(approved=f"sha256:{'e' * 64}"),
    deletions=f"sha256:{'d' * 64}",
)
REFUSALS = (
    *check_guards(WRONG),
    *_UNAPPROVED.guards,
    GuardResult(Guard.RESTORED_INVENTORY, GuardVerdict.REFUSED, _RESTORED.reason),
)


def refused_by(*guards: Guard) -> Plan:
    """Return the plan that these guards refuse, with the problem of the whole prune."""
    results = tuple(result for result in REFUSALS if result.guard in guards)
    restored = Guard.RESTORED_INVENTORY in guards
    elsewhere = {
        Guard.RESTORED_INVENTORY: _RESTORED,
        Guard.APPROVED_DELETIONS: _UNAPPROVED.refusal,
    }
    problem = elsewhere.get(guards[0]) or refusal_of(WRONG, results)
    refused = replace(ALLOWED, guards=results, refusal=problem, restored=restored, records=())
    return replace(refused, no_prune="prune refused")


ALLOWED = Plan(
    APPLIES,
    (*with_waits(REMOVALS, APPLIES), _USED),
    guards=LIFTED,
    consequences=CONSEQUENCES,
    records=RECORDS,
    deletions=f"sha256:{'d' * 64}",
    digest=f"sha256:{'a' * 64}",
    warnings=(no_wait_warning(wait_reason(with_waits(REMOVALS, APPLIES), "before")), MISSING),
)


def _conflict(one: Desired) -> Problem:
    cause = {
        "reason": "FieldManagerConflict",
        "field": ".spec.replicas",
        "message": 'conflict with "hpa" using apps/v1 at 2026-11-21T10:00:00Z',
    }
    error = Conflict("Apply failed with 1 conflict", code=409, causes=[cause])
    there = live(one.ref, full={"spec": {"replicas": 5}})
    return explain_conflict(error, one, there, TARGET, reverts=False)


def _fault(one: Desired, *faults: FieldFault) -> ApplyStep:
    return _refused(one, fields_problem(one, faults))


def _refused(one: Desired, problem: Problem, **parts: Any) -> ApplyStep:
    there = live(one.ref)
    return ApplyStep(one, Fate.REFUSE, recorded(one, there), there, problem=problem, **parts)


def _planned(one: Desired, state: State) -> ApplyStep:
    """Return what is decided about an object of the input."""
    snapshot = cluster({one.ref: state})
    (step,) = make_plan(world([one], inventory(), snapshot, Options())).applies
    return step


def _left(name: str, kind: str, state: State) -> RemoveStep:
    """Return what is decided about an entry that has left the set."""
    one = wanted(name, kind)
    entry = recorded(one, live(one.ref), ownership=Ownership.OWNED)
    snapshot = cluster({one.ref: state})
    return remove_step(entry, world((), inventory(entry), snapshot, options_of(mode=Mode.APPLY)))


_SCALED = wanted("scaled", "Deployment", line=40, spec={"replicas": 3})
_TAKEN = wanted("taken", line=30)
_OTHERS = managed("applyprune/shop/web")
_TYPED = wanted("typed", "Deployment", line=60)
_UNREADABLE = Problem(
    ProblemKind.FORBIDDEN,
    'jobs.batch cannot be read: User "ci" cannot list resource "jobs" in API group "batch"',
    exit_code=7,
)
_NOT_STORED = Problem(
    ProblemKind.INVALID,
    f"{_CRD.desired.ref}: status.storedVersions[0]: v1 must appear in spec.versions",
    str(_CRD.desired.origin),
    origin=_CRD.desired.origin,
    exit_code=7,
)
FAULTS = (
    _refused(_CRD.desired, _NOT_STORED),
    _refused(_SCALED, _conflict(_SCALED)),
    _fault(wanted("one", line=20), FieldFault(("dat",), UNKNOWN, ("binaryData", "data"))),
    _fault(
        _TYPED,
        FieldFault(("spec", "replicas"), "expected integer, got string"),
        FieldFault(("spec", "templte"), UNKNOWN, ("template",)),
    ),
    _planned(_TAKEN, live(_TAKEN.ref, label="applyset-other-v1", entries=[_OTHERS])),
    _planned(wanted("unread", "Job", line=50), Unknown(_UNREADABLE)),
)
"""Everything that can be wrong with an object of the input."""
_STRANGE = {
    "forgotten": live(wanted("forgotten").ref, label=""),
    "recreated": live(wanted("recreated").ref, uid="u9"),
}
DOUBTS = (
    *(_left(name, "ConfigMap", state) for name, state in _STRANGE.items()),
    _left("unknown", "Job", NotListed()),
)
"""Everything that can be wrong with an object that has left the set."""


def _settled(plan: Plan) -> Plan:
    """Return a plan with what follows from its steps."""
    found = settled(plan.applies, plan.removals, plan.refusal, Options())
    return replace(plan, no_prune=found[0], applies=found[1], removals=found[2])


REFUSED = _settled(
    replace(
        refused_by(*(result.guard for result in check_guards(WRONG))),
        applies=(*FAULTS, *APPLIES[2:]),
        removals=(*DOUBTS, *hinted(WRONG)),
        warnings=(MISSING,),
    )
)

DELETION = replace(
    ALLOWED,
    applies=(),
    removals=(*DOUBTS, *REMOVALS),
    guards=(),
    consequences=tuple(
        caused for caused in CONSEQUENCES if caused.ref in {step.entry.ref for step in REMOVALS}
    ),
    warnings=(),
    records=(),
)
"""The deletion of the whole set; some of its objects cannot be deleted."""
