"""What a prune waits for: what a live Pod uses is not deleted, and nothing else is waited for.

What Pods name is kept while one of them does; if a rollout of the set ends that, the run waits for
it. Before anything else that may be in use goes, what may take its place must be ready: what has
changed since a run last saw it ready, and the workloads behind the same Service or route.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec import field as struct_field

from applyprune.model.events import Status
from applyprune.model.fate import Fate
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    HOLDERS,
    JOB,
    POD,
    REPLICATION_CONTROLLER,
    SERVICE,
    STATEFUL_SET,
    Trait,
    kinds_with,
)
from applyprune.model.live import field, mapping, text
from applyprune.model.options import Mode, Options, WaitMode
from applyprune.model.plan import ApplyRule, ApplyStep, Cause, Desired, Plan, PruneWait, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted
from applyprune.planning.order import is_built_in
from applyprune.planning.pods import controller_of
from applyprune.planning.readiness import Wait, has_completed
from applyprune.planning.references import names_in, pod_template, references, texts_in
from applyprune.planning.uids import is_among, uid_in, uid_of, uids_of
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.events import Readiness
    from applyprune.model.inventory import Inventory
    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity

    Labels = Mapping[str, str]
    Controllers = Mapping[str, tuple[Ref, str] | None]
    """By the UID of a ReplicaSet: its controller, with its UID; None if it has none."""
    _Route = tuple[Ref, Sequence[tuple[str, Labels]]]
    """A Service or a route, with the namespaces and selectors of the Services behind it."""

_SHOWN = 3
_NAMED = 10
_WORKLOAD_GROUPS = frozenset({"apps", "batch"})
_NAMED_BY_PODS = kinds_with(Trait.NAMED_BY_PODS)
"""The kinds that Pods name in their own namespace."""
_MAY_BE_USED = _NAMED_BY_PODS | kinds_with(Trait.NAMED_BY_ALL_PODS) | HOLDERS
_WITH_BACKENDS = kinds_with(Trait.HAS_BACKEND)


def is_workload(kind: GroupKind) -> bool:
    """Return whether a built-in kind runs Pods."""
    return kind.group in _WORKLOAD_GROUPS or kind in {POD, REPLICATION_CONTROLLER}


def is_named_by_pods(ref: Ref) -> bool:
    """Return whether Pods of its namespace name such an object."""
    return ref.group_kind in _NAMED_BY_PODS


def needs_pods(ref: Ref) -> bool:
    """Return whether the Pods of its namespace show if an object is in use, or what replaces it."""
    return is_named_by_pods(ref) or _serves(ref.group_kind)


def _serves(kind: GroupKind) -> bool:
    """Return whether clients may use the Pods of a workload; nobody uses those of a Job."""
    return is_workload(kind) and kind.group != JOB.group


def takes_time(desired: Desired) -> bool:
    """Return whether a change of an object takes effect only when the object is ready."""
    kind = desired.ref.group_kind
    return desired.wait != Wait.SKIP and (
        is_workload(kind)
        or kind == SERVICE
        or not is_built_in(kind.group)
        or bool(desired.ready_when)
    )


# Who uses an object.


class PodUser(Struct, frozen=True):
    """A live Pod, or a ReplicaSet that wants Pods."""

    ref: Ref
    uids: frozenset[str]
    """What it and its controllers are known by, as far as known."""
    root: Ref
    """The last one of its controllers that is known; itself without any."""
    names: frozenset[Ref]
    """The objects that it names."""
    words: frozenset[str]
    """The names of objects that leave the set and stand in any of its texts, as in ``args``."""
    labels: Labels
    """The labels of the Pods."""


class PodUse(Struct, frozen=True):
    """The live Pods of some namespaces, and the ReplicaSets that want Pods."""

    users: tuple[PodUser, ...] = ()
    unread: Mapping[str, str] = struct_field(default_factory=dict)
    """Why the Pods of a namespace could not be read, by the namespace."""
    controllers: Controllers = struct_field(default_factory=dict)
    """The controller of each ReplicaSet."""


NO_PODS = PodUse()


def pod_use(
    pods: Iterable[LiveObject],
    replica_sets: Sequence[LiveObject],
    removed: Collection[str],
    earlier: PodUse = NO_PODS,
) -> PodUse:
    """Return the Pods that have not ended, and the ReplicaSets that want some; all in full.

    ``removed`` has the names of what leaves the set. What ``earlier`` knows of a ReplicaSet counts:
    when a workload is deleted, its ReplicaSets go before their Pods.
    """
    now = {uid_of(live): _controller(live) for live in replica_sets}
    # guard: orphaned-replica-set -> {**now, **earlier.controllers}
    controllers = {**earlier.controllers, **now}
    wanting = (
        live
        for live in replica_sets
        if live.body is not None and field(live.body, "spec", "replicas") != 0
    )
    users = []
    for live in (*pods, *wanting):
        body = live.body or {}
        if live.terminating or text(body, "status", "phase") in {"Succeeded", "Failed"}:
            continue
        root, uids, owner = live.ref, {uid_of(live)}, _controller(live)
        while owner is not None and owner[1] not in uids:
            root = owner[0]
            uids.add(owner[1])
            owner = controllers.get(owner[1])
        template = body if live.ref.group_kind == POD else pod_template(live.ref.group_kind, body)
        labels = mapping(field(template, "metadata", "labels"))
        names = frozenset(one.ref for one in references(live.ref, body))
        words = _words_in(template.get("spec")) & frozenset(removed)
        users.append(PodUser(live.ref, frozenset(uids), root, names, words, labels))
    return PodUse(tuple(users), controllers=controllers)


_BETWEEN_WORDS = pattern(r"[\s/:=,;\"']+")


def _words_in(value: object) -> frozenset[str]:
    return frozenset(word for one in texts_in(value) for word in _BETWEEN_WORDS.split(one))


def _controller(live: LiveObject) -> tuple[Ref, str] | None:
    """Return the controller of an object, with what it is known by; None if it has none."""
    if not (owner := controller_of({"metadata": live.metadata})):
        return None
    kind = GVK.parse(text(owner, "apiVersion"), text(owner, "kind")).group_kind
    ref = Ref(kind.group, kind.kind, live.ref.namespace, text(owner, "name"))
    return ref, uid_in(ref.group, text(owner, "uid"))


# What is kept because a live Pod uses it.


def heeds_pods(options: Options) -> bool:
    """Return whether a run looks for live Pods that use what it deletes; ``delete`` is explicit."""
    return options.mode in {Mode.APPLY, Mode.PRUNE}


def used_stays(options: Options) -> bool:
    """Return whether what live Pods use is kept; with ``--no-wait`` there is only a warning."""
    return heeds_pods(options) and options.wait.mode is not WaitMode.NONE


def unless_used(
    steps: Sequence[RemoveStep],
    use: PodUse,
    desired: Iterable[Desired],
    options: Options,
    going: Collection[str] = (),
) -> Sequence[RemoveStep]:
    """Return the steps; what a live Pod uses is kept, or waits for the rollout that ends that.

    ``going`` has the UIDs of all that the run deletes; by default that is what these steps delete.
    """
    if not heeds_pods(options):
        return steps
    going = going or uids_of(
        step.live for step in steps if step.fate is Fate.PRUNE and step.live is not None
    )
    rolls = options.mode is Mode.APPLY
    members = {member.ref: member for member in desired} if rolls else {}
    return [_unless_used(one, use, members, going, stays=used_stays(options)) for one in steps]


def _unless_used(
    step: RemoveStep,
    use: PodUse,
    members: Mapping[Ref, Desired],
    going: Collection[str],
    *,
    stays: bool,
) -> RemoveStep:
    ref = step.entry.ref
    if step.fate is not Fate.PRUNE or step.is_going or not needs_pods(ref):
        return step
    if ref.namespace in use.unread:
        return replace(step, pods_unread=use.unread[ref.namespace])
    if _serves(ref.group_kind):
        live = step.live
        own = [user.labels for user in use.users if live is not None and is_among(live, user.uids)]
        return replace(step, pod_labels=tuple(own))
    users = [user for user in use.users if ref in user.names and user.uids.isdisjoint(going)]
    rollouts: dict[Ref, None] = {}
    for user in users:
        member = members.get(user.root)
        ends = member is not None and _rolls_out(member) and ref not in _names_of(member, ref)
        if stays and not ends:  # guard: used-by-a-live-pod never
            return _stays_in_use(step, users)
        rollouts[user.root] = None
    for user in use.users:
        # It may read the object by the API. A name may be there by chance, but then it stays there.
        member = members.get(user.root) if ref.name in user.words else None
        if member is None or user.ref.namespace != ref.namespace or ref in user.names:
            continue
        if not user.uids.isdisjoint(going) or ref.name in _words_in(member.body):
            continue
        if stays and not _rolls_out(member):
            return _stays_in_use(step, [user])
        rollouts[user.root] = None  # guard: named-in-a-text
    return replace(step, rollouts=tuple(rollouts))


def _stays_in_use(step: RemoveStep, users: Sequence[PodUser]) -> RemoveStep:
    """Return the step of an object that is not deleted, because live Pods use it."""
    pods = [user for user in users if user.ref.group_kind == POD] or users
    verb = "uses" if len(pods) == 1 else "use"
    reason = f"{and_more([user.ref.short for user in pods], _SHOWN)} still {verb} it"
    return replace(step, fate=Fate.LEAVE, reason=reason, cause=Cause.IN_USE, request=None)


def _rolls_out(member: Desired) -> bool:
    """Return whether a workload replaces its Pods by itself when its template changes."""
    kind, spec = member.ref.group_kind, mapping(member.body.get("spec"))
    if member.apply is not ApplyRule.ALWAYS:
        return False
    if kind == DEPLOYMENT:
        return spec.get("paused") is not True
    if kind in {STATEFUL_SET, DAEMON_SET}:
        strategy = mapping(spec.get("updateStrategy"))
        partition = field(strategy, "rollingUpdate", "partition")
        return strategy.get("type") != "OnDelete" and partition in {None, 0}
    return not is_built_in(kind.group)


def _names_of(member: Desired, ref: Ref) -> Collection[Ref]:
    """Return what a workload of the input names; of a custom one, as far as words show."""
    if is_built_in(member.ref.group):
        return {one.ref for one in references(member.ref, member.body)}
    return set(names_in(member.ref, member.body, (ref,)))


# What must be ready first.


def with_waits(
    removals: Sequence[RemoveStep], applies: Sequence[ApplyStep]
) -> tuple[RemoveStep, ...]:
    """Return the steps, each with what must be ready before its object is deleted.

    A run that applies nothing waits for nothing.
    """
    if not any(step.waits_for or step.fate is Fate.PRUNE for step in removals):
        return tuple(removals)
    changed = [step for step in applies if _may_be_unready(step)]
    members = [step.desired for step in applies]
    routes = _routes(members) if any(step.pod_labels for step in removals) else ()

    def waits(step: RemoveStep) -> tuple[PruneWait, ...]:
        if not applies or step.fate is not Fate.PRUNE or step.is_going:
            return ()
        found = dict.fromkeys(step.rollouts, "old Pods use it")
        for one in _candidates(step, changed):
            why = "new" if one.fate is Fate.CREATE else "changed since last ready"
            found.setdefault(one.desired.ref, why)
        for ref, why in _related(step, members, routes):
            found.setdefault(ref, why)
        return tuple(PruneWait(ref, why) for ref, why in found.items())

    return tuple(replace(step, waits_for=waits(step)) for step in removals)


def _candidates(step: RemoveStep, changed: Sequence[ApplyStep]) -> Iterable[ApplyStep]:
    """Return those of what has changed that may take the place of an object, or still need it."""
    kind = step.entry.ref.group_kind
    if kind == JOB and step.live is not None and has_completed(step.live):
        return ()  # it uses nothing
    if kind in _NAMED_BY_PODS and not step.pods_unread:
        # An operator may read it, for a custom resource that is as it was.
        return [one for one in changed if not is_built_in(one.desired.ref.group)]
    if kind == SERVICE:
        return changed
    if kind not in _MAY_BE_USED and not is_workload(kind) and is_built_in(kind.group):
        return ()
    return [
        one
        for one in changed
        if one.desired.ref.group_kind != SERVICE or bool(one.desired.ready_when)
    ]


def _may_be_unready(step: ApplyStep) -> bool:
    """Return whether an object has changed, or will, since a run last saw it ready."""
    if step.fate.is_applied:
        return takes_time(step.desired)
    # A Job that its TTL has removed uses nothing.
    return step.entry.changed and step.live is not None


def _related(
    step: RemoveStep, members: Sequence[Desired], routes: Sequence[_Route]
) -> Iterator[tuple[Ref, str]]:
    """Yield what serves the same clients as a workload, or names what Pods may name."""
    ref = step.entry.ref
    if is_named_by_pods(ref):
        for member in members:
            custom = not is_built_in(member.ref.group)
            if custom and ref in names_in(member.ref, member.body, (ref,)):
                yield member.ref, "names it"
        return
    for member in members if step.pod_labels else ():
        near = member.ref.namespace == ref.namespace and is_workload(member.ref.group_kind)
        if near and (why := _stands_for(member, step.pod_labels, routes)):
            yield member.ref, why


def _stands_for(member: Desired, others: Sequence[Labels], routes: Sequence[_Route]) -> str:
    """Return why a workload stands for Pods with other labels; empty if it does not."""
    template = pod_template(member.ref.group_kind, member.body)
    own = mapping(field(template, "metadata", "labels"))
    selector = mapping(field(member.body, "spec", "selector", "matchLabels"))
    if selector and any(selector.items() <= labels.items() for labels in others):
        return "selects its Pods"
    for route, services in routes:
        here = [one for place, one in services if place == member.ref.namespace]
        if any(one.items() <= own.items() for one in here) and any(
            one.items() <= labels.items() for one in here for labels in others
        ):
            return f"{route.short} leads to both"
    return ""


def _routes(members: Sequence[Desired]) -> Sequence[_Route]:
    """Return the Services of an input, then the routes that lead to several of them."""
    services = {
        one.ref: (one.ref.namespace, selector)
        for one in members
        if one.ref.group_kind == SERVICE
        and (selector := mapping(field(one.body, "spec", "selector")))
    }
    routes = [(ref, [found]) for ref, found in services.items()]
    for one in members if services else ():
        if one.ref.group_kind != SERVICE and not is_workload(one.ref.group_kind):
            named = {found.ref for found in references(one.ref, one.body)} & services.keys()
            if len(named) > 1:
                routes.append((one.ref, [services[ref] for ref in sorted(named)]))
    return routes


def unless_unready(step: RemoveStep, unready: Collection[Ref]) -> RemoveStep:
    """Return the step as it is when the waits are over: left, if one of them was in vain."""
    held = [wait for wait in step.waits_for if wait.ref in unready]
    if not held or step.fate is not Fate.PRUNE:
        return step
    reason = and_more([f"{one.ref.short} is not ready ({one.reason})" for one in held], _SHOWN)
    return replace(step, fate=Fate.LEAVE, reason=reason, request=None)


# What is not ready, and is not waited for.


def kinds_to_judge(
    desired: Sequence[Desired], inventory: Inventory, options: Options
) -> frozenset[GroupKind]:
    """Return the kinds to read in full, so that the plan knows what is not ready; usually none.

    Custom resources are left out: they may be many and large.
    """
    wanted = {member.ref for member in desired}
    if not _names_unready(options) or inventory.entries.keys() <= wanted:
        return frozenset()
    kinds = {ref.group_kind for ref in wanted & inventory.entries.keys()}
    return frozenset(kind for kind in kinds if is_workload(kind) or kind in _WITH_BACKENDS)


def unready_problem(
    plan: Plan,
    applyset: ApplySetIdentity,
    options: Options,
    state_of: Callable[[ApplyStep], Readiness | None],
) -> Problem | None:
    """Return a warning that names what was not ready already and holds up no deletion.

    What the run is about to change is left out: nobody expects that to be ready.
    """
    prunes = any(step.fate is Fate.PRUNE and not step.is_going for step in plan.removals)
    if not prunes or plan.no_prune or not _names_unready(options):
        return None
    found = [
        step.desired.ref.short
        for step in plan.applies
        if not (step.fate.is_applied or step.desired.is_outside)
        and step.cause is not Cause.LEAVE_MARK
        and step.desired.ref not in plan.waits_for
        and (state := state_of(step)) is not None
        and state.status is not Status.CURRENT
    ]
    if not found:
        return None
    them = "it" if len(found) == 1 else "them"
    return Problem(
        ProblemKind.NOT_READY,
        f"{counted(len(found), 'object', 'is', 'are')} not ready, and the prune does not wait for "
        f"{them}",
        reason=and_more(found, _NAMED),
        hint=f"See: applyprune status {applyset.arguments}",
    )


def _names_unready(options: Options) -> bool:
    """Return whether a run prunes while something else may not be ready."""
    prunes = options.prune.enabled and not options.applies_part
    return options.mode is Mode.APPLY and prunes and options.wait.mode is not WaitMode.ALL


# In words.


def no_wait_warning(reason: str) -> Problem:
    """Return the warning that a run with ``--no-wait`` prunes what may still be in use."""
    return Problem(
        ProblemKind.NO_WAIT,
        "--no-wait: this run prunes at once what may still be in use",
        reason=reason,
    )
