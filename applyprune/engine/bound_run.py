"""Hold a run to a plan file: whatever the file does not say is refused before the first write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.errors import Forbidden, NotFound, PlanOutdated, as_problem
from applyprune.model.events import ObjectDone, Outcome
from applyprune.model.live import NAMESPACES, namespace_ref
from applyprune.model.plan import Fate
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.approval import (
    SYSTEM,
    Misfit,
    PlanFile,
    input_misfits,
    is_continued,
    is_done,
    misfits,
    refuse_expired,
    refuse_other_cluster,
    refuse_other_options,
    refuse_other_set,
    refused_since,
)
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.plan_stage import PlanStage
    from applyprune.engine.ports import Cluster
    from applyprune.model.inventory import Inventory
    from applyprune.model.plan import Plan

_CREATOR = "applyprune"
"""The manager of what is created without an apply: the program, by its User-Agent."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a plan that was made now fits a plan file."""

    misfits: Sequence[ObjectDone] = ()
    """A failure for each object that does not fit."""
    continues: bool = False
    """Whether this run continues an apply of the same file."""
    is_done: bool = False
    """Whether the file is applied already."""

    @property
    def ends_run(self) -> bool:
        """Return whether nothing is applied."""
        return self.is_done or bool(self.misfits)


def cluster_identity(cluster: Cluster, namespace: str) -> Mapping[str, str]:
    """Return the UIDs of kube-system and of the inventory's namespace, if they may be read."""
    found: dict[str, str] = {}
    for name in (SYSTEM, namespace):
        with suppress(Forbidden, NotFound):
            ref = namespace_ref(name)
            found[name] = cluster.get(NAMESPACES, ref).uid
    return found


def refuse_elsewhere(file: PlanFile, context: RunContext) -> None:
    """Refuse an expired file, and one of another set, of other options or for another cluster."""
    applyset = context.applyset
    refuse_other_set(file, applyset)
    refuse_expired(file, datetime.now(UTC))
    refuse_other_options(file, context.options)
    refuse_other_cluster(file, cluster_identity(context.cluster, applyset.namespace))


def fit_of(file: PlanFile, stage: PlanStage, context: RunContext) -> Fit:
    """Compare what was read and planned now with the file."""
    unknown = {ref: problem.message for ref, problem in stage.unknown}
    if is_done(file, stage.inventory):
        found = tuple(input_misfits(file, stage.plan, unknown))
        return Fit(tuple(map(failure_of, found)), is_done=not found)
    continues = is_continued(file, stage.inventory)
    found = tuple(misfits(file, stage.plan, stage.inventory, continues=continues, unknown=unknown))
    others = tuple(one for one in found if not _is_own_namespace(one, file, stage, context))
    return Fit(tuple(map(failure_of, others)), continues=continues or others != found)


def fit_of_checked(plan: Plan) -> Fit:
    """Return what no longer fits a file by the checks after the comparison."""
    return Fit(tuple(map(failure_of, refused_since(plan))))


def already_applied(inventory: Inventory) -> Problem:
    """Return the warning that the plan of a file is applied already."""
    last = inventory.last
    by = f" by {last.who} at {last.at}" if last is not None else ""
    return Problem(ProblemKind.ALREADY_APPLIED, f"the plan is already done{by}: nothing to do")


def _is_own_namespace(
    misfit: Misfit, file: PlanFile, stage: PlanStage, context: RunContext
) -> bool:
    """Return whether a new set's namespace exists because an apply of the file was interrupted.

    The namespace is created before the inventory, so only the manager of its fields says so.
    """
    own = namespace_ref(context.applyset.namespace)
    if misfit.ref != own or stage.inventory.exists or not file.options.get("create-namespace"):
        return False
    planned = {one.manifest for one in file.objects if one.ref == own and one.fate is Fate.CREATE}
    return any(
        step.desired.ref == own
        and step.fate is Fate.ADOPT
        and step.desired.digest in planned  # guard: own-namespace
        and step.live is not None
        and any(entry.get("manager") == _CREATOR for entry in step.live.managed_fields)
        for step in stage.plan.applies
    )


def failure_of(misfit: Misfit) -> ObjectDone:
    """Return the failure of an object that does not fit a plan file."""
    error = PlanOutdated(
        f"{misfit.ref} no longer fits the plan",
        location=misfit.origin or "",
        reason=misfit.reason,
    )
    return ObjectDone(misfit.ref, Outcome.FAILED, misfit.origin, problem=as_problem(error))
