"""What an aggregated API says about UIDs: it hides objects of its own, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import PruneLimit
from applyprune.model.plan import Guard, GuardVerdict, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.cascade import (
    Cascade,
    Deletion,
    OwnerChains,
    cascade_of,
    cascades_of,
    dependants,
    diagnose,
)
from applyprune.planning.ownership import is_label_of_nobody, is_listed_elsewhere, other_set_in
from applyprune.planning.plan import make_plan
from applyprune.planning.prune_waits import pod_use, unless_used
from applyprune.planning.recovery import current_entries, unlisted
from applyprune.planning.remaining import Remaining
from applyprune.planning.uids import each_once, is_among, owners_of, uids_of
from applyprune.planning.world import CascadeContents
from tests.support.options import options_of
from tests.support.planning import (
    CATALOGUE,
    CONFIG_MAPS,
    TARGET,
    TIME,
    body,
    desired,
    inventory,
    live,
    recorded,
    world,
)

THINGS = Resource("things.example.com", "v1", "Thing", "things", namespaced=True)
"""What an aggregated API serves."""
ROLE_TWINS = Resource(
    "authorization.openshift.io", "v1", "ConfigMap", "configmaps", namespaced=True
)
"""What an aggregated API serves a second time, as OpenShift does with RBAC."""
THING = Ref(THINGS.group, THINGS.kind, "home", "x")
MAP = Ref("", "ConfigMap", "home", "a")
OTHER = Ref("", "ConfigMap", "home", "b")
CLAIM = Ref("", "PersistentVolumeClaim", "home", "data")
NAMESPACE = Ref("", "Namespace", "", "home")
STRANGER: dict[str, Any] = {"label": "", "entries": []}
MANY = options_of(max_prune=PruneLimit(count=9))
SERVED_TWICE = Ref("extensions", "ConfigMap", "home", "a")
U, V = "11111111-0000-0000-0000-000000000001", "11111111-0000-0000-0000-000000000002"


def owner(ref: Ref, uid: str) -> dict[str, Any]:
    """Return an ownerReference."""
    api = f"{ref.group}/v1" if ref.group else "v1"
    return {"apiVersion": api, "kind": ref.kind, "name": ref.name, "uid": uid}


def read(*states: LiveObject) -> dict[str, Any]:
    """Return what was read: these objects, and that all kinds are served."""
    served = {one.group_kind: one for one in (THINGS, ROLE_TWINS)}
    return {
        "states": {one.ref: one for one in states},
        "resources": {**CATALOGUE.preferred, **served},
    }


def listed(*states: LiveObject) -> Any:
    """Return an inventory that lists these objects."""
    kinds = {one.group: one for one in (CONFIG_MAPS, THINGS, ROLE_TWINS)}
    entries = []
    for one in states:
        member = desired(resource=kinds[one.ref.group])
        entries.append(recorded(member, one, ref=one.ref, plural=kinds[one.ref.group].plural))
    return inventory(*entries)


@pytest.mark.holds("uid-of-a-server")
def test_object_is_pruned_though_an_api_says_its_uid_of_another_one() -> None:
    """It must not be forgotten, listed nowhere."""
    claimed, pruned = live(THING, uid=U), live(MAP, uid=U)
    member = desired(body("Thing", "x"), THINGS)
    plan = make_plan(
        world(
            [member],
            listed(claimed, pruned),
            read(claimed, pruned),
            MANY,
        )
    )
    assert {one.entry.ref: one.fate for one in plan.removals} == {MAP: Fate.PRUNE}


@pytest.mark.holds("served-twice-stays")
def test_object_that_the_input_names_by_its_second_group_stays() -> None:
    """The input names it by the other group: it stays, and stays listed, until a person decides."""
    twin = live(Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), uid=U)
    old = live(MAP, uid=U)
    plan = make_plan(
        world(
            [desired(resource=ROLE_TWINS)],
            listed(old),
            read(old, twin),
            MANY,
        )
    )
    assert [(one.entry.ref, one.fate) for one in plan.removals] == [(MAP, Fate.LEAVE)]
    back = make_plan(world([desired()], listed(twin), read(old, twin), MANY))
    fates = [(one.entry.ref, one.fate) for one in back.removals]
    assert fates == [(twin.ref, Fate.REMOVE_FROM_INVENTORY)]


@pytest.mark.parametrize(
    ("first", "second", "forgotten"),
    [
        # An API hides its own object with a built-in one, and never a built-in one with its own.
        (MAP, THING, THING),
        (Ref("apps", "Deployment", "home", "a"), THING, THING),
        (Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), THING, None),
        (
            MAP,
            Ref("extensions", "ConfigMap", "home", "a"),
            Ref("extensions", "ConfigMap", "home", "a"),
        ),
    ],
)
def test_two_listed_objects_with_one_uid(first: Ref, second: Ref, forgotten: Ref | None) -> None:
    """Only of what kube-apiserver serves twice, one entry is enough."""
    kept, lives = live(OTHER, uid=V), [live(first, uid=U), live(second, uid=U)]
    entries = [recorded(desired(), one, ref=one.ref) for one in (kept, *lives)]
    read_all = read(kept, *lives)
    kinds = dict.fromkeys((first.group_kind, second.group_kind), THINGS)
    read_all["resources"] = {**read_all["resources"], **kinds}
    plan = make_plan(world([desired(body(name="b"))], inventory(*entries), read_all, MANY))
    found = {one.entry.ref: one.fate for one in plan.removals}
    expected = dict.fromkeys((first, second), Fate.PRUNE)
    assert found == expected | ({forgotten: Fate.REMOVE_FROM_INVENTORY} if forgotten else {})


def test_twin_of_an_aggregated_api_is_known_by_the_built_in_object() -> None:
    """It leaves the inventory, and counts once in the size of the set."""
    kept, first = live(OTHER, uid=V), live(MAP, uid=U)
    twin = live(Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), uid=U)
    plan = make_plan(
        world([desired(body(name="b"))], listed(kept, first, twin), read(kept, first, twin))
    )
    found = {one.entry.ref: one.fate for one in plan.removals}
    assert found == {MAP: Fate.PRUNE, twin.ref: Fate.REMOVE_FROM_INVENTORY}
    half = next(one for one in plan.guards if one.guard is Guard.MORE_THAN_HALF)
    assert "not more than half of the set's 2 live objects" in half.message


@pytest.mark.holds("shares-proved")
def test_api_that_claims_uids_does_not_show_that_input_and_inventory_share() -> None:
    """A wrong folder is noticed, whatever the API says of its own object in it."""
    lives = [live(Ref("", "ConfigMap", "home", name), uid=f"u-{name}") for name in "abc"]
    claimed = live(THING, uid="u-a")
    plan = make_plan(
        world([desired(body("Thing", "x"), THINGS)], listed(*lives), read(*lives, claimed))
    )
    refused = {one.guard for one in plan.guards if one.verdict is GuardVerdict.REFUSED}
    assert Guard.NOTHING_IN_COMMON in refused


def in_namespace(*inside: LiveObject, deleting: tuple[LiveObject, ...] = ()) -> Cascade:
    return cascade_of(CascadeContents(inside), uids_of(deleting), TARGET.manager)


STRANGE = live(OTHER, uid=U, **STRANGER)
CASCADES: dict[str, tuple[Cascade, tuple[Ref, ...], int]] = {
    "a pruned object of the API claims the stranger's UID": (
        in_namespace(STRANGE, deleting=(live(THING, uid=U),)), (OTHER,), 1
    ),
    "so does one in the Namespace, that ours owns": (
        in_namespace(
            STRANGE,
            live(THING, uid=U, ownerReferences=[owner(MAP, V)], **STRANGER),
            deleting=(live(MAP, uid=V),),
        ),
        (OTHER,), 1,
    ),
    "its owner is another object with the UID of a pruned one of the API": (
        in_namespace(
            live(OTHER, uid=V, ownerReferences=[owner(MAP, U)], **STRANGER),
            deleting=(live(THING, uid=U),),
        ),
        (OTHER,), 1,
    ),
    "its owner is the pruned one of the API": (
        in_namespace(
            live(OTHER, uid=V, ownerReferences=[owner(THING, U)], **STRANGER),
            deleting=(live(THING, uid=U),),
        ),
        (), 1,
    ),
    "an object of the set is served twice": (
        in_namespace(
            live(MAP, uid=U),
            live(Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), uid=U, **STRANGER),
            deleting=(live(MAP, uid=U),),
        ),
        (), 1,
    ),
    "a stranger is served twice": (
        in_namespace(
            live(Ref(ROLE_TWINS.group, "ConfigMap", "home", "b"), uid=U, **STRANGER), STRANGE
        ),
        (OTHER,), 1,
    ),
    "two groups of kube-apiserver serve it": (
        in_namespace(STRANGE, live(SERVED_TWICE, uid=U, **STRANGER)),
        (SERVED_TWICE,), 1,
    ),
}  # fmt: skip


@pytest.mark.holds("served-twice", row="an object of the set is served twice")
@pytest.mark.parametrize("name", CASCADES)
def test_strangers_in_a_namespace_are_counted(name: str) -> None:
    """Nothing that another API says takes a stranger out of the count."""
    cascade, foreign, total = CASCADES[name]
    assert (cascade.foreign, cascade.total) == (foreign, total)


def test_stranger_with_an_owner_that_an_api_claims_is_a_root() -> None:
    """The digest of an approval names it."""
    cascade = in_namespace(
        live(OTHER, uid=V, ownerReferences=[owner(MAP, U)], **STRANGER),
        live(THING, uid=U, **STRANGER),
    )
    assert {root.ref for root in cascade.roots} == {OTHER, THING}


def chains(*counted: LiveObject, known: tuple[LiveObject, ...] = ()) -> OwnerChains:
    everything = each_once([*counted, *known])
    return OwnerChains(dict(everything), dict(each_once(counted)))


@pytest.mark.parametrize("claimed", [True, False])
def test_claim_is_counted_though_an_api_says_its_uid_of_a_deleted_object(claimed: bool) -> None:
    """The garbage collector deletes it with its owner, whatever else has its UID."""
    claim = live(CLAIM, uid=V, ownerReferences=[owner(MAP, U)])
    deletions = [Deletion(MAP, live(MAP, uid=U))]
    if claimed:
        deletions.append(Deletion(THING, live(THING, uid=V)))
    found = dependants(deletions, chains(claim))
    assert [one.ref for one in found[MAP].objects] == [CLAIM]


@pytest.mark.parametrize("uid", [U, V])
def test_claim_of_a_recreated_object_is_counted_though_its_api_says_the_uid_of_it(uid: str) -> None:
    """The API claims for its own object the UID of the claim that this one owns."""
    thing = live(THING, uid=uid)
    claim = live(CLAIM, uid=V, ownerReferences=[owner(THING, uid)])
    found = dependants([Deletion(THING, thing)], chains(claim))
    assert cascades_of(found, [thing], ()).foreign(THING) == (CLAIM,)


@pytest.mark.holds("owner-served-twice")
def test_claim_of_an_owner_that_is_served_twice_is_counted() -> None:
    """It names its owner by the second group; both forms of it go."""
    twin = Ref(ROLE_TWINS.group, "ConfigMap", "home", "a")
    claim = live(CLAIM, uid=V, ownerReferences=[owner(twin, U)])
    found = dependants([Deletion(MAP, live(MAP, uid=U))], chains(claim, known=(live(twin, uid=U),)))
    assert [one.ref for one in found.get(MAP, CascadeContents(())).objects] == [CLAIM]


@pytest.mark.parametrize("named", [MAP, THING])
def test_owner_of_what_remains(named: Ref) -> None:
    """Only the object that is named waits; what has its UID in another group does not."""
    child = live(OTHER, uid=V, ownerReferences=[owner(named, U)])
    remaining = Remaining({MAP, OTHER})
    failed = Problem(ProblemKind.FORBIDDEN, "not allowed")
    entry = recorded(desired(), child, ref=OTHER)
    remaining.add(RemoveStep(entry, CONFIG_MAPS, Fate.PRUNE, child), {}, failure=failed)
    state = live(MAP, uid=U)
    step = RemoveStep(recorded(desired(), state, ref=MAP), CONFIG_MAPS, Fate.PRUNE, state)
    assert (remaining.blocker(step) is not None) == (named == MAP)


def test_pod_of_a_workload_whose_uid_an_api_claims_uses_what_it_names() -> None:
    """Its workload is not deleted, so what it uses stays."""
    replicas = Ref("apps", "ReplicaSet", "home", "web-1")
    workload = Ref("apps", "Deployment", "home", "web")
    uses = {"spec": {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "a"}}]}]}}

    def controlled_by(ref: Ref, uid: str) -> list[dict[str, Any]]:
        return [{**owner(ref, uid), "controller": True}]

    pod = live(
        Ref("", "Pod", "home", "web-1-x"), uid="p", full=uses,
        ownerReferences=controlled_by(replicas, "r"),
    )  # fmt: skip
    replica_set = live(replicas, uid="r", full={}, ownerReferences=controlled_by(workload, U))
    use = pod_use([pod], [replica_set], {"a"})
    member = recorded(desired(), live(MAP, uid=V), ref=MAP)
    removal = RemoveStep(member, CONFIG_MAPS, Fate.PRUNE, live(MAP, uid=V))
    for gone, fate in ((live(THING, uid=U), Fate.LEAVE), (live(workload, uid=U), Fate.PRUNE)):
        (step,) = unless_used([removal], use, (), options_of(), uids_of([gone]))
        assert step.fate is fate


@pytest.mark.parametrize(
    ("entry", "found", "same"),
    [
        (Ref("extensions", "ConfigMap", "home", "a"), MAP, True),
        (Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), MAP, False),
        (MAP, Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), True),
        (THING, Ref(ROLE_TWINS.group, "ConfigMap", "home", "a"), False),
    ],
)
def test_listed_by_its_uid_under_another_group(entry: Ref, found: Ref, same: bool) -> None:
    """As the current entry of an input, as what is not listed, and by another set."""
    state = live(found, uid=U)
    inside = inventory(recorded(desired(), state, ref=entry))
    resource = CONFIG_MAPS if found == MAP else ROLE_TWINS
    around = world([desired(resource=resource)], inside, read(state))
    assert (found in current_entries(around, restored=False)) == same
    assert (found in unlisted(world([], inside, read(state)))) != same
    labelled = live(found, uid=U, label="applyset-x-v1")
    others = {"applyset-x-v1": other_set_in(inside)}
    assert is_listed_elsewhere(labelled, others) == same
    assert is_label_of_nobody(labelled, others) != same


def test_custom_resource_of_another_set_has_no_label_of_nobody() -> None:
    """That set lists it by what it is known by, with its group."""
    member, state = desired(body("Thing", "x"), THINGS), live(THING, uid=U, label="applyset-x-v1")
    others = {"applyset-x-v1": other_set_in(inventory(recorded(member, state, ref=THING)))}
    assert not is_label_of_nobody(state, others)
    assert is_label_of_nobody(live(THING, uid=V, label="applyset-x-v1"), others)


def served_twice(ref: Ref) -> list[str]:
    """Return the refs of a built-in object and of ``ref`` with its UID, each object once."""
    return [str(one.ref) for one in each_once([live(MAP, uid=U), live(ref, uid=U)]).values()]


FORMS: list[tuple[Callable[[], object], object]] = [
    (lambda: served_twice(THING), [str(MAP)]),
    (lambda: owners_of(live(MAP, ownerReferences=[owner(THING, U)])), {f"{THINGS.group}/{U}"}),
    (lambda: owners_of(live(MAP, ownerReferences=[owner(OTHER, U)])), {U}),
    (lambda: owners_of(live(MAP)), frozenset()),
    # A text that looks like that of another group stays a UID of its own.
    (lambda: is_among(live(MAP, uid=U), uids_of([live(THING, uid=f"/{U}")])), False),
]


@pytest.mark.parametrize(("made", "expected"), FORMS)
def test_forms(made: Callable[[], object], expected: object) -> None:
    assert made() == expected


def test_namespace_that_is_stuck_names_a_stranger_that_an_api_claims() -> None:
    """The built-in object is the one that is named."""
    stuck = live(NAMESPACE, uid=V, deletionTimestamp=TIME, full={})
    remains = CascadeContents((live(MAP, uid=U), live(THING, uid=U)))
    assert "it still contains configmap/a" in diagnose(stuck, remains)
