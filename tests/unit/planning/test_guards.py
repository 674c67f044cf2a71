"""The guards of a prune, as tables: what the set holds, what the input has, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.live import Absent, LiveObject, NotListed, Resource, State, Unknown
from applyprune.model.options import Mode, PruneLimit
from applyprune.model.plan import ApplyRule, Desired, Guard, GuardResult, GuardVerdict, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.approval import with_approval
from applyprune.planning.guards import APPROVAL, controller_parts
from applyprune.planning.plan import make_plan
from applyprune.planning.world import CascadeContents, ControllerUse
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    recorded,
    world,
)

LIMIT = "--max-prune"


@dataclass(slots=True)
class Scene:
    """A recorded set, and an input for it."""

    states: dict[Ref, State] = field(default_factory=dict)
    entries: list[InventoryEntry] = field(default_factory=list)
    contents: dict[Ref, CascadeContents] = field(default_factory=dict)
    controller: ControllerUse = field(default_factory=ControllerUse)

    def has(self, count: int, word: str = "c", **entry: Any) -> list[Desired]:
        """Add live objects with an entry each; return their manifests."""
        return [self.add(f"{word}-{number}", **entry) for number in range(count)]

    def add(self, name: str, state: State | None = None, **entry: Any) -> Desired:
        """Add one object, by default a live one, with its entry; return its manifest."""
        one = desired(body(name=name))
        there = live(one.ref, uid=f"u-{name}")
        self.entries.append(recorded(one, there, **entry))
        self.states[one.ref] = there if state is None else state
        return one

    def namespace(self, name: str, *inside: LiveObject) -> Ref:
        """Add a Namespace of the set with these contents; return its ref."""
        one = desired(body("Namespace", name), NAMESPACES)
        there = live(one.ref, uid=f"u-{name}")
        self.entries.append(recorded(one, there))
        self.states[one.ref] = there
        self.contents[one.ref] = CascadeContents(inside)
        return one.ref

    def plan(self, *wanted: Desired, empty: tuple[str, ...] = (), **options: Any) -> Plan:
        snapshot = cluster(
            {**{one.ref: NotListed() for one in wanted}, **self.states},
            contents=self.contents,
            controller=self.controller,
        )
        given = options_of(**options)
        listed = inventory(*self.entries)
        plan = make_plan(world(wanted, listed, snapshot, given, empty_inputs=empty))
        return with_approval(plan, TARGET, given)


def _set(size: int) -> tuple[Scene, list[Desired]]:
    scene = Scene()
    return scene, scene.has(size)


def _verdicts(plan: Plan) -> Mapping[Guard, GuardVerdict]:
    return {result.guard: result.verdict for result in plan.guards}


def _refusing(plan: Plan) -> set[Guard]:
    return {guard for guard, verdict in _verdicts(plan).items() if verdict is GuardVerdict.REFUSED}


def _result(plan: Plan, guard: Guard) -> GuardResult:
    (found,) = (result for result in plan.guards if result.guard is guard)
    return found


def _hint(plan: Plan, options: str) -> str:
    return (
        f"To allow exactly these deletions: --approve {plan.deletions}\n  To allow this: {options}"
    )


HALF, MAX = Guard.MORE_THAN_HALF, Guard.MAX_PRUNE
# The live objects of the set, how many of them stay, and the guards that refuse.
SIZES: dict[tuple[int, int], set[Guard]] = {
    (2, 1): set(),
    (3, 2): set(),
    (3, 1): {HALF},
    (4, 2): set(),
    (4, 1): {HALF},
    (5, 3): set(),
    (5, 2): {HALF},
    (10, 5): set(),
    (10, 4): {HALF, MAX},
    (12, 7): set(),
    (12, 6): {MAX},
    (19, 14): set(),
    (20, 14): set(),
    (20, 13): {MAX},
    (100, 70): set(),
    (100, 69): {MAX},
    (100, 49): {HALF, MAX},
}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_default_limit_depends_on_the_live_objects(sizes: tuple[int, int]) -> None:
    """5 or 30 %, the larger, and at most half; the hint always names the whole prune."""
    size, stay = sizes
    scene, members = _set(size)
    plan = scene.plan(*members[:stay])
    assert _refusing(plan) == SIZES[sizes]
    assert (plan.refusal is None) is (not SIZES[sizes])
    if plan.refusal is not None:
        assert plan.refusal.hint == _hint(plan, f"{LIMIT} {size - stay}")
        assert f"it would delete {size - stay} objects" in plan.refusal.message
        assert plan.no_prune == "prune refused"
        allowed = scene.plan(*members[:stay], max_prune=PruneLimit(size - stay, 0.0))
        assert (allowed.refusal, allowed.no_prune) == (None, "")
        assert all(step.fate is Fate.PRUNE for step in allowed.removals)


# Listed before, wanted now, how much may go, whether the prune goes through.
BUDGETS: dict[str, tuple[int, int, PruneLimit, bool]] = {
    "five of six": (6, 1, PruneLimit(), True),
    "six of seven": (7, 1, PruneLimit(), False),
    "six of twenty": (20, 14, PruneLimit(), True),
    "seven of twenty": (20, 13, PruneLimit(), False),
    "seven of twenty, told so": (20, 13, PruneLimit(7, 0.0), True),
    "seven of twenty, told less": (20, 13, PruneLimit(6, 0.0), False),
    "a quarter, told so": (20, 15, PruneLimit(0, 25.0), True),
    "a quarter and one, told a quarter": (20, 14, PruneLimit(0, 25.0), False),
    "one, told none": (2, 1, PruneLimit(0, 0.0), False),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_sharply_smaller_input_is_refused(name: str) -> None:
    """Above the larger of 5 objects and 30 %, or the given number."""
    before, now, limit, goes = BUDGETS[name]
    scene, members = _set(before)
    plan = scene.plan(*members[:now], max_prune=limit)
    assert (plan.refusal is None) is goes
    assert goes or f"{LIMIT} {before - now}" in str(plan.refusal)


def test_set_of_one_may_be_replaced() -> None:
    """A renamed object is the whole of a set, and nothing can be half of it."""
    scene, _ = _set(1)
    plan = scene.plan(desired(body(name="new")))
    assert plan.refusal is None
    assert Guard.MORE_THAN_HALF not in _verdicts(plan)
    assert _result(plan, Guard.NOTHING_IN_COMMON).message == (
        "the input would replace a single object"
    )


def test_base_is_the_live_objects_and_not_the_entries() -> None:
    """Of eight entries four are gone: then three are more than half, and no number exceeds four."""
    scene, members = _set(4)
    for number in range(4):
        scene.add(f"gone-{number}", Absent())
    refused = scene.plan(members[0])
    assert _refusing(refused) == {HALF}
    assert _result(refused, HALF).message == (
        "3 deletions are more than half of the set's 4 live objects"
    )
    assert scene.plan(*members[:2]).refusal is None


def test_base_has_adopted_objects_and_none_of_others() -> None:
    """Adopted objects stay and count; what another set or nobody owns by now does not."""
    scene, members = _set(2)
    scene.has(2, "adopted", ownership=Ownership.ADOPTED)
    shared = desired(body(name="keep"))
    assert scene.plan(members[0], shared).refusal is None
    assert scene.plan(members[0], shared).guards
    other = desired(body(name="other"))
    taken = live(other.ref, uid="x", label="applyset-other-v1", entries=[])
    unread = Unknown(Problem(ProblemKind.FORBIDDEN, "no"))
    for state in (taken, live(other.ref, uid="x", label=""), unread):
        scene, members = _set(3)
        scene.add("other", state)
        scene.add("more", state=Absent())
        assert _refusing(scene.plan(members[0])) == {HALF}


def test_unrelated_input_is_refused_though_most_stays() -> None:
    """Two objects of a set of many adopted ones: neither a number nor half of it is reached."""
    scene, _ = _set(2)
    scene.has(8, "adopted", ownership=Ownership.ADOPTED)
    plan = scene.plan(desired(body(name="unrelated")))
    assert _refusing(plan) == {Guard.NOTHING_IN_COMMON}
    assert plan.refusal is not None
    assert plan.refusal.reason == "the input has no object in common with the inventory"
    assert plan.refusal.hint == _hint(plan, f"{LIMIT} 2")


def test_object_of_another_group_is_in_common() -> None:
    """The same object, by its UID, is listed under the group that served it before."""
    scene, members = _set(3)
    twin = replace(members[0], ref=replace(members[0].ref, group="extensions"))
    scene.states[twin.ref] = live(twin.ref, uid="u-c-0")
    plan = scene.plan(twin)
    assert Guard.NOTHING_IN_COMMON not in _refusing(plan)
    assert _refusing(plan) == {HALF}


NUMBERS: dict[str, tuple[PruneLimit, GuardVerdict, GuardVerdict]] = {
    "the number": (PruneLimit(3, 0.0), GuardVerdict.LIFTED, GuardVerdict.PASSED),
    "the default, as a number": (PruneLimit(5, 0.0), GuardVerdict.LIFTED, GuardVerdict.PASSED),
    "the default itself": (PruneLimit(), GuardVerdict.LIFTED, GuardVerdict.PASSED),
    "three quarters": (PruneLimit(0, 75.0), GuardVerdict.LIFTED, GuardVerdict.PASSED),
    "all of it": (PruneLimit(0, 100.0), GuardVerdict.LIFTED, GuardVerdict.PASSED),
    "less": (PruneLimit(2, 0.0), GuardVerdict.LIFTED, GuardVerdict.REFUSED),
    "a smaller part": (PruneLimit(0, 74.0), GuardVerdict.LIFTED, GuardVerdict.REFUSED),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_given_number_replaces_all_limits(name: str) -> None:
    """Also the default one if it is given: whoever gives a number has seen the count."""
    limit, half, most = NUMBERS[name]
    scene, members = _set(4)
    plan = scene.plan(members[0], max_prune=limit)
    assert (_verdicts(plan)[HALF], _verdicts(plan)[MAX]) == (half, most)
    assert _result(plan, HALF).lifted_by == f"{LIMIT} {limit.text}"
    assert (plan.refusal is None) is (most is not GuardVerdict.REFUSED)


MESSAGES: dict[str, tuple[PruneLimit | None, str]] = {
    "default": (
        None,
        "7 deletions are more than 5, and more than 30% of the set's 20 live objects",
    ),
    "number": (PruneLimit(6, 0.0), "7 deletions are more than 6"),
    "part": (PruneLimit(0, 25.0), "7 deletions are more than 25% of the set's 20 live objects"),
    "both": (PruneLimit(6, 1.0), "7 deletions are more than 6 or 1% of the set's 20 live objects"),
    "nothing": (PruneLimit(0, 0.0), "7 deletions are more than 0"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_limit_is_named_as_it_was_given(name: str) -> None:
    """The message is the reason of the refusal."""
    limit, message = MESSAGES[name]
    scene, members = _set(20)
    plan = scene.plan(*members[:13], max_prune=limit)
    assert _result(plan, MAX).message == message
    assert plan.refusal is not None
    assert plan.refusal.reason == message


def test_number_that_allows_more_than_the_default_lifts_it() -> None:
    """It is shown what the default would have said."""
    scene, members = _set(20)
    result = _result(scene.plan(*members[:13], max_prune=PruneLimit(7, 0.0)), MAX)
    assert (result.verdict, result.lifted_by) == (GuardVerdict.LIFTED, "--max-prune 7")
    assert "more than 30% of the set's 20 live objects" in result.message


def test_foreign_cascade_counts_for_the_number_and_not_for_half() -> None:
    """A Namespace of four objects with twelve of others: never twelve of the four."""
    scene, members = _set(3)
    strangers = [live(desired(body(name=f"s-{n}")).ref, uid=f"s-{n}") for n in range(12)]
    home = scene.namespace("shop", *strangers)
    allowed: dict[str, Any] = {"allow_cascade": frozenset({home.short})}
    plan = scene.plan(*members, **allowed)
    assert _refusing(plan) == {MAX}
    assert plan.refusal is not None
    assert plan.refusal.message == (
        "the prune was refused: it would delete 13 objects, including 12 cascaded deletions"
    )
    assert plan.refusal.reason == (
        "13 deletions are more than 5, and more than 30% of the set's 4 live objects\n"
        "    namespace/shop would cascade-delete 12 objects: home/configmap/s-0, "
        "home/configmap/s-1, home/configmap/s-10, home/configmap/s-11, home/configmap/s-2 "
        "and 7 more"
    )
    assert _verdicts(plan)[HALF] is GuardVerdict.PASSED
    assert _verdicts(plan)[Guard.CASCADE] is GuardVerdict.LIFTED
    assert scene.plan(*members, max_prune=PruneLimit(13, 0.0), **allowed).refusal is None


def test_empty_input_has_a_guard_of_its_own() -> None:
    """That nothing is in common, and all of it goes, need not be said once more."""
    scene, _ = _set(3)
    refused = scene.plan()
    assert _refusing(refused) == {Guard.EMPTY_INPUT}
    assert not {HALF, Guard.NOTHING_IN_COMMON} & _verdicts(refused).keys()
    lifted = scene.plan(allow_empty=True)
    assert (lifted.refusal, _result(lifted, Guard.EMPTY_INPUT).lifted_by) == (None, "--allow-empty")


# Whether a mark leaves out the manifest of the object that stays in the set, whether other objects
# are in the input, what has left the set (None: it is live), and the guards that refuse.
LEFT_OUT: dict[str, tuple[list[ApplyRule], list[State | None], set[Guard]]] = {
    "left out, and one goes": ([ApplyRule.DISABLED], [None], {Guard.EMPTY_INPUT}),
    "left out, and most go": ([ApplyRule.DISABLED], [None] * 3, {Guard.EMPTY_INPUT, HALF}),
    "left out, and one is gone": ([ApplyRule.DISABLED], [Absent()], {Guard.EMPTY_INPUT}),
    "left out, and none leaves": ([ApplyRule.DISABLED], [], set()),
    "two left out": ([ApplyRule.DISABLED] * 2, [None], {Guard.EMPTY_INPUT}),
    "left out beside another": ([ApplyRule.DISABLED, ApplyRule.ALWAYS], [None], set()),
    "created once": ([ApplyRule.ONCE], [None], set()),
    "it must exist": ([ApplyRule.DISABLED, ApplyRule.EXISTS], [None], set()),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_input_of_which_each_manifest_is_left_out_counts_as_empty(name: str) -> None:
    """--allow-empty lifts that guard, and no other."""
    rules, leaving, refusing = LEFT_OUT[name]
    scene = Scene()
    named = [scene.add(f"s-{at}") for at in range(len(rules))]
    stays = [
        replace(one, apply=rule, apply_mark="m") for one, rule in zip(named, rules, strict=True)
    ]
    for at, state in enumerate(leaving):
        scene.add(f"c-{at}", state)
    plan = scene.plan(*stays)
    assert _refusing(plan) == refusing
    assert _refusing(scene.plan(*stays, allow_empty=True)) == refusing - {Guard.EMPTY_INPUT}
    if Guard.EMPTY_INPUT in refusing:
        text = "no object in the input: a mark leaves out each of its manifests"
        assert _result(plan, Guard.EMPTY_INPUT).message == text
        assert plan.no_prune == "prune refused"


def test_empty_part_of_an_input_does_not_lift_the_other_guards() -> None:
    """--allow-empty says nothing of what the other parts no longer contain."""
    scene, members = _set(3)
    part = ("extra/",)
    assert _refusing(scene.plan(members[0], empty=part)) == {Guard.EMPTY_INPUT, HALF}
    assert _refusing(scene.plan(members[0], empty=part, allow_empty=True)) == {HALF}
    assert scene.plan(*members, empty=part).guards == ()


def test_approval_lifts_what_it_names() -> None:
    """All guards that refused, each with the word that lifted it."""
    scene, members = _set(8)
    scene.namespace("shop", live(desired(body(name="s")).ref, uid="s"))
    refused = scene.plan(members[0])
    assert _refusing(refused) == {HALF, MAX, Guard.CASCADE}
    done = scene.plan(members[0], approved=refused.deletions)
    assert done.refusal is None
    lifted = {result.guard for result in done.guards if result.lifted_by == APPROVAL}
    assert lifted == {HALF, MAX, Guard.CASCADE, Guard.GUARDED_KIND}
    assert _refusing(scene.plan(members[0], approved="")) == _refusing(refused)
    assert _refusing(scene.plan(members[0], approved="other")) == _refusing(refused)


def test_approval_does_not_correct_a_mistyped_option() -> None:
    """An --orphan that matches nothing may mean an object that would go."""
    scene, members = _set(3)
    refused = scene.plan(members[0], orphan=frozenset({"configmap/typo"}))
    assert _refusing(refused) == {HALF, Guard.ORPHAN_NAMES}
    again = scene.plan(members[0], orphan=frozenset({"configmap/typo"}), approved=refused.deletions)
    assert _refusing(again) == {Guard.ORPHAN_NAMES}
    assert _result(again, HALF).lifted_by == APPROVAL


def test_delete_is_not_held() -> None:
    """It names a set, and means all of it: only cascades and mistyped options are checked."""
    scene, _ = _set(8)
    plan = scene.plan(mode=Mode.DELETE)
    assert plan.refusal is None
    assert _verdicts(plan) == {
        Guard.ORPHAN_NAMES: GuardVerdict.PASSED,
        Guard.CASCADE: GuardVerdict.PASSED,
    }


_ELSEWHERE = {Guard.RESTORED_INVENTORY, Guard.CONTROLLER_IN_USE, Guard.APPROVED_DELETIONS}


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE])
def test_every_guard_that_applies_has_a_result(mode: Mode) -> None:
    """In one order; those that pass say why, and name no option."""
    scene, members = _set(4)
    plan = scene.plan(*members[:3], mode=mode)
    assert [result.guard for result in plan.guards] == [
        guard for guard in Guard if guard not in _ELSEWHERE
    ]
    assert set(_verdicts(plan).values()) == {GuardVerdict.PASSED}
    assert all(one.message and not one.option and not one.lifted_by for one in plan.guards)


NO_DELETIONS: dict[str, dict[str, Any]] = {
    "orphaned": {"orphan": frozenset({"configmap/c-3"})},
    "not pruned": {"prune": False},
}


@pytest.mark.parametrize("name", NO_DELETIONS)
def test_plan_without_deletions_has_no_guards(name: str) -> None:
    """Nothing can be refused, and nothing approved."""
    scene, members = _set(4)
    plan = scene.plan(*members[:3], **NO_DELETIONS[name])
    assert (plan.guards, plan.refusal, plan.deletions) == ((), None, "")
    assert scene.plan(*members).guards == ()


def test_restored_inventory_is_a_guard_without_an_option() -> None:
    """Beside the others, of which it is the stronger."""
    scene, members = _set(3)
    scene.states = {ref: live(ref, uid=f"new-{ref.name}") for ref in scene.states}
    plan = scene.plan(members[0])
    assert plan.restored
    assert _result(plan, Guard.RESTORED_INVENTORY).verdict is GuardVerdict.REFUSED
    assert plan.refusal is not None
    assert plan.deletions == ""
    off = scene.plan(members[0], prune=False)
    assert (off.restored, off.refusal, off.guards) == (True, None, ())


# The controller, which alone ends Bundles.


OURS = {"app.kubernetes.io/name": "applyprune", "app.kubernetes.io/component": "controller"}
WEB, API = (Ref("applyprune.dev", "Bundle", "shop", name) for name in ("web", "api"))


def _labelled(name: str, labels: Mapping[str, str] = OURS, resource: Resource = DEPLOYMENTS) -> Any:
    raw = body(resource.kind, name, metadata={"labels": dict(labels)})
    one = desired(raw, resource)
    return one, live(one.ref, uid=f"u-{name}", labels=dict(labels))


def test_controller_is_known_by_its_labels_and_replaced_by_its_kind() -> None:
    """In the set, or in a Namespace of it; what a workload has made there is not looked at."""
    wanted, ours = _labelled("new")
    _, half = _labelled("half", {"app.kubernetes.io/name": "applyprune"})
    account, _ = _labelled("account", resource=CONFIG_MAPS)
    assert controller_parts([ours, half], {}, ()) == {ours.ref}
    assert controller_parts([ours], {}, [account]) == {ours.ref}
    assert controller_parts([ours], {}, [wanted]) == frozenset()
    place = live(desired(body("Namespace", "system"), NAMESPACES).ref, uid="u-system")
    assert controller_parts([place], {place.ref: CascadeContents((half,))}, ()) == frozenset()
    inside = {place.ref: CascadeContents((half, ours))}
    assert controller_parts([place], inside, ()) == {place.ref}
    assert controller_parts([place], inside, [wanted]) == frozenset()
    owned = live(ours.ref, uid="u", labels=OURS, ownerReferences=[{"uid": "u-1"}])
    assert controller_parts([place], {place.ref: CascadeContents((owned,))}, ()) == frozenset()


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(Mode.DELETE, marks=pytest.mark.holds("controller-in-use")),
        Mode.APPLY,
        Mode.PRUNE,
    ],
)
def test_controller_stays_as_long_as_a_bundle_needs_it(mode: Mode) -> None:
    """Whoever deletes it is told what comes first; no digest allows it, and no other name."""
    scene, members = _set(4)
    ref = members[0].ref
    scene.controller = ControllerUse(frozenset({ref}), (WEB, API))
    wanted = () if mode is Mode.DELETE else members[1:]
    refused = scene.plan(*wanted, mode=mode)
    assert _refusing(refused) == {Guard.CONTROLLER_IN_USE}
    assert refused.refusal is not None
    assert refused.refusal.reason == (
        "the Bundle controller needs configmap/c-0, and only it can end 2 Bundles: "
        "shop/web, shop/api"
    )
    first, *others = refused.refusal.hint.splitlines()
    assert first.endswith("until they are gone: kubectl delete bundles.applyprune.dev --all -A")
    assert others[-1] == "  To allow this: --allow-cascade configmap/c-0"
    assert all(step.fate is not Fate.PRUNE or step.request for step in refused.removals)
    again = scene.plan(*wanted, mode=mode, approved=refused.deletions)
    assert _refusing(again) == {Guard.CONTROLLER_IN_USE}
    assert again.refusal is not None
    assert "--approve" not in again.refusal.hint
    other = frozenset({"configmap/c-1"})
    assert _refusing(scene.plan(*wanted, mode=mode, allow_cascade=other)) == {
        Guard.CONTROLLER_IN_USE
    }
    named = scene.plan(*wanted, mode=mode, allow_cascade=frozenset({ref.short}))
    assert _result(named, Guard.CONTROLLER_IN_USE).lifted_by == "--allow-cascade configmap/c-0"
    assert named.refusal is None
    # A Bundle that nobody could read may exist; without any, and for another object, it is no news.
    scene.controller = ControllerUse(frozenset({ref}), unread="forbidden")
    unread = scene.plan(*wanted, mode=mode)
    assert unread.refusal is not None
    assert unread.refusal.reason.endswith("and the Bundles cannot be read: forbidden")
    scene.controller = ControllerUse(frozenset({ref}))
    assert _verdicts(scene.plan(*wanted, mode=mode))[Guard.CONTROLLER_IN_USE] is (
        GuardVerdict.PASSED
    )
    scene.controller = ControllerUse(frozenset({WEB}), (WEB,))
    assert Guard.CONTROLLER_IN_USE not in _verdicts(scene.plan(*wanted, mode=mode))


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (None, GuardVerdict.REFUSED),
        (ApplyRule.ALWAYS, GuardVerdict.PASSED),
        (ApplyRule.EXISTS, GuardVerdict.PASSED),
        pytest.param(
            ApplyRule.DISABLED,
            GuardVerdict.REFUSED,
            marks=pytest.mark.holds("disabled-uses-no-namespace"),
        ),
    ],
)
def test_objects_that_move_to_another_namespace_need_an_approval(
    rule: ApplyRule | None, verdict: GuardVerdict
) -> None:
    """Unless the input has something in the old one; what is disabled is not there."""
    scene, listed = _set(2)
    moved = [
        replace(one, ref=replace(one.ref, namespace="other"), resource=CONFIG_MAPS)
        for one in listed
    ]
    there = [replace(desired(body(name="d")), apply=rule)] if rule is not None else []
    plan = scene.plan(*moved, *there)
    assert _verdicts(plan)[Guard.OTHER_NAMESPACE] is verdict
