"""No record means a conflict, and not permission: objects without managedFields.

Somebody has cleared them, or wrote the object before there were any; of each ``default``
ServiceAccount they are empty too.
"""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

UNKNOWN = "somebody unknown"


def _role(verb: str) -> dict[str, Any]:
    return of_kind(
        "Role", "a", rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]
    )


def _secret(value: str) -> dict[str, Any]:
    return of_kind("Secret", "a", stringData={"key": value})


KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "configmap": (
        "/api/v1/namespaces/{}/configmaps",
        {**config_map("a"), "data": {"key": "1"}},
        {**config_map("a"), "data": {"key": "2"}},
        {"data": {"key": "precious"}},
    ),
    "role": (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
        _role("get"),
        _role("list"),
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]}]},
    ),
    "secret": (
        "/api/v1/namespaces/{}/secrets",
        _secret("1"),
        _secret("2"),
        {"data": {"key": "cHJlY2lvdXM="}},
    ),
}
"""Of each kind: where it lies, two manifests, and what somebody else writes into it."""


def _clear(api: Api, path: str) -> dict[str, Any]:
    cleared: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    reply = api.patch(path, cleared)
    assert "managedFields" not in reply["metadata"]
    return dict(reply)


def _spoiled(api: Api, path: str, theirs: dict[str, Any]) -> dict[str, Any]:
    """Let somebody else write into an object, and then clear its record."""
    api.patch(path, theirs)
    return _clear(api, path)


def _values(live: dict[str, Any]) -> dict[str, Any]:
    return {key: live[key] for key in live.keys() & {"data", "spec", "rules"}}


@pytest.mark.parametrize(
    ("kind", "how", "check"),
    [
        pytest.param(
            "configmap", "new", True, id="new",
            marks=pytest.mark.holds("unrecorded-conflict", "unknown-loses"),
        ),
        pytest.param(
            "configmap", "new", False, id="new, no check",
            marks=pytest.mark.holds("dry-run-before-removal"),
        ),
        pytest.param("role", "own", True, id="own", marks=pytest.mark.holds("unrecorded-field")),
        pytest.param("secret", "own, changed manifest", True, id="own, changed manifest"),
        pytest.param("configmap", "adopted", True, id="adopted"),
    ],
)  # fmt: skip
def test_other_values_without_a_record_are_a_conflict(
    stage: Stage, api: Api, kind: str, how: str, check: bool
) -> None:
    """In the plan, in the exit code, and nothing is written; force takes it."""
    where, first, second, theirs = KINDS[kind]
    where = where.format(stage.namespace)
    path = f"{where}/a"
    if how == "new":
        api.create(where, first)
    else:
        if how == "adopted":
            api.create(where, first, by="kubectl-create")
        assert stage.run(first).exit_code == 0
    before = _spoiled(api, path, theirs)
    wanted = second if how == "own, changed manifest" else first
    (name,) = stage.run(wanted, dry_run=DryRun.SERVER).outcomes
    for dry_run in (DryRun.SERVER, DryRun.CLIENT, DryRun.OFF):
        story = stage.run(wanted, dry_run=dry_run, check=check)
        assert story.exit_code == 4, story.outcomes
        assert f"owned by {UNKNOWN}" in story.problem(name)
        assert "--conflicts force" in story.problem(name)
        assert "precious" not in story.problem(name) or kind != "secret"
        assert _values(api.get(path)) == _values(before)
    planned = stage.run(wanted, dry_run=DryRun.SERVER, conflicts=Conflicts.FORCE)
    (step,) = (one for one in planned.plan.applies if one.live is not None)
    assert UNKNOWN in step.taken_from
    forced = stage.run(wanted, conflicts=Conflicts.FORCE, check=check)
    assert forced.exit_code == 0
    assert _values(api.get(path)) != _values(before)
    assert stage.run(wanted).outcomes == {name: Outcome.UNCHANGED}


@pytest.mark.holds("recorded-values", row="configmap")
@pytest.mark.parametrize("kind", ["configmap", "role"])
def test_own_values_without_a_record_are_none(stage: Stage, api: Api, kind: str) -> None:
    """The recorded fields have the recorded digest: nobody has changed them."""
    where, first, second, _ = KINDS[kind]
    path = f"{where.format(stage.namespace)}/a"
    assert stage.run(first).exit_code == 0
    _clear(api, path)
    assert stage.run(second).exit_code == 0
    assert stage.run(second).exit_code == 0


def test_equal_values_are_adopted_without_a_record(stage: Stage, api: Api) -> None:
    """There is nothing that anybody would lose."""
    api.create(stage.path(), config_map("a"))
    before = _clear(api, stage.path("a"))
    assert stage.run(config_map("a")).exit_code == 0
    assert _values(api.get(stage.path("a"))) == _values(before)


@pytest.mark.parametrize("theirs", ["precious", None], ids=["value", "removal"])
def test_fields_that_another_apply_has_booked_to_nobody_conflict_too(
    stage: Stage, api: Api, theirs: str | None
) -> None:
    """The server has made up an entry since: an apply of another team, after the clearing."""
    path = stage.path("a")
    assert stage.run({**config_map("a"), "data": {"key": "1", "more": "1"}}).exit_code == 0
    changed = {"data": {"key": "precious"} if theirs else {"more": "precious"}}
    _spoiled(api, path, changed)
    team = {**config_map("a"), "data": {"third": "1"}}
    api.apply(path, team, by="team")
    wanted = {**config_map("a"), "data": {"key": "1"}}
    story = stage.run(wanted)
    assert story.exit_code == 4
    assert f"owned by {UNKNOWN}" in story.problem("configmap/a")
    assert api.get(path)["data"]["key"] == (theirs or "1")
    assert stage.run(wanted, conflicts=Conflicts.FORCE).exit_code == 0
    assert api.get(path)["data"]["key"] == "1"


@pytest.mark.holds("unrecorded-drift")
def test_reverted_drift_takes_what_was_the_sets_own(stage: Stage, api: Api) -> None:
    """Whoever has changed it: that is drift, which is asked to be reverted."""
    assert stage.run(config_map("a")).exit_code == 0
    applied = _values(api.get(stage.path("a")))
    _spoiled(api, stage.path("a"), {"data": {"key": "precious"}})
    assert stage.run(config_map("a"), conflicts=Conflicts.REVERT).exit_code == 0
    assert _values(api.get(stage.path("a"))) == applied
