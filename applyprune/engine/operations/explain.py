"""Explain what a run would do with single objects, by the plan of that run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from applyprune.engine.cancellation import Cancellation
from applyprune.engine.checks.whole_plan import check_plan
from applyprune.engine.context import run_context
from applyprune.engine.plan_stage import PlanStage, RunRequest, plan_with, with_exact_names
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.engine.steps.dry_run import ServerDryRun
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.events import Event, WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, LiveObject, Resource, ResourceMap, State, Unknown
from applyprune.model.options import DryRun, Mode, Options
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity, set_name
from applyprune.planning.approval import is_held
from applyprune.planning.explain import ExplainInput, explained
from applyprune.planning.names import NamedObject, Resolver, full_name, kind_names, known_names
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster, Store

_Place: TypeAlias = "tuple[Resource, Ref]"


def explain(
    asked: RunRequest,
    named: str,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    *,
    by_input: bool,
) -> Iterator[Event]:
    """Yield an Explanation for each object that ``named`` names, as users write it.

    ``asked`` is the apply to explain. If not ``by_input``, explain by the inventory alone what
    would happen to the object if it left the set. It does not wait for other runs. The server
    checks these objects alone, by a dry run. Raises UsageError for a kind that is not served, and
    what refuses the apply as a whole.
    """
    applyset, inventory = asked.applyset, store.read()
    resource_map = cluster.resource_map()
    names = kind_names(resource_map, [inventory], asked.manifests)
    found = names.object(named)
    options = replace(asked.options, dry_run=DryRun.SERVER)
    if not by_input:
        alone = replace(asked.options.prune, allow_empty=True)
        options = Options(Mode.PRUNE, DryRun.SERVER, prune=alone, select=frozenset({named}))
    planned = replace(asked, options=options)
    with run_context(cluster, store, applyset, options, cancellation, mode=options.mode) as begun:
        context = yield from with_exact_names(begun, resource_map, [inventory], asked.manifests)
        if by_input:
            resolver = Resolver(names, known_names([inventory], asked.manifests))
            resolver.object(named)
            yield from map(WarningRaised, resolver.warnings)
        options = context.options
        stage = yield from plan_with(inventory, resource_map, planned, context)
        states = _states(stage, found.text)
        reader = SnapshotReader(cluster, context.workers, applyset, store)
        for resource, ref in () if states else _unlisted(found, resource_map, asked.namespace):
            states[ref] = reader.read_object(resource, ref)
        dry_run = ServerDryRun(context)
        plan = check_plan(stage, context, dry_run, only=states.keys())
        yield from map(WarningRaised, plan.warnings)
        yield from context.server_warnings.events(plan, stage.snapshot, asked.manifests)
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


def _unlisted(found: NamedObject, resource_map: ResourceMap, namespace: str) -> Iterator[_Place]:
    """Yield the resource and ref of an object that is in neither input nor inventory."""
    resource = resource_map.find_kind(found.kind)
    if resource is None:
        raise UsageError(
            f"{found.text!r} does not name an object",
            reason=f"no matches for kind {full_name(found.kind)}, and neither the input nor the "
            "inventory has the object",
        )
    where = (found.namespace or namespace) if resource.namespaced else ""
    yield resource, Ref(resource.group, resource.kind, where, found.name)


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
