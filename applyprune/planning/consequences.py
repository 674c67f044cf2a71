"""What a plan causes beyond the changes of its objects, as far as the plan has read it.

Only the volumes of deleted claims take one LIST more. What Pods do, and who reads a changed
ConfigMap, is only said where the server has checked the change: it alone knows defaults and
webhooks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from applyprune.model.fate import Fate
from applyprune.model.fieldset import MISSING, Path, Writer, to_server, value_at
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.kinds import (
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    SERVICE,
    STATEFUL_SET,
    Trait,
    kinds_with,
    row_of,
)
from applyprune.model.live import LiveObject, count, field, mapping, text
from applyprune.model.options import Propagation
from applyprune.model.plan import ApplyStep, Consequence, ConsequenceKind, Desired, Plan, RemoveStep
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import LAST_APPLIED, OWNED_BY, PART_OF, WANTED, yielded_manager
from applyprune.planning.cascade import NOTHING, is_generated
from applyprune.planning.field_writers import is_kubernetes
from applyprune.planning.managed_fields import FORMER, as_stored, manager_by_label
from applyprune.planning.marks import WAVE, pure_marks
from applyprune.planning.normalize import REPLICAS
from applyprune.planning.references import Reading, Way, pod_template, readings
from applyprune.planning.uids import each_once, is_among, uids_of
from applyprune.planning.world import World
from applyprune.values import hiding


class Change(Struct, frozen=True):
    """One object of a plan that does not stay as it is, and what is known of its states."""

    ref: Ref
    fate: Fate
    desired: Desired | None = None
    """The manifest; None if the object has left the set."""
    live: LiveObject | None = None
    """The live object; None if there is none."""
    after: Mapping[str, Any] | None = None
    """The object after the apply, by a dry run on the server; None if it has not checked that."""
    managers: frozenset[str] = frozenset()
    """The field managers whose fields the apply owns: what it no longer names, it removes."""
    taken: frozenset[str] = frozenset()
    """Those of them that lose their fields to the set."""
    cascade: Sequence[LiveObject] = ()
    """What is deleted with it and is not in the plan itself, as counted for the guards."""
    uncounted: str = ""
    """What of that could not be read, and why."""

    __repr__ = hiding("after")

    @property
    def kind(self) -> GroupKind:
        return self.ref.group_kind

    @property
    def before(self) -> Mapping[str, Any] | None:
        """Return the live object; None if it does not exist or was not read in full."""
        return self.live.body if self.live is not None else None

    @property
    def result(self) -> Mapping[str, Any] | None:
        """Return the object as it will be; None if that is unknown."""
        if self.after is None and self.fate is Fate.RECREATE and self.desired is not None:
            return self.desired.body
        return self.after

    @property
    def is_changed(self) -> bool:
        """Return whether an existing object gets another content."""
        return self.fate in {Fate.CHANGE, Fate.ADOPT}

    @property
    def is_deleted(self) -> bool:
        """Return whether the live object is deleted, perhaps to be created again."""
        return self.fate in {Fate.PRUNE, Fate.RECREATE}

    @property
    def claims(self) -> frozenset[str]:
        """Return the UIDs of the claims that are deleted: the object itself, or others with it."""
        own = [self.live] if self.is_deleted and self.live is not None else []
        return frozenset(live.uid for live in (*own, *self.cascade) if live.ref.group_kind == CLAIM)


def changes_of(
    plan: Plan,
    world: World,
    states: Mapping[Ref, tuple[LiveObject | None, Mapping[str, Any] | None]],
) -> Sequence[Change]:
    """Return what does not stay as it is, in the order of the plan.

    ``states`` are the states before and after of the objects that a dry run on the server has
    checked. A prune that a guard refuses counts as well: the user may approve it.
    """
    removals = () if plan.no_prune and plan.refusal is None else plan.removals
    going = [step for step in removals if step.fate is Fate.PRUNE]
    gone = uids_of(step.live for step in going if step.live is not None)

    def change(step: ApplyStep | RemoveStep) -> Change:
        ref, desired = step.entry.ref, None
        live, after = states.get(ref, (None, None))
        live, taken = live or step.live, frozenset[str]()
        if isinstance(step, ApplyStep):
            desired, taken = step.desired, step.migration.whole_managers
            taken |= {manager for _, manager in step.released}
            if live is not None and step.fate is Fate.ADOPT:
                taken |= {manager_by_label(live)}  # the set that has it until now
            taken -= {"", world.manager}
        parts = [found.get(ref, NOTHING) for found in (world.contents, world.dependants)]
        unique = each_once(live for part in parts for live in part.objects)
        cascade = [
            live for live in unique.values() if not (is_among(live, gone) or is_generated(live))
        ]
        return Change(
            ref,
            step.fate,
            desired,
            live,
            after,
            taken | {world.manager},
            taken,
            sorted(cascade, key=lambda live: live.ref),
            "; ".join(part.uncounted for part in parts if part.uncounted),
        )

    changed = [step for step in plan.applies if step.fate is not Fate.LEAVE]
    return [*map(change, changed), *map(change, going)]


def consequences(
    changes: Sequence[Change],
    desired: Sequence[Desired],
    propagation: Propagation = Propagation.BACKGROUND,
    volumes: Sequence[LiveObject] | str | None = None,
) -> Iterator[Consequence]:
    """Yield what a plan with some ``changes`` causes; ``desired`` is all of the input.

    ``volumes`` are all PersistentVolumes, or why they cannot be listed; None if nobody asked.
    """
    rollouts = {change.ref: tuple(rollout(change, propagation)) for change in changes}
    restarting = {
        change.ref
        for change in changes
        if change.fate is Fate.CREATE
        or any(replaces_all(change, caused) for caused in rollouts[change.ref])
    }
    reads = any(change.kind in READABLE and change.before is not None for change in changes)
    readers = readers_of(desired) if reads else {}
    by_ref = {change.ref: change for change in changes}
    for change in changes:
        yield from rollouts[change.ref]
        yield from switches(change, desired, by_ref)
        yield from scaling(change)
        yield from read_values(change, readers.get(change.ref, ()), restarting)
        yield from cascades(change)
        yield from cleaned_up(change)
        yield from volumes_of(change, volumes)
        yield from lost_fields(change)


# What happens to the Pods of a workload whose template changes.


WORKLOADS = kinds_with(Trait.KEEPS_PODS)
"""The kinds that keep a number of Pods running."""


def rollout(change: Change, propagation: Propagation) -> Iterator[Consequence]:
    """Yield what happens to the Pods of a workload; nothing if it has none."""
    pods, after = pod_count(change), change.result
    if change.kind not in WORKLOADS or after is None:
        return
    if pods == 0 or field(after, "spec", "replicas") == 0:
        return
    if change.fate is Fate.RECREATE:
        if propagation is not Propagation.ORPHAN:
            yield _restart(change, pods)
    elif change.is_changed and pods is not None:
        yield from _pod_changes(change, pods, after)


def _pod_changes(change: Change, pods: int, after: Mapping[str, Any]) -> Iterator[Consequence]:
    before, kind = change.before or {}, change.kind
    is_paused = kind == DEPLOYMENT and field(after, "spec", "paused") is True
    # Its Pods have an older template.
    is_resumed = kind == DEPLOYMENT and not is_paused and field(before, "spec", "paused") is True
    is_resumed &= count(before, "status", "updatedReplicas") < count(before, "status", "replicas")
    if not is_resumed and field(before, "spec", "template") == field(after, "spec", "template"):
        return
    strategy = row_of(kind).strategy
    way = field(after, "spec", strategy, "type")
    partition = field(after, "spec", "updateStrategy", "rollingUpdate", "partition")
    partition = partition if kind == STATEFUL_SET and isinstance(partition, int) else 0
    reached = max(0, pods - partition)
    if not strategy or (way == "OnDelete" and kind != DEPLOYMENT):
        until = "when it is deleted" if pods == 1 else "when they are deleted"
        yield _later(change, ConsequenceKind.ON_DELETE, pods, until)
    elif is_paused:
        yield _later(change, ConsequenceKind.PAUSED, pods, "when the rollout is resumed")
    elif kind == DEPLOYMENT and way == "Recreate":
        yield _restart(change, pods)
    elif not reached:
        until = f"when the partition is lowered from {partition}"
        yield _later(change, ConsequenceKind.PAUSED, pods, until)
    else:
        words = counted(pods, "Pod")
        if reached < pods:
            words = f"{reached} of {words} (partition {partition})"
        message = f"rollout, {words}{', no longer paused' if is_resumed else ''}"
        yield Consequence(ConsequenceKind.ROLLOUT, change.ref, message, reached)


def _restart(change: Change, pods: int | None) -> Consequence:
    who = "its Pods" if pods is None else counted(pods, "Pod")
    verbs = "stops, then starts" if pods == 1 else "stop, then start"
    return Consequence(ConsequenceKind.RESTART, change.ref, f"{who} {verbs}", pods)


def _later(change: Change, kind: ConsequenceKind, pods: int, until: str) -> Consequence:
    message = f"{counted(pods, 'Pod')} {'changes' if pods == 1 else 'change'} {until}"
    return Consequence(kind, change.ref, message, pods)


def replaces_all(change: Change, caused: Consequence) -> bool:
    if caused.kind is ConsequenceKind.ROLLOUT:
        return caused.count == pod_count(change)
    return caused.kind is ConsequenceKind.RESTART


def pod_count(change: Change) -> int | None:
    """Return how many Pods a live workload asks for; None if it was not read in full."""
    if change.before is None:
        return None
    if change.kind == DAEMON_SET:
        return count(change.before, "status", "desiredNumberScheduled")
    return count(change.before, "spec", "replicas", default=1)


def scaling(change: Change) -> Iterator[Consequence]:
    """Yield to how many replicas an object falls back that its manifest no longer sets.

    The question before an apply asks about that, so it is also said without a check.
    """
    desired = change.desired
    if not change.is_changed or desired is None or REPLICAS in desired.ignored:
        return
    if field(desired.body, "spec", "replicas") is not None:
        return
    before = field(change.before or {}, "spec", "replicas")
    certain = change.after is not None
    if certain:
        falls_back, after = isinstance(before, int), field(change.after or {}, "spec", "replicas")
    else:
        falls_back = desired.loses_replicas
        after = 1 if change.kind in WORKLOADS else None
    if not falls_back or after == before:
        return
    was = f" from {before}" if isinstance(before, int) else ""
    to = "what its controller sets" if after is None else str(after)
    verb = "scales" if certain else "may scale"
    message = f"{verb}{was} to {to}: its manifest does not set replicas"
    number = after if isinstance(after, int) else None
    yield Consequence(ConsequenceKind.SCALES, change.ref, message, number, certain=certain)


# Services that are switched to other Pods, before these are ready.


def switches(
    change: Change, desired: Sequence[Desired], changes: Mapping[Ref, Change]
) -> Iterator[Consequence]:
    """Yield to which workloads of the set a Service is switched before their Pods are ready.

    Nothing if one of them has ready Pods by then, or may have: what does not change was not read.
    """
    if change.kind != SERVICE or change.before is None or change.after is None:
        return
    before = mapping(field(change.before, "spec", "selector"))
    after = mapping(field(change.after, "spec", "selector"))
    if before == after or not after or change.desired is None:
        return
    chosen = [
        one
        for one in desired
        if one.ref.namespace == change.ref.namespace
        and one.packed.mentions("labels")
        and _selects(after, one.ref.group_kind, one.body)
        and field(one.body, "spec", "replicas") != 0
    ]
    if not chosen or any(_is_ready_by_then(one, change.desired, after, changes) for one in chosen):
        return
    refs = tuple(sorted(one.ref for one in chosen))
    names = and_more([ref.short for ref in refs], _SHOWN)
    message = (
        f"switches to {names} before {'its' if len(refs) == 1 else 'their'} Pods are ready; with a "
        f"later {WAVE} it waits for them"
    )
    yield Consequence(ConsequenceKind.SWITCHES, change.ref, message, len(refs), refs)


def _selects(selector: Mapping[str, Any], kind: GroupKind, body: Mapping[str, Any]) -> bool:
    labels = mapping(field(pod_template(kind, body), "metadata", "labels"))
    return selector.items() <= labels.items()


def _is_ready_by_then(
    one: Desired, service: Desired, selector: Mapping[str, Any], changes: Mapping[Ref, Change]
) -> bool:
    """Return whether a workload may have ready Pods with these labels when a Service is applied."""
    if one.ref in service.depends_on or one.wave.wave < service.wave.wave:
        return True  # the run waits for it
    change = changes.get(one.ref)
    if change is None or (change.is_changed and change.before is None):
        return True
    if not change.is_changed or not _selects(selector, one.ref.group_kind, change.before or {}):
        return False
    ready = "numberReady" if change.kind == DAEMON_SET else "readyReplicas"
    return change.kind not in WORKLOADS or count(change.before or {}, "status", ready) > 0


# Who reads a changed ConfigMap or Secret, and who keeps the old values.
#
# The kubelet updates mounted files. It sets an environment variable and mounts a `subPath` only
# when a container starts, and it does not watch an immutable object.


READABLE = kinds_with(Trait.READ_BY_PODS)
_PARTS = ("data", "binaryData")
_SHOWN = 5
# The Pods of a Job run once; the next Job of a CronJob reads the new values.
_RUN_ONCE = kinds_with(Trait.RUNS_ONCE)
_AT_START = (Way.ENVIRONMENT, Way.SUB_PATH)


def readers_of(desired: Sequence[Desired]) -> Mapping[Ref, Sequence[tuple[Desired, Reading]]]:
    """Return which workloads of a set read each ConfigMap and Secret, and how."""
    found: defaultdict[Ref, list[tuple[Desired, Reading]]] = defaultdict(list)
    for member in desired:
        for reading in readings(pod_template(member.ref.group_kind, member.body)):
            if GroupKind("", reading.kind) in READABLE:
                ref = Ref("", reading.kind, member.ref.namespace, reading.name)
                found[ref].append((member, reading))
    return found


def read_values(
    change: Change, readers: Sequence[tuple[Desired, Reading]], restarting: Collection[Ref]
) -> Iterator[Consequence]:
    """Yield who reads the values that change, and who keeps the old ones.

    ``restarting`` are the workloads whose Pods all start after the change anyway.
    """
    before, after = change.before, change.result
    if before is None or after is None:
        return
    keys: set[str] = set()
    for part in _PARTS:
        old, new = mapping(before.get(part)), mapping(after.get(part))
        keys |= {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    ways: defaultdict[Ref, set[Way]] = defaultdict(set)
    running: set[Ref] = set()
    for workload, reading in readers if keys else ():
        if reading.keys is not None and not reading.keys & keys:
            continue
        ref, replicas = workload.ref, count(workload.body, "spec", "replicas", default=1)
        ways[ref].add(reading.way)
        if ref.group_kind not in _RUN_ONCE and replicas > 0:
            running.add(ref)
    if not ways:
        return
    refs = tuple(sorted(ways))
    message = f"read by {and_more([ref.short for ref in refs], _SHOWN)}"
    yield Consequence(ConsequenceKind.READ_BY, change.ref, message, len(refs), refs)
    is_fixed = change.fate is Fate.RECREATE and before.get("immutable") is True
    stale = {
        ref: ", ".join(how)
        for ref in refs
        if ref in running
        and ref not in restarting
        and (how := _stale_ways(ways[ref], is_fixed=is_fixed))
    }
    if stale:
        names = and_more([f"{ref.short} ({how})" for ref, how in stale.items()], _SHOWN)
        verb, whose = ("keeps", "its") if len(stale) == 1 else ("keep", "their")
        message = f"{names} {verb} the old values until {whose} Pods restart"
        yield Consequence(ConsequenceKind.OLD_VALUE, change.ref, message, len(stale), tuple(stale))


def _stale_ways(ways: Collection[Way], *, is_fixed: bool) -> Sequence[str]:
    found = [str(way) for way in _AT_START if way in ways]
    return [*found, "immutable volume"] if is_fixed and Way.VOLUME in ways else found


# What is deleted with an object, and the volumes of deleted claims, with their data.


def cascades(change: Change) -> Iterator[Consequence]:
    """Yield what is deleted with an object, as it was counted for the guards."""
    refs, uncounted = tuple(live.ref for live in change.cascade), change.uncounted
    numbers = Counter(ref.kind for ref in refs)
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    by_kind = ", ".join(counted(number, kind) for kind, number in ordered)
    parts = [f"deleted with it: {by_kind}"] if refs else []
    parts += [f"not counted: {uncounted}"] if uncounted else []
    if parts and change.is_deleted:
        number = None if uncounted else len(refs)
        kind, message = ConsequenceKind.CASCADE, "; ".join(parts)
        yield Consequence(kind, change.ref, message, number, refs, certain=not uncounted)


class _CleanUp(NamedTuple):
    """What a known controller deletes when its object is deleted."""

    finalizer: str
    """How the finalizer begins by which the controller holds the object until it has done so."""
    words: str
    kind: str = ""
    """The only kind that is meant, as ``Kind.group``; empty for each with the finalizer."""


_CLEAN_UPS = (
    _CleanUp(
        "finalizers.fluxcd.io",
        "Flux deletes what it has applied, if spec.prune is true",
        "Kustomization.kustomize.toolkit.fluxcd.io",
    ),
    _CleanUp(
        "finalizers.fluxcd.io",
        "Flux uninstalls its release",
        "HelmRelease.helm.toolkit.fluxcd.io",
    ),
    _CleanUp(
        "resources-finalizer.argocd.argoproj.io",
        "Argo CD deletes what it has deployed",
        "Application.argoproj.io",
    ),
    _CleanUp("finalizers.kapp-ctrl.k14s.io/", "kapp-controller deletes what it has deployed"),
    _CleanUp("composite.apiextensions.crossplane.io", "Crossplane deletes what it consists of"),
    _CleanUp("finalizer.apiextensions.crossplane.io", "Crossplane deletes its composite resource"),
    _CleanUp(
        "finalizer.managedresource.crossplane.io",
        "Crossplane deletes the external resource, unless its policies keep it",
    ),
    _CleanUp("cluster.cluster.x-k8s.io", "Cluster API deletes its machines and infrastructure"),
)
"""By the documentation of these projects; none of them was run."""


def cleaned_up(change: Change) -> Iterator[Consequence]:
    """Yield what another tool deletes with its object: nobody counts that."""
    if not change.is_deleted or change.live is None:
        return
    for row in _CLEAN_UPS:
        if row.kind in {"", str(change.kind)} and any(
            name.startswith(row.finalizer) for name in change.live.finalizers
        ):
            message = f"{row.words}: not counted"
            yield Consequence(ConsequenceKind.CASCADE, change.ref, message, certain=False)


_RECLAIM_POLICIES = {
    "Delete": (ConsequenceKind.VOLUME_DELETED, "is deleted with its data", "are deleted with"),
    "Recycle": (ConsequenceKind.VOLUME_DELETED, "is wiped of its data", "are wiped of"),
    "Retain": (ConsequenceKind.VOLUME_KEPT, "stays with its data", "stay with"),
}


def volumes_of(change: Change, volumes: Sequence[LiveObject] | str | None) -> Iterator[Consequence]:
    """Yield what happens to the bound volumes of deleted claims; nothing if unknown."""
    if not (claims := change.claims) or volumes is None:
        return
    is_own = change.kind == CLAIM
    if isinstance(volumes, str):
        message = f"{'its volume' if is_own else 'volumes'} may be deleted with the data: {volumes}"
        yield Consequence(ConsequenceKind.VOLUME_DELETED, change.ref, message, certain=False)
        return
    bound: defaultdict[str, list[Ref]] = defaultdict(list)
    for volume in volumes:
        spec = mapping(field(volume.body or {}, "spec"))
        if text(spec, "claimRef", "uid") in claims:
            policy = text(spec, "persistentVolumeReclaimPolicy", default="Retain")
            bound[policy].append(volume.ref)
    for policy, (kind, one, many) in _RECLAIM_POLICIES.items():
        if refs := tuple(sorted(bound[policy])):
            names = and_more([ref.name for ref in refs], _SHOWN)
            words = f"{'its' if is_own else 'the'} volume {names} {one}"
            if len(refs) > 1:
                words = f"{len(refs)} volumes {many} their data: {names}"
            message = f"{words} (reclaim policy {policy})"
            yield Consequence(kind, change.ref, message, len(refs), refs)


# What other managers lose: their fields become the set's, which does not name them, or the object
# is deleted. The question before an apply asks about that, so it is also said without a check.


_SHOWN_FIELDS = 3
_OWN_MARKS = frozenset({LAST_APPLIED, OWNED_BY, PART_OF, WANTED})
_NEVER_TAKEN = frozenset({("metadata", "finalizers"), ("metadata", "ownerReferences")})


def lost_fields(change: Change) -> Iterator[Consequence]:
    """Yield what each other manager loses with an apply or a deletion; nothing of a status."""
    if change.live is None or not (change.is_changed or change.is_deleted):
        return
    found: defaultdict[str, set[str]] = defaultdict(set)
    live, marks = change.live, frozenset[tuple[str, str]]()
    if change.fate is Fate.ADOPT:  # its tool loses the object, and so its marks
        marks = frozenset(pure_marks(change.kind, live.labels, live.annotations))
    for one in live.writers:
        if _loses(change, one):
            fields = as_stored(one.fields, change.kind)
            found[one.manager].update(
                to_server(path)
                for path in fields.leaves()
                if path[1:] not in marks and _is_lost(change, path)
            )
    certain = change.after is not None or not change.is_changed
    how = "removed, because the manifest lacks {}" if change.is_changed else "lost with the object"
    for manager, names in sorted(found.items()):
        if names:
            verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
            verb = verb if certain else "may be"
            yield Consequence(
                ConsequenceKind.FIELDS_LOST,
                change.ref,
                f"{counted(len(names), 'field')} of {manager} {verb} {how.format(them)}: "
                f"{and_more(sorted(names), _SHOWN_FIELDS)}",
                len(names),
                certain=certain,
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
