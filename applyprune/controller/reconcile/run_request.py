"""Put together the run that a reconcile asks the engine for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.controller.drift.give_way import contended_now, tries_rewritten
from applyprune.engine.plan_stage import RunRequest
from applyprune.model.options import Mode
from applyprune.planning.annotations import APPROVE

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.reconcile.bundle_source import LoadedSource
    from applyprune.model.holder_observation import HolderObservation
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject


def run_request(
    live: LiveObject,
    bundle: Bundle,
    source: LoadedSource,
    observation: HolderObservation | None,
    corrects: frozenset[Ref] = frozenset(),
) -> RunRequest:
    """Return the run that applies a Bundle; with ``corrects``, only the drift of these objects."""
    options = bundle.options(
        Mode.APPLY,
        approved=live.annotations.get(APPROVE, ""),
        source=source.version,
        contended=contended_now(live, bundle, source.revision),
        corrects=corrects,
        tries_rewritten=tries_rewritten(live, bundle, source.revision),
    )
    return RunRequest(
        bundle.target,
        source.manifests,
        bundle.spec.target_namespace or bundle.namespace,
        options,
        who=bundle.owner,
        owner=bundle.owner,
        takes_over=bool(bundle.spec.inventory_name),
        observation=observation,
    )
