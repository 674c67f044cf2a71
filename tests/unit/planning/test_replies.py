"""Which reply proves that a write is stored, and which read shows it after one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import Conflict, RunFailed
from applyprune.model.fate import Fate
from applyprune.model.live import Absent, LiveObject, Resource, State, is_after
from applyprune.model.plan import ApplyRequest, ApplyStep, PatchRequest, Precondition
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.planning.replies import (
    created_instead,
    found_at_create,
    proves_apply,
    proves_patch,
    shows_apply,
)
from applyprune.planning.requests import delete_request, orphan_request
from applyprune.values import packed, replace
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    SECRETS,
    TARGET,
    TIME,
    body,
    cluster,
    desired,
    inventory,
    managed,
    recorded,
    world,
)

LATER = "2026-11-21T10:00:07Z"


def _manifest(resource: Resource, value: str = "new") -> dict[str, Any]:
    return body(resource.kind, data={"key": value})


def state(
    version: str,
    value: str = "new",
    *,
    resource: Resource = CONFIG_MAPS,
    keys: tuple[str, ...] = ("key",),
    time: str = LATER,
    others: tuple[dict[str, Any], ...] = (),
    lacks: tuple[str, ...] = (),
    full: bool = True,
    **metadata: Any,
) -> LiveObject:
    """Return an object in which the set owns these keys; by default what its apply has stored."""
    ref = desired(_manifest(resource), resource).ref
    owned = {
        "f:data": {f"f:{key}": {} for key in keys},
        "f:metadata": {
            "f:labels": {f"f:{PART_OF}": {}},
            "f:annotations": {f"f:{OWNED_BY}": {}},
        },
    }
    whole = {
        "name": ref.name,
        "namespace": ref.namespace,
        "uid": "u1",
        "labels": {PART_OF: TARGET.id},
        "annotations": {OWNED_BY: TARGET.id},
        "creationTimestamp": "2026-11-21T09:00:00Z",
        "managedFields": [managed(fieldsV1=owned, time=time), *others],
        **metadata,
    }
    kept = {key: one for key, one in whole.items() if key not in lacks}
    kind = {"apiVersion": resource.gvk.api_version, "kind": resource.kind}
    everything = {**kind, "metadata": kept, "data": dict.fromkeys(keys, value)}
    uid = str(whole["uid"])
    return LiveObject.of(ref, uid, version, kept, everything if full else None)


def theirs(time: str, *fields: str) -> dict[str, Any]:
    """Return the entry of somebody else."""
    entry = {"manager": "theirs", "operation": "Update", "apiVersion": "v1", "time": time}
    return {**entry, "fieldsV1": {f"f:{one}": {} for one in fields}}


def step(
    before: LiveObject | None,
    fate: Fate = Fate.CHANGE,
    *,
    guard: str = "",
    is_recorded: bool = True,
    **parts: Any,
) -> ApplyStep:
    """Return the step that applies the manifest with the new value."""
    kind = before.ref.kind if before is not None else "ConfigMap"
    resource = next(one for one in (CONFIG_MAPS, DEPLOYMENTS, SECRETS) if one.kind == kind)
    one = desired(_manifest(resource), resource)
    sent = {**one.body, "metadata": {**one.body["metadata"], "annotations": {OWNED_BY: TARGET.id}}}
    precondition = Precondition("u1", guard)
    manager = TARGET.manager
    request = ApplyRequest(resource, one.ref, packed(sent), manager, precondition=precondition)
    entry = recorded(one, before or state("5"))
    if not is_recorded:
        entry = replace(entry, fingerprint=None)
    return ApplyStep(one, fate, entry, before, request=request, **parts)


OLD = state("5", "old", time=TIME)
SAME = state("5", time=TIME)
SEEN = state("5", time=TIME, full=False)
"""As a list of metadata shows it."""
NEW = step(None, Fate.CREATE)
CHANGE = step(OLD)
DELETED = delete_request(CONFIG_MAPS, state("4"))
DEPLOYMENT = state("5", resource=DEPLOYMENTS, time=TIME, full=False, generation=2)
SECRET = state("5", resource=SECRETS, time=TIME, full=False)

PROVES: dict[str, tuple[ApplyStep, LiveObject, bool]] = {
    "created": (NEW, state("9"), True),
    "dry run of a create": (NEW, state(""), False),
    "dry run of a create, with the version of the request": (NEW, state("1"), False),
    "create of the one that was deleted": (replace(NEW, deletion=DELETED), state("9"), False),
    "create of another one": (replace(NEW, deletion=DELETED), state("9", uid="u2"), True),
    "changed": (CHANGE, state("6"), True),
    "dry run of a change": (CHANGE, state("5"), False),
    "reply to an earlier change": (CHANGE, state("4"), False),
    "no version": (CHANGE, state(""), False),
    "another object": (CHANGE, state("6", uid="u2"), False),
    "no managers": (CHANGE, state("6", lacks=("managedFields",)), False),
    "no labels": (CHANGE, state("6", lacks=("labels",)), False),
    "no annotations": (CHANGE, state("6", lacks=("annotations",)), False),
    "no time of creation": (CHANGE, state("6", lacks=("creationTimestamp",)), False),
    "no generation": (step(DEPLOYMENT), state("6", resource=DEPLOYMENTS), False),
    "somebody has written it since": (CHANGE, state("7", others=(theirs(LATER),)), False),
    "nobody can have written it since": (
        step(OLD, guard="5"),
        state("7", others=(theirs(LATER),)),
        True,
    ),
    "somebody has written it before, and loses a field": (
        step(state("5", "old", time=TIME, others=(theirs(TIME, "x", "y"),))),
        state("6", others=(theirs(TIME, "x"),)),
        True,
    ),
    "repeated, as the check has shown": (step(OLD, Fate.LEAVE, is_checked=True), OLD, True),
    "repeated, and the check has shown a change": (step(SAME, is_checked=True), SAME, False),
    "repeated, and it has what is sent": (step(SAME), SAME, True),
    "repeated, and it has another value": (CHANGE, OLD, False),
    "repeated, and it keeps a field": (
        step(state("5", keys=("key", "more"), time=TIME)),
        state("5", keys=("key", "more"), time=TIME),
        False,
    ),
    "repeated, and its values were not read": (step(SEEN, is_recorded=False), SAME, False),
    "repeated, as recorded": (step(SEEN, is_reapplied=True), SAME, True),
    "repeated, as recorded, with another manifest": (step(SEEN), SAME, False),
    "repeated, as recorded of another version": (
        step(SEEN, is_reapplied=True, is_recorded=False),
        SAME,
        False,
    ),
    "repeated, a Secret": (
        step(SECRET, is_reapplied=True),
        state("5", resource=SECRETS, time=TIME),
        False,
    ),
    "repeated, and the generation tells": (
        step(DEPLOYMENT, is_recorded=False),
        state("5", resource=DEPLOYMENTS, time=TIME, generation=2),
        True,
    ),
    "another generation": (
        step(DEPLOYMENT, is_recorded=False),
        state("5", resource=DEPLOYMENTS, time=TIME, generation=3),
        False,
    ),
    "another time": (step(SEEN, is_reapplied=True), state("5"), False),
}


@pytest.mark.holds("reply-is-whole", row="no managers")
@pytest.mark.holds("created-is-stored", row="dry run of a create")
@pytest.mark.holds("shown-change", row="repeated, and the check has shown a change")
@pytest.mark.holds("same-second", row="repeated, and its values were not read")
@pytest.mark.parametrize("name", PROVES)
def test_reply_proves_the_apply_or_not(name: str) -> None:
    given, reply, expected = PROVES[name]
    assert proves_apply(given, reply, TARGET) is expected


def _bare(version: str, value: str = "new", *, uid: str = "u1") -> LiveObject:
    return state(version, value, lacks=("managedFields",), uid=uid)


SHOWS: dict[str, tuple[ApplyStep, LiveObject, LiveObject, bool]] = {
    "only the version was missing": (CHANGE, state(""), state("6"), True),
    "a dry run, and nothing is stored": (CHANGE, state("5"), OLD, False),
    "a dry run, and somebody has written it": (CHANGE, state("6"), state("6", "old"), False),
    "created": (NEW, state(""), state("9"), True),
    "created by somebody else": (NEW, state(""), state("9", "old"), False),
    "a field is left": (CHANGE, state(""), state("6", keys=("key", "more")), False),
    "an earlier reply fits by chance": (CHANGE, state("4"), state("6"), False),
    "a reply about another object": (CHANGE, state("6", uid="u2"), state("6"), False),
    "another object is stored": (CHANGE, state(""), state("6", uid="u2"), False),
    "no managers, and that state is stored": (CHANGE, _bare("6"), state("6"), True),
    "no managers, and another state is stored": (CHANGE, _bare("6"), state("7"), False),
    "no managers, and nothing is stored": (CHANGE, _bare("5"), OLD, False),
    "no managers, and none are kept": (step(_bare("5")), _bare("5", "x"), _bare("5"), True),
    "repeated": (step(SEEN), SAME, SAME, True),
    "repeated, and another value is stored": (step(SEEN), SAME, OLD, False),
}


@pytest.mark.holds("reply-to-another-request", row="an earlier reply fits by chance")
@pytest.mark.holds("fields-in-the-read", row="a field is left")
@pytest.mark.holds("values-in-the-read", row="created by somebody else")
@pytest.mark.holds("state-in-the-read", row="no managers, and another state is stored")
@pytest.mark.parametrize("name", SHOWS)
def test_read_shows_the_apply_or_not(name: str) -> None:
    given, reply, stored, expected = SHOWS[name]
    assert shows_apply(given, reply, stored, TARGET) is expected


PATCHED: dict[str, tuple[LiveObject, bool]] = {
    "stored": (state("6"), True),
    "a dry run": (state("5"), False),
    "another object": (state("6", uid="u2"), False),
    "no managers": (_bare("6"), False),
    "no labels": (state("6", lacks=("labels",)), False),
    "no annotations": (state("6", lacks=("annotations",)), False),
}


@pytest.mark.holds("parts-in-the-reply", row="no managers")
@pytest.mark.parametrize("name", PATCHED)
def test_reply_proves_the_patch_or_not(name: str) -> None:
    reply, expected = PATCHED[name]
    assert proves_patch(PatchRequest(CONFIG_MAPS, OLD.ref, ()), OLD, reply) is expected


def test_patch_may_remove_all_labels() -> None:
    request = orphan_request(CONFIG_MAPS, OLD, TARGET)
    orphaned = state("6", lacks=("labels", "annotations"))
    assert proves_patch(request, OLD, orphaned)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ("6", "5", True),
        ("10", "9", True),
        ("5", "5", False),
        ("4", "5", False),
        ("", "5", False),
        ("5", "", True),
        ("", "", False),
        ("b", "a", True),
        ("a", "a", False),
    ],
)
def test_version_is_after_another(now: str, before: str, *, expected: bool) -> None:
    """Where they are numbers, an older one is not after a newer one."""
    assert is_after(state(now), before) is expected


# What has appeared or gone since the plan.

ONE = desired(_manifest(CONFIG_MAPS), CONFIG_MAPS)
WORLD = world([ONE], inventory(), cluster({ONE.ref: OLD}))


@pytest.mark.parametrize(
    ("fate", "state", "reviewed", "creates"),
    [
        (Fate.ADOPT, Absent(), False, True),
        pytest.param(
            *(Fate.ADOPT, Absent(), True, False), marks=pytest.mark.holds("reviewed-adoption")
        ),
        pytest.param(
            *(Fate.CHANGE, Absent(), False, False),
            marks=pytest.mark.holds("only-adoptions-are-created"),
        ),
        pytest.param(*(Fate.ADOPT, OLD, False, False), marks=pytest.mark.holds("gone-is-proved")),
    ],
)
def test_object_that_is_gone_is_created_only_if_it_was_to_be_adopted(
    fate: Fate, state: State, *, reviewed: bool, creates: bool
) -> None:
    """Somebody has deleted it since the plan, and a read shows that; nobody has agreed to more."""
    found = created_instead(step(OLD, fate), lambda: state, WORLD, reviewed=reviewed)
    assert (found is not None) is creates
    if found is not None:
        assert (found.fate, found.entry.uid_before_apply) == (Fate.CREATE, None)


@pytest.mark.holds("reviewed-create")
def test_object_of_others_is_not_taken_by_an_approved_plan() -> None:
    """The plan creates it: nobody has approved to adopt it."""
    theirs_now = state("9", uid="u2", lacks=("labels", "annotations", "managedFields"))
    with pytest.raises(RunFailed, match="was created by somebody else during this run"):
        found_at_create(NEW, theirs_now, Conflict("it exists", code=409), WORLD, reviewed=True)
