"""What every plan keeps to, in generated worlds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

from applyprune.errors import ApplypruneError
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.kinds import CRD, NAMESPACE
from applyprune.model.options import Mode
from applyprune.model.plan import DeleteRequest, Guard, Plan, RemoveStep
from applyprune.planning.applyset import PART_OF
from applyprune.planning.approval import misfits, plan_file_of
from applyprune.planning.plan import forecast
from applyprune.sources import Input
from applyprune.values import replace
from tests.unit.planning.generated_worlds import SET, Generated, world

WORLDS = 1_000
KEEPS = {
    ("applyprune.dev/prune", "disabled"),
    ("applyprune.dev/apply", "disabled"),
    ("helm.sh/resource-policy", "keep"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
    ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    ("argocd.argoproj.io/sync-options", "Prune=false"),
    ("argocd.argoproj.io/sync-options", "Delete=false"),
    ("client.lifecycle.config.k8s.io/deletion", "detach"),
}
LATER = {Fate.RECREATE}
"""A reply of the server leads to it."""
ELSEWHERE = {Guard.CONTROLLER_IN_USE}
"""It needs Bundles."""


@cache
def _plans() -> Sequence[tuple[Generated, Plan]]:
    """Return worlds with their plans, but for inputs that are refused."""
    found = []
    for seed in range(WORLDS):
        one = world(seed)
        try:
            found.append((one, one.plan()))
        except (ApplypruneError, KeyError):
            continue  # or a world without a kind that it lists
    return found


def _deletions(plan: Plan) -> Sequence[RemoveStep]:
    """Return what a plan deletes that was read, and that nobody else has deleted."""
    doomed = (step for step in plan.removals if step.fate is Fate.PRUNE and not step.is_going)
    return [step for step in doomed if step.live is not None]


def test_worlds_hold_every_fate_and_guard() -> None:
    """What no world holds, the other tests do not prove."""
    plans = [plan for _, plan in _plans()]
    fates = {step.fate for plan in plans for step in plan.applies}
    fates |= {step.fate for plan in plans for step in plan.removals}
    guards = {result.guard for plan in plans for result in plan.guards}
    assert (fates, guards) == ({*Fate} - LATER, {*Guard} - ELSEWHERE)
    assert len(plans) > WORLDS * 0.9
    assert sum(map(len, map(_deletions, plans))) > WORLDS // 10


def test_only_what_is_the_sets_own_and_has_no_mark_is_deleted() -> None:
    """It has the set's label, the recorded UID or the set's field manager, and is as it was read.

    Its request names what was read. The input has no such object.
    """
    for one, plan in _plans():
        wanted = {step.live.uid for step in plan.applies if step.live is not None}
        for step in _deletions(plan):
            live, request = step.live, step.request
            assert live is not None
            assert isinstance(request, DeleteRequest)
            assert live == one.read.states[step.entry.ref]
            assert live.uid not in wanted
            assert live.labels.get(PART_OF) == SET.id
            is_ours = SET.manager in {writer.manager for writer in live.writers}
            assert live.uid == step.entry.uid or (is_ours and not step.entry.uid)
            assert not KEEPS & live.whole_metadata.get("annotations", {}).items()
            assert not step.entry.orphan_reason
            named = request.precondition
            assert (named.uid, named.resource_version) == (live.uid, live.resource_version)


def test_no_object_of_the_input_is_deleted_with_another_one() -> None:
    """With its Namespace or its CRD; and nothing leaves the set twice."""
    for _, plan in _plans():
        going = [step.entry.ref for step in _deletions(plan)]
        inputs = {step.desired.ref: step.desired.resource for step in plan.applies}
        namespaces = {Ref(NAMESPACE.group, NAMESPACE.kind, "", ref.namespace) for ref in inputs}
        kinds = {Ref(CRD.group, CRD.kind, "", resource.full_plural) for resource in inputs.values()}
        assert not (namespaces | kinds) & {*going}
        left = [step.live for step in plan.removals if step.fate in {Fate.PRUNE, Fate.ORPHAN}]
        uids = [live.uid for live in left if live is not None]
        assert len(uids) == len({*uids})


def test_refused_prune_deletes_nothing() -> None:
    """Nor one that is off, nor an orphaning of the set. Each step is forecast once."""
    refused = 0
    for one, plan in _plans():
        said = list(forecast(plan, one.read.options))
        steps = (step.entry.ref for step in plan.removals)
        refs = [*steps, *(step.desired.ref for step in plan.applies)]
        assert sorted(done.ref for done in said) == sorted(refs)
        options = one.read.options
        is_off = not options.prune.enabled or options.mode is Mode.ORPHAN
        if plan.refusal or plan.no_prune or is_off:
            going = {step.entry.ref for step in plan.removals if step.is_going}
            lost = {done.ref for done in said if done.outcome in {Outcome.PRUNED, Outcome.DELETED}}
            assert lost <= going
            refused += bool(_deletions(plan))
    assert refused > WORLDS // 50


def test_approved_prune_deletes_only_what_the_refused_one_would() -> None:
    """The approval of its digest lifts guards; it decides about no other object."""
    lifted = 0
    for one, plan in _plans():
        if plan.refusal is None:
            continue
        prune = replace(one.read.options.prune, approved=plan.deletions)
        options = replace(one.read.options, prune=prune)
        approved = replace(one, read=replace(one.read, options=options)).plan()
        doomed = {step.entry.ref for step in plan.removals if step.is_doomed}
        assert {step.entry.ref for step in approved.removals if step.fate is Fate.PRUNE} <= doomed
        lifted += approved.refusal is None
    assert lifted > WORLDS // 50


def test_order_of_what_is_read_changes_no_plan() -> None:
    """The order of the manifests, of the entries and of the live objects."""
    for one, plan in _plans():
        entries = {entry.ref: entry for entry in reversed([*one.read.inventory.entries.values()])}
        read = replace(
            one.read,
            inventory=replace(one.read.inventory, entries=entries),
            states={ref: one.read.states[ref] for ref in reversed([*one.read.states])},
        )
        turned = Generated(Input(tuple(reversed([*one.manifests]))), read)
        assert turned.plan() == plan


def test_plan_file_fits_the_world_that_it_was_made_of() -> None:
    """No step exceeds what was shown of it if nothing has happened since."""
    now, hour = datetime(2026, 11, 27, tzinfo=UTC), timedelta(hours=1)
    for one, plan in _plans():
        options, cluster = one.read.options, {"kube-system": "k1"}
        file = plan_file_of(plan, SET, options, cluster=cluster, now=now, valid_for=hour)
        failed = {step.desired.ref for step in plan.applies if step.fate is Fate.REFUSE}
        failed |= {step.entry.ref for step in plan.removals if step.fate is Fate.REFUSE}
        assert {each.ref for each in misfits(file, plan, one.read.inventory)} <= failed
