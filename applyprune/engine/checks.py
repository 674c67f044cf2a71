"""What a run asks before its first write, in its order.

The Namespace of the inventory and the autoscalers are read for the plan. Then each step is checked:
its fields, owners, drift and conflicts; and last the whole plan: its rights, references and
consequences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from applyprune.engine.send import apply_problem
from applyprune.errors import (
    AccessError,
    ApplypruneError,
    Forbidden,
    NotFound,
    NotServed,
    Unreachable,
)
from applyprune.model.fate import Fate
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.inventory import Inventory
from applyprune.model.kinds import CONFIG_MAP
from applyprune.model.live import (
    AUTOSCALERS,
    NAMESPACES,
    VOLUMES,
    LiveObject,
    Resource,
    State,
    Unknown,
)
from applyprune.model.options import DryRun, Mode, Options
from applyprune.model.plan import (
    Access,
    AccessRule,
    ApplyRule,
    ApplyStep,
    Consequence,
    Desired,
    Plan,
    ToolRecord,
)
from applyprune.model.problem import MOST_ERRORS, Problem
from applyprune.model.text import and_more
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.consequences import changes_of, consequences
from applyprune.planning.decide import ignoring_autoscaled_replicas, with_lost_replicas
from applyprune.planning.full_reads import conflict_of, drift_of, may_be_drift, may_conflict
from applyprune.planning.normalize import (
    autoscalers_in,
    is_scaled,
    may_be_autoscaled,
    with_autoscaler,
)
from applyprune.planning.order import missing_keys, missing_references, outside_references
from applyprune.planning.ownership import is_last_applied
from applyprune.planning.references import (
    OwnerReference,
    judged_owners,
    owner_references,
    place_of_owner,
)
from applyprune.planning.requests import needs_body
from applyprune.planning.rights import RightsReview, needs_of
from applyprune.planning.schemas import (
    FieldFault,
    KindSchema,
    changed_key_faults,
    defined_schemas,
    field_faults,
    fields_problem,
    kind_schema,
)
from applyprune.planning.still_recorded import tool_records
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.engine.context import RunContext, WorkerPool
    from applyprune.engine.ports import Cluster
    from applyprune.engine.reader import SnapshotReader
    from applyprune.planning.world import World


# The Namespace of the inventory.


def read_own_namespace(
    inventory: Inventory, cluster: Cluster, applyset: ApplySetIdentity, options: Options, owner: str
) -> State | None:
    """Return the Namespace of a new inventory; None if nothing depends on it, or it is unknown.

    A Bundle creates and deletes no namespace of an inventory: it is in that namespace itself.
    """
    whole = options.mode is Mode.APPLY or (options.mode is Mode.DELETE and not options.is_part)
    if inventory.exists or owner or not whole:
        return None
    try:
        return cluster.read(NAMESPACES, applyset.own_namespace)
    except Forbidden:
        return None  # if it is missing, the write of the inventory fails


def namespace_exists(cluster: Cluster, applyset: ApplySetIdentity) -> bool:
    """Return whether the namespace of an inventory exists; true if it must not be read."""
    try:
        return isinstance(cluster.read(NAMESPACES, applyset.own_namespace), LiveObject)
    except Forbidden:
        return True  # unknown; if it is missing, the write of the inventory fails


# Autoscalers, which may set the replicas of objects of the input.


def with_autoscalers(world: World, context: RunContext, reader: SnapshotReader) -> World:
    """Return the world with the autoscalers of the input and of the cluster.

    Only the namespaces are searched in which somebody has scaled an object of the input, or in
    which an apply may change its replicas. What is left to an autoscaler is read in full. One that
    this run changes counts as in the input, and one that it prunes as it is: the apply comes first.
    """
    off, entries = world.options.apply.no_default_ignore, world.inventory.entries
    given = autoscalers_in(world.desired)
    unread: dict[str, Problem] = {}

    def with_losses(member: Desired) -> Desired:
        live, entry = world.live(member.ref), entries.get(member.ref)
        return member if live is None else with_lost_replicas(member, entry, live, world)

    desired = [with_losses(member) for member in world.desired]
    replaced = _replaced(world)

    def is_open(member: Desired) -> bool:
        live, entry = world.live(member.ref), entries.get(member.ref)
        return (
            live is not None
            and may_be_autoscaled(member, off)
            and with_autoscaler(member, given, off) is member
            and (
                is_scaled(live)
                or entry is None
                or not is_last_applied(member, entry, live, world.manager)
            )
        )

    def listed(namespace: str) -> Sequence[Mapping[str, Any]]:
        try:
            found = context.cluster.list(AUTOSCALERS, namespace=namespace, full=True)
        except (NotFound, NotServed):
            return ()  # nothing scales here
        except ApplypruneError as error:
            unread[namespace] = error.problem
            return ()
        return [live.body for live in found if live.body is not None and live.uid not in replaced]

    namespaces = sorted({member.ref.namespace for member in desired if is_open(member)})
    scalers = (
        *given,
        *(one for found in context.workers.each(listed, namespaces) for one in found),
    )
    world = replace(world, autoscalers=scalers, unread_autoscalers=unread)
    if not (scalers or unread):
        return world
    states: dict[Ref, State] = {}
    for member in desired:
        scaled, live = ignoring_autoscaled_replicas(member, world), world.live(member.ref)
        is_ignored = scaled.ignored != member.ignored
        if not is_ignored or live is None or live.body is not None:
            continue
        if needs_body(scaled, live, world.applyset):
            states[member.ref] = reader.read_object(member.resource, member.ref, full=True)
    return replace(world, states={**world.states, **states})


def _replaced(world: World) -> frozenset[str]:
    """Return the UIDs of the autoscalers of the input: its manifests count instead."""
    lives = (
        world.live(one.ref)
        for one in world.desired
        if one.ref.group_kind == AUTOSCALERS.group_kind and one.apply is ApplyRule.ALWAYS
    )
    return frozenset(live.uid for live in lives if live is not None)


_SHOWN = 3


def unread_warning(world: World) -> Iterator[Problem]:
    """Yield one warning for all namespaces whose autoscalers could not be read."""
    if unread := world.unread_autoscalers:
        namespace, cause = min(unread.items())
        yield AccessError(
            f"the HorizontalPodAutoscalers of {and_more(sorted(unread), _SHOWN)} could not be read",
            reason=cause.message,
            hint="An autoscaler may set the replicas of these objects, so drift of them is not "
            "reverted. To see which does, allow: list horizontalpodautoscalers.autoscaling in "
            f"{namespace}",
        ).problem


# Fields, by the server's own schemas.


_NO_SCHEMA = "its fields are not checked: the server publishes no schema of its kind"
_OPEN = "its fields are not checked: its CRD is in the same input, without a schema"


def fields_checked(
    steps: Sequence[ApplyStep], context: RunContext, world: World
) -> Sequence[ApplyStep]:
    """Return steps that refuse every object with an unknown field or a value of a wrong type.

    A client dry run checks nothing.
    """
    if context.options.dry_run is DryRun.CLIENT:
        return steps
    custom = {kind for kind, generation in world.schemas.items() if generation is not None}
    found = _field_check(context.cluster, context.workers, steps, custom)
    return [_with_field_check(step, found) for step in steps]


def _with_field_check(step: ApplyStep, found: _FieldCheck) -> ApplyStep:
    ref = step.desired.ref
    if (problem := found.faults.get(ref)) is not None:
        return replace(step, fate=Fate.REFUSE, request=None, problem=problem)
    return replace(step, not_checked=found.not_checked.get(ref, step.not_checked))


class _FieldCheck(Struct, frozen=True):
    faults: Mapping[Ref, Problem]
    """The problem of each object with faulty fields."""
    not_checked: Mapping[Ref, str]
    """Why the fields of an object were not checked."""


def _field_check(
    cluster: Cluster,
    workers: WorkerPool,
    steps: Sequence[ApplyStep],
    custom: Collection[GroupKind] = (),
) -> _FieldCheck:
    """Check the names and the types of the fields of every object that a plan sends.

    It reads one document for each group version, and none if nothing is sent. ``custom`` are the
    kinds that a CRD in the cluster defines.
    """
    sending = {step.desired.ref: step for step in steps if step.request is not None}
    known = _known_schemas(cluster, workers, [step.desired for step in sending.values()], custom)
    problems: dict[Ref, Problem] = {}
    not_checked: dict[Ref, str] = {}
    left = MOST_ERRORS
    for ref, step in sending.items():
        schema = known[step.desired.resource.gvk]
        if isinstance(schema, str):
            not_checked[ref] = schema
        elif step.request and (faults := _faults(step.request.body, schema, step.desired)):
            problems[ref] = fields_problem(step.desired, faults, max(left, 1))
            left -= len(faults)
    return _FieldCheck(problems, not_checked)


def _faults(body: Mapping[str, Any], schema: KindSchema, desired: Desired) -> Sequence[FieldFault]:
    faults = field_faults(body, schema)
    if not desired.changed_keys:
        return faults
    changed = changed_key_faults(desired.changed_keys, schema)
    places = {fault.field for fault in changed}
    return [*changed, *(fault for fault in faults if fault.field not in places)]


def _known_schemas(
    cluster: Cluster,
    workers: WorkerPool,
    sending: Sequence[Desired],
    custom: Collection[GroupKind],
) -> Mapping[GVK, KindSchema | str]:
    """Return the schema of each kind, or why it is not known."""
    defined = defined_schemas(sending)
    known: dict[GVK, KindSchema | str] = {
        gvk: schema if schema is not None else _OPEN for gvk, schema in defined.items()
    }
    wanted = {desired.resource.gvk: desired.resource for desired in sending}
    served = {gvk: resource for gvk, resource in wanted.items() if gvk not in defined}
    documents = _documents(cluster, workers, served.values())
    for gvk in served:
        schemas = documents[gvk.api_version]
        if isinstance(schemas, str):
            known[gvk] = schemas
        else:
            is_custom = gvk.group_kind in custom
            known[gvk] = kind_schema(schemas, gvk, custom=is_custom) or _NO_SCHEMA
    return known


def _documents(
    cluster: Cluster, workers: WorkerPool, resources: Collection[Resource]
) -> Mapping[str, _Schemas]:
    def read(resource: Resource) -> tuple[str, _Schemas]:
        try:
            return resource.gvk.api_version, cluster.schemas(resource)
        except ApplypruneError as error:
            reason = f"its fields are not checked: its schema cannot be read: {error.message}"
            return resource.gvk.api_version, reason

    versions = {resource.gvk.api_version: resource for resource in resources}
    documents = dict(workers.each(read, versions.values()))
    workers.check()
    return documents


_Schemas: TypeAlias = "Mapping[str, Any] | str"
"""The schemas of a group version, or why there are none."""


# Owners that the garbage collector will not find.


def owners_checked(
    steps: Sequence[ApplyStep], context: RunContext, world: World
) -> tuple[Sequence[ApplyStep], Sequence[Problem]]:
    """Return steps that refuse each object that the garbage collector would delete, and warnings.

    Only what would be sent with an ownerReference costs a GET, of its owner.
    """
    asked = {
        step.desired.ref: owner_references(step.desired.body, step.live)
        for step in steps
        if step.request is not None and step.desired.packed.mentions("ownerReferences")
    }
    if not asked:
        return steps, ()
    places: dict[tuple[Ref, OwnerReference], Ref] = {}
    resources: dict[Ref, Resource] = {}
    for child, owners in asked.items():
        for owner in owners:
            resource = world.resource_map.find(owner.gvk)
            place = place_of_owner(owner, child, resource)
            if resource is not None and place is not None:
                places[child, owner] = place
                resources[place] = resource
    states = dict(context.workers.each(partial(_state, context.cluster), resources.items()))
    context.workers.check()
    inside = {step.desired.ref for step in steps}
    warnings: list[Problem] = []

    def checked(step: ApplyStep) -> ApplyStep:
        child = step.desired.ref
        if child not in asked:
            return step
        owners = asked[child]
        found = {owner: places[child, owner] for owner in owners if (child, owner) in places}
        refusal, warning = judged_owners(step.desired, owners, found, states, inside)
        if warning is not None:
            warnings.append(warning)
        if refusal is None:
            return step
        return replace(step, fate=Fate.REFUSE, request=None, problem=refusal)

    return [checked(step) for step in steps], warnings


def _state(cluster: Cluster, at: tuple[Ref, Resource]) -> tuple[Ref, State]:
    ref, resource = at
    try:
        return ref, cluster.read(resource, ref)
    except ApplypruneError as error:
        return ref, Unknown(error.problem)


# Fields that others own: drift, and conflicts that show without a dry run.


def drift_decided(
    steps: Sequence[ApplyStep], context: RunContext, inventory: Inventory
) -> Sequence[ApplyStep]:
    """Return the steps with their drift, and forced requests where only drift is forced.

    An object is read in full if it may have drifted, or if another manager owns a field that its
    manifest sets.
    """
    applyset, options = context.applyset, context.options

    def decided(step: ApplyStep) -> ApplyStep:
        live = step.live
        try:
            # What is corrected alone was just read in full; its write guards that version.
            if live is None or live.body is None or not options.corrects:
                live = context.cluster.get(step.desired.resource, step.desired.ref, full=True)
        except ApplypruneError:
            return step  # the apply itself will report it
        return drift_of(step, live, inventory.entries.get(step.desired.ref), applyset, options)

    drifting = [step for step in steps if may_be_drift(step, applyset, options)]
    return _with_each(context, steps, drifting, decided)


def visible_conflicts_refused(
    steps: Sequence[ApplyStep], context: RunContext
) -> Sequence[ApplyStep]:
    """Return the steps, those refused that conflict with another field manager.

    An object is read in full if another manager owns a field that its manifest sets. What the
    server has checked is not judged again.
    """
    applyset, options = context.applyset, context.options
    # Before a write, the server is asked.
    asks_server = options.dry_run is not DryRun.CLIENT

    def checked(step: ApplyStep) -> ApplyStep:
        desired, live = step.desired, step.live
        try:
            if live is not None and live.body is None:
                live = context.cluster.get(desired.resource, desired.ref, full=True)
        except ApplypruneError:
            return step  # the apply itself will report it
        conflict = conflict_of(step, live, applyset, options, asks_server=asks_server)
        if conflict is None:
            return step
        problem = apply_problem(conflict, step, context)
        return replace(step, fate=Fate.REFUSE, request=None, problem=problem)

    shared = [step for step in steps if may_conflict(step, applyset, asks_server=asks_server)]
    return _with_each(context, steps, shared, checked)


def _with_each(
    context: RunContext,
    steps: Sequence[ApplyStep],
    some: Sequence[ApplyStep],
    decide: Callable[[ApplyStep], ApplyStep],
) -> Sequence[ApplyStep]:
    """Return the steps with some of them decided, in parallel."""
    found = {step.desired.ref: step for step in context.workers.each(decide, some)}
    return [found.get(step.desired.ref, step) for step in steps]


# Rights.
#
# One review of rules for each namespace answers most of it. What it does not clearly allow is asked
# for one by one: each verb on each resource and, if that is not allowed, on each object.


def rights_review(
    plan: Plan, context: RunContext, inventory: Inventory, *, makes_namespace: bool
) -> RightsReview | None:
    """Ask the server which of the rights that a plan needs the account lacks; None for none."""
    applyset, is_new = context.applyset, not inventory.exists
    needs = needs_of(plan, applyset, is_new=is_new, makes_namespace=makes_namespace)
    if not needs:
        return None
    try:
        forbidden = _Reviewer(context).forbidden({access for _, access in needs})
    except Unreachable:
        raise
    except ApplypruneError as error:
        return _not_checked(error)
    return [(ref, access) for ref, access in needs if access in forbidden]


def _not_checked(error: ApplypruneError) -> Problem:
    problem = error.problem
    return replace(
        problem,
        message="the rights of this account were not checked: no access review is possible",
        reason=problem.message,
    )


class _Reviewer(Struct, frozen=True):
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
        # guard: access-review -> set()
        return {one for one, is_allowed in asked if not is_allowed}


# What the plan does beyond its objects: references, and consequences.


def reference_warnings(plan: Plan, world: World, reader: SnapshotReader) -> Iterator[Problem]:
    """Yield a warning for each missing object and key.

    Without a check, send no request: only what the set itself shows is found.
    """
    yield from missing_keys(plan, world.manager)
    if not world.options.check:
        return
    uses = outside_references(plan)
    unread = [ref for ref in uses if ref not in world.states]
    states = {**world.states, **reader.look_up(unread, world.resource_map)}
    yield from missing_references(uses, states, plan, world.left_out)


def records_of_tools(plan: Plan, world: World, context: RunContext) -> tuple[ToolRecord, ...]:
    """Return what other tools still have of what a plan adopts.

    Without a check, send no request: then only the marks of the objects tell.
    """
    served = world.resource_map

    def look_up(kind: GroupKind, namespace: str, selector: str) -> Sequence[LiveObject] | None:
        resource = served.find_kind(kind)
        if resource is None:
            return None if kind.group in served.stale else ()
        try:
            return context.cluster.list(
                resource,
                namespace=namespace,
                selector=selector,
                full=kind == CONFIG_MAP,
                remembered=True,
            )
        except Unreachable:
            raise
        except ApplypruneError:
            return None

    reads = look_up if world.options.check else lambda *_: None
    return tool_records(plan, context.applyset, world.others, reads)


def consequences_of(
    plan: Plan,
    world: World,
    states: Mapping[Ref, tuple[LiveObject | None, Mapping[str, Any] | None]],
    context: RunContext,
    *,
    reads: bool,
) -> tuple[Consequence, ...]:
    """Return the consequences of a plan.

    ``states`` are the states before and after of the objects that a dry run on the server has
    checked. Unless it ``reads``, the plan gets only what is known without a request.
    """
    changes = changes_of(plan, world, states)
    volumes: Sequence[LiveObject] | str | None = None
    if reads and any(change.claims for change in changes):
        try:
            # Only its body names the claim that it is bound to.
            volumes = context.cluster.list(VOLUMES, full=True)
        except Forbidden:
            volumes = f"no right to list {VOLUMES.full_plural}"
        except ApplypruneError as error:
            volumes = f"{VOLUMES.full_plural} cannot be listed: {error.message}"
    desired = [step.desired for step in plan.applies]
    propagation = context.options.prune.propagation
    return tuple(consequences(changes, desired, propagation, volumes))
