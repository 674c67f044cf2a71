"""Explain what a run would do with single objects, by the plan of that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.engine.cancellation import Cancellation
from applyprune.engine.context import run_context
from applyprune.engine.plan_stage import PlanStage, RunRequest, check_plan, plan_with
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.dry_run import ServerDryRun
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.events import Event, WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, State, Unknown
from applyprune.model.options import DryRun, Mode, Options
from applyprune.model.resources import CONFIG_MAPS, Resource, ResourceMap
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity, set_name
from applyprune.planning.approval.required import is_held
from applyprune.planning.explain import ExplainInput, explained
from applyprune.planning.suggest import did_you_mean

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster, Store


def explain(
    asked: RunRequest,
    named: str,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    *,
    by_input: bool,
) -> Iterator[Event]:
    """Yield an Explanation for each object that ``named`` names, in the form of ``Ref.is_among``.

    ``asked`` is the apply to explain. If not ``by_input``, explain by the inventory alone what
    would happen to the object if it left the set. It does not wait for other runs. The server
    checks these objects alone, by a dry run. Raises UsageError for a kind that is not served, and
    what refuses the apply as a whole.
    """
    applyset, inventory = asked.applyset, store.read()
    resource_map = cluster.resource_map()
    named = _by_kind(named, resource_map)
    options = replace(asked.options, dry_run=DryRun.SERVER)
    if not by_input:
        alone = replace(asked.options.prune, allow_empty=True)
        options = Options(Mode.PRUNE, DryRun.SERVER, prune=alone, select=frozenset({named}))
    planned = replace(asked, options=options)
    with run_context(cluster, store, applyset, options, cancellation, mode=options.mode) as context:
        stage = yield from plan_with(inventory, resource_map, planned, context)
        states = _states(stage, named)
        reader = SnapshotReader(cluster, context.workers, applyset, store)
        for resource, ref in () if states else _unknown(named, resource_map, asked.namespace):
            states[ref] = reader.read_object(resource, ref)
        dry_run = ServerDryRun(context)
        plan = check_plan(stage, context, dry_run, only=states.keys())
        yield from map(WarningRaised, plan.warnings)
        yield from context.server_warnings.events(plan)
        for ref, state in states.items():
            yield explained(
                ExplainInput(
                    ref=ref,
                    state=state,
                    plan=plan,
                    inventory=inventory,
                    applyset=applyset,
                    by_input=by_input,
                    schemas=stage.snapshot.schemas,
                    owner=_owner(state, applyset, cluster),
                    hook=stage.left_out.get(ref),
                    silent=dict(stage.unknown).get(ref),
                    is_held=is_held(plan, options),
                )
            )


def _states(stage: PlanStage, named: str) -> dict[Ref, State]:
    """Return the states of the objects of this name in the input and in the inventory."""
    known: dict[Ref, State] = {ref: Unknown(problem) for ref, problem in stage.unknown}
    refs = {step.desired.ref for step in stage.plan.applies} | stage.inventory.entries.keys()
    known |= {ref: stage.snapshot.states[ref] for ref in refs}
    return {ref: known[ref] for ref in sorted(known) if ref.is_among({named})}


def _by_kind(named: str, resource_map: ResourceMap) -> str:
    """Return a name with its kind in the singular; like kubectl, accept the plural too."""
    *namespace_part, kind, name = named.split("/") if "/" in named else ("", named)
    wanted, dot, group = kind.lower().partition(".")
    served = resource_map.preferred.values()
    if not any(resource.kind.lower() == wanted for resource in served):
        for resource in served:
            if resource.plural == wanted and group in {"", resource.group}:
                return "/".join((*namespace_part, f"{resource.kind}{dot}{group}", name))
    return named


def _unknown(
    named: str, resource_map: ResourceMap, namespace: str
) -> Iterable[tuple[Resource, Ref]]:
    """Return the resource and ref of an object that is in neither input nor inventory."""
    *namespace_part, kind, name = named.split("/") if "/" in named else ("", named)
    wanted, _, group = kind.lower().partition(".")
    found = sorted(
        {
            resource.full_plural: resource
            for resource in resource_map.preferred.values()
            if wanted == resource.kind.lower() and group in {"", resource.group}
        }.items()
    )
    if not found or not name or len(namespace_part) > 1:
        kinds = {resource.kind.lower() for resource in resource_map.preferred.values()}
        meant = did_you_mean(wanted, kinds - {wanted})
        raise UsageError(
            f"{named!r} does not name an object",
            reason=f"no matches for kind {kind}" if kind and name else "",
            hint=f"{meant} Write KIND/NAME or KIND.GROUP/NAME: deployment.apps/web.".strip(),
        )
    # Several groups may serve a kind: take the first by name, unless the user named a group.
    _, resource = found[0]
    where = (namespace_part[0] if namespace_part else namespace) if resource.namespaced else ""
    return [(resource, Ref(resource.group, resource.kind, where, name))]


def _owner(state: State, applyset: ApplySetIdentity, cluster: Cluster) -> str:
    """Return the other set whose label an object has; empty if it cannot be found."""
    label = state.labels.get(PART_OF, "") if isinstance(state, LiveObject) else ""
    if not label or label == applyset.id:
        return ""
    try:
        roots = cluster.list(CONFIG_MAPS, selector=f"{SET_ID}={label}")
    except ApplypruneError:
        return ""
    names = [f"{set_name(root.ref.name)} in namespace {root.ref.namespace}" for root in roots]
    return names[0] if names else ""
