"""Transfer field ownership: between sets, from other managers to ours, and from ours to others.

Each transfer is a guarded patch. If the object has changed, read it and build the patch again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Conflict, RunFailed
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Desired
from applyprune.model.resources import Resource
from applyprune.planning.applyset import PART_OF, ApplySetIdentity
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

_TRIES = 8


def has_other_label(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object has the label of another set."""
    return live.labels.get(PART_OF, applyset.id) != applyset.id


def take_over(cluster: Cluster, step: ApplyStep, applyset: ApplySetIdentity) -> ApplyStep:
    """Take over an object before its apply, as its step says; return the step with the result.

    The field manager of another set becomes ours, and so do those in ``step.migrate``: our apply
    then removes the fields that the manifest lacks. If the other set's manager is unknown, because
    it is another tool's, only remove its label. Raises RunFailed if the object keeps changing.
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
    """Transfer an object, as it was read, to another set; return it as stored.

    Raises Conflict if it has changed since. The second patch may fail: the new set's next apply
    will own the label's field as well.
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
    """Gives the ignored fields of an object to the set's second field manager."""

    cluster: Cluster
    applyset: ApplySetIdentity

    def prepare(self, step: ApplyStep, *, forced: bool, dry_run: bool) -> ApplyStep:
        """Make sure that every ignored field has another owner; return the step with the result.

        A dry run sends the fields that only we own with their live values instead. Raises Conflict
        if the object was re-created or, if ``forced``, if it has changed since it was read.
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
        # The UID and resourceVersion in both guards belong to the state that has these values.
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
