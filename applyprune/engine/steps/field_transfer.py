"""Carrying out a change of hands: from set to set, and from other managers to ours.

Each is a guarded patch; one that finds the object changed is made again from what it is now.

Handing fields to others before a manifest goes without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Conflict, RunFailed
from applyprune.planning.applyset import PART_OF
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.ignored_fields import (
    kept,
    refuse_split,
    split_fields,
    stub,
    yields,
)
from applyprune.planning.ownership.managed_fields import (
    hand_over_patch,
    leave_patch,
    migrate_patch,
    release_patch,
    set_manager,
    settle_patch,
)

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep, Desired
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity

_TRIES = 8


def has_other_label(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object bears the label of another set."""
    return live.labels.get(PART_OF, applyset.id) != applyset.id


def take_over(cluster: Cluster, step: ApplyStep, applyset: ApplySetIdentity) -> ApplyStep:
    """Make an object ours before its apply, as its step says; return the step as it is then.

    The manager of another set becomes ours, and so do the fields of the managers that are to be
    migrated: what our manifest lacks goes with our apply. Where another set's manager is not
    known, for it is another tool's, only its label comes off. Raises RunFailed when the object
    never stands still.
    """
    desired, live = step.desired, step.live
    for _ in range(_TRIES):
        if live is None or (step.live is not None and live.uid != step.live.uid):
            break
        try:
            if has_other_label(live, applyset):
                live = _released(cluster, desired.resource, live, applyset)
            if step.migrate:
                version = desired.resource.gvk.api_version
                patch = migrate_patch(live, step.migrate, applyset.manager, version)
                live = cluster.patch(desired.resource, desired.ref, patch)
        except Conflict:
            live = cluster.get(desired.resource, desired.ref)
        else:
            return replace(step, live=live)
    raise RunFailed(
        f"{desired.ref} changes faster than it can be taken over", location=desired.origin
    )


def _released(
    cluster: Cluster, resource: Resource, live: LiveObject, applyset: ApplySetIdentity
) -> LiveObject:
    if old := set_manager(live):
        return transfer(cluster, resource, live, old=old, applyset=applyset)
    return cluster.patch(resource, live.ref, release_patch(live))


def transfer(
    cluster: Cluster, resource: Resource, live: LiveObject, *, old: str, applyset: ApplySetIdentity
) -> LiveObject:
    """Give an object, as it was read, to another set; return it as it is then.

    Raises Conflict when it has changed since. What the second patch would settle is harmless: the
    new set's next apply owns its label's field as well.
    """
    patch = hand_over_patch(live, old=old, new=applyset.manager, label=applyset.id)
    after = cluster.patch(resource, live.ref, patch)
    try:
        settled = settle_patch(after, live, old=old, new=applyset.manager)
        return cluster.patch(resource, live.ref, settled)
    except ApplypruneError:
        return after


_RELEASE_TRIES = 8


@dataclass(frozen=True, slots=True)
class FieldReleaser:
    """Sees to the set's second field manager, on one object after the other."""

    cluster: Cluster
    applyset: ApplySetIdentity

    def prepare(self, step: ApplyStep, *, forced: bool, dry_run: bool) -> ApplyStep:
        """Return the step on the object as it is when all that it ignores has another owner.

        A dry run sends what we alone own with the value that it has. Raises Conflict when another
        object has come in its place or, ``forced``, when anything has changed since it was read.
        """
        desired, live = step.desired, step.live
        if live is None:
            return step
        if split_fields(desired, live):
            refuse_split(desired, self.cluster.get(desired.resource, desired.ref, full=True))
        return (
            self._for_dry_run(step, live)
            if dry_run
            else self._release_fields(step, live, forced=forced)
        )

    def _release_fields(self, step: ApplyStep, live: LiveObject, *, forced: bool) -> ApplyStep:
        desired, uid = step.desired, live.uid
        for _ in range(_RELEASE_TRIES):
            todo = yields(desired, live, self.applyset)
            if not (todo.release or todo.fields):
                break
            try:
                if todo.release:
                    patch = leave_patch(live, self.applyset.yielded)
                    live = self.cluster.patch(desired.resource, desired.ref, patch)
                if todo.fields:
                    live = self._co_own(desired, live)  # guard: second-owner
            except Conflict:
                if forced:
                    raise
                live = self.cluster.get(desired.resource, desired.ref)
                if live.uid != uid:
                    raise
            else:
                break
        else:
            raise RunFailed(
                f"{desired.ref} changes faster than it can be applied", location=desired.origin
            )
        return replace(step, live=live)

    def _for_dry_run(self, step: ApplyStep, live: LiveObject) -> ApplyStep:
        desired = step.desired
        fields = yields(desired, live, self.applyset).fields
        if not fields:
            return step
        full = self.cluster.get(desired.resource, desired.ref, full=True)
        return replace(
            step, desired=replace(desired, body=kept(full, sent(desired), fields), ignored=())
        )

    def _co_own(self, desired: Desired, live: LiveObject) -> LiveObject:
        full = self.cluster.get(desired.resource, desired.ref, full=True)
        if (full.uid, full.resource_version) != (live.uid, live.resource_version):
            raise Conflict(f"{desired.ref} has changed since it was read", code=409)
        # Both guards are of the very state that the values are of.
        body = kept(full, stub(desired, full), yields(desired, full, self.applyset).fields)
        after, _ = self.cluster.apply(
            desired.resource,
            desired.ref,
            body,
            manager=self.applyset.yielded,
            force=False,
            dry_run=False,
        )
        return after
