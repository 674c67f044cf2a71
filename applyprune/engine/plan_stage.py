"""Read, plan and check, before the first write; with the verbs that only show the result."""

from __future__ import annotations

from collections.abc import (
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.engine.checks import (
    drift_decided,
    fields_checked,
    owners_checked,
    read_own_namespace,
    records_of_tools,
    reference_warnings,
    rights_review,
    unread_warning,
    visible_conflicts_refused,
    with_autoscalers,
)
from applyprune.engine.context import RunContext, RunRequest, run_context
from applyprune.engine.dry_run import ServerDryRun
from applyprune.engine.ports import Cancellation
from applyprune.engine.reader import (
    DependantCounter,
    KindProofs,
    SnapshotReader,
    read_pod_use,
    with_cascades,
)
from applyprune.engine.waiting import ReadinessRules, RelatedObjects
from applyprune.errors import ApplypruneError, UsageError, raise_all
from applyprune.model.events import Event, ObjectDiff, ObjectDone, Readiness, Status, WarningRaised
from applyprune.model.fate import Fate
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory
from applyprune.model.kinds import NAMESPACE, Trait, kinds_with
from applyprune.model.live import CONFIG_MAPS, LiveObject, Resource, ResourceMap, State, Unknown
from applyprune.model.options import Adopt, DryRun, Mode, Options
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.model.problem import Manifest, Problem
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity, set_name
from applyprune.planning.approval import (
    as_reviewed,
    is_blocked,
    unconfirmed,
    with_approval,
)
from applyprune.planning.approved_deletions import is_rest
from applyprune.planning.cascade import deletions_of, recreations_judged
from applyprune.planning.comparison import diff_of, removal_diff
from applyprune.planning.desired import (
    Resolved,
    UnknownObject,
    changed_key_warning,
    coming_definitions,
    resolve,
)
from applyprune.planning.explain import ExplainInput, explanation_of
from applyprune.planning.names import (
    NamedObject,
    Resolver,
    full_name,
    has_names,
    kind_names,
    known_names,
    partial_problem,
    refuse_needed,
    refuse_unselected,
    selected,
    unmatched_selection,
    with_names_resolved,
)
from applyprune.planning.object_status import explained_readiness, unready_objects
from applyprune.planning.own_namespace import (
    makes_namespace,
    refuse_terminating,
    why_own_namespace_stays,
    with_own_namespace,
)
from applyprune.planning.ownership import foreign_label
from applyprune.planning.plan import forecast, make_plan
from applyprune.planning.pods import adds_to
from applyprune.planning.prune_waits import (
    heeds_pods,
    kinds_to_judge,
    needs_pods,
    unready_problem,
)
from applyprune.planning.readiness import warnings_about
from applyprune.planning.recovery import (
    is_restored,
    part_to_correct,
    recovered_problem,
    refuse_beyond_drift,
    restored_problem,
    to_orphan_problem,
    unlisted_problem,
)
from applyprune.planning.refusals import (
    no_such_set,
    refuse_removal_of_set,
    refuse_run,
    refuse_unlisted,
    refuse_without_inventory,
)
from applyprune.planning.removals import ignored_objects, objects_to_prune
from applyprune.planning.rights import Member, RoleText, roles, with_rights
from applyprune.planning.served_kinds import has_all_kinds, lacking_groups
from applyprune.planning.server_errors import known_secrets
from applyprune.planning.world import World
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster, Store
    from applyprune.model.inventory import InventoryEntry
    from applyprune.planning.approval import PlanFile


NOT_APPLIED = "not everything was applied"


def read_and_plan(request: RunRequest, context: RunContext) -> Generator[Event, None, PlanStage]:
    """Wait for other runs, read everything, and return the plan; write nothing.

    Yields the warnings about the input and the inventory. Raises what refuses the run as a whole.
    """
    yield from context.lock.wait(observation=request.observation)
    inventory = context.lock.inventory
    resource_map = _served_kinds(request, inventory, context)
    context = yield from with_exact_names(
        context, resource_map, inventory, request.manifests, of_bundle=bool(request.owner)
    )
    if inventory.exists:  # otherwise it may be lost: its objects are searched first
        refuse_unlisted(context.options.select, inventory.entries, context.applyset)
    stage = yield from _plan_with(inventory, resource_map, request, context)
    # Only now: whether an object has left the set is decided by the whole input.
    free = tuple(one for one in stage.plan.applies if one.desired.ref not in stage.blocked)
    return replace(stage, plan=replace(stage.plan, applies=free))


class PlanStage(Struct, frozen=True):
    """A plan, and what it was made from; the server has not checked it yet."""

    plan: Plan
    world: World
    """What it was made from; its options have exact names."""
    inventory: Inventory
    """The whole inventory as read."""
    dependants: DependantCounter
    """What the garbage collector would delete with it."""
    readiness_rules: ReadinessRules
    """The rules by which its objects are ready."""
    unknown: Sequence[UnknownObject] = ()
    """The objects of kinds that the server does not know now."""
    blocked: Mapping[Ref, Problem] = field(default_factory=dict)
    """What comes after these objects, and why it is not applied."""
    makes_namespace: bool = False
    """Whether the namespace of the inventory must be created first."""
    stays: str = ""
    """Why nothing is pruned in any case; empty if the run may prune."""

    def state_of(self, step: ApplyStep) -> Readiness | None:
        """Return the readiness of an object of the input, as it was read; None if unknown."""
        live = self.world.shown.get(step.desired.ref, step.live)
        return self.readiness_rules.state(step.desired, live) if live is not None else None


def _served_kinds(request: RunRequest, inventory: Inventory, context: RunContext) -> ResourceMap:
    """Return what the server serves; a list of a moment ago will do if it has all that is needed.

    A kind that is gone since answers with 404, which proves nothing, so its objects are unknown.
    """
    found = context.cluster.resource_map(remembered=True)
    is_enough = not found.remembered or (
        not has_names(context.options) and has_all_kinds(found, request.manifests, inventory)
    )
    return found if is_enough else context.cluster.resource_map()


def with_exact_names(
    context: RunContext,
    resource_map: ResourceMap,
    inventory: Inventory,
    manifests: Sequence[Manifest] = (),
    *,
    of_bundle: bool = False,
) -> Generator[Event, None, RunContext]:
    """Return the context with options that name exactly one kind or object each.

    ``of_bundle`` says that the options are those of a Bundle, for the words of an error. Yields a
    warning for each name that could also match another known object. Raises UsageError for a name
    that matches no kind: it must never allow or protect anything.
    """
    if not has_names(context.options):
        return context
    options, warnings = with_names_resolved(
        context.options,
        kind_names(resource_map, [inventory], manifests),
        known_names(inventory, manifests),
        of_bundle=of_bundle,
    )
    yield from map(WarningRaised, warnings)
    return replace(context, options=options)


def _plan_with(
    inventory: Inventory, resource_map: ResourceMap, request: RunRequest, context: RunContext
) -> Generator[Event, None, PlanStage]:
    """Do what ``read_and_plan`` does, by an inventory that is read already, whoever holds it.

    The names in the options are exact: see ``with_exact_names``.
    """
    cluster, applyset, options = context.cluster, context.applyset, context.options
    proofs = KindProofs(cluster, context.workers, resource_map, cluster.patience)
    coming = coming_definitions((*request.command.coming, *request.manifests), options)
    if lacking := lacking_groups(resource_map, request.manifests, coming, inventory):
        # The list of kinds lags behind a new CRD: this reads it until it does not.
        proofs.of(lacking)
        context.cancellation.check()
        resource_map = proofs.resource_map
    _hide_secrets(request, {}, context)
    resolved = resolve(
        request.manifests,
        resource_map,
        applyset,
        namespace=request.namespace,
        options=options,
        elsewhere=inventory.entries.keys() if options.applies_part else (),
        coming=request.command.coming,
    )
    yield from (WarningRaised(warning) for warning in resolved.warnings)
    applied = resolved.desired if options.mode is Mode.APPLY else ()
    rules = ReadinessRules(cluster, applied, options)
    raise_all([*resolved.errors, *rules.errors])
    refuse_run(inventory, resolved.manifests, options, request.owner, takes_over=request.takes_over)
    inventory, makes_namespace_of_inventory = _begun(inventory, resolved, request, context)
    known = yield from _part_to_read(
        resolved, inventory, [one.ref for one in resolved.unknown], context
    )
    reader = SnapshotReader(cluster, context.workers, applyset, context.store, proofs)
    world = World(
        applyset,
        known,
        options,
        resolved.desired,
        left_out=resolved.left_out,
        ignored=ignored_objects(
            request.ignored, request.namespace, options.apply.namespace_override
        ),
        empty_inputs=request.empty_inputs,
        new_namespace=applyset.namespace if makes_namespace_of_inventory else "",
        resource_map=resource_map,
        own_namespace_stays=why_own_namespace_stays(options, request.owner),
        siblings=request.siblings,
        command=request.command,
    )
    world = _read(world, resolved.kinds, reader, context)
    world = _with_withheld(world, request)
    _hide_secrets(request, world.states, context)
    dependants = DependantCounter(cluster, context.workers, resource_map, tuple(world.live_objects))
    world = with_cascades(world, dependants, reader)
    if not inventory.exists:
        refuse_without_inventory(world)
    if options.mode is Mode.DELETE and options.is_part:
        yield from _deleted_part(world)
    elif not (inventory.exists or inventory.entries) and options.mode is Mode.DELETE:
        # To delete a set twice is not a failure, but a mistyped name must be visible.
        unseen = world.unseen if options.allow_partial else ()
        if request.owner:  # guard: removal-needs-inventory never
            raise no_such_set(applyset, unseen)  # a Bundle searches again, and waits for it
        yield WarningRaised(no_such_set(applyset, unseen).problem)
    world = _with_pod_use(world, context)
    plan = make_plan(world)
    unknown = {ref for one in resolved.unknown for ref in one.refs}
    removals = tuple(step for step in plan.removals if step.entry.ref not in unknown)
    plan = replace(plan, removals=removals)
    inventory = replace(inventory, copied=plan.restored)
    yield from _warnings_about(plan, world)
    missing = reference_warnings(plan, world, reader)
    plan = replace(plan, warnings=(*plan.warnings, *unread_warning(world), *missing))
    # guard: prune-after-unknown -> ""
    unreached = NOT_APPLIED if resolved.unknown and options.prune.enabled else ""
    stays = unreached or request.command.prunes_after
    return PlanStage(
        plan,
        world,
        inventory,
        dependants,
        rules,
        resolved.unknown,
        resolved.blocked,
        makes_namespace_of_inventory,
        stays,
    )


def _begun(
    inventory: Inventory, resolved: Resolved, request: RunRequest, context: RunContext
) -> tuple[Inventory, bool]:
    """Return the inventory, as far as an interrupted run has begun one by its Namespace.

    Also return whether the run creates that Namespace, though it is not in the set.
    """
    applyset, options = context.applyset, context.options
    own = read_own_namespace(inventory, context.cluster, applyset, options, request.owner)
    coming = [one.name for one in request.command.coming if one.gvk.group_kind == NAMESPACE]
    creates = options.mode is Mode.APPLY and makes_namespace(
        own, resolved, applyset, options, coming
    )
    return with_own_namespace(inventory, own, applyset), creates


def _warnings_about(plan: Plan, world: World) -> Iterator[Event]:
    """Yield what the user should know of the inventory; raise if a set may not be deleted so."""
    if (stray := unlisted_problem(world)) is not None:
        refuse_removal_of_set(stray, world)  # guard: unlisted-at-delete
        yield WarningRaised(stray)
    if world.options.mode is not Mode.ORPHAN and (marked := to_orphan_problem(world)):
        yield WarningRaised(marked)
    if plan.restored:
        yield WarningRaised(restored_problem(world.inventory))
    if plan.recovered:
        wanted = {member.ref for member in world.desired}
        left = [entry for entry in plan.recovered if entry.ref not in wanted]
        yield WarningRaised(recovered_problem(left, world))


def _with_pod_use(world: World, context: RunContext) -> World:
    """Return the world with the Pods of each namespace where a prune may take what they use."""
    if not heeds_pods(world.options) or is_restored(world):
        return world
    refs = [live.ref for live in objects_to_prune(world) if needs_pods(live.ref)]
    return replace(world, pod_use=read_pod_use(refs, context.cluster, context.workers))


def _hide_secrets(request: RunRequest, states: Mapping[Ref, State], context: RunContext) -> None:
    """Hide the values of all Secrets that were read in what others write from now on."""
    context.summary.secrets.know(lambda: known_secrets(request.manifests, states.values()))


def _part_to_read(
    resolved: Resolved, inventory: Inventory, unresolved: Sequence[Ref], context: RunContext
) -> Generator[Event, None, Inventory]:
    """Return the part of the inventory that the run reads; yield a warning about a part of a set.

    ``unresolved`` are the selected objects of the input that are not among the resolved ones.
    """
    options = context.options
    if refs := options.corrects:
        return part_to_correct(inventory, refs, resolved.desired, resolved.kinds)
    if options.applies_part:
        picked = [*(desired.ref for desired in resolved.desired), *unresolved]
        refuse_unselected(options, picked, inventory.entries, context.applyset)
        yield WarningRaised(partial_problem(options, picked, inventory.entries))
    return inventory


def _with_withheld(world: World, request: RunRequest) -> World:
    """Return the world with the sets from which nothing may be adopted, if anything would be."""
    if request.withholds is None or world.options.apply.adopt is not Adopt.ALL:
        return world
    objects = (live for one in world.desired if (live := world.live(one.ref)) is not None)
    owners = {label: live for live in objects if (label := foreign_label(live, world.applyset))}
    return replace(world, withheld=request.withholds(owners) if owners else {})


def _read(
    world: World, kinds: Collection[GroupKind], reader: SnapshotReader, context: RunContext
) -> World:
    """Read everything that the plan depends on, but for what would be deleted with it."""
    options, own = world.options, world.applyset.own_namespace
    world = reader.read(
        world,
        full=bool(options.corrects) or kinds_to_judge(world.desired, world.inventory, options),
        searches=not options.corrects,
        kinds=kinds,
    )
    if options.prune.enabled and not options.applies_part and options.mode is not Mode.ORPHAN:
        removed = world.inventory.entries.keys() - {member.ref for member in world.desired}
        world = replace(world, occupied=reader.occupied(removed))
    if options.mode is Mode.APPLY:
        refuse_terminating(world.states.get(own), world.applyset)
        world = with_autoscalers(world, context, reader)
    context.cancellation.check()
    return world


def _deleted_part(world: World) -> Iterator[Event]:
    """Yield that a part of the set is deleted; raise if it is empty, or if the rest needs it."""
    applyset, options, inventory = world.applyset, world.options, world.inventory
    if not inventory.entries:
        raise no_such_set(applyset)
    if not (entries := selected(inventory, world.states, options)):
        raise unmatched_selection(options, inventory.entries)
    refuse_needed(entries, inventory, world.states)  # guard: part-dependents
    refs = [entry.ref for entry in entries]
    yield WarningRaised(partial_problem(options, refs, inventory.entries))


def check_plan(
    stage: PlanStage,
    context: RunContext,
    dry_run: ServerDryRun,
    *,
    only: Collection[Ref] | None = None,
    reviewed: PlanFile | None = None,
) -> Plan:
    """Return the plan with the fates that remain after every check; write nothing.

    The server checks it if the options say so: all of it, or ``only`` these objects. It has checked
    a plan that was ``reviewed``, of which this may be the rest: an approval is of the whole.
    """
    options, applyset = context.options, context.applyset
    # guard: field-check -> stage.plan.applies
    steps = fields_checked(stage.plan.applies, context, stage.world)
    steps, lost_owners = owners_checked(steps, context, stage.world)
    keys = [
        changed_key_warning(one.desired.ref, one.desired.origin, one.desired.changed_keys)
        for one in steps
        if one.desired.changed_keys and one.fate is not Fate.REFUSE
    ]
    warnings = (*stage.plan.warnings, *keys, *lost_owners)
    asks_server = reviewed is None and (
        options.dry_run is DryRun.SERVER or (options.check and options.dry_run is DryRun.OFF)
    )
    steps = drift_decided(steps, context, stage.inventory)
    if reviewed is not None:
        again = unconfirmed(steps, reviewed)
        steps = as_reviewed(steps, reviewed)
        if again:
            steps = dry_run.checked(steps, only=again)
    if asks_server:
        # An approval covers every recreation, so each must be found.
        steps = dry_run.checked(steps, only=None if options.prune.approved else only)
    steps = _recreations_judged(replace(stage.plan, applies=tuple(steps)), stage, options)
    steps = visible_conflicts_refused(steps, context)
    plan = replace(stage.plan, applies=tuple(steps), warnings=warnings)
    plan = with_approval(
        plan,
        applyset,
        options,
        deletions=reviewed.deletions if reviewed is not None else "",
        stays=stage.stays,
        continues=is_rest(plan, stage.inventory.approved, applyset, options),
    )
    if only is None:
        plan = replace(plan, records=records_of_tools(plan, stage.world, context))
    if options.dry_run is DryRun.CLIENT and options.diff.enabled:
        dry_run.compare_locally(plan.applies)
    if options.corrects:
        refuse_beyond_drift(plan)
    unready = unready_problem(plan, applyset, options, stage.state_of)
    if unready is not None:
        plan = replace(plan, warnings=(*plan.warnings, unready))
    if asks_server and options.check:
        review = rights_review(
            plan, context, stage.inventory, makes_namespace=stage.makes_namespace
        )
        is_diff = options.diff.enabled and not options.diff.of_plan
        # guard: rights-of-a-plan -> not is_diff and options.dry_run is DryRun.OFF
        holds = not is_diff
        plan = with_rights(plan, review, applyset, holds=holds)
    return plan


def _recreations_judged(plan: Plan, stage: PlanStage, options: Options) -> Sequence[ApplyStep]:
    """Return the applies; recreations are refused if they would delete what must stay."""
    to_recreate = [
        step.live for step in plan.applies if step.fate is Fate.RECREATE and step.live is not None
    ]
    if not to_recreate:
        return plan.applies
    deletions = deletions_of(to_recreate, {}, options.prune.propagation)
    found = stage.dependants.count(deletions)
    return recreations_judged(plan, found, stage.inventory.entries.keys(), options)


def preview(
    context: RunContext,
    plan: Plan,
    dry_run: ServerDryRun,
    recorded: Mapping[Ref, InventoryEntry],
    unreached: Iterable[ObjectDone],
) -> Iterator[Event]:
    """Yield how the run would end for each object, with its diff if that was asked for.

    ``dry_run`` has checked the plan, ``recorded`` are the entries of the inventory as read, and
    ``unreached`` is about the objects that are not in the plan.
    """
    diffs: dict[Ref, ObjectDiff] = {}
    if context.options.diff.enabled:
        diffs = {diff.ref: diff for diff in _diffs(context, plan, dry_run, recorded)}
    yield from context.summary.counted(unreached)
    for done in forecast(plan, context.options):
        if (diff := diffs.get(done.ref)) is not None:
            yield diff
        yield from context.summary.counted((done,))


def _diffs(
    context: RunContext,
    plan: Plan,
    dry_run: ServerDryRun,
    recorded: Mapping[Ref, InventoryEntry],
) -> Iterator[ObjectDiff]:
    for comparison in dry_run.comparisons.values():
        yield diff_of(comparison, dry_run.rules, recorded, context.applyset.manager)
    removals = () if plan.no_prune else plan.removals
    pruned = [step for step in removals if step.fate is Fate.PRUNE]
    for step, live, not_checked in context.workers.each(partial(_before, context), pruned):
        if live is not None:
            yield removal_diff(step, live, not_checked=not_checked)


def _before(context: RunContext, step: RemoveStep) -> tuple[RemoveStep, LiveObject | None, str]:
    """Read an object that would be deleted in full, if that is possible."""
    if step.resource is None or step.live is None:
        return step, None, ""
    try:
        return step, context.cluster.get(step.resource, step.entry.ref, full=True), ""
    except ApplypruneError as error:
        return step, step.live, f"only its metadata could be read: {error.message}"


def explain(
    asked: RunRequest,
    cluster: Cluster,
    store: Store,
    cancellation: Cancellation,
    named: str,
) -> Iterator[Event]:
    """Yield an Explanation for each object that ``named`` names, as users write it.

    ``asked`` is the apply to explain; a prune explains by the inventory alone what would happen to
    the object if it left the set. It does not wait for other runs. The server checks these objects
    alone, by a dry run. Raises UsageError for a kind that is not served, and what refuses the apply
    as a whole.
    """
    applyset, inventory = asked.applyset, store.read()
    by_input = asked.options.mode is Mode.APPLY
    resource_map = cluster.resource_map()
    names = kind_names(resource_map, [inventory], asked.manifests)
    resolver = Resolver(names, known_names(inventory, asked.manifests))
    found = resolver.object(named)
    options = replace(asked.options, dry_run=DryRun.SERVER, check=False)
    if not by_input:
        alone = replace(asked.options.prune, allow_empty=True)
        options = Options(Mode.PRUNE, DryRun.SERVER, check=False, prune=alone)
        options = replace(options, select=frozenset({named}))
    planned = replace(asked, options=options)
    with run_context(planned, cluster, store, cancellation) as begun:
        context = yield from with_exact_names(begun, resource_map, inventory, asked.manifests)
        if by_input:
            yield from map(WarningRaised, resolver.warnings)
        options = context.options
        stage = yield from _plan_with(inventory, resource_map, planned, context)
        states = _states(stage, found.text)
        reader = SnapshotReader(cluster, context.workers, applyset, store)
        if not states:
            resource, ref = resource_and_ref(found, resource_map, asked.namespace)
            states[ref] = reader.read_object(resource, ref)
        dry_run = ServerDryRun(context)
        plan = check_plan(stage, context, dry_run, only=states.keys())
        yield from map(WarningRaised, plan.warnings)
        yield from context.server_warnings.events(plan)
        for ref, state in states.items():
            yield explanation_of(
                ExplainInput(
                    ref=ref,
                    state=state,
                    plan=plan,
                    inventory=inventory,
                    applyset=applyset,
                    by_input=by_input,
                    schemas=stage.world.schemas,
                    owner=_owner(state, applyset, cluster),
                    hook=stage.world.left_out.get(ref, ""),
                    silent={one.ref: one.problem for one in stage.unknown}.get(ref),
                    is_blocked=is_blocked(plan, options),
                    unready=_why_unready(state, resource_map, reader, context),
                )
            )


def _why_unready(
    state: State, resource_map: ResourceMap, reader: SnapshotReader, context: RunContext
) -> tuple[str, ...]:
    """Return why an object is not ready and its last warnings, by the Pods and events around it."""
    if not isinstance(state, LiveObject) or state.ref.group_kind in kinds_with(Trait.AT_ONCE):
        return ()
    live, resource = state, resource_map.find_kind(state.ref.group_kind)
    if live.body is None and resource is not None:
        full = reader.read_object(resource, live.ref, full=True)
        live = full if isinstance(full, LiveObject) else live
    now, related = context.cluster.server_time or datetime.now(UTC), RelatedObjects()
    related.read(unready_objects([live], now), context.cluster, context.workers)
    around = related.of(live)
    found = explained_readiness(live, around, now, manager=context.applyset.manager)
    if found.status is Status.TERMINATING:
        return (context.cluster.masked(found.message),)
    if found.status not in {Status.IN_PROGRESS, Status.FAILED}:
        return ()
    warnings = [one for one in warnings_about(live, around) if adds_to(one, found.message)]
    reasons = (
        f"it is not ready: {found.message}",
        *(f"warning {one.text}" for one in warnings),
        related.not_read(live.ref, live),
    )
    return tuple(context.cluster.masked(reason) for reason in reasons if reason)


def _states(stage: PlanStage, named: str) -> dict[Ref, State]:
    """Return the states of the objects of this name in the input and in the inventory."""
    known: dict[Ref, State] = {one.ref: Unknown(one.problem) for one in stage.unknown}
    refs = {step.desired.ref for step in stage.plan.applies} | stage.inventory.entries.keys()
    known |= {ref: stage.world.states[ref] for ref in refs}
    return {ref: known[ref] for ref in sorted(known) if ref.is_among({named})}


def resource_and_ref(
    found: NamedObject, resource_map: ResourceMap, namespace: str
) -> tuple[Resource, Ref]:
    """Return the resource and ref of an object that is in neither input nor inventory."""
    resource = resource_map.find_kind(found.kind)
    if resource is None:
        raise UsageError(
            f"{found.text!r} does not name an object",
            reason=f"no matches for kind {full_name(found.kind)}, and neither the input nor the "
            "inventory has the object",
        )
    where = (found.namespace or namespace) if resource.namespaced else ""
    return resource, Ref(resource.group, resource.kind, where, found.name)


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


def rbac(
    manifests: Sequence[Manifest],
    inventory: Inventory | None,
    applyset: ApplySetIdentity,
    options: Options,
    cluster: Cluster,
) -> Sequence[RoleText]:
    """Return the roles for a set; write nothing.

    What only the inventory lists will be pruned, and needs rights too. Without an ``inventory`` the
    set has no name, and neither have the roles. Raises what is wrong with the input.
    """
    resource_map = cluster.resource_map()
    resolved = resolve(
        manifests, resource_map, applyset, namespace=applyset.namespace, options=options
    )
    raise_all(resolved.errors)
    members = [Member(one.resource, one.ref) for one in resolved.desired]
    name = "applyprune"
    if inventory is not None:
        members += _listed(inventory, resource_map)
        name = f"applyprune:{applyset.namespace}:{applyset.name}"
    return roles(members, resolved.desired, applyset, resource_map, name=name)


def _listed(inventory: Inventory, resource_map: ResourceMap) -> Iterator[Member]:
    for ref, entry in inventory.entries.items():
        recorded = Resource(
            ref.group, entry.version, ref.kind, entry.plural, namespaced=bool(ref.namespace)
        )
        yield Member(resource_map.find_kind(ref.group_kind) or recorded, ref)
