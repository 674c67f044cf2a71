"""The drift of single objects: their own requests only, and the rest of the set stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.options import Conflicts
from applyprune.planning.recovery import WholeSetNeeded
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import config_map
from tests.support.stage import Stage

SIZE = 100


def changed(stage: Stage, api: Api, name: str, **body: Any) -> None:
    api.patch(stage.path(name), body or {"data": {"key": "2"}}, by="opponent")


def options(stage: Stage, *names: str) -> dict[str, Any]:
    """Return the options of a run that corrects these ConfigMaps alone."""
    refs = frozenset(Ref("", "ConfigMap", stage.namespace, name) for name in names)
    return {"conflicts": Conflicts.REVERT, "corrects": refs}


def test_drift_of_one_object_costs_requests_about_it_only(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Of a hundred, and nothing is listed; what has left the input stays, and stays listed."""
    bodies = [config_map(f"n{number}") for number in range(SIZE)]
    stage.run(*bodies)
    changed(stage, api, "n7")
    assert api("DELETE", stage.path("n8"))[0] == 200
    audit.restart()
    story = stage.run(*bodies[:-1], **options(stage, "n7", "n8"))
    assert story.outcomes == {"configmap/n7": Outcome.UPDATED, "configmap/n8": Outcome.CREATED}
    assert api.get(stage.path("n7"))["data"] == {"key": "v"}
    ours = audit.ours()
    objects = [one for one in ours if (one.get("objectRef") or {}).get("resource") == "configmaps"]
    names = [one["objectRef"]["name"] for one in objects if "name" in one["objectRef"]]
    assert {one["verb"] for one in objects} == {"get", "patch", "update"}
    assert sorted(name for name in names if name.startswith("n")) == ["n7"] * 2 + ["n8"] * 2
    # An update is one of the inventory, by which a run also renews its lease.
    asked = [f"{one['verb']} {one['requestURI']}" for one in ours if one["verb"] != "update"]
    assert len(asked) <= 8, asked
    assert len(stage.listed()) == SIZE
    assert api.exists(stage.path(f"n{SIZE - 1}"))
    # The record is complete: the next run of all has nothing to do.
    audit.restart()
    assert stage.run(*bodies).exit_code == 0
    assert writes(audit) == []


@pytest.mark.holds("only-drift")
def test_more_than_drift_writes_nothing(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """The caller plans the whole set instead."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    changed(stage, api, "a")
    assert api("DELETE", stage.path("b"))[0] == 200
    api.create(stage.path(""), config_map("b"))
    applied = {**config_map("c"), "data": {"key": "theirs"}}
    api.apply(stage.path("c"), applied, by="pipeline", force=True)
    audit.restart()
    given = (config_map("a"), config_map("b"), config_map("c"))
    refused: dict[str, tuple[tuple[dict[str, Any], ...], tuple[str, ...]]] = {
        "a changed manifest": ((config_map("a", "new"), *given[1:]), ("a",)),
        "an object that somebody has created again": (given, ("a", "b")),
        "a conflict": (given, ("a", "c")),
        "an object that has left the input": (given[1:], ("a",)),
        "an object that was never listed": ((*given, config_map("d")), ("d",)),
    }
    for what, (bodies, names) in refused.items():
        with pytest.raises(WholeSetNeeded):
            stage.run(*bodies, **options(stage, *names))
        assert writes(audit) == [], what
    api("DELETE", stage.path(stage.target.inventory.name))
    with pytest.raises(WholeSetNeeded):
        stage.run(*given, **options(stage, "a"))
