"""The plan, as a table: what was recorded, what is live, what the user allows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, JobRecord, Ownership, Wave
from applyprune.model.live import Absent, NotListed, State, Unknown
from applyprune.model.options import Adopt, ApplyOptions, DryRun, Mode, Options
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.applyset import OWNED_BY, ApplySetIdentity
from applyprune.planning.approval import with_approval
from applyprune.planning.decide import (
    FINISHED,
    JOB_DELETED,
    UNKNOWN_RESULT,
    entry_of_untouched,
)
from applyprune.planning.plan import make_plan
from applyprune.planning.world import CascadeContents
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import (
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    managed,
    recorded,
    world,
)

ONE = desired(body(data={"k": "v"}))
THERE = live(ONE.ref)
ENTRY = recorded(ONE, THERE)
UNION_ABSENT = replace(ENTRY, uid="", digest="", fingerprint=None)
UNION_FOUND = replace(UNION_ABSENT, uid_before_apply="u1", ownership=Ownership.ADOPTED)
UNREADABLE = Unknown(Problem(kind=ProblemKind.FORBIDDEN, message="no"))
OTHER_SET = live(ONE.ref, label="applyset-other-v1", entries=[managed("applyprune/x/y")])
FOREIGN = live(ONE.ref, label="", entries=[managed("kubectl")])
COPIED_LABEL = live(ONE.ref, entries=[managed("kube-controller-manager", operation="Update")])


def _plan(state: State, entry: InventoryEntry | None = None, **options: Any) -> Plan:
    entries = (entry,) if entry else ()
    snapshot = cluster({ONE.ref: state})
    wanted = () if options.get("mode") is Mode.DELETE else (ONE,)
    return make_plan(world(wanted, inventory(*entries), snapshot, options_of(**options)))


def _apply(state: State, entry: InventoryEntry | None = None, **options: Any) -> ApplyStep:
    (step,) = _plan(state, entry, **options).applies
    return step


def _remove(state: State, entry: InventoryEntry) -> RemoveStep:
    (step,) = _plan(state, entry, mode=Mode.DELETE).removals
    return step


APPLIES: dict[str, tuple[State, InventoryEntry | None, dict[str, Any], Fate]] = {
    "new": (NotListed(), None, {}, Fate.CREATE),
    "new, proved by a GET": (Absent(), None, {}, Fate.CREATE),
    "ours and as it was": (THERE, ENTRY, {}, Fate.LEAVE),
    "ours and as it was, --reapply-all": (THERE, ENTRY, {"reapply_all": True}, Fate.CHANGE),
    "ours, deleted outside": (Absent(), ENTRY, {}, Fate.CREATE),
    "ours, of another digest": (THERE, replace(ENTRY, digest="x"), {}, Fate.CHANGE),
    "of nobody": (FOREIGN, None, {}, Fate.ADOPT),
    "of nobody, --adopt=none": (FOREIGN, None, {"adopt": Adopt.NONE}, Fate.REFUSE),
    "of another set": (OTHER_SET, None, {}, Fate.REFUSE),
    "of another set, recorded by us too": (OTHER_SET, ENTRY, {}, Fate.REFUSE),
    "of another set, --adopt=all": (OTHER_SET, None, {"adopt": Adopt.ALL}, Fate.ADOPT),
    "state unknown": (UNREADABLE, ENTRY, {}, Fate.REFUSE),
    "being deleted": (live(ONE.ref, deletionTimestamp="x"), ENTRY, {}, Fate.REFUSE),
    "re-created by somebody": (live(ONE.ref, uid="u2", label=""), ENTRY, {}, Fate.ADOPT),
}


@pytest.mark.parametrize("name", APPLIES)
def test_desired_object_gets_its_fate(name: str) -> None:
    """Every row with its own reason to be."""
    state, entry, options, expected = APPLIES[name]
    step = _apply(state, entry, **options)
    assert step.fate is expected
    assert (step.problem is not None) == (expected is Fate.REFUSE)


OTHER_LABEL = "applyset-other-v1"
WITHHELD: dict[str, tuple[dict[str, str] | None, State, str]] = {
    "nobody was asked": (None, OTHER_SET, ""),
    "its set gives it": ({OTHER_LABEL: ""}, OTHER_SET, ""),
    "its set has an approval": ({OTHER_LABEL: "no"}, OTHER_SET, "no"),
    "another set has one": ({OTHER_LABEL: "", "applyset-x-v1": "no"}, OTHER_SET, ""),
    "it got its label later": ({}, OTHER_SET, "it was taken by that set during this run"),
    "it has none": ({}, FOREIGN, ""),
    "it is ours": ({}, THERE, ""),
}


@pytest.mark.holds("withheld-set", row="its set has an approval")
@pytest.mark.parametrize("name", WITHHELD)
def test_object_of_a_set_with_an_approval_is_refused(name: str) -> None:
    """With --adopt=all too."""
    withheld, state, why = WITHHELD[name]
    known = inventory(*((ENTRY,) if state is THERE else ()))
    snapshot = cluster({ONE.ref: state}, withheld=withheld)
    options = options_of(adopt=Adopt.ALL)
    (step,) = make_plan(world([ONE], known, snapshot, options)).applies
    assert (step.problem.reason if step.problem is not None else "") == why


def test_set_of_an_object_is_named_by_its_field_manager() -> None:
    """Where the manager is that of the label's set; else the label is all that there is."""
    theirs = ApplySetIdentity("web", "shop")
    entries = [managed("kubectl"), managed(TARGET.manager), managed(theirs.manager)]
    named = _apply(live(ONE.ref, label=theirs.id, entries=entries)).problem
    assert named is not None
    assert named.reason == "it belongs to the set web in namespace shop"
    first, *_, last = named.hint.splitlines()
    assert first.startswith("Did you mean ")
    taken = "  To take it from that set: --adopt=set/web.shop. The other set then drops it"
    assert last.startswith(taken)
    unknown = _apply(OTHER_SET).problem
    assert unknown is not None
    assert unknown.reason == "its label applyset.kubernetes.io/part-of is applyset-other-v1"
    assert "applyset.kubernetes.io/id=applyset-other-v1" in unknown.hint


def test_union_records_the_uid_before_the_apply() -> None:
    """Absent, or the UID: it decides which guard the apply carries, and who made the object."""
    assert _apply(NotListed()).entry.uid_before_apply is None
    assert _apply(FOREIGN).entry.uid_before_apply == "u1"
    assert _apply(THERE, replace(ENTRY, digest="x")).entry.uid_before_apply == "u1"


def test_union_clears_the_digest_of_objects_to_send() -> None:
    """A reply that gets lost must not read as done; what the last apply left stays known."""
    entry = _apply(THERE, replace(ENTRY, digest="x")).entry
    assert (entry.fingerprint, entry.digest, entry.uid) == (ENTRY.fingerprint, "", "u1")


def test_untouched_object_keeps_its_record() -> None:
    """Whatever keeps it from deletion stays, by the old manifest or by the new one."""
    step = _apply(THERE, replace(ENTRY, digest="x"))
    before = replace(step.entry, orphan_reason="new")
    assert entry_of_untouched(ENTRY, step.entry) == ENTRY
    assert entry_of_untouched(ENTRY, before) == replace(ENTRY, orphan_reason="new")
    kept = replace(ENTRY, orphan_reason="old")
    assert entry_of_untouched(kept, step.entry) == kept


MADE: dict[str, tuple[State, InventoryEntry | None, Ownership]] = {
    "we create it": (NotListed(), None, Ownership.OWNED),
    "it was there": (FOREIGN, None, Ownership.ADOPTED),
    "our own label and manager, but no entry": (THERE, None, Ownership.ADOPTED),
    "a lost reply to our create": (THERE, UNION_ABSENT, Ownership.OWNED),
    "a lost reply to our adoption": (THERE, UNION_FOUND, Ownership.ADOPTED),
    "created by somebody after our union write": (FOREIGN, UNION_ABSENT, Ownership.ADOPTED),
    "created earlier": (THERE, replace(ENTRY, digest="x"), Ownership.OWNED),
    "adopted earlier": (
        THERE,
        replace(ENTRY, digest="x", ownership=Ownership.ADOPTED),
        Ownership.ADOPTED,
    ),
    "adopted earlier, deleted outside": (
        Absent(),
        replace(ENTRY, ownership=Ownership.ADOPTED),
        Ownership.OWNED,
    ),
    "re-created by somebody": (live(ONE.ref, uid="u2", label=""), ENTRY, Ownership.ADOPTED),
    "a controller's copy of our label": (COPIED_LABEL, UNION_ABSENT, Ownership.ADOPTED),
}


@pytest.mark.parametrize("name", MADE)
def test_only_created_objects_count_as_owned(name: str) -> None:
    """What is adopted is never deleted by a prune."""
    state, entry, expected = MADE[name]
    assert _apply(state, entry).entry.ownership is expected


UNLABELLED = live(ONE.ref, label="", annotations={OWNED_BY: TARGET.id})
RECREATED = live(ONE.ref, uid="u2", label="", entries=[])
REMOVALS: dict[str, tuple[State, InventoryEntry, Fate]] = {
    "created by us": (THERE, ENTRY, Fate.PRUNE),
    "gone": (Absent(), ENTRY, Fate.REMOVE_FROM_INVENTORY),
    "not in a list, which proves nothing": (NotListed(), ENTRY, Fate.REFUSE),
    "state unknown": (UNREADABLE, ENTRY, Fate.REFUSE),
    "another UID, with both marks": (live(ONE.ref, uid="u2"), ENTRY, Fate.REFUSE),
    "another UID without our label": (live(ONE.ref, uid="u2", label=""), ENTRY, Fate.REFUSE),
    "another UID without both marks": (RECREATED, ENTRY, Fate.REMOVE_FROM_INVENTORY),
    "another UID with another set's label": (
        live(ONE.ref, uid="u2", label="applyset-x-v1", entries=[]),
        ENTRY,
        Fate.REMOVE_FROM_INVENTORY,
    ),
    "with another set's label": (OTHER_SET, ENTRY, Fate.REFUSE),
    "our label is off it": (UNLABELLED, ENTRY, Fate.REFUSE),
    "our label is off it, and we adopted it": (
        UNLABELLED,
        replace(ENTRY, ownership=Ownership.ADOPTED),
        Fate.ORPHAN,
    ),
    "our label is off it, and it is marked to be kept": (
        UNLABELLED,
        replace(ENTRY, orphan_reason="x: y"),
        Fate.ORPHAN,
    ),
    "our label is off it, and it is marked to be orphaned": (
        UNLABELLED,
        replace(ENTRY, orphaning=True),
        Fate.REFUSE,
    ),
    "an orphaning that was not recorded": (
        live(ONE.ref, label="", entries=[]),
        replace(ENTRY, orphaning=True),
        Fate.REMOVE_FROM_INVENTORY,
    ),
    "our label is off it, and its UID is off the record": (UNLABELLED, UNION_ABSENT, Fate.REFUSE),
    "both marks, and the record names an older UID": (
        THERE,
        replace(UNION_FOUND, uid_before_apply="u0"),
        Fate.REFUSE,
    ),
    "adopted": (THERE, replace(ENTRY, ownership=Ownership.ADOPTED), Fate.ORPHAN),
    "to be kept by its manifest": (THERE, replace(ENTRY, orphan_reason="x: y"), Fate.ORPHAN),
    "to be kept by the live object": (
        live(ONE.ref, annotations={"applyprune.dev/prune": "disabled"}),
        ENTRY,
        Fate.ORPHAN,
    ),
    "with a mark of ours that is not understood": (
        live(ONE.ref, annotations={"applyprune.dev/prune": "false", OWNED_BY: TARGET.id}),
        ENTRY,
        Fate.REFUSE,
    ),
    "with such a mark, and being deleted already": (
        live(
            ONE.ref,
            annotations={"applyprune.dev/prun": "", OWNED_BY: TARGET.id},
            deletionTimestamp="x",
        ),
        ENTRY,
        Fate.PRUNE,
    ),
    "with such a mark, and one that keeps it": (
        live(ONE.ref, annotations={"applyprune.dev/x": "", "helm.sh/resource-policy": "keep"}),
        ENTRY,
        Fate.ORPHAN,
    ),
    "a lost reply to our create": (THERE, UNION_ABSENT, Fate.PRUNE),
    "a lost reply to our adoption": (
        THERE,
        replace(UNION_FOUND, ownership=Ownership.ADOPTED),
        Fate.ORPHAN,
    ),
    "somebody created it after our union write": (
        FOREIGN,
        UNION_ABSENT,
        Fate.REMOVE_FROM_INVENTORY,
    ),
    "a controller copied our label to it": (COPIED_LABEL, UNION_ABSENT, Fate.REMOVE_FROM_INVENTORY),
    "being deleted already": (live(ONE.ref, deletionTimestamp="x"), ENTRY, Fate.PRUNE),
}


@pytest.mark.parametrize("name", REMOVALS)
def test_entry_that_left_the_set_gets_its_fate(name: str) -> None:
    """A label finds candidates; it never justifies a delete."""
    state, entry, expected = REMOVALS[name]
    assert _remove(state, entry).fate is expected


@pytest.mark.parametrize("name", ["default", "kube-system", "home", "another"])
def test_namespace_that_must_stay_is_orphaned(name: str) -> None:
    """The system's, the inventory's own, and one that holds another inventory."""
    one = desired(body("Namespace", name), NAMESPACES)
    state = live(one.ref)
    snapshot = cluster({one.ref: state}, occupied={"another": None})
    options = Options(mode=Mode.DELETE)
    plan = make_plan(world((), inventory(recorded(one, state)), snapshot, options))
    assert plan.removals[0].fate is Fate.ORPHAN


@pytest.mark.holds("unread-namespace")
def test_namespace_that_could_not_be_read_stays_listed() -> None:
    """It may contain another inventory: orphaned, no set would know it any more."""
    one = desired(body("Namespace", "shop"), NAMESPACES)
    state = live(one.ref)
    snapshot = cluster(
        {one.ref: state},
        occupied={"shop": Problem(ProblemKind.NOT_SERVED, "the server answered 404")},
    )
    for mode in (Mode.DELETE, Mode.APPLY):
        options = options_of(mode=mode, allow_kinds=frozenset({"namespace"}))
        plan = make_plan(world((), inventory(recorded(one, state)), snapshot, options))
        (step,) = plan.removals
        assert step.fate is Fate.REFUSE
        assert step.problem is not None
        assert step.problem.reason.endswith("another set's inventory: the server answered 404")
    # What is being deleted already, or stays for another reason, needs no answer.
    going = {**snapshot, "states": {one.ref: replace(state, terminating=True)}}
    plan = make_plan(world((), inventory(recorded(one, state)), going, Options(mode=Mode.DELETE)))
    assert plan.removals[0].fate is Fate.PRUNE


HOME = desired(body("Namespace", "shop"), NAMESPACES)
INSIDE = Ref("", "ConfigMap", "shop", "inside")
HELD: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "created by us, and leaving too": ({}, {}, True),
    "kept by its manifest": ({"orphan_reason": "x: y"}, {}, False),
    "adopted": ({"ownership": Ownership.ADOPTED}, {}, False),
    "of another set now": ({}, {"label": "applyset-other-v1"}, False),
    "re-created by somebody": ({}, {"uid": "u9"}, False),
    "made by an object of ours": ({}, {"uid": "u9", "ownerReferences": [{"uid": "u-ns"}]}, True),
}


@pytest.mark.parametrize("name", HELD)
def test_namespace_is_pruned_only_with_pruned_contents(name: str) -> None:
    """Whatever is to stay, for whatever reason, would die with it."""
    changes, marks, goes = HELD[name]
    inside = live(INSIDE, **{"uid": "u2", **marks})
    outside = live(HOME.ref, uid="u-ns")
    entry = InventoryEntry(INSIDE, "configmaps", "v1", None, uid="u2", wave=Wave(0, 2), **changes)
    snapshot = cluster(
        {INSIDE: inside, HOME.ref: outside}, contents={HOME.ref: CascadeContents((inside,))}
    )
    listed = inventory(recorded(HOME, outside), entry)
    plan = make_plan(world((), listed, snapshot, Options(mode=Mode.DELETE)))
    step = next(step for step in plan.removals if step.entry.ref == HOME.ref)
    assert step.fate is (Fate.PRUNE if goes else Fate.REFUSE)
    allowed = options_of(mode=Mode.DELETE, allow_cascade=frozenset({"namespace/shop"}))
    plan = make_plan(world((), listed, snapshot, allowed))
    assert plan.removals[-1].fate is Fate.PRUNE


def test_namespace_with_uncountable_contents_stays() -> None:
    """Safety rule 7: not knowing is no permission."""
    state = live(HOME.ref)
    snapshot = cluster(
        {HOME.ref: state}, contents={HOME.ref: CascadeContents((), "secrets: forbidden")}
    )
    plan = make_plan(
        world((), inventory(recorded(HOME, state)), snapshot, Options(mode=Mode.DELETE))
    )
    assert plan.removals[0].fate is Fate.REFUSE
    assert "cannot be counted: secrets: forbidden" in str(plan.removals[0].problem)
    assert plan.no_prune


def test_removal_reverses_the_waves() -> None:
    """Contents before their namespace."""
    many = [
        desired(body("Namespace", "n"), NAMESPACES),
        desired(body("ConfigMap", "c")),
        desired(body("Deployment", "d"), DEPLOYMENTS),
    ]
    states = {one.ref: live(one.ref, uid=one.ref.name) for one in many}
    entries = [recorded(one, states[one.ref]) for one in many]
    plan = make_plan(world((), inventory(*entries), cluster(states), Options(mode=Mode.DELETE)))
    assert [step.entry.ref.kind for step in plan.removals] == [
        "Deployment",
        "ConfigMap",
        "Namespace",
    ]


def test_unknown_desired_object_blocks_the_prune() -> None:
    """Safety rule 5."""
    gone = desired(body(name="gone"))
    states: dict[Any, State] = {ONE.ref: UNREADABLE, gone.ref: live(gone.ref)}
    plan = make_plan(
        world((ONE,), inventory(recorded(gone, live(gone.ref))), cluster(states), Options())
    )
    assert plan.no_prune
    assert not plan.writes


def test_copied_inventory_prunes_nothing() -> None:
    """A restored backup lists what may belong to somebody else by now."""
    gone = desired(body(name="gone"))
    listed = replace(inventory(recorded(gone, live(gone.ref))), copied=True)
    plan = make_plan(world((), listed, cluster({gone.ref: live(gone.ref)}), Options()))
    assert plan.no_prune
    assert plan.restored
    assert plan.refusal is not None
    assert "inventory repair" in plan.refusal.hint


def test_finished_job_with_a_ttl_is_not_created_again() -> None:
    """Only with the same digest, and only when it is surely gone."""
    job = desired(body("Job", spec={"ttlSecondsAfterFinished": 0}), JOBS)
    entry = recorded(job, live(job.ref))

    def fate(state: State, entry: InventoryEntry) -> Fate:
        snapshot = cluster({job.ref: state})
        return make_plan(world((job,), inventory(entry), snapshot, Options())).applies[0].fate

    assert fate(Absent(), entry) is Fate.LEAVE
    assert fate(NotListed(), entry) is Fate.CREATE
    assert fate(Absent(), replace(entry, digest="x")) is Fate.CREATE
    assert fate(Absent(), replace(entry, uid="")) is Fate.CREATE
    going = live(job.ref, deletionTimestamp="x", finalizers=["foregroundDeletion"])
    assert fate(going, entry) is Fate.LEAVE
    assert fate(going, replace(entry, digest="x")) is Fate.REFUSE
    assert fate(replace(going, uid="u2"), entry) is Fate.REFUSE


ASKED = (Options(apply=ApplyOptions(reapply_all=True)), Options(reruns_jobs=True))


@pytest.mark.parametrize(
    "completed", [False, pytest.param(True, marks=pytest.mark.holds("finished-job"))]
)
def test_job_of_unknown_result_is_created_again_only_if_asked(completed: bool) -> None:
    """No run creates it by itself, and none if it has completed."""
    job = desired(body("Job", spec={"ttlSecondsAfterFinished": 60}), JOBS)
    record = JobRecord("2026-11-21T10:00:00Z", 60, completed=completed)
    entry = recorded(job, live(job.ref), job=record)
    left = (Fate.LEAVE, FINISHED if completed else UNKNOWN_RESULT)
    for options in (Options(), *ASKED):
        snapshot = cluster({job.ref: Absent()})
        (step,) = make_plan(world((job,), inventory(entry), snapshot, options)).applies
        may_create = options in ASKED and not completed
        assert (step.fate, step.reason) == ((Fate.CREATE, "") if may_create else left)


@pytest.mark.parametrize("completed", [False, True])
@pytest.mark.parametrize("seconds", [0, 59, 60, 3600, None])
def test_job_that_is_gone_before_its_ttl_is_created_again(
    seconds: int | None, completed: bool
) -> None:
    """By the server's clock; without one, or if a run has seen it complete, nothing runs twice."""
    job = desired(body("Job", spec={"ttlSecondsAfterFinished": 60}), JOBS)
    born = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    record = JobRecord("2026-11-21T10:00:00Z", 60, completed=completed)
    entry = recorded(job, live(job.ref), job=record)
    now = None if seconds is None else born + timedelta(seconds=seconds)
    snapshot = cluster({job.ref: Absent()}, now=now)
    (step,) = make_plan(world((job,), inventory(entry), snapshot)).applies
    if seconds is not None and seconds < 60 and not completed:
        assert (step.fate, step.reason) == (Fate.CREATE, JOB_DELETED)
        assert step.entry.job is None
    else:
        assert (step.fate, step.reason) == (Fate.LEAVE, FINISHED if completed else UNKNOWN_RESULT)


@pytest.mark.parametrize(("deleted", "fate"), [("10:00:59", Fate.REFUSE), ("10:01:00", Fate.LEAVE)])
def test_job_that_somebody_is_deleting_is_not_taken_for_finished(deleted: str, fate: Fate) -> None:
    """Its deletionTimestamp says when: before its TTL, or perhaps by it."""
    job = desired(body("Job", spec={"ttlSecondsAfterFinished": 60}), JOBS)
    going = live(
        job.ref,
        creationTimestamp="2026-11-21T10:00:00Z",
        deletionTimestamp=f"2026-11-21T{deleted}Z",
        finalizers=["foregroundDeletion"],
    )
    (step,) = make_plan(
        world((job,), inventory(recorded(job, going)), cluster({job.ref: going}))
    ).applies
    assert step.fate is fate


@pytest.mark.parametrize("mode", [Mode.DELETE, Mode.ORPHAN])
def test_unread_object_gets_the_fate_of_the_run(mode: Mode) -> None:
    """Without a server's dry run: the account of the run may read it."""
    options = options_of(mode=mode, dry_run=DryRun.CLIENT, allow_empty=True)
    listed, snapshot = inventory(ENTRY), cluster({ONE.ref: UNREADABLE})
    plan = make_plan(world((), listed, snapshot, options))
    (step,) = with_approval(plan, TARGET, options).removals
    assert step.fate is (Fate.ORPHAN if mode is Mode.ORPHAN else Fate.PRUNE)
    assert "may not read" in step.not_checked
