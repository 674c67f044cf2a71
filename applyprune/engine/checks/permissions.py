"""Ask the server whether the account may do what a plan needs, before the first write.

One review of rules for each namespace answers most of it. What it does not clearly allow is asked
for one by one: each verb on each resource and, if that is not allowed, on each object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Unreachable, as_problem
from applyprune.model.options import DryRun
from applyprune.model.plan import Access, AccessRule
from applyprune.model.problem import ProblemKind
from applyprune.planning.rights import needs_of, with_missing_rights
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.model.inventory import Inventory
    from applyprune.model.plan import ApplyStep, Plan
    from applyprune.model.problem import Problem


def with_permissions_checked(
    plan: Plan, context: RunContext, inventory: Inventory, *, makes_namespace: bool
) -> Plan:
    """Return the plan with every right that it needs and the account lacks.

    A run is refused then; a dry run only shows it. If the server gives no review, the plan has a
    warning that says so.
    """
    applyset, holds = context.applyset, context.options.dry_run is DryRun.OFF
    needs = needs_of(plan, applyset, is_new=not inventory.exists, makes_namespace=makes_namespace)
    if not needs:
        return plan
    if holds and any(_may_not_be_read(step) for step in plan.applies):
        plan = replace(plan, lacks_rights=True)
    try:
        forbidden = _Reviewer(context).forbidden({need.access for need in needs})
    except Unreachable:
        raise
    except ApplypruneError as error:
        return replace(plan, warnings=(*plan.warnings, _not_checked(error)))
    missing = [need for need in needs if need.access in forbidden]
    return with_missing_rights(plan, missing, applyset, holds=holds)


def _may_not_be_read(step: ApplyStep) -> bool:
    """Return whether an object is refused already because the account may not even read it."""
    problem = step.problem
    return step.is_unread and problem is not None and problem.kind is ProblemKind.FORBIDDEN


def _not_checked(error: ApplypruneError) -> Problem:
    problem = as_problem(error)
    return replace(
        problem,
        message="the rights of this account were not checked: no access review is possible",
        reason=problem.message,
    )


@dataclass(frozen=True, slots=True)
class _Reviewer:
    context: RunContext

    def forbidden(self, wanted: Iterable[Access]) -> set[Access]:
        """Return what the server would not authorize; raise if it gives no review."""
        wanted = sorted(wanted)
        rules = dict(
            self.context.workers.each(
                self._rules, sorted({access.namespace for access in wanted} - {""})
            )
        )
        # A rule of a Role does not hold in cluster scope.
        unclear = [
            access
            for access in wanted
            if not any(rule.allows(access) for rule in rules.get(access.namespace, ()))
        ]
        refused = self._refused({replace(access, name="") for access in unclear})
        left = [access for access in unclear if replace(access, name="") in refused]
        # A rule may be limited to some names.
        found = self._refused(access for access in left if access.name)
        found.update(access for access in left if not access.name)
        self.context.workers.check()
        return found

    def _rules(self, namespace: str) -> tuple[str, Sequence[AccessRule]]:
        try:
            return namespace, self.context.cluster.access.rules(namespace)
        except Unreachable:
            raise
        except ApplypruneError:
            return namespace, ()  # then each right is asked for

    def _refused(self, wanted: Iterable[Access]) -> set[Access]:
        access = self.context.cluster.access
        asked = self.context.workers.each(lambda one: (one, access.is_allowed(one)), wanted)
        return {one for one, is_allowed in asked if not is_allowed}  # guard: access-review
