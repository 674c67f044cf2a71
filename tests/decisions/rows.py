"""A row: a world, and what a run decides in it. A test file is a table of them.

``applied`` is what a run of the set has applied, ``others`` what somebody has done since, ``given``
the input of today. What a row does not name is decided as expected: an object of the input stays as
it is, and nothing is pruned where a guard refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as altered
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import ApplypruneError, InputErrors
from applyprune.model.events import MismatchFound
from applyprune.model.fate import Fate, Outcome
from applyprune.model.inventory import Mismatch, MismatchType, Ownership, Repair
from applyprune.model.kinds import NAMESPACE
from applyprune.model.live import AUTOSCALERS, LiveObject, Resource
from applyprune.model.options import Approval, DryRun, Mode
from applyprune.model.plan import (
    CREATE_ONLY,
    ApplyRequest,
    ApplyRule,
    ApplyStep,
    Cause,
    DeleteRequest,
    Guard,
    GuardVerdict,
    PatchRequest,
    Plan,
    RemoveStep,
)
from applyprune.planning.approval import with_approval, without_unapproved
from applyprune.planning.decide import ignoring_autoscaled_replicas, with_lost_replicas
from applyprune.planning.desired import resolve
from applyprune.planning.full_reads import (
    conflict_of,
    drift_of,
    explained,
    may_be_drift,
    may_conflict,
)
from applyprune.planning.names import kind_names, known_names, with_names_resolved
from applyprune.planning.normalize import autoscalers_in
from applyprune.planning.ownership import needs_values
from applyprune.planning.plan import make_plan
from applyprune.planning.prune_waits import kinds_to_judge
from applyprune.planning.recovery import find_mismatches, own_step
from applyprune.planning.refusals import refuse_run, refuse_without_inventory
from applyprune.planning.removals import objects_to_prune
from applyprune.planning.requests import needs_body
from applyprune.planning.world import CascadeContents, World
from applyprune.sources import read_objects
from applyprune.values import replace
from tests.decisions.world import (
    HOME,
    SET,
    THEM,
    Body,
    Change,
    Cluster,
    Site,
    place_on,
    renamed,
    short,
)
from tests.support.options import options_of

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.live import State
    from tests.support.api import Api
    from tests.support.stage import Stage


@dataclass(frozen=True)
class Row:
    """A world, and what is decided in it."""

    applied: Sequence[Body] = ()
    """What the set has applied."""
    others: Sequence[Change] = ()
    """What somebody else has done since, in order."""
    given: Sequence[Body] | None = None
    """The input; None for the same as before."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """As ``options_of`` takes them."""
    fates: Mapping[str, Fate] = field(default_factory=dict)
    """By ``kind/name``, but for what is left as it is, and for what a refused prune keeps."""
    because: Mapping[str, str] = field(default_factory=dict)
    """A part of the reason or the problem of an object."""
    sends: Mapping[str, str] = field(default_factory=dict)
    """The first request for an object, as ``sent`` writes it."""
    drift: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What others have changed of an object, as ``pointer: value`` and who it was."""
    refused: frozenset[Guard] = frozenset()
    """The guards that refuse the prune."""
    approved: Sequence[Body] | None = None
    """The input of the plan, in the same world, whose digest is approved; None if none is."""
    waits: bool = False
    """Whether ``approval`` lets not all of the plan run yet."""
    says: Sequence[str] = ()
    """Parts of the refusal, or of the error."""
    error: type[ApplypruneError] | None = None
    """The error that ends the run before there is a plan."""
    warns: Sequence[str] = ()
    """Parts of the warnings, each of another one."""
    owns: Mapping[str, str] | None = None
    """What ``inventory repair --record-as owned`` decides, instead of a run with an input.

    By the named objects: a part of why not, or the reason; empty for one that becomes owned.
    """
    finds: Mapping[str, tuple[MismatchType, Repair]] | None = None
    """What ``inventory repair`` finds, and would do, instead of a run; by ``kind/name``."""
    before: Sequence[Body] = ()
    """What others have created before the set was applied."""
    served: Sequence[Resource] = ()
    """Custom kinds that are served."""
    never: str = ""
    """Why no server can show this world; empty if one can, and then the sweep asks one."""

    @property
    def input(self) -> Sequence[Body]:
        """Return the objects of the input; the deletion of a set has none."""
        deletes = self.options.get("mode") is Mode.DELETE
        return (() if deletes else self.applied) if self.given is None else self.given

    def holds(self) -> None:
        """Fail unless the world is decided as the row says."""
        if self.error is not None:
            with pytest.raises((self.error, InputErrors)) as caught:
                decide(self)
            _says(self.says, _text(caught.value))
            return
        if self.owns is not None:
            world, _ = _read(self, _cluster(self))
            entries = {ref.short: entry for ref, entry in world.inventory.entries.items()}
            for name, words in self.owns.items():
                step = own_step(entries[name], world)
                _owned(step.outcome, f"{step.problem or ''}{step.reason}", words)
            return
        if self.finds is not None:
            cluster = _cluster(self)
            world, _ = _read(self, cluster)
            kinds = {**world.resource_map.preferred, **world.resources}
            world = replace(world, marked=cluster.marked(), resources=kinds)
            found = find_mismatches(world, (), (), ownership=Ownership.ADOPTED)
            assert _found(found) == self.finds
            return
        plan, warnings = decide(self)
        self.fits(plan, warnings)

    def fits(self, plan: Plan, warnings: Sequence[str]) -> None:
        """Fail unless a plan has the fates, the reasons and the refusal of the row."""
        for part in self.warns:
            assert any(part in one for one in warnings), warnings
        refusing = {one.guard for one in plan.guards if one.verdict is GuardVerdict.REFUSED}
        assert refusing == self.refused
        refusal = "" if plan.refusal is None else str(plan.refusal)
        by_option = self.options.get("approval", Approval.AUTOMATIC) is not Approval.AUTOMATIC
        assert (by_option and bool(plan.needs_approval)) is self.waits, refusal
        assert bool(refusal) is (self.waits or bool(self.refused)), refusal
        assert not self.refused or plan.no_prune
        _says(self.says, refusal)
        steps = {_name(step): step for step in plan.steps}
        found = {name: step.fate for name, step in steps.items() if not self._is_expected(step)}
        assert found == dict(self.fates), {name: _why(step) for name, step in steps.items()}
        for name, words in self.because.items():
            assert words in _why(steps[name]), _why(steps[name])
        for name, request in self.sends.items():
            assert sent(steps[name]) == request
        for name, fields in self.drift.items():
            step = steps[name]
            assert isinstance(step, ApplyStep)
            found_drift = [
                f"{one.path}: {one.found or 'none'} {one.manager}".strip() for one in step.drift
            ]
            assert found_drift == list(fields)

    def _is_expected(self, step: ApplyStep | RemoveStep) -> bool:
        if _name(step) in self.fates:
            return False
        if (self.refused or self.waits) and isinstance(step, RemoveStep):
            return step.fate in {Fate.PRUNE, Fate.REFUSE, Fate.LEAVE}
        is_input = isinstance(step, ApplyStep)
        return is_input and step.fate is Fate.LEAVE and step.cause is Cause.ORDINARY


def rows(table: Mapping[str, Row]) -> pytest.MarkDecorator:
    """Return a parametrisation of ``row`` by the names of a table."""
    return pytest.mark.parametrize("row", table.values(), ids=table.keys())


# The decision in memory.


def decide(row: Row) -> tuple[Plan, Sequence[str]]:
    """Return the plan that is made in the world of a row, and the warnings."""
    return _decided(row, _cluster(row))


def _cluster(row: Row) -> Cluster:
    cluster = Cluster(tuple(row.served))
    for body in row.before:
        cluster.create(cluster.place(body)[0], body, THEM)
    for body in row.applied:
        cluster.add(body)
    for change in row.others:
        change.here(cluster, cluster.find(change.name)[0])
    return cluster


def _decided(row: Row, cluster: Cluster) -> tuple[Plan, Sequence[str]]:
    if row.approved is not None:
        row = with_digest(row, _decided(before_approval(row), cluster)[0])
    world, warnings = _read(row, cluster)
    plan = make_plan(world)
    checked = tuple(_read_again(step, world, cluster) for step in plan.applies)
    plan = with_approval(replace(plan, applies=checked), SET, world.options)
    plan = without_unapproved(plan, world.options, takes_set=False)
    return plan, [*warnings, *map(str, plan.warnings)]


def _read(row: Row, cluster: Cluster) -> tuple[World, Sequence[str]]:
    """Return what a run reads in a world, and the warnings about its input."""
    manifests = read_objects(row.input)
    listed, served = cluster.inventory(), cluster.resource_map
    names = kind_names(served, [listed], manifests)
    known = known_names(listed, manifests)
    options, ambiguous = with_names_resolved(options_of(**row.options), names, known)
    resolved = resolve(manifests, served, SET, namespace=HOME, options=options)
    if resolved.errors:
        raise InputErrors(list(resolved.errors)) if len(resolved.errors) > 1 else resolved.errors[0]
    refuse_run(listed, resolved.manifests, options)
    desired = resolved.desired
    applied = desired if options.mode is Mode.APPLY else ()
    refs = {*(one.ref for one in desired), *listed.entries}
    recorded = {ref.group_kind for ref in listed.entries}
    full = set() if options.corrects else kinds_to_judge(applied, listed, options)
    states = {
        ref: _as_read(cluster.state(ref), bool(options.corrects) or ref.group_kind in full)
        for ref in refs
    }
    world = World(
        SET,
        listed,
        options,
        desired,
        left_out=resolved.left_out,
        resource_map=served,
        states=states,
        resources={kind: found for kind in recorded if (found := served.find_kind(kind))},
        schemas={one.group_kind: None for one in row.served},
        others=cluster.others(),
        own_namespace_stays="it holds the inventory",
    )
    if not listed.exists:
        refuse_without_inventory(world)
    world = replace(world, contents=_contents(world, cluster))
    world = _with_autoscalers(world, cluster)
    world = replace(world, states={**states, **_values(world, cluster)})
    return world, [*map(str, ambiguous), *map(str, resolved.warnings)]


def before_approval(row: Row) -> Row:
    """Return the row of the plan whose digest is approved."""
    return altered(row, given=row.approved, approved=None)


def with_digest(row: Row, plan: Plan) -> Row:
    """Return a row with the digest of a plan as its approval, as the annotation of a Bundle is."""
    whole = row.options.get("approval") is Approval.ALWAYS
    digest = plan.digest if whole else plan.deletions
    options = {**row.options, "approved": digest, "approved_plan": digest}
    return altered(row, options=options, approved=None)


def _as_read(state: State, full: bool) -> State:
    """Return a state as a run reads it: of most objects, the metadata only."""
    return state if full or not isinstance(state, LiveObject) else replace(state, packed_body=None)


def _with_autoscalers(world: World, cluster: Cluster) -> World:
    """Return the world with the autoscalers of the input and of the cluster."""
    given = {one.ref for one in world.desired if one.apply is ApplyRule.ALWAYS}
    there = [
        body
        for ref, body in cluster.objects.items()
        if ref.group_kind == AUTOSCALERS.group_kind and ref not in given
    ]
    entries = world.inventory.entries
    desired = tuple(
        one
        if (live := world.live(one.ref)) is None
        else with_lost_replicas(one, entries.get(one.ref), live, world)
        for one in world.desired
    )
    scalers = (*autoscalers_in(world.desired), *there)
    return replace(world, desired=desired, autoscalers=scalers)


def _values(world: World, cluster: Cluster) -> Mapping[Ref, State]:
    """Return the objects of which the plan needs the values."""
    entries = world.inventory.entries
    return {
        one.ref: cluster.state(one.ref)
        for one in world.desired
        if (live := world.live(one.ref)) is not None
        and (
            needs_body(ignoring_autoscaled_replicas(one, world), live, SET, entries.get(one.ref))
            or (one.ref in entries and needs_values(one, entries[one.ref], live))
        )
    }


def _read_again(step: ApplyStep, world: World, cluster: Cluster) -> ApplyStep:
    """Return a step with its drift and its conflict: what a client dry run reads after the plan."""
    ref, options = step.desired.ref, world.options
    if ref not in cluster.objects:
        return step
    live = cluster.live(ref)
    if may_be_drift(step, SET, options):
        step = drift_of(step, live, world.inventory.entries.get(ref), SET, options)
    if not may_conflict(step, SET, asks_server=False):
        return step
    conflict = conflict_of(step, live, SET, options, asks_server=False)
    if conflict is None:
        return step
    problem = explained(conflict, step, live, SET, options)
    return replace(step, fate=Fate.REFUSE, request=None, problem=problem)


def _contents(world: World, cluster: Cluster) -> Mapping[Ref, CascadeContents]:
    """Return what is in each Namespace that would be pruned."""
    leaving = (live.ref for live in objects_to_prune(world))
    return {
        ref: CascadeContents(tuple(cluster.inside(ref.name)))
        for ref in leaving
        if ref.group_kind == NAMESPACE
    }


def _name(step: ApplyStep | RemoveStep) -> str:
    return step.desired.ref.short if isinstance(step, ApplyStep) else step.entry.ref.short


def _why(step: ApplyStep | RemoveStep) -> str:
    return f"{step.fate}: {step.reason or ''}{'' if step.problem is None else step.problem}"


def _text(error: BaseException) -> str:
    errors = error.errors if isinstance(error, InputErrors) else [error]
    return "\n".join(str(getattr(one, "problem", one)) for one in errors)


def _owned(outcome: Outcome, told: str, words: str) -> None:
    """Fail unless an object becomes owned, or is told not to in these words."""
    assert (outcome is Outcome.UPDATED) is (not words), told
    assert words in told


def _found(mismatches: Iterable[Mismatch]) -> dict[str, tuple[MismatchType, Repair]]:
    return {
        one.ref.short if one.ref is not None else str(one.type): (one.type, one.repair)
        for one in mismatches
    }


def _says(parts: Sequence[str], text: str) -> None:
    for part in parts:
        assert part in text, text


def sent(step: ApplyStep | RemoveStep) -> str:
    """Return the first request of a step in words: what it is, and what guards it."""
    request: object = step.request
    if isinstance(step, ApplyStep) and step.deletion is not None:
        request = step.deletion
    if isinstance(request, ApplyRequest) and request.before is not None:
        request = request.before
    if request is None:
        return "nothing"
    if isinstance(request, PatchRequest):
        tested = {one["path"] for one in request.operations if one["op"] == "test"}
        return f"patch{_guarded('/metadata/uid' in tested, '/metadata/resourceVersion' in tested)}"
    assert isinstance(request, ApplyRequest | DeleteRequest)
    guard = request.precondition
    guarded = _guarded(bool(guard.uid), bool(guard.resource_version))
    if isinstance(request, DeleteRequest):
        return f"delete{guarded}"
    force = " by force" if request.force else ""
    return "create" if guard == CREATE_ONLY and not force else f"apply{force}{guarded}"


def _guarded(by_uid: bool, by_version: bool) -> str:
    by = [word for word, has in (("UID", by_uid), ("version", by_version)) if has]
    return f" guarded by {' and '.join(by)}" if by else ""


# The same decision on a server.

MERGE = "application/merge-patch+json"


def holds_on(row: Row, api: Api, stage: Stage) -> None:
    """Fail unless a server shows the world of a row, and a run decides there as the row says."""
    try:
        _holds_on(row, api, stage)
    finally:
        # What has no namespace does not go with the one of the test.
        for body in (*row.applied, *row.before):
            path = place_on(stage, short(body), row.served)
            if body["metadata"].get("finalizers"):
                api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
            if f"/namespaces/{stage.namespace}/" not in path:
                api("DELETE", path)


def _holds_on(row: Row, api: Api, stage: Stage) -> None:
    home = partial(renamed, stage.namespace)
    for body in row.before:
        site = Site(api, stage, place_on(stage, short(body), row.served))
        api.create(site.collection, site.body(body), by=THEM)
    if row.applied:
        done = stage.run(*home(row.applied))
        assert done.exit_code == 0, done.events
    for change in row.others:
        assert change.there is not None, "say why in the row's field never"
        change.there(Site(api, stage, place_on(stage, change.name, row.served)))
    input_, options = home(row.input), dict(row.options)
    for name, value in options.items():
        options[name] = home(value) if isinstance(value, set | frozenset) else value
    if row.error is not None:
        with pytest.raises((row.error, InputErrors)) as caught:
            stage.run(*input_, dry_run=DryRun.CLIENT, **options)
        _says(home(row.says), _text(caught.value))
        return
    if row.owns is not None:
        named = [home(name) for name in row.owns]
        story = stage.own(*named, dry_run=DryRun.SERVER)
        for name, words in row.owns.items():
            told = story.problem(home(name)) + story.reasons[home(name)]
            _owned(story.outcomes[home(name)], told, home(words))
        return
    if row.finds is not None:
        events = stage.check().of(MismatchFound)
        found = _found(event.mismatch for event in events)
        assert found == {home(name): one for name, one in row.finds.items()}
        return
    if row.approved is not None:
        first = before_approval(row)
        shown = stage.run(*home(first.input), dry_run=DryRun.CLIENT, **options)
        row = with_digest(row, shown.plan)
        options |= {name: row.options[name] for name in ("approved", "approved_plan")}
    story = stage.run(*input_, dry_run=DryRun.CLIENT, **options)
    fates = {home(name): fate for name, fate in row.fates.items()}
    because, sends, drift = (home(dict(one)) for one in (row.because, row.sends, row.drift))
    here = altered(row, fates=fates, because=because, sends=sends, drift=drift)
    altered(here, says=home(row.says), warns=home(row.warns)).fits(story.plan, story.warnings)
