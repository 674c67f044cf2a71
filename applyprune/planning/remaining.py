"""What one prune has not deleted so far, and what must stay because of that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct, field

from applyprune.errors import NotReady, RunFailed
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import Wave
from applyprune.model.kinds import CRD, NAMESPACE, SERVICE, SERVICE_ACCOUNT, Trait, kinds_with
from applyprune.model.live import API_SERVICES
from applyprune.model.plan import RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.cascade import has_foreign_finalizer
from applyprune.planning.order import is_built_in
from applyprune.planning.prune_waits import is_workload
from applyprune.planning.references import names_in, references
from applyprune.planning.served_kinds import service_of
from applyprune.planning.uids import known_as, owners_of

_RIGHTS = kinds_with(Trait.ROLE, Trait.BINDING) | {SERVICE_ACCOUNT}
"""What gives a controller its rights: that of the set, or one elsewhere that works for it."""


class Remaining(Struct):
    """What one prune has not deleted so far.

    If something of a turn remains, all later turns wait; a turn is what was applied together.
    Within a turn, what the object needs waits: its Namespace, its CRD or APIService, its
    dependencies, its owners and what its fields name. If it may have a controller, the set's
    accounts and roles wait too, and its workloads, which may run that controller.

    What stays on purpose holds what it needs as well, without a failure.
    """

    deleting: Collection[Ref] = ()
    """All objects that the prune deletes."""
    _all: Blocker | None = None
    _needed: dict[Ref, Blocker] = field(default_factory=dict)
    _owners: dict[str, Blocker] = field(default_factory=dict)
    _not_gone: dict[Ref, Blocker] = field(default_factory=dict)
    _workloads: Blocker | None = None
    _rights: Blocker | None = None
    _turn: tuple[Wave, Blocker] | None = None
    """The first turn of which something remains."""

    def add(
        self,
        step: RemoveStep,
        body: Mapping[str, Any] | None,
        unread: str = "",
        failure: Problem | None = None,
    ) -> None:
        """Hold what an object needs; ``unread`` says why its fields are unknown.

        ``failure`` says why it is not gone; None if it stays on purpose.
        """
        entry, ref = step.entry, step.entry.ref
        stays = "stays" if failure is None else "is not gone"
        is_late = failure is not None and failure.kind is ProblemKind.NOT_READY

        def because(reason: str) -> Blocker:
            return Blocker(f"{ref.short} {reason}", is_late, is_failure=failure is not None)

        if failure is not None:
            self._fail(step, because)
            unread = failure.message if failure.kind is ProblemKind.UNREACHABLE else unread
        if unread:
            unknown = because(f"{stays}, and what it needs could not be read: {unread}")
            self._all = self._all or unknown  # guard: unread-remains -> _ = unknown
        needs = because(f"needs it, and {stays}")
        self._not_gone[ref] = because(f"owns it, and {stays}")
        named = [] if body is None else [found.ref for found in references(ref, body)]
        if is_custom := not is_built_in(ref.group):
            named += names_in(ref, body or {}, self.deleting)  # guard: custom-remains
            of_its_kind = because(f"is of its kind, and {stays}")
            crd = Ref(CRD.group, CRD.kind, "", entry.crd or f"{entry.plural}.{ref.group}")
            self._needed.setdefault(crd, of_its_kind)  # guard: crd-remains
            self._needed.setdefault(service_of(entry), of_its_kind)  # guard: api-service-remains
        for target in (*entry.depends_on, *named):
            self._needed.setdefault(target, needs)
        if any(one.group_kind == SERVICE_ACCOUNT for one in named) and (
            is_custom or is_workload(ref.group_kind)
        ):
            self._rights = self._rights or needs  # guard: account-remains
        if ref.group_kind == API_SERVICES.group_kind and named:
            self._workloads = self._workloads or needs  # guard: backend-remains
            self._rights = self._rights or needs
        if step.live is not None:
            for uid in owners_of(step.live):
                self._owners.setdefault(uid, needs)
        if ref.namespace:
            home = Ref(NAMESPACE.group, NAMESPACE.kind, "", ref.namespace)
            inside = because("is still in it")
            self._needed.setdefault(home, inside)  # guard: namespace-remains

    def _fail(self, step: RemoveStep, because: Callable[[str], Blocker]) -> None:
        """Hold all later turns, and what may be the controller of an object that is not gone."""
        if self._turn is None or self._turn[0] < step.entry.wave:
            self._turn = step.entry.wave, because("is deleted first, and is not gone")
        # guard: foreign-finalizer -> False
        foreign = step.live is not None and has_foreign_finalizer(step.live)
        if foreign or not is_built_in(step.entry.ref.group):
            needed = because("is not gone, and its controller may need it")
            self._workloads = self._workloads or needed
            self._rights = self._rights or needed

    def waits(self, wave: Wave) -> bool:
        """Return whether a turn waits for an earlier one."""
        return self._turn is not None and wave < self._turn[0]  # guard: later-turns-wait -> False

    def blocker(self, step: RemoveStep) -> Blocker | None:
        """Return why an object must not be deleted now; None if it may, or is not deleted."""
        ref = step.entry.ref
        if step.fate is not Fate.PRUNE:
            return None
        found = [self._all, self._needed.get(ref)]  # guard: needed-remains -> [self._all]
        if step.live is not None:
            uid = known_as(step.live, self._owners)
            found.append(self._owners.get(uid))  # guard: owner-remains
        found += map(self._not_gone.get, step.owners)  # guard: owner-not-gone
        if ref.group_kind in _RIGHTS:
            found.append(self._rights)  # guard: rights-remain
        elif is_workload(ref.group_kind) or (
            ref.group_kind == SERVICE and any(is_workload(one.group_kind) for one in self.deleting)
        ):
            found.append(self._workloads)  # guard: controller-remains
        if self._turn is not None and self.waits(step.entry.wave):
            found.append(self._turn[1])
        return next((one for one in found if one is not None), None)


class Blocker(Struct, frozen=True):
    """Why an object is not deleted now: another one is still there."""

    reason: str
    is_late: bool = False
    """Whether only time is missing: that object, or what it waits for itself, is deleted."""
    is_failure: bool = True
    """Whether that object should be gone; if not, it stays on purpose."""

    def problem(self, ref: Ref) -> Problem:
        """Return the problem of an object that waits."""
        error = NotReady if self.is_late else RunFailed
        return error(f"{ref} was not deleted", reason=self.reason).problem
