"""What a plan causes beyond the changes of the objects themselves.

What must be read for that is at most one LIST for each kind and namespace.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from applyprune.model.fate import Fate
from applyprune.model.fieldset import MISSING, FieldSet, Path, Writer, to_server, value_at
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.kinds import (
    CLAIM,
    CONFIG_MAP,
    CRD,
    DAEMON_SET,
    DEPLOYMENT,
    HOLDERS,
    POD,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    VOLUME,
    Trait,
    kinds_with,
    row_of,
)
from applyprune.model.live import LiveObject, Resource, count, field, items, mapping, text
from applyprune.model.options import Propagation
from applyprune.model.plan import ApplyStep, Consequence, ConsequenceKind, Desired, Plan, RemoveStep
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import (
    LAST_APPLIED,
    OWNED_BY,
    PART_OF,
    WANTED,
    yielded_manager,
)
from applyprune.planning.cascade import (
    NOTHING,
    children_of,
    collected,
    is_generated,
)
from applyprune.planning.field_writers import is_by_hand, is_kubernetes
from applyprune.planning.managed_fields import FORMER, manager_by_label
from applyprune.planning.normalize import REPLICAS, body_to_send
from applyprune.planning.order import is_built_in
from applyprune.planning.ownership import has_values
from applyprune.planning.recovery import CascadeContents, ClusterSnapshot
from applyprune.planning.references import Reading, Way, pod_template, readings
from applyprune.values import dataclass
from applyprune.values import field as dataclass_field


def consequences(facts: Facts) -> tuple[Consequence, ...]:
    """Return what a plan causes, as far as the facts show it; nothing else is said."""
    if not facts.has_changes:
        return ()
    found: defaultdict[Ref, list[Consequence]] = defaultdict(list)
    restarting = {change.ref for change in facts.changes if change.fate is Fate.CREATE}
    for change in facts.changes:
        for caused in rollout(change, facts.propagation):
            found[change.ref].append(caused)
            if replaces_all(change, caused):
                restarting.add(change.ref)
        found[change.ref] += scaling(change)
    changed = [change for change in facts.changes if may_change_values(change)]
    readers = readers_of(facts.wanted) if changed else {}
    for change in changed:
        found[change.ref] += read_values(change, readers, restarting)
    for caused in no_pods(facts):
        found[caused.ref].append(caused)
    for change in facts.changes:
        found[change.ref] += switched(change, facts)
    for change in facts.changes:
        found[change.ref] += cascades(change, facts)
        found[change.ref] += volumes(change, facts)
        found[change.ref] += stored_versions(change)
        found[change.ref] += kept_fields(change)
        found[change.ref] += lost_fields(change)
    return tuple(
        caused
        for ref in dict.fromkeys(change.ref for change in facts.changes)
        for caused in found[ref]
    )


# What is known: the changes of a plan, and what was read. Without a check by the server, a
# consequence only says what may happen: defaults and webhooks are known to the server alone.


WORKLOADS = kinds_with(Trait.KEEPS_PODS)
"""The kinds that keep a number of Pods running."""
READABLE = kinds_with(Trait.READ_BY_PODS)
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One object of a plan, and what is known of its states."""

    ref: Ref
    fate: Fate
    desired: Desired | None = None
    """The manifest; None if the object has left the set."""
    live: LiveObject | None = None
    """The live object; None if there is none."""
    after: Mapping[str, Any] | None = dataclass_field(default=None, hash=False, repr=False)
    """The object after the apply, by a dry run on the server; None if that was not asked."""
    managers: frozenset[str] = frozenset()
    """The field managers whose fields the apply owns: what it no longer names, it removes."""
    taken: frozenset[str] = frozenset()
    """Those of them that lose their fields to the set."""

    @property
    def kind(self) -> GroupKind:
        return self.ref.group_kind

    @property
    def before(self) -> Mapping[str, Any] | None:
        """Return the live object; None if it does not exist or was not read in full."""
        return self.live.body if self.live is not None else None

    @property
    def uid(self) -> str:
        return self.live.uid if self.live is not None else ""

    @property
    def is_changed(self) -> bool:
        """Return whether an existing object gets another content."""
        return self.fate in {Fate.CHANGE, Fate.ADOPT}

    @property
    def is_deleted(self) -> bool:
        """Return whether the live object is deleted, perhaps to be created again."""
        return self.fate in {Fate.PRUNE, Fate.RECREATE}

    @property
    def certain(self) -> bool:
        """Return whether it is known how the object changes."""
        return self.after is not None or not self.is_changed

    def value(self, *path: str) -> Any:
        """Return a value as it will be, as far as that is known."""
        if self.after is not None:
            return field(self.after, *path)
        wanted = field(self.desired.body, *path) if self.desired is not None else None
        if wanted is None and self.before is not None and self.is_changed:
            return field(self.before, *path)
        return wanted

    def differs(self, *path: str) -> bool:
        """Return whether the value at a path changes, or may change; ``before`` is known."""
        before = field(self.before or {}, *path)
        if self.after is not None:
            return bool(field(self.after, *path) != before)
        if self.desired is None:
            return False
        wanted = field(body_to_send(self.desired), *path)
        return (wanted is not None and not has_values(wanted, before)) or any(self.removed(*path))

    def removed(self, *path: str) -> Iterator[Path]:
        """Yield the fields below a path that the apply removes: nobody else owns them."""
        if self.live is None or self.desired is None:
            return
        ours: list[FieldSet] = []
        others: list[FieldSet] = []
        for one in self.live.writers:
            is_ours = one.manager in self.managers and not one.subresource
            (ours if is_ours else others).append(one.fields)
        wanted = body_to_send(self.desired)
        for fields in ours:
            for found in fields.leaves():
                if found[: len(path)] != path or value_at(wanted, found) is not MISSING:
                    continue
                if not any(found in other for other in others):
                    yield found


@dataclass(frozen=True, slots=True)
class ConsequenceReads:
    """What was read besides the plan: objects by their kind, and why a kind could not be read."""

    objects: Mapping[GroupKind, Sequence[LiveObject]] = dataclass_field(
        default_factory=dict, hash=False
    )
    failures: Mapping[GroupKind, str] = dataclass_field(default_factory=dict, hash=False)
    bodies: Mapping[Ref, LiveObject] = dataclass_field(default_factory=dict, hash=False)
    """Objects of the plan, in full."""
    full: frozenset[GroupKind] = frozenset()
    """The kinds of ``bodies`` that were requested, with or without success."""

    def was_read(self, kind: GroupKind) -> bool:
        """Return whether a kind was requested, with or without success."""
        return kind in self.objects or kind in self.failures

    def of(self, kind: GroupKind) -> Sequence[LiveObject]:
        return self.objects.get(kind, ())


@dataclass(frozen=True)
class Facts:
    """Everything that decides the consequences of a plan."""

    changes: Sequence[Change]
    """Every object of the input, and every object that is deleted, in the order of the plan."""
    contents: Mapping[Ref, CascadeContents] = dataclass_field(default_factory=dict, hash=False)
    """The contents of each Namespace and CRD that has left the set."""
    kinds: Mapping[GroupKind, Resource] = dataclass_field(default_factory=dict, hash=False)
    """The endpoint of each kind that the server serves."""
    propagation: Propagation = Propagation.BACKGROUND
    related: ConsequenceReads = ConsequenceReads()
    dependants: Mapping[Ref, CascadeContents] = dataclass_field(default_factory=dict, hash=False)
    """What the garbage collector deletes with each deleted object, of the guarded kinds."""

    @cached_property
    def has_changes(self) -> bool:
        """Return whether the plan changes, or cannot change, any object."""
        return any(change.fate is not Fate.LEAVE for change in self.changes)

    @cached_property
    def deleted(self) -> frozenset[str]:
        """Return the UIDs of all objects that the plan deletes itself, and does not create."""
        return frozenset(
            change.uid for change in self.changes if change.fate is Fate.PRUNE and change.uid
        )

    @cached_property
    def children(self) -> Mapping[str, Sequence[LiveObject]]:
        """Return the objects that were read by the UID of each of their owners."""
        return children_of(live for objects in self.related.objects.values() for live in objects)

    @cached_property
    def volumes(self) -> Mapping[str, LiveObject]:
        """Return the volumes that were read by the UID of the claim that each is bound to."""
        return {
            uid: live
            for live in self.related.of(VOLUME)
            if (uid := text(live.body or {}, "spec", "claimRef", "uid"))
        }

    def owned_by(self, uids: Iterable[str]) -> Mapping[str, LiveObject]:
        """Return by UID what is deleted with some objects: nothing else owns it, at any depth.

        The garbage collector deletes an object when none of its owners is left.
        """
        return collected(self.children, uids, self.deleted)

    @cached_property
    def wanted(self) -> Sequence[Desired]:
        return [change.desired for change in self.changes if change.desired is not None]


def facts_of(
    plan: Plan,
    *,
    manager: str,
    snapshot: ClusterSnapshot,
    kinds: Mapping[GroupKind, Resource],
    propagation: Propagation,
    states: Mapping[Ref, tuple[LiveObject | None, Mapping[str, Any] | None]],
    related: ConsequenceReads,
) -> Facts:
    """Return the facts about a plan.

    ``states`` are the states before and after of the objects that a dry run on the server has
    checked. A prune that a guard refuses counts as well: the user may approve it.
    """

    def change(step: ApplyStep) -> Change:
        ref = step.desired.ref
        before, after = states.get(ref, (None, None))
        live = before or related.bodies.get(ref) or step.live
        taken = step.migration.whole_managers
        if live is not None and step.fate is Fate.ADOPT:
            taken |= {manager_by_label(live)}  # the set that has it until now
        taken -= {"", manager}
        return Change(ref, step.fate, step.desired, live, after, taken | {manager}, taken)

    def removal(step: RemoveStep) -> Change:
        ref = step.entry.ref
        before, _ = states.get(ref, (None, None))
        live = before or related.bodies.get(ref) or step.live
        return Change(ref, step.fate, None, live, managers=frozenset({manager}))

    pruned: Iterable[RemoveStep] = plan.removals
    if plan.no_prune and plan.refusal is None:
        pruned = ()
    changes = [
        *map(change, plan.applies),
        *(removal(step) for step in pruned if step.fate is Fate.PRUNE),
    ]
    return Facts(changes, snapshot.contents, kinds, propagation, related, snapshot.dependants)


# What must be read.


@dataclass(frozen=True, slots=True)
class Listing:
    resource: Resource
    namespaces: frozenset[str] = frozenset()
    """The namespaces concerned; empty for a kind without namespaces."""
    selector: str = ""
    """A label of all objects concerned: ``key`` or ``key=value``; empty if they share none."""
    full: bool = False
    """Whether the bodies are needed, not only the metadata."""
    is_plan: bool = False
    """Whether these are objects of the plan itself, which the plan has not read in full."""


def listings(facts: Facts, set_id: str) -> tuple[Listing, ...]:
    """Return what to read next; nothing if all is known. Later reads may depend on earlier ones.

    A Secret is never read for this.
    """
    if not facts.has_changes:
        return ()
    if bodies := tuple(_bodies(facts, set_id)):
        return bodies
    related = {
        kind: listing
        for kind, listing in _related(facts).items()
        if not facts.related.was_read(kind)
    }
    return tuple(listing for _, listing in sorted(related.items()))


def _bodies(facts: Facts, set_id: str) -> Iterator[Listing]:
    """Yield the kinds whose live objects decide, and were only read as metadata."""
    unread: dict[GroupKind, list[Change]] = {}
    readers = None
    for change in facts.changes:
        kind = change.kind
        if kind in facts.related.full or change.live is None or change.before is not None:
            continue
        if kind == CONFIG_MAP and may_change_values(change):
            readers = readers_of(facts.wanted) if readers is None else readers
            needed = change.ref in readers
        else:
            needed = (
                (kind in WORKLOADS and (change.is_changed or change.fate is Fate.RECREATE))
                or may_lose_versions(change)
                or (kind == STATEFUL_SET and change.fate is Fate.PRUNE)
            )
        if needed:
            unread.setdefault(kind, []).append(change)
    for kind, changes in sorted(unread.items()):
        if kind not in facts.kinds:
            continue
        # An adopted object has no label of the set yet.
        labelled = all(change.fate is not Fate.ADOPT for change in changes)
        yield Listing(
            facts.kinds[kind],
            frozenset(change.ref.namespace for change in changes if change.ref.namespace),
            f"{PART_OF}={set_id}" if labelled else "",
            full=True,
            is_plan=True,
        )


def _related(facts: Facts) -> Mapping[GroupKind, Listing]:
    """Return what must be listed besides the objects of the plan, by its kind."""
    wanted: dict[GroupKind, set[str]] = {}
    for change in facts.changes:
        for kind in dependent_kinds(change, facts.kinds):
            resource = facts.kinds.get(kind)
            if resource is not None and resource.namespaced:
                wanted.setdefault(kind, set()).add(change.ref.namespace)
    selector = ""
    if services := without_template(facts):
        selector = "" if POD in wanted else _common(services.values())
        wanted.setdefault(POD, set()).update(ref.namespace for ref in services)
        # Only the ReplicaSets of a Deployment show which Pods stay.
        if any(
            change.kind == DEPLOYMENT and (change.is_deleted or change.is_changed)
            for change in facts.changes
        ):
            wanted.setdefault(REPLICA_SET, set()).update(ref.namespace for ref in services)
    found = {
        kind: Listing(facts.kinds[kind], frozenset(namespaces), selector if kind == POD else "")
        for kind, namespaces in wanted.items()
        if kind in facts.kinds
    }
    if any(deleted_claims(change, facts) for change in facts.changes) and VOLUME in facts.kinds:
        # Only its body names the claim that it is bound to.
        found[VOLUME] = Listing(facts.kinds[VOLUME], full=True)
    return found


def _common(selectors: Iterable[Labels]) -> str:
    """Return the selector of one label that matches every Pod of ``selectors``; empty if none."""
    first, *others = selectors
    for key, value in sorted(first.items()):
        if all(other.get(key) == value for other in others):
            return f"{key}={value}"
    return next((key for key in sorted(first) if all(key in other for other in others)), "")


# What happens to the Pods of a workload whose template changes.


def rollout(change: Change, propagation: Propagation) -> Iterator[Consequence]:
    """Yield what happens to the Pods of a workload; nothing if it has none."""
    pods = pod_count(change)
    if change.kind not in WORKLOADS or pods == 0 or change.value("spec", "replicas") == 0:
        return
    if change.fate is Fate.RECREATE and propagation is not Propagation.ORPHAN:
        yield _restart(change, pods)
    elif change.is_changed and pods is not None:
        yield from _pod_changes(change, pods)


def _pod_changes(change: Change, pods: int) -> Iterator[Consequence]:
    resumed = _is_resumed(change)
    if not (resumed or changes_template(change)):
        return
    strategy = row_of(change.kind).strategy
    way = change.value("spec", strategy, "type")
    if not strategy or (way == "OnDelete" and change.kind != DEPLOYMENT):
        yield _later(change, ConsequenceKind.ON_DELETE, pods, "when they are deleted")
    elif change.kind == DEPLOYMENT and change.value("spec", "paused") is True:
        yield _later(change, ConsequenceKind.PAUSED, pods, "when the rollout is resumed")
    elif change.kind == DEPLOYMENT and way == "Recreate":
        yield _restart(change, pods)
    else:
        yield _rollout(change, pods, resumed=resumed)


def _is_resumed(change: Change) -> bool:
    """Return whether a paused Deployment, with Pods of an older template, continues."""
    before = change.before or {}
    if change.kind != DEPLOYMENT or field(before, "spec", "paused") is not True:
        return False
    is_paused = change.value("spec", "paused") is True and not any(change.removed("spec", "paused"))
    return not is_paused and count(before, "status", "updatedReplicas") < count(
        before, "status", "replicas"
    )


def _restart(change: Change, pods: int | None) -> Consequence:
    who = "its Pods" if pods is None else counted(pods, "Pod")
    verbs = "stops, then starts" if pods == 1 else "stop, then start"
    if not change.certain:
        verbs = "may stop, then start"
    kind = ConsequenceKind.RESTART
    return Consequence(kind, change.ref, f"{who} {verbs}", pods, certain=change.certain)


def _rollout(change: Change, pods: int, *, resumed: bool) -> Consequence:
    partition = 0
    if change.kind == STATEFUL_SET:
        found = change.value("spec", "updateStrategy", "rollingUpdate", "partition")
        partition = found if isinstance(found, int) else 0
    reached = max(0, pods - partition)
    if not reached:
        until = f"when the partition is lowered from {partition}"
        return _later(change, ConsequenceKind.PAUSED, pods, until)
    words = counted(pods, "Pod")
    if reached < pods:
        words = f"{reached} of {words} (partition {partition})"
    word = "rollout" if change.certain else "may roll out"
    end = ", no longer paused" if resumed else ""
    return Consequence(
        ConsequenceKind.ROLLOUT,
        change.ref,
        f"{word}, {words}{end}",
        reached,
        certain=change.certain,
    )


def _later(change: Change, kind: ConsequenceKind, pods: int, until: str) -> Consequence:
    verb = "change" if change.certain else "may change"
    if pods == 1:
        verb = "changes" if change.certain else verb
        until = until.replace("they are", "it is")
    message = f"{counted(pods, 'Pod')} {verb} {until}"
    return Consequence(kind, change.ref, message, pods, certain=change.certain)


def replaces_all(change: Change, caused: Consequence) -> bool:
    """Return whether every Pod of a workload is certain to be replaced."""
    if not caused.certain:
        return False
    if caused.kind is ConsequenceKind.ROLLOUT:
        return caused.count == pod_count(change)
    return caused.kind is ConsequenceKind.RESTART


def changes_template(change: Change) -> bool:
    """Return whether the Pod template of a workload changes, or may change."""
    return change.before is not None and change.differs("spec", "template")


def pod_count(change: Change) -> int | None:
    """Return how many Pods a live workload asks for; None if it was not read in full."""
    if change.before is None:
        return None
    if change.kind == DAEMON_SET:
        return count(change.before, "status", "desiredNumberScheduled")
    return count(change.before, "spec", "replicas", default=1)


# What happens to the replicas that a manifest no longer sets.


def scaling(change: Change) -> Iterator[Consequence]:
    """Yield to how many replicas an object falls back; nothing if an autoscaler sets them."""
    desired = change.desired
    if not change.is_changed or desired is None or REPLICAS in desired.ignored:
        return
    if field(desired.body, "spec", "replicas") is not None:
        return
    before, after = field(change.before or {}, "spec", "replicas"), None
    falls_back = desired.loses_replicas
    if change.before is not None:
        is_removed = REPLICAS in desired.removed or any(change.removed("spec", "replicas"))
        falls_back = is_removed and isinstance(before, int)
    if change.after is not None:
        after = field(change.after, "spec", "replicas")
        falls_back = isinstance(before, int) and after != before
    elif change.kind in WORKLOADS:
        after = 1
    if not falls_back or after == before:
        return
    verb = "scales" if change.certain else "may scale"
    was = f" from {before}" if isinstance(before, int) else ""
    to = "what its controller sets" if after is None else str(after)
    message = f"{verb}{was} to {to}: its manifest does not set replicas"
    number = after if isinstance(after, int) else None
    kind = ConsequenceKind.SCALES
    yield Consequence(kind, change.ref, message, number, certain=change.certain)


# Who reads a changed ConfigMap or Secret, and who keeps the old values.
#
# The kubelet updates mounted files. It sets an environment variable and mounts a `subPath` only
# when a container starts, and it does not watch an immutable object.


_PARTS = ("data", "binaryData")
_SHOWN = 5
# The Pods of a Job run once; the next Job of a CronJob reads the new values.
_RUN_ONCE = kinds_with(Trait.RUNS_ONCE)
_AT_START = (Way.ENVIRONMENT, Way.SUB_PATH)


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """A workload that reads an object, and how."""

    workload: Desired
    reading: Reading


def readers_of(desired: Sequence[Desired]) -> Mapping[Ref, Sequence[ConfigReader]]:
    """Return the readers of each ConfigMap and Secret among the workloads of a set."""
    found: defaultdict[Ref, list[ConfigReader]] = defaultdict(list)
    for member in desired:
        for reading in readings(pod_template(member.ref.group_kind, member.body)):
            kind = GroupKind("", reading.kind)
            if kind in READABLE:
                ref = Ref("", reading.kind, member.ref.namespace, reading.name)
                found[ref].append(ConfigReader(member, reading))
    return found


def may_change_values(change: Change) -> bool:
    """Return whether a live ConfigMap or Secret may get other values."""
    return change.kind in READABLE and (change.is_changed or change.fate is Fate.RECREATE)


def read_values(
    change: Change, readers: Mapping[Ref, Sequence[ConfigReader]], restarting: Collection[Ref]
) -> Iterator[Consequence]:
    """Yield who reads the values that ``may_change_values``, and who keeps the old ones.

    ``restarting`` are the workloads whose Pods all start after the change anyway.
    """
    if change.before is None:
        return
    keys = _changed_keys(change)
    ways: dict[Ref, set[Way]] = {}
    workloads: dict[Ref, Desired] = {}
    for reader in readers.get(change.ref, ()):
        read = reader.reading.keys
        if keys and (read is None or read & keys):
            ways.setdefault(reader.workload.ref, set()).add(reader.reading.way)
            workloads[reader.workload.ref] = reader.workload
    if not ways:
        return
    refs = tuple(sorted(ways))
    names = and_more([ref.short for ref in refs], _SHOWN)
    word = "read by" if change.certain else "may change; read by"
    yield Consequence(
        ConsequenceKind.READ_BY,
        change.ref,
        f"{word} {names}",
        len(refs),
        refs,
        certain=change.certain,
    )
    stale = {
        ref: ", ".join(how)
        for ref in refs
        if ref not in restarting
        and _keeps_running(workloads[ref])
        and (how := _stale_ways(change, ways[ref]))
    }
    if stale:
        yield _old_value(change, stale)


def _changed_keys(change: Change) -> frozenset[str]:
    """Return the keys whose values change, or may change; of a Secret only whether they differ."""
    before = change.before or {}
    after = change.after
    if after is None and change.fate is Fate.RECREATE and change.desired is not None:
        after = change.desired.body
    keys: set[str] = set()
    for part in _PARTS:
        old = mapping(before.get(part))
        if after is not None:
            new = mapping(after.get(part))
            keys |= {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        elif change.desired is not None:
            new = mapping(change.desired.body.get(part))
            keys |= {key for key, value in new.items() if old.get(key) != value}
            keys |= {str(path[1]) for path in change.removed(part) if len(path) > 1}
    return frozenset(keys)


def _keeps_running(workload: Desired) -> bool:
    if workload.ref.group_kind in _RUN_ONCE:
        return False
    return count(workload.body, "spec", "replicas", default=1) > 0


def _stale_ways(change: Change, ways: Collection[Way]) -> Sequence[str]:
    found = [str(way) for way in _AT_START if way in ways]
    is_replaced = change.fate is Fate.RECREATE and field(change.before or {}, "immutable") is True
    if is_replaced and Way.VOLUME in ways:
        found.append("immutable volume")
    return found


def _old_value(change: Change, stale: Mapping[Ref, str]) -> Consequence:
    names = and_more([f"{ref.short} ({how})" for ref, how in stale.items()], _SHOWN)
    pronoun, verb = ("its", "keeps") if len(stale) == 1 else ("their", "keep")
    if not change.certain:
        verb = "may keep"
    return Consequence(
        ConsequenceKind.OLD_VALUE,
        change.ref,
        f"{names} {verb} the old values until {pronoun} Pods restart",
        len(stale),
        tuple(stale),
        certain=change.certain,
    )


# Services whose selector matches no Pod.


_SENT = frozenset({Fate.CREATE, Fate.CHANGE, Fate.ADOPT, Fate.RECREATE})
_HAS_PODS = WORKLOADS | _RUN_ONCE | {POD}


def no_pods(facts: Facts) -> Iterator[Consequence]:
    """Yield each Service whose selector matches no Pod template and no Pod; none if unknown."""
    if not facts.related.was_read(POD):
        return
    failure = facts.related.failures.get(POD, "")
    leaving = _leaving_pods(facts)
    pods = LabelIndex(
        (pod.ref.namespace, pod.labels)
        for pod in facts.related.of(POD)
        if not (pod.terminating or pod.uid in leaving)
    )
    for ref, selector in without_template(facts).items():
        if pods.matches(ref.namespace, selector):
            continue
        words = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        end = f"; {failure}" if failure else " and no Pod in the cluster"
        yield Consequence(
            ConsequenceKind.NO_PODS,
            ref,
            f"its selector {words} matches no Pod template of the set{end}",
            None if failure else 0,
            certain=not failure,
        )


def switched(change: Change, facts: Facts) -> Iterator[Consequence]:
    """Yield that a Service selects no ready Pod until new workloads are: it is changed first."""
    selector, before = selector_of_service(change), change.before
    if not (selector and before is not None and change.is_changed and change.desired):
        return
    if mapping(field(before, "spec", "selector")) == selector:
        return
    matched = [
        (other, other.desired.wave.wave)
        for other in facts.changes
        if other.desired is not None
        and other.kind in _HAS_PODS
        and other.ref.namespace == change.ref.namespace
        and selector.items() <= _labels(other.ref, other.desired.body).items()
    ]
    own = change.desired.wave.wave
    if matched and all(other.fate is Fate.CREATE and wave >= own for other, wave in matched):
        verb = "is" if len(matched) == 1 else "are"
        names = and_more([other.ref.short for other, _ in matched], _SHOWN)
        message = f"its new selector matches no ready Pod until {names} {verb} ready"
        yield Consequence(ConsequenceKind.NO_PODS, change.ref, message, 0, certain=change.certain)


def _leaving_pods(facts: Facts) -> frozenset[str]:
    """Return the UIDs of the Pods that the plan deletes or replaces, and of their owners."""
    workloads = [
        change.uid
        for change in facts.changes
        if change.uid
        and change.kind in _HAS_PODS
        and (change.is_deleted or (change.is_changed and changes_template(change)))
    ]
    return frozenset(workloads) | facts.owned_by(workloads).keys()


def without_template(facts: Facts) -> Mapping[Ref, Labels]:
    """Return the selector of each Service that the set gives no Pods, if the plan concerns it.

    A Service that does not change itself counts only if its Pods may have been those of a workload
    that is deleted or gets other labels.
    """
    templates = LabelIndex(
        (member.ref.namespace, _labels(member.ref, member.body)) for member in facts.wanted
    )
    lost, unknown = _lost_labels(facts)
    found: dict[Ref, Labels] = {}
    for change in facts.changes:
        selector, place = selector_of_service(change), change.ref.namespace
        if not selector or templates.matches(place, selector):
            continue
        if change.fate in _SENT or place in unknown or lost.matches(place, selector):
            found[change.ref] = selector
    return found


def _lost_labels(facts: Facts) -> tuple[LabelIndex, frozenset[str]]:
    """Return the labels of Pods that may be lost, and the namespaces where these are unknown."""
    labelled: list[tuple[str, Mapping[str, object]]] = []
    unknown: set[str] = set()
    for change in facts.changes:
        if change.kind not in _HAS_PODS or not (change.fate is Fate.PRUNE or change.is_changed):
            continue
        if change.before is not None:
            labelled.append((change.ref.namespace, _labels(change.ref, change.before)))
        elif change.fate is Fate.PRUNE:
            unknown.add(change.ref.namespace)
    return LabelIndex(labelled), frozenset(unknown)


def _labels(ref: Ref, body: Mapping[str, object]) -> Mapping[str, object]:
    """Return the labels of an object's Pods; a custom resource may have a template as well."""
    template = pod_template(ref.group_kind, body) or field(body, "spec", "template")
    return mapping(field(mapping(template), "metadata", "labels"))


def selector_of_service(change: Change) -> Labels:
    """Return the selector of a Service; empty if it has none, or selects by a name outside."""
    if change.kind != SERVICE or change.fate is Fate.REFUSE:
        return {}
    if change.value("spec", "type") == "ExternalName":
        return {}
    return {key: str(value) for key, value in mapping(change.value("spec", "selector")).items()}


class LabelIndex:
    """Finds out fast whether a selector matches any of many sets of labels."""

    def __init__(self, labelled: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Take the labels, each with its namespace; what is not a text selects nothing."""
        self._found: dict[tuple[str, str, object], list[Labels]] = {}
        for namespace, given in labelled:
            labels = {key: value for key, value in given.items() if isinstance(value, str)}
            for key, value in labels.items():
                self._found.setdefault((namespace, key, value), []).append(labels)

    def matches(self, namespace: str, selector: Labels) -> bool:
        """Return whether some labels in a namespace have every label of a selector."""
        lists = (self._found.get((namespace, *label), []) for label in selector.items())
        rarest = min(lists, key=len, default=[])
        return any(selector.items() <= labels.items() for labels in rarest)


# What is deleted with an object.


_UNLISTED = kinds_with(Trait.GENERATED, Trait.HARDLY_OWNED)
"""The kinds that custom resources hardly ever own: not worth a list each."""


def cascades(change: Change, facts: Facts) -> Iterator[Consequence]:
    """Yield what is deleted with an object, and what of its own stays."""
    if not change.is_deleted:
        return
    found = deleted_with(change, facts)
    uncounted = _uncounted(change, facts)
    if found or uncounted:
        refs = tuple(live.ref for live in found)
        parts = [f"deleted with it: {by_kind(refs)}"] if refs else []
        parts += [f"not counted: {uncounted}"] if uncounted else []
        kind = ConsequenceKind.CASCADE
        number = None if uncounted else len(refs)
        yield Consequence(kind, change.ref, "; ".join(parts), number, refs, certain=not uncounted)
    if kept := [live.ref for live in _kept_claims(change, facts)]:
        names = and_more([ref.name for ref in kept], _SHOWN)
        message = f"its PersistentVolumeClaims stay: {names}"
        yield Consequence(ConsequenceKind.KEPT, change.ref, message, len(kept), tuple(kept))
    if facts.propagation is Propagation.ORPHAN and change.fate is Fate.PRUNE:
        yield from _orphaned(change, facts)


def _uncounted(change: Change, facts: Facts) -> str:
    """Return what could not be read of an object's dependents, and why."""
    owned = facts.dependants.get(change.ref, NOTHING).uncounted
    if change.kind in HOLDERS:
        contents = facts.contents.get(change.ref, NOTHING).uncounted
        return "; ".join(reason for reason in (contents, owned) if reason)
    failures = facts.related.failures
    reasons = [failures[kind] for kind in dependent_kinds(change, facts.kinds) if kind in failures]
    reasons += [owned] if owned else []
    return and_more(list(dict.fromkeys(reasons)), _SHOWN)


def _kept_claims(change: Change, facts: Facts) -> Iterator[LiveObject]:
    """Yield the claims of a StatefulSet's templates that nothing deletes with it."""
    if change.kind != STATEFUL_SET or change.before is None or change.fate is not Fate.PRUNE:
        return
    gone = facts.deleted | {live.uid for live in deleted_with(change, facts)}
    templates = [
        re.escape(text(item, "metadata", "name"))
        for item in items(change.before, "spec", "volumeClaimTemplates")
    ]
    name = re.compile(rf"({'|'.join(templates)})-{re.escape(change.ref.name)}-\d+")
    for live in facts.related.of(CLAIM):
        is_its = templates and name.fullmatch(live.ref.name)
        if is_its and live.ref.namespace == change.ref.namespace and live.uid not in gone:
            yield live


def _orphaned(change: Change, facts: Facts) -> Iterator[Consequence]:
    left = [live.ref for live in facts.children.get(change.uid, ()) if not is_generated(live)]
    if left:
        message = f"stay without an owner: {by_kind(left)}"
        yield Consequence(ConsequenceKind.KEPT, change.ref, message, len(left), tuple(left))


def deleted_with(change: Change, facts: Facts) -> Sequence[LiveObject]:
    """Return the objects that are deleted with a deleted one, except those of the plan itself."""
    if not (change.is_deleted and change.uid):
        return ()
    owned = facts.dependants.get(change.ref, NOTHING).objects
    found: Iterable[LiveObject] = ()
    if change.kind in HOLDERS:
        found = facts.contents.get(change.ref, NOTHING).objects
    elif change.fate is Fate.PRUNE and facts.propagation is not Propagation.ORPHAN:
        found = facts.owned_by([change.uid]).values()
    unique = {live.uid: live for live in (*found, *owned) if not is_generated(live)}
    return sorted(
        (live for uid, live in unique.items() if uid not in facts.deleted),
        key=lambda live: live.ref,
    )


def dependent_kinds(change: Change, kinds: Mapping[GroupKind, Resource]) -> Collection[GroupKind]:
    """Return the kinds, among those that the server serves, of which an object may own some.

    A custom resource may own anything in its namespace. What a custom resource without a namespace
    owns may be anywhere, and is not counted.
    """
    if change.fate is not Fate.PRUNE or change.kind in HOLDERS:
        return ()
    if is_built_in(change.ref.group):
        return row_of(change.kind).makes
    if not change.ref.namespace:
        return ()
    return [kind for kind, each in kinds.items() if each.namespaced and kind not in _UNLISTED]


# What happens to the volumes of deleted claims, and so to their data.


_RECLAIM_POLICIES = {
    "Delete": (ConsequenceKind.VOLUME_DELETED, "is deleted with its data", "are deleted with"),
    "Recycle": (ConsequenceKind.VOLUME_DELETED, "is wiped of its data", "are wiped of"),
    "Retain": (ConsequenceKind.VOLUME_KEPT, "stays with its data", "stay with"),
}


def volumes(change: Change, facts: Facts) -> Iterator[Consequence]:
    """Yield what happens to the bound volumes of a deleted object; nothing if unknown."""
    claims = deleted_claims(change, facts)
    if not claims or not facts.related.was_read(VOLUME):
        return
    if failure := facts.related.failures.get(VOLUME):
        whose = "its volume" if change.kind == CLAIM else "volumes"
        message = f"{whose} may be deleted with the data: {failure}"
        kind = ConsequenceKind.VOLUME_DELETED
        yield Consequence(kind, change.ref, message, certain=False)
        return
    bound = [facts.volumes[uid] for uid in sorted(claims) if uid in facts.volumes]
    for policy in _RECLAIM_POLICIES:
        alike = [
            live
            for live in bound
            if text(live.body or {}, "spec", "persistentVolumeReclaimPolicy", default="Retain")
            == policy
        ]
        if alike:
            yield _volume_consequence(change, policy, alike)


def _volume_consequence(change: Change, policy: str, bound: Sequence[LiveObject]) -> Consequence:
    kind, one, many = _RECLAIM_POLICIES[policy]
    refs = tuple(sorted(live.ref for live in bound))
    names = and_more([ref.name for ref in refs], _SHOWN)
    if change.kind == CLAIM:
        words = f"its volume {names} {one}"
    elif len(refs) == 1:
        words = f"the volume {names} {one}"
    else:
        words = f"{len(refs)} volumes {many} their data: {names}"
    message = f"{words} (reclaim policy {policy})"
    return Consequence(kind, change.ref, message, len(refs), refs)


def deleted_claims(change: Change, facts: Facts) -> frozenset[str]:
    """Return the UIDs of the claims that are deleted, themselves or with another object."""
    if change.kind == CLAIM:
        return frozenset({change.uid}) if change.is_deleted and change.uid else frozenset()
    return frozenset(
        live.uid for live in deleted_with(change, facts) if live.ref.group_kind == CLAIM
    )


# Versions in which objects may be stored, and that a changed CRD serves no longer.
#
# `status.storedVersions` keeps each version ever stored, until somebody migrates the objects and
# removes the version from that list.


_Versions = Mapping[str, Mapping[str, Any]]


def stored_versions(change: Change) -> Iterator[Consequence]:
    """Yield what happens to the versions of a changed CRD in which objects may be stored."""
    before = change.before
    if before is None or not may_lose_versions(change):
        return
    old, new = (
        _versions(items(before, "spec", "versions")),
        _versions(change.value("spec", "versions")),
    )
    stored = [str(name) for name in items(before, "status", "storedVersions")] if new else []
    if missing := [name for name in stored if name not in new]:
        yield Consequence(
            ConsequenceKind.VERSION_REFUSED,
            change.ref,
            f"the server rejects it: objects may be stored in {', '.join(missing)}, which it "
            "lacks; migrate them, then remove the version from status.storedVersions",
        )
        return
    if change.fate is Fate.REFUSE:
        return
    served = [name for name, version in new.items() if version.get("served") is True]
    unserved = [name for name in stored if _is_on(old, name, "served") and name not in served]
    if unserved:
        where = f"their objects are served in {', '.join(served)}"
        if not served:
            where = "no version is served, so its objects cannot be read"
        message = f"objects may be stored in {', '.join(unserved)}, no longer served: {where}"
        yield Consequence(ConsequenceKind.VERSION_NOT_SERVED, change.ref, message)
    for name in stored:
        if _is_on(old, name, "storage") and not _is_on(new, name, "storage"):
            stored_now = ", ".join(each for each in new if _is_on(new, each, "storage"))
            message = (
                f"objects stored in {name} stay in it until they are written again; new objects "
                f"are stored in {stored_now}"
            )
            yield Consequence(ConsequenceKind.VERSION_NOT_STORED, change.ref, message)


def _versions(found: object) -> _Versions:
    listed: Sequence[object] = found if isinstance(found, list | tuple) else ()
    return {text(mapping(item), "name"): mapping(item) for item in listed}


def _is_on(versions: _Versions, name: str, what: str) -> bool:
    return versions.get(name, {}).get(what) is True


def may_lose_versions(change: Change) -> bool:
    """Return whether a live CRD changes; one that the server refuses to change counts as well."""
    return change.kind == CRD and (change.is_changed or change.fate is Fate.REFUSE)


# Fields that an adopted object keeps although its manifest does not contain them.


_SHOWN_FIELDS = 3


def kept_fields(change: Change) -> Iterator[Consequence]:
    """Yield what each other manager keeps on an adopted object.

    Kubernetes' own controllers are left out, and status: nobody means to declare that.
    """
    if change.fate is not Fate.ADOPT or change.live is None or change.desired is None:
        return
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in change.live.writers:
        if one.subresource or one.manager in change.managers | {FORMER}:
            continue
        if is_kubernetes(one.manager):
            continue
        for path in one.fields.leaves():
            if path[0] != "status" and value_at(change.desired.body, path) is MISSING:
                found[one.manager].append(to_server(path))
    for manager, names in sorted(found.items()):
        verb = "is" if len(names) == 1 else "are"
        number = counted(len(names), "field")
        what = f"{number} of {manager}, which the manifest lacks, {verb} kept"
        end = f"; --take-over {manager} removes them" if is_by_hand(manager) else ""
        yield Consequence(
            ConsequenceKind.FIELDS_KEPT,
            change.ref,
            f"{what}: {and_more(sorted(names), _SHOWN_FIELDS)}{end}",
            len(names),
        )


# What other managers lose: their fields become the set's, which does not name them, or the object
# is deleted.


_OWN_MARKS = frozenset({LAST_APPLIED, OWNED_BY, PART_OF, WANTED})
_NEVER_TAKEN = frozenset({("metadata", "finalizers"), ("metadata", "ownerReferences")})


def lost_fields(change: Change) -> Iterator[Consequence]:
    """Yield what each other manager loses with an apply or a deletion; nothing of a status."""
    if change.live is None or not (change.is_changed or change.is_deleted):
        return
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one in change.live.writers:
        if _loses(change, one):
            found[one.manager].update(
                to_server(path) for path in one.fields.leaves() if _is_lost(change, path)
            )
    how = "removed, because the manifest lacks {}" if change.is_changed else "lost with the object"
    for manager, names in sorted(found.items()):
        if names:
            verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
            verb = verb if change.certain else "may be"
            yield Consequence(
                ConsequenceKind.FIELDS_LOST,
                change.ref,
                f"{counted(len(names), 'field')} of {manager} {verb} {how.format(them)}: "
                f"{and_more(sorted(names), _SHOWN_FIELDS)}",
                len(names),
                certain=change.certain,
            )


def _loses(change: Change, writer: Writer) -> bool:
    """Return whether another manager may lose fields."""
    manager, part = writer.manager, writer.subresource
    if change.is_changed:
        return manager in change.taken and not part
    own = change.managers - change.taken
    own |= {FORMER, *map(yielded_manager, own)}
    if part == "status" or is_kubernetes(manager) or manager in own:
        return False
    # What another manager applies is only pruned with the option that says so.
    return change.fate is Fate.RECREATE or writer.operation == "Apply"


def _is_lost(change: Change, path: Path) -> bool:
    """Return whether a field of another manager will not be there any more, as far as known."""
    if path[0] == "status" or path[:2] in _NEVER_TAKEN or path[-1] in _OWN_MARKS:
        return False
    wanted = MISSING if change.desired is None else value_at(change.desired.body, path)
    before = MISSING if change.before is None else value_at(change.before, path)
    if change.after is not None:
        return before is not MISSING and value_at(change.after, path) is MISSING
    if not change.is_changed:
        return wanted is MISSING or before not in (MISSING, wanted)
    return wanted is MISSING and not any(
        path in other.fields
        for other in (change.live.writers if change.live else ())
        if other.manager not in change.managers
    )


# Numbers of objects in words.


def by_kind(refs: Iterable[Ref]) -> str:
    """Return how many objects of each kind there are, most first: ``12 Pods, 1 ReplicaSet``."""
    numbers = Counter(ref.kind for ref in refs)
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(counted(number, kind) for kind, number in ordered)
