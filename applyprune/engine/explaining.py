"""Telling why one object failed; a read that fails makes the explanation poorer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Conflict, as_problem
from applyprune.model.builtin import AUTOSCALERS
from applyprune.planning.conflicts import explain, is_about_scale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from applyprune.engine.ports import Cluster
    from applyprune.model.live import Live
    from applyprune.model.plan import Desired
    from applyprune.model.problems import Problem

_DEAD_VERSION = "to an invalid group/version"


def _explained(error: Conflict, one: Desired, cluster: Cluster) -> Conflict:
    """Return a conflict with the values of both sides, and who will write again."""
    scalers = _autoscalers(one, cluster) if is_about_scale(error) else ()
    return explain(error, one, _live(one, cluster), scalers, datetime.now(UTC))


def _live(one: Desired, cluster: Cluster) -> Live | None:
    try:
        return cluster.get(one.resource, one.ref, full=True)
    except ApplypruneError:
        return None


def _autoscalers(one: Desired, cluster: Cluster) -> Sequence[Mapping[str, Any]]:
    try:
        found = cluster.list(AUTOSCALERS, namespace=one.ref.namespace, full=True)
    except ApplypruneError:
        return ()
    return [live.body for live in found if live.body is not None]


def told(error: ApplypruneError, one: Desired, cluster: Cluster) -> Problem:
    """Return the failure of one object as a value that names it; a conflict is told in full."""
    if isinstance(error, Conflict) and error.causes:
        error = _explained(error, one, cluster)
    problem = as_problem(error, where=one.origin)
    if _DEAD_VERSION in problem.what and not problem.hint:
        hint = (
            "A field manager's entry names a version that is not served any more. To clear them "
            f"all: kubectl patch {one.ref.short} --type=json -p "
            """'[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]'"""
        )
        problem = replace(problem, hint=hint)
    if not error.where and str(one.ref) not in problem.what:
        problem = replace(problem, what=f"{one.ref}: {problem.what}")
    return problem
