"""What a run would do about single objects, found out by reading and planning as a run does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.engine.preflight import no_set
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.events import Event, WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.options import Mode, Options, PruneOptions
from applyprune.model.resources import CONFIG_MAPS
from applyprune.planning.applyset import PART_OF, SET_ID, set_name
from applyprune.planning.desired import resolve
from applyprune.planning.explain import ExplainInput, explained
from applyprune.planning.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, Readable
    from applyprune.model.live import State
    from applyprune.model.manifest import Manifest
    from applyprune.model.resources import Resource, ResourceMap
    from applyprune.planning.applyset import ApplySetIdentity


def explain(
    target: ApplySetIdentity,
    manifests: Sequence[Manifest] | None,
    named: str,
    cluster: Cluster,
    store: Readable,
    stop: Cancellation,
    *,
    namespace: str,
    hollow: Sequence[str] = (),
) -> Iterator[Event]:
    """Yield an Explained for each object that ``named`` names, as ``Ref.is_among`` takes it.

    ``manifests`` is the input, None for none: then the inventory alone tells what would become of
    the object if it left the set. ``namespace`` is where manifests without one go, and where an
    object is looked for that neither input nor inventory knows. ``hollow`` are the parts of the
    input that hold no object. Raises UsageError for a kind that
    is not served, or a set that there is not; InputError, InventoryError and AccessError.
    """
    with WorkerPool(16, stop) as workers:
        inventory = store.read()
        if manifests is None and not inventory.exists:
            raise no_set(target)
        catalogue = cluster.catalogue()
        named = _by_kind(named, catalogue)
        resolved = resolve(manifests or (), catalogue, target, namespace=namespace)
        yield from (WarningRaised(warning) for warning in resolved.warnings)
        options = Options()
        if manifests is None:
            options = Options(
                mode=Mode.PRUNE, select=frozenset({named}), prune=PruneOptions(allow_empty=True)
            )
        reader = SnapshotReader(cluster, workers, target)
        world = reader.world(resolved.desired, inventory, catalogue, prunes=True)
        plan = make_plan(resolved.desired, inventory, world, target, options, empty_inputs=hollow)
        known = {one.ref for one in resolved.desired} | inventory.entries.keys()
        states: dict[Ref, State] = {
            ref: world.states[ref] for ref in sorted(known) if ref.is_among({named})
        }
        for resource, ref in () if states else _unknown(named, catalogue, namespace):
            states[ref] = reader.one(resource, ref)
        for ref, state in states.items():
            yield explained(
                ExplainInput(
                    ref=ref,
                    state=state,
                    plan=plan,
                    inventory=inventory,
                    applyset=target,
                    by_input=manifests is not None,
                    schemas=world.schemas,
                    owner=_owner(state, target, cluster),
                )
            )


def _by_kind(named: str, catalogue: ResourceMap) -> str:
    """Return a name whose kind is a plural, as kubectl takes it too, with the kind itself."""
    *home, kind, name = named.split("/") if "/" in named else ("", named)
    wanted, dot, group = kind.lower().partition(".")
    served = catalogue.preferred.values()
    if not any(one.kind.lower() == wanted for one in served):
        for one in served:
            if one.plural == wanted and group in {"", one.group}:
                return "/".join((*home, f"{one.kind}{dot}{group}", name))
    return named


def _unknown(named: str, catalogue: ResourceMap, namespace: str) -> Iterable[tuple[Resource, Ref]]:
    """Return where an object may be that neither input nor inventory knows."""
    *home, kind, name = named.split("/") if "/" in named else ("", named)
    wanted, _, group = kind.lower().partition(".")
    found = sorted(
        {
            resource.full_plural: resource
            for resource in catalogue.preferred.values()
            if wanted == resource.kind.lower() and group in {"", resource.group}
        }.items()
    )
    if not found or not name or len(home) > 1:
        raise UsageError(
            f"{named!r} names no object",
            reason=f"the server serves no kind {kind!r}" if kind and name else "",
            hint="Write KIND/NAME or KIND.GROUP/NAME: deployment.apps/web.",
        )
    # One kind may be served by several groups: the first by name, unless a group was said.
    _, resource = found[0]
    where = (home[0] if home else namespace) if resource.namespaced else ""
    return [(resource, Ref(resource.group, resource.kind, where, name))]


def _owner(state: State, target: ApplySetIdentity, cluster: Cluster) -> str:
    """Return the other set whose label an object bears, as far as one can look for it."""
    label = state.labels.get(PART_OF, "") if isinstance(state, LiveObject) else ""
    if not label or label == target.id:
        return ""
    try:
        roots = cluster.list(CONFIG_MAPS, selector=f"{SET_ID}={label}")
    except ApplypruneError:
        return ""
    names = [f"{set_name(root.ref.name)} in namespace {root.ref.namespace}" for root in roots]
    return names[0] if names else ""
