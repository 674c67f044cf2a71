"""Whether the values of a Secret have changed in its manifest: by the live ones, by no digest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from applyprune.errors import Invalid
from applyprune.model.fate import Fate
from applyprune.model.live import LiveObject
from applyprune.model.options import ApplyOptions, Conflicts, Options
from applyprune.model.plan import ApplyStep
from applyprune.planning.approval import PlanFile, as_reviewed, exceeds, unconfirmed
from applyprune.planning.comparison import RefusedChange
from applyprune.planning.conflicts import drift_before, repeats_last_apply, step_drift
from applyprune.planning.digests import planned_object
from applyprune.planning.explain import ExplainInput, explanation_of
from applyprune.planning.ownership import owned_fields_of
from applyprune.planning.plan import make_plan
from applyprune.planning.replies import refused_recreation
from applyprune.values import replace
from tests.support.planning import (
    CONFIG_MAPS,
    SECRETS,
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

OLD, NEW = "b2xk", "bmV3"
BOTH: dict[str, Any] = {"f:a": {}, "f:b": {}}


def _secret(**data: str) -> dict[str, Any]:
    return body("Secret", data=data, immutable=True)


def _there(raw: dict[str, Any], *taken: str, uid: str = "u1", read: bool = True) -> LiveObject:
    """Return the Secret as it is in the cluster; somebody else has ``taken`` these keys."""
    wanted = desired(raw, SECRETS)
    ours: dict[str, Any] = {key: {} for key in BOTH if key.removeprefix("f:") not in taken}
    marks = managed()["fieldsV1"]["f:metadata"]
    fields = {"f:data": ours, "f:immutable": {}, "f:metadata": marks}
    entries = [managed(fieldsV1=fields)]
    if taken:
        theirs: dict[str, Any] = {"f:data": {f"f:{key}": {} for key in taken}}
        update = managed("opponent", operation="Update", time="2026-11-22T11:00:00Z")
        entries.append({**update, "fieldsV1": theirs})
    return live(wanted.ref, uid=uid, entries=entries, full=dict(raw) if read else None)


WANTED = desired(_secret(a=NEW, b=OLD), SECRETS)
SAME = _there(_secret(a=NEW, b=OLD))
ENTRY = recorded(WANTED, SAME, owned_fields=owned_fields_of(SAME, TARGET.manager))
# What is live, and whether the manifest is the last applied one.
CASES: dict[str, tuple[LiveObject, bool | None]] = {
    "the values are live": (SAME, True),
    "another value that is still ours": (_there(_secret(a=OLD, b=OLD)), False),
    "another form of the same bytes": (_there(_secret(a="bmV3\n", b=OLD)), True),
    "an empty value that is still ours": (_there(_secret(a="", b=OLD)), False),
    "a value that somebody has taken": (_there(_secret(a=OLD, b=OLD), "a"), True),
    "one that is taken, and one that is ours": (_there(_secret(a=OLD, b=NEW), "a"), False),
    "values that were not read": (_there(_secret(a=OLD, b=OLD), read=False), None),
    "another object": (_there(_secret(a=OLD, b=OLD), uid="u2"), True),
}


@pytest.mark.parametrize("case", CASES)
def test_manifest_of_a_secret_is_compared_by_its_live_values(case: str) -> None:
    """An equal digest says that the keys are the same; another digest says all."""
    there, expected = CASES[case]
    assert repeats_last_apply(WANTED, ENTRY, there, TARGET.manager) is expected
    other = replace(ENTRY, digest="x")
    assert repeats_last_apply(WANTED, other, there, TARGET.manager) is False


def test_digest_decides_about_every_other_kind() -> None:
    """A live value that differs is drift of others, or of a policy."""
    wanted = desired(body(data={"k": "v"}), CONFIG_MAPS)
    there = live(wanted.ref, full=body(data={"k": "w"}))
    assert repeats_last_apply(wanted, recorded(wanted, there), there, TARGET.manager) is True


def _planned(there: LiveObject) -> ApplyStep:
    snapshot = cluster({WANTED.ref: there})
    options = Options(apply=ApplyOptions(conflicts=Conflicts.REVERT))
    (step,) = make_plan(world((WANTED,), inventory(ENTRY), snapshot, options)).applies
    return step


def test_changed_value_is_no_drift() -> None:
    """So nobody is blamed for it, and it is not left alone as contended; what is taken is drift."""
    changed = _planned(_there(_secret(a=OLD, b=OLD)))
    assert (changed.fate, changed.is_reapplied) == (Fate.CHANGE, False)
    assert step_drift(changed, TARGET.manager) == ()
    taken = _planned(_there(_secret(a=OLD, b=OLD), "a"))
    assert (taken.fate, taken.is_reapplied) == (Fate.CHANGE, True)
    (drift,) = step_drift(taken, TARGET.manager)
    assert (drift.path, drift.wanted, drift.found) == ("/data/a", "(secret)", "(secret)")


def test_diff_takes_only_what_others_took_for_drift() -> None:
    """Beside it, the manifest has changed a value."""
    before, after = _there(_secret(a=OLD, b=NEW), "a"), SAME
    drifted, fields = drift_before(WANTED, ENTRY, before, after, TARGET.manager)
    assert (drifted, [one.path for one in fields]) == (True, ["/data/a"])


EXPLAINED = {
    "another value that is still ours": (
        "its manifest has other values than the last applied manifest, by the live ones",
        "It would be applied: its manifest has changed.",
    ),
    "a value that somebody has taken": (
        "its manifest has the same values as the last applied manifest, by the live ones",
        "It would be applied: others may have changed it.",
    ),
    "values that were not read": (
        "its values were not read, so it is unknown whether its manifest has changed",
        "It would be applied: others may have changed it.",
    ),
}


@pytest.mark.parametrize("case", EXPLAINED)
def test_explanation_says_whether_the_values_have_changed(case: str) -> None:
    """And shows none of them."""
    there, listed = CASES[case][0], inventory(ENTRY)
    plan = make_plan(world((WANTED,), listed, cluster({WANTED.ref: there}), Options()))
    told = explanation_of(ExplainInput(WANTED.ref, there, plan, listed, TARGET, by_input=True))
    reason, verdict = EXPLAINED[case]
    assert reason in told.reasons
    assert told.verdict == verdict
    assert not any(value in str(told) for value in (OLD, NEW))


def _error() -> Invalid:
    cause = {"field": "data", "message": "Forbidden: field is immutable when `immutable` is set"}
    return Invalid("Secret is invalid", code=422, causes=(cause,))


# What is live, what the server would create now, and why it is not recreated.
RECREATED: dict[str, tuple[LiveObject, dict[str, Any], str]] = {
    "another value": (_there(_secret(a=OLD, b=OLD)), _secret(a=NEW, b=OLD), ""),
    "another form of the bytes is created": (
        _there(_secret(a=OLD, b=OLD)), _secret(a="bmV3\n", b=OLD), "",
    ),
    "a value that somebody has taken": (
        _there(_secret(a=OLD, b=OLD), "a"), _secret(a=NEW, b=OLD), "its manifest has not changed",
    ),
    "a webhook sets another value": (
        _there(_secret(a=OLD, b=OLD)), _secret(a="cmFuZG9t", b=OLD), "a webhook rewrites its",
    ),
    "a webhook sets the other value": (
        _there(_secret(a=OLD, b=OLD)), _secret(a=NEW, b="cmFuZG9t"), "",
    ),
}  # fmt: skip


@pytest.mark.holds("rewritten-secret", row="a webhook sets another value-revert")
@pytest.mark.parametrize("conflicts", Conflicts)
@pytest.mark.parametrize("case", RECREATED)
def test_secret_is_recreated_for_a_value_that_has_changed(case: str, conflicts: Conflicts) -> None:
    """On the command line as in a Bundle; with a webhook that would change it again, never."""
    there, created, why = RECREATED[case]
    options = Options(apply=ApplyOptions(conflicts=conflicts, recreate=True))
    step = replace(_planned(there), desired=WANTED)
    change = RefusedChange(step, there, _error(), created, ())
    refused = refused_recreation(change, TARGET, options)
    assert (refused is None) == (not why)
    if refused is not None:
        assert why in refused.hint
        assert why in refused.problem.remedy
        assert "--" not in refused.problem.remedy


@pytest.mark.holds("reviewed-secret")
def test_reviewed_plan_does_not_leave_another_value() -> None:
    """The server had found that an apply changes nothing; what it sends now, no file shows."""
    left = ApplyStep(WANTED, Fate.LEAVE, ENTRY, SAME, is_checked=True)
    again = _planned(SAME)
    again = replace(again, fate=Fate.CHANGE, request=_planned(CASES_CHANGED).request)
    now = datetime(2026, 11, 22, tzinfo=UTC)
    file = PlanFile("web", "home", {}, "i1", 3, {}, now, now, "", "", (planned_object(left),))
    (same,) = as_reviewed((again,), file)
    assert (same.fate, unconfirmed((again,), file)) == (Fate.LEAVE, frozenset())
    newer = desired(_secret(a=NEW, b=NEW), SECRETS)
    other = replace(again, desired=newer)
    assert unconfirmed((other,), file) == {WANTED.ref}
    assert as_reviewed((other,), file) == [other]
    shown = planned_object(left)
    assert exceeds(shown, replace(other, is_checked=True)) == "its manifest has other values now"
    assert exceeds(shown, replace(other, is_checked=True, fate=Fate.LEAVE)) == ""
    unread = replace(other, live=replace(SAME, packed_body=None))
    assert unconfirmed((unread,), file) == {WANTED.ref}


CASES_CHANGED = CASES["another value that is still ours"][0]
