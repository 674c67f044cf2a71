"""Decide what must stay because a prune could not delete something else: only what that needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from applyprune.errors import NotReady, RunFailed, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.plan import Fate, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.resources import CRD, NAMESPACE
from applyprune.planning.checks.references import references
from applyprune.planning.order import is_built_in
from applyprune.planning.prune.dependants import owners_of
from applyprune.planning.prune.finalizers import has_foreign_finalizer
from applyprune.planning.prune.readiness_first import is_workload

_RBAC = "rbac.authorization.k8s.io"
_USED_BY_CONTROLLERS = frozenset(
    {
        GroupKind("", "Service"),
        GroupKind("", "ServiceAccount"),
        *(GroupKind(_RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding")),
        *(GroupKind(_RBAC, kind) for kind in ("Role", "RoleBinding")),
    }
)
"""The rights of a controller's Pods, and the Services of its webhooks."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why an object is not deleted now: another one is still there."""

    ref: Ref
    is_late: bool
    """Whether only time is missing: that object, or what it waits for itself, is deleted."""
    reason: str
    is_failure: bool = True
    """Whether that object should be gone; if not, it stays on purpose."""

    def problem(self, ref: Ref) -> Problem:
        """Return the problem of an object that waits."""
        error = NotReady if self.is_late else RunFailed
        return as_problem(error(f"{ref} was not deleted", reason=self.reason))


@dataclass(slots=True)
class Remaining:
    """What one prune has not deleted so far: it has failed, or waits for what has failed.

    Lower waves of the annotation ``applyprune.dev/wave`` wait for all of it. Within a wave, only
    what one of these objects needs waits: its Namespace, its CRD, its dependencies, its owners and
    what its fields name. If it may have a controller in the set, that waits too.

    What stays on purpose holds what it needs as well, without a failure.
    """

    has_workload: bool = False
    """Whether the prune deletes a workload, which may run the controller of what remains."""
    _all: Blocker | None = None
    _needed: dict[Ref, Blocker] = field(default_factory=dict)
    _owners: dict[str, Blocker] = field(default_factory=dict)
    _namespaces: dict[str, Blocker] = field(default_factory=dict)
    _kinds: dict[str, Blocker] = field(default_factory=dict)
    _controllers: Blocker | None = None
    _highest: tuple[int, Blocker] | None = None

    def add(
        self, step: RemoveStep, problem: Problem, body: Mapping[str, Any] | None, unread: str = ""
    ) -> None:
        """Take in an object that is still there; ``unread`` says why its fields are unknown."""
        ref = step.entry.ref
        is_late = problem.kind is ProblemKind.NOT_READY

        def because(reason: str) -> Blocker:
            return Blocker(ref, is_late, reason)

        if problem.kind is ProblemKind.UNREACHABLE:
            self._all = self._all or because(f"the server has stopped answering: {problem.message}")
        self._hold(step, body, unread, Blocker(ref, is_late, "is still there"))
        # guard: foreign-finalizer
        foreign = step.live is not None and has_foreign_finalizer(step.live)
        if foreign or not is_built_in(ref.group):
            self._controllers = self._controllers or because(
                f"{ref.short} is still there, and its controller may need it"
            )
        if self._highest is None or self._highest[0] < step.entry.wave.wave:
            later = because(f"{ref.short}, of a later wave, is still there")
            self._highest = (step.entry.wave.wave, later)

    def keep(self, step: RemoveStep, body: Mapping[str, Any] | None, unread: str = "") -> None:
        """Take in an object that stays on purpose; ``unread`` says why its fields are unknown."""
        stays = Blocker(step.entry.ref, is_late=False, reason="stays", is_failure=False)
        self._hold(step, body, unread, stays)

    def _hold(
        self, step: RemoveStep, body: Mapping[str, Any] | None, unread: str, holder: Blocker
    ) -> None:
        """Hold what an object needs; the reason of ``holder`` says what that object does."""
        entry, ref = step.entry, step.entry.ref

        def because(reason: str) -> Blocker:
            return replace(holder, reason=reason)

        if unread:
            # guard: unread-remains
            self._all = self._all or Blocker(
                ref,
                holder.is_late,
                f"{ref.short} {holder.reason}, and what it needs could not be read: {unread}",
            )
        needs = because(f"{ref.short} needs it, and {holder.reason}")
        named = references(ref, body) if body is not None else ()
        for target in (*entry.depends_on, *(found.ref for found in named)):
            self._needed.setdefault(target, needs)
        if step.live is not None:
            for uid in owners_of(step.live):
                self._owners.setdefault(uid, needs)
        if ref.namespace:
            inside = because(f"{ref.short} is still in it")
            self._namespaces.setdefault(ref.namespace, inside)
        if not is_built_in(ref.group):
            definition = entry.crd or f"{entry.plural}.{ref.group}"
            self._kinds.setdefault(definition, because(f"{ref.short} is of its kind, and remains"))

    def blocker(self, step: RemoveStep) -> Blocker | None:
        """Return why an object must not be deleted now; None if it may, or is not deleted."""
        ref = step.entry.ref
        if step.fate is not Fate.PRUNE:
            return None
        found = [self._all]
        if self._highest is not None and step.entry.wave.wave < self._highest[0]:
            found.append(self._highest[1])  # guard: prune-wave-order
        found.append(self._needed.get(ref))  # guard: needed-remains
        if step.live is not None:
            found.append(self._owners.get(step.live.uid))  # guard: owner-remains
        if ref.group_kind == NAMESPACE:
            found.append(self._namespaces.get(ref.name))  # guard: namespace-remains
        if ref.group_kind == CRD:
            found.append(self._kinds.get(ref.name))  # guard: crd-remains
        if self.has_workload and (
            is_workload(ref.group_kind) or ref.group_kind in _USED_BY_CONTROLLERS
        ):
            found.append(self._controllers)  # guard: controller-remains
        return next((one for one in found if one is not None), None)
