"""What is known when the consequences of a plan are worked out: its changes, and what was read.

After a check by the server, both states of a changed object are known. Otherwise its live state is
compared with its manifest, and a consequence says that it may happen: defaults, admission webhooks
and other spellings of a value are only known to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import MISSING, Path, leaves, owns, value_at
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import LiveObject, field, text
from applyprune.model.options import Propagation
from applyprune.model.plan import ApplyStep, Fate, Plan, RemoveStep
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.owner import holds
from applyprune.planning.prune.dependants import children_of, collected
from applyprune.planning.snapshot import CascadeContents, ClusterSnapshot
from applyprune.values import dataclass
from applyprune.values import field as dataclass_field

if TYPE_CHECKING:
    from applyprune.model.live import Resource
    from applyprune.model.plan import Desired

CONFIG_MAP = GroupKind("", "ConfigMap")
SECRET = GroupKind("", "Secret")
SERVICE = GroupKind("", "Service")
CLAIM = GroupKind("", "PersistentVolumeClaim")
VOLUME = GroupKind("", "PersistentVolume")
DEPLOYMENT = GroupKind("apps", "Deployment")
STATEFUL_SET = GroupKind("apps", "StatefulSet")
DAEMON_SET = GroupKind("apps", "DaemonSet")
REPLICA_SET = GroupKind("apps", "ReplicaSet")
REPLICATION_CONTROLLER = GroupKind("", "ReplicationController")
JOB = GroupKind("batch", "Job")

_CHANGING = frozenset({Fate.CHANGE, Fate.ADOPT})


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

    @property
    def kind(self) -> GroupKind:
        """Return the group and kind."""
        return self.ref.group_kind

    @property
    def before(self) -> Mapping[str, Any] | None:
        """Return the live object; None if it does not exist or was not read in full."""
        return self.live.body if self.live is not None else None

    @property
    def uid(self) -> str:
        """Return the UID of the live object; empty if there is none."""
        return self.live.uid if self.live is not None else ""

    @property
    def is_changed(self) -> bool:
        """Return whether an existing object gets another content."""
        return self.fate in _CHANGING

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
        wanted = field(sent(self.desired), *path)
        return (wanted is not None and not holds(wanted, before)) or any(self.removed(*path))

    def removed(self, *path: str) -> Iterator[Path]:
        """Yield the fields below a path that the apply removes: nobody else owns them."""
        if self.live is None or self.desired is None:
            return
        ours: list[Mapping[str, Any]] = []
        others: list[Mapping[str, Any]] = []
        for entry in self.live.managed_fields:
            is_ours = entry.get("manager") in self.managers and not entry.get("subresource")
            (ours if is_ours else others).append(entry.get("fieldsV1") or {})
        wanted = sent(self.desired)
        for fields in ours:
            for found in leaves(fields):
                if found[: len(path)] != path or value_at(wanted, found) is not MISSING:
                    continue
                if not any(owns(other, found) for other in others):
                    yield found


@dataclass(frozen=True, slots=True)
class Related:
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
        """Return the objects of a kind that were read."""
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
    related: Related = Related()
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
        """Return the objects of the input."""
        return [change.desired for change in self.changes if change.desired is not None]


def facts_of(
    plan: Plan,
    *,
    manager: str,
    snapshot: ClusterSnapshot,
    kinds: Mapping[GroupKind, Resource],
    propagation: Propagation,
    states: Mapping[Ref, tuple[LiveObject | None, Mapping[str, Any] | None]],
    related: Related,
) -> Facts:
    """Return the facts about a plan.

    ``states`` are the states before and after of the objects that a dry run on the server has
    checked. A prune that a guard refuses counts as well: the user may approve it.
    """

    def change(step: ApplyStep) -> Change:
        ref = step.desired.ref
        before, after = states.get(ref, (None, None))
        live = before or related.bodies.get(ref) or step.live
        managers = frozenset({manager, *step.migration.whole_managers})
        return Change(ref, step.fate, step.desired, live, after, managers)

    def removal(step: RemoveStep) -> Change:
        ref = step.entry.ref
        before, _ = states.get(ref, (None, None))
        return Change(ref, step.fate, None, before or related.bodies.get(ref) or step.live)

    pruned: Iterable[RemoveStep] = plan.removals
    if plan.no_prune and plan.refusal is None:
        pruned = ()
    changes = [
        *map(change, plan.applies),
        *(removal(step) for step in pruned if step.fate is Fate.PRUNE),
    ]
    return Facts(changes, snapshot.contents, kinds, propagation, related, snapshot.dependants)
