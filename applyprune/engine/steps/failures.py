"""Explain why an apply failed or a deletion is stuck; if a read fails, explain less."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.engine.cascade_counter import ContentCounter, list_kinds
from applyprune.engine.context import WorkerPool
from applyprune.engine.listing import KindProofs
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    Invalid,
    NotFound,
    NotServed,
    as_problem,
)
from applyprune.model.identity import Ref
from applyprune.model.live import (
    AUTOSCALERS,
    CRD,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACE,
    STATEFUL_SETS,
    LiveObject,
)
from applyprune.model.options import OnDrift
from applyprune.model.plan import ApplyStep, Desired, Fate
from applyprune.model.problem import ManagerConflict, Problem
from applyprune.planning.cascade import diagnose
from applyprune.planning.conflicts import conflicts_of, explain, is_about_scale
from applyprune.planning.plan import again
from applyprune.planning.recovery import CascadeContents
from applyprune.planning.server_errors import (
    advice_on,
    clean_message,
    error_fields,
    is_without_namespace,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from typing import Any

    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster

_DEAD_VERSION = "to an invalid group/version"


def _explain_conflict(
    error: Conflict, step: ApplyStep, context: RunContext
) -> tuple[Conflict, tuple[ManagerConflict, ...]]:
    """Return a conflict as text and as data, with the values of both sides."""
    desired, cluster = step.desired, context.cluster
    scalers = _autoscalers(desired, cluster) if is_about_scale(error) else ()
    live = _live(desired, cluster)
    conflicts = conflicts_of(error, desired, live)
    reverts = _would_revert(step, live, context)
    return explain(error, desired, live, scalers, datetime.now(UTC), reverts=reverts), conflicts


def _would_revert(step: ApplyStep, live: LiveObject | None, context: RunContext) -> bool:
    """Return whether ``--on-drift revert`` would set back what is in conflict."""
    options = context.options
    if live is None or step.live is None or options.apply.on_drift is OnDrift.REVERT:
        return False
    options = replace(options, apply=replace(options.apply, on_drift=OnDrift.REVERT))
    request = again(step, live, context.applyset, options).request
    return request is not None and request.force


def _live(desired: Desired, cluster: Cluster) -> LiveObject | None:
    try:
        return cluster.get(desired.resource, desired.ref, full=True)
    except ApplypruneError:
        return None


def _autoscalers(desired: Desired, cluster: Cluster) -> Sequence[Mapping[str, Any]] | None:
    try:
        found = cluster.list(AUTOSCALERS, namespace=desired.ref.namespace, full=True)
    except (NotFound, NotServed):
        return ()
    except ApplypruneError:
        return None
    return [live.body for live in found if live.body is not None]


def apply_problem(error: ApplypruneError, step: ApplyStep, context: RunContext) -> Problem:
    """Return the failure of one object as a problem that names the object and its fields.

    A conflict is explained in full.
    """
    desired = step.desired
    conflicts: tuple[ManagerConflict, ...] = ()
    if isinstance(error, Conflict) and error.causes:
        error, conflicts = _explain_conflict(error, step, context)
    problem = replace(as_problem(error, where=desired.origin), conflicts=conflicts)
    if isinstance(error, Conflict | Invalid):
        problem = _about_fields(problem, error, desired)
    elif isinstance(error, NotServed) and is_without_namespace(error, desired.ref):
        problem = replace(
            problem,
            message=f"{desired.ref}: there is no namespace {desired.ref.namespace}",
            reason="",
            lasting_reason="",
            hint="Add the Namespace to the manifests, or create it first: "
            f"kubectl create namespace {desired.ref.namespace}",
            field=("metadata", "namespace"),
        )
    if _DEAD_VERSION in problem.message and not problem.hint:
        # This run has seen the version served, or it would have rewritten the entry.
        hint = "Run again: the version has ceased to be served during this run."
        problem = replace(problem, hint=hint)
    if not error.location and str(desired.ref) not in problem.message:
        problem = replace(problem, message=f"{desired.ref}: {problem.message}")
    return problem


def refused(step: ApplyStep, error: ApplypruneError, context: RunContext) -> ApplyStep:
    """Return a step that the server has refused in a dry run."""
    problem = apply_problem(error, step, context)
    return replace(
        step, fate=Fate.REFUSE, request=None, problem=problem, is_checked=True, not_checked=""
    )


def _about_fields(problem: Problem, error: Conflict | Invalid, desired: Desired) -> Problem:
    marks = error_fields(error, desired.body)
    if marks and isinstance(error, Invalid):
        # If the field is known, the request adds nothing.
        problem = replace(problem, reason="", lasting_reason="")
    return replace(
        problem,
        message=clean_message(problem.message),
        hint=problem.hint or advice_on(error.message),
        field=marks[0].field if marks else (),
        marks=marks if len(marks) > 1 else (),
    )


_COUNTED = 5


def stuck_deletions(
    objects: Sequence[LiveObject], pruning: Collection[Ref], cluster: Cluster, workers: WorkerPool
) -> Mapping[Ref, str]:
    """Return why each object is deleted but not gone; ``objects`` are as last read in full.

    Only the contents of the first few Namespaces and CRDs are read: each costs a LIST per kind.
    """
    if not objects:
        return {}
    workloads = _workloads(cluster, workers)
    holders = [live for live in objects if live.ref.group_kind in {NAMESPACE, CRD}][:_COUNTED]
    remains = {live.ref: _remains(live.ref, cluster, workers) for live in holders}
    return {
        live.ref: diagnose(
            live, workloads=workloads, pruning=pruning, remains=remains.get(live.ref)
        )
        for live in objects
    }


def _workloads(cluster: Cluster, workers: WorkerPool) -> CascadeContents:
    try:
        found, failures = list_kinds(
            cluster, workers, (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS), full=True
        )
        workers.check()
    except ApplypruneError as error:
        return CascadeContents((), error.message)
    return CascadeContents(tuple(found), "; ".join(failures))


def _remains(ref: Ref, cluster: Cluster, workers: WorkerPool) -> CascadeContents:
    try:
        workers.check()
        proofs = KindProofs(cluster, workers, cluster.resource_map(), patience=0)
        contents = ContentCounter(proofs, frozenset()).contents(ref)
        workers.check()
    except ApplypruneError as error:
        return CascadeContents((), error.message)
    return contents
