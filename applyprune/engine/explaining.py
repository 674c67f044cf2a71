"""Reading what explains a conflict; a read that fails makes the explanation poorer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError
from applyprune.model.builtin import AUTOSCALERS
from applyprune.planning.conflicts import explain, is_about_scale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from applyprune.engine.ports import Cluster
    from applyprune.errors import Conflict
    from applyprune.model.live import Live
    from applyprune.model.plan import Desired


def explained(error: Conflict, one: Desired, cluster: Cluster) -> Conflict:
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
