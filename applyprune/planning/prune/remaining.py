"""Decide what must stay because a prune could not delete something else: only what that needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from applyprune.errors import NotReady, RunFailed, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import API_SERVICES, CRD, NAMESPACE, mapping
from applyprune.model.plan import Fate, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.checks.references import (
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    has_references,
    references,
)
from applyprune.planning.order import is_built_in
from applyprune.planning.prune.dependants import owners_of
from applyprune.planning.prune.finalizers import has_foreign_finalizer
from applyprune.planning.prune.readiness_first import is_workload
from applyprune.planning.schema.served_kinds import service_of
from applyprune.values import dataclass, field, pattern, replace

_RBAC = "rbac.authorization.k8s.io"
_RIGHTS = frozenset(
    {
        SERVICE_ACCOUNT,
        *(GroupKind(_RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding")),
        *(GroupKind(_RBAC, kind) for kind in ("Role", "RoleBinding")),
    }
)
"""What gives a controller its rights: that of the set, or one elsewhere that works for it."""
_NAMED_BY_CUSTOM = frozenset({GroupKind("", "ConfigMap"), SECRET, SERVICE_ACCOUNT})
_API_SERVICE = GroupKind(API_SERVICES.group, API_SERVICES.kind)
_BETWEEN_NAMES = pattern("[/:]")


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
    what one of these objects needs waits: its Namespace, its CRD or APIService, its dependencies,
    its owners and what its fields name. If it may have a controller, the set's accounts and roles
    wait too, and its workloads, which may run that controller.

    What stays on purpose holds what it needs as well, without a failure.
    """

    deleting: Collection[Ref] = ()
    """All objects that the prune deletes."""
    _all: Blocker | None = None
    _needed: dict[Ref, Blocker] = field(default_factory=dict)
    _owners: dict[str, Blocker] = field(default_factory=dict)
    _namespaces: dict[str, Blocker] = field(default_factory=dict)
    _controllers: Blocker | None = None
    _rights: Blocker | None = None
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
            needed = because(f"{ref.short} is still there, and its controller may need it")
            self._controllers = self._controllers or needed
            self._rights = self._rights or needed
        if self._highest is None or self._highest[0] < step.entry.wave.wave:
            later = because(f"{ref.short}, of a later wave, is still there")
            self._highest = (step.entry.wave.wave, later)

    def keep(
        self,
        step: RemoveStep,
        body: Mapping[str, Any] | None,
        unread: str = "",
        *,
        is_failure: bool = False,
    ) -> None:
        """Take in an object that stays on purpose; ``unread`` says why its fields are unknown.

        ``is_failure`` says whether the plan did not know: then what it needs has failed.
        """
        stays = Blocker(step.entry.ref, is_late=False, reason="stays", is_failure=is_failure)
        self._hold(step, body, unread, stays)

    def _hold(
        self, step: RemoveStep, body: Mapping[str, Any] | None, unread: str, holder: Blocker
    ) -> None:
        """Hold what an object needs; the reason of ``holder`` says what that object does."""
        entry, ref = step.entry, step.entry.ref

        def because(reason: str) -> Blocker:
            return replace(holder, reason=reason)

        is_custom = not is_built_in(ref.group)
        unknown = because(
            f"{ref.short} {holder.reason}, and what it needs could not be read: {unread}"
        )
        if unread and has_references(ref.group_kind):
            self._all = self._all or unknown  # guard: unread-remains
        needs = because(f"{ref.short} needs it, and {holder.reason}")
        named = [] if body is None else [found.ref for found in references(ref, body)]
        if is_custom:
            fields = body if body is not None or unread else {}
            named += _named_by(ref, fields, self.deleting)  # guard: custom-remains
            of_its_kind = because(f"{ref.short} is of its kind, and remains")
            crd = Ref(CRD.group, CRD.kind, "", entry.crd or f"{entry.plural}.{ref.group}")
            self._needed.setdefault(crd, of_its_kind)  # guard: crd-remains
            self._needed.setdefault(service_of(entry), of_its_kind)  # guard: api-service-remains
        for target in (*entry.depends_on, *named):
            self._needed.setdefault(target, unknown if is_custom and unread else needs)
        if any(one.group_kind == SERVICE_ACCOUNT for one in named) and (
            is_custom or is_workload(ref.group_kind)
        ):
            self._rights = self._rights or needs  # guard: account-remains
        if ref.group_kind == _API_SERVICE and named:
            self._controllers = self._controllers or needs  # guard: backend-remains
            self._rights = self._rights or needs
        if step.live is not None:
            for uid in owners_of(step.live):
                self._owners.setdefault(uid, needs)
        if ref.namespace:
            inside = because(f"{ref.short} is still in it")
            self._namespaces.setdefault(ref.namespace, inside)

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
        if ref.group_kind in _RIGHTS:
            found.append(self._rights)  # guard: rights-remain
        elif is_workload(ref.group_kind) or (ref.group_kind == SERVICE and self._has_workload):
            found.append(self._controllers)  # guard: controller-remains
        return next((one for one in found if one is not None), None)

    @property
    def _has_workload(self) -> bool:
        """Return whether a workload of the set may run the controller of what remains."""
        return any(is_workload(ref.group_kind) for ref in self.deleting)


def _named_by(custom: Ref, body: Mapping[str, Any] | None, refs: Collection[Ref]) -> Iterator[Ref]:
    """Yield those of ``refs`` that a custom resource may name, in a field that only it knows.

    Without its fields, that is each that any custom resource may name.
    """
    words = None if body is None else frozenset(_words(body))
    for ref in refs:
        if ref.group_kind not in _NAMED_BY_CUSTOM:
            continue
        near = not custom.namespace or ref.namespace == custom.namespace
        if words is None or (ref.name in words and (near or ref.namespace in words)):
            yield ref


def _words(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield every name that a field may hold, whole or as in ``NAMESPACE/NAME``."""
    annotations = mapping(body.get("metadata")).get("annotations")
    todo = [annotations, *(value for key, value in body.items() if key != "metadata")]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, str):
            yield value
            yield from _BETWEEN_NAMES.split(value)
