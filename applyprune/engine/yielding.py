"""Handing fields to others before a manifest goes without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.errors import Conflict, RunFailed
from applyprune.planning.fields.normalize import sent
from applyprune.planning.ownership.ignored_fields import (
    kept,
    refuse_split,
    split_fields,
    stub,
    yields,
)
from applyprune.planning.ownership.managed_fields import leave_patch

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep, Desired
    from applyprune.planning.applyset import ApplySetIdentity

_RELEASE_TRIES = 8


@dataclass(frozen=True, slots=True)
class FieldReleaser:
    """Sees to the set's second field manager, on one object after the other."""

    cluster: Cluster
    target: ApplySetIdentity

    def prepare(self, step: ApplyStep, *, forced: bool, dry_run: bool) -> ApplyStep:
        """Return the step on the object as it is when all that it ignores has another owner.

        A dry run sends what we alone own with the value that it has. Raises Conflict when another
        object has come in its place or, ``forced``, when anything has changed since it was read.
        """
        one, live = step.desired, step.live
        if live is None:
            return step
        if split_fields(one, live):
            refuse_split(one, self.cluster.get(one.resource, one.ref, full=True))
        return self._pretended(step, live) if dry_run else self._prepared(step, live, forced=forced)

    def _prepared(self, step: ApplyStep, live: LiveObject, *, forced: bool) -> ApplyStep:
        one, uid = step.desired, live.uid
        for _ in range(_RELEASE_TRIES):
            todo = yields(one, live, self.target)
            if not (todo.release or todo.fields):
                break
            try:
                if todo.release:
                    patch = leave_patch(live, self.target.yielded)
                    live = self.cluster.patch(one.resource, one.ref, patch)
                if todo.fields:
                    live = self._co_own(one, live)  # guard: second-owner
            except Conflict:
                if forced:
                    raise
                live = self.cluster.get(one.resource, one.ref)
                if live.uid != uid:
                    raise
            else:
                break
        else:
            raise RunFailed(f"{one.ref} changes faster than it can be applied", where=one.origin)
        return replace(step, live=live)

    def _pretended(self, step: ApplyStep, live: LiveObject) -> ApplyStep:
        one = step.desired
        fields = yields(one, live, self.target).fields
        if not fields:
            return step
        full = self.cluster.get(one.resource, one.ref, full=True)
        return replace(step, desired=replace(one, body=kept(full, sent(one), fields), ignored=()))

    def _co_own(self, one: Desired, live: LiveObject) -> LiveObject:
        full = self.cluster.get(one.resource, one.ref, full=True)
        if (full.uid, full.resource_version) != (live.uid, live.resource_version):
            raise Conflict(f"{one.ref} has changed since it was read", code=409)
        # Both guards are of the very state that the values are of.
        body = kept(full, stub(one, full), yields(one, full, self.target).fields)
        after, _ = self.cluster.apply(
            one.resource,
            one.ref,
            body,
            manager=self.target.yielded,
            force=False,
            dry_run=False,
        )
        return after
