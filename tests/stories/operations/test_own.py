"""Adopted objects that become owned: by ``inventory repair``, and by ``--record-as owned``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import OwnedByBundle, UsageError
from applyprune.model.events import ObjectDone, ObjectStatus
from applyprune.model.fate import Fate, Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Conflicts, DryRun
from applyprune.planning.applyset import OWNED_BY
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

OWNED = Ownership.OWNED


def _create(stage: Stage, api: Api, name: str = "theirs", **metadata: Any) -> None:
    api.create(stage.path(), config_map(name, "w", **metadata), by="kubectl-create")


def _adopt(stage: Stage, api: Api) -> None:
    """Adopt the ConfigMap ``theirs`` into a set that creates ``a`` and ``b``."""
    _create(stage, api)
    bodies = map(config_map, ("theirs", "a", "b"))
    assert stage.run(*bodies, conflicts=Conflicts.FORCE).exit_code == 0


def _recorded(stage: Stage, name: str = "theirs") -> Ownership:
    (found,) = [one.ownership for one in stage.inventory().entries.values() if one.ref.name == name]
    return found


def _witness(api: Api, stage: Stage, name: str = "theirs") -> bool:
    annotations = api.get(stage.path(name))["metadata"].get("annotations") or {}
    return bool(annotations.get(OWNED_BY) == stage.target.id)


def test_owned_object_is_pruned(stage: Stage, api: Api) -> None:
    """After that it is like one that the set has created: nothing drifts, nothing is sent again."""
    _adopt(stage, api)
    told = stage.own("configmap/theirs", dry_run=DryRun.SERVER)
    assert told.outcomes == {"configmap/theirs": Outcome.UPDATED}
    assert (_witness(api, stage), _recorded(stage)) == (False, Ownership.ADOPTED)
    story = stage.own("configmap/theirs")
    assert (story.exit_code, story.outcomes) == (0, {"configmap/theirs": Outcome.UPDATED})
    assert (_witness(api, stage), _recorded(stage)) == (True, OWNED)
    assert not stage.check().found
    status = stage.status(drift=True).of(ObjectStatus)
    assert [(one.ref.name, one.drifted) for one in status if one.ref.name == "theirs"] == [
        ("theirs", False)
    ]
    version = api.get(stage.path("theirs"))["metadata"]["resourceVersion"]
    again = stage.run(*map(config_map, ("theirs", "a", "b")))
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert api.get(stage.path("theirs"))["metadata"]["resourceVersion"] == version
    assert stage.own("configmap/theirs").outcomes == {"configmap/theirs": Outcome.UNCHANGED}
    assert stage.run(*map(config_map, "ab")).outcomes["configmap/theirs"] is Outcome.PRUNED
    assert not api.exists(stage.path("theirs"))


def test_unlisted_object_does_not_become_owned(stage: Stage, api: Api) -> None:
    """A typing error is an error, and so is the set of a Bundle; what is gone is skipped."""
    with pytest.raises(UsageError, match="there is no set web"):
        stage.own("configmap/theirs")
    _adopt(stage, api)
    _create(stage, api, "plain")
    with pytest.raises(UsageError, match="does not list configmap/plain"):
        stage.own("configmap/plain")
    api("DELETE", stage.path("theirs"))
    story = stage.own("configmap/theirs")
    assert (story.exit_code, story.outcomes["configmap/theirs"]) == (0, Outcome.SKIPPED)
    owner = Stage(stage.kubeconfig, stage.namespace, owner="Bundle x/y", takes_over=True)
    owner.run(*map(config_map, "ab"))
    with pytest.raises(OwnedByBundle):
        stage.own("configmap/a")


def test_killed_run_leaves_no_record_without_the_annotation(
    stage: Stage, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Until both say owned, the object counts as adopted, and a prune keeps it."""
    _adopt(stage, api)

    def is_patch(exchange: Exchange) -> bool:
        return "json-patch" in exchange.header("content-type")

    owned = ("--record-as", "owned", "configmap/theirs")
    call = ("inventory", "repair", "web", *owned, "--yes", "-n", stage.namespace)
    kill_at_first(proxy, is_patch, Moment.AFTER, call, proxy.kubeconfig(tmp_path))
    assert _recorded(stage) is Ownership.ADOPTED
    smaller = stage.run(*map(config_map, "ab"), dry_run=DryRun.SERVER)
    assert smaller.outcomes["configmap/theirs"] is Outcome.ORPHANED
    assert stage.own("configmap/theirs", lock_timeout=300.0).exit_code == 0
    assert (_witness(api, stage), _recorded(stage)) == (True, OWNED)
    assert stage.run(*map(config_map, "ab")).outcomes["configmap/theirs"] is Outcome.PRUNED


@pytest.mark.holds("witness-before-record")
def test_refused_annotation_is_not_recorded(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Not even if the server says that the patch has succeeded, and has not kept the annotation."""
    _adopt(stage, api)

    def is_patch(seen: Exchange) -> bool:
        return "json-patch" in seen.header("content-type")

    reply = api.get(stage.path("theirs"))
    reply["metadata"]["resourceVersion"] += "0"  # as after a write
    proxy.rule = always(faults.answer(200, json.dumps(reply).encode()), where=is_patch)
    story = spoiled.own("configmap/theirs")
    assert story.exit_code == 3
    assert "changes faster than it can be annotated" in story.problem("configmap/theirs")
    assert _recorded(stage) is Ownership.ADOPTED


def test_object_is_adopted_as_owned(stage: Stage, api: Api) -> None:
    """The plan says so, the digest depends on it, and a later prune deletes it."""
    _create(stage, api)
    bodies = [*map(config_map, ("theirs", "a", "b"))]
    options: dict[str, Any] = {"conflicts": Conflicts.FORCE, "adopt_as": OWNED}
    planned = stage.run(*bodies, dry_run=DryRun.SERVER, **options).plan
    (step,) = [one for one in planned.applies if one.fate is Fate.ADOPT]
    assert step.reason == "adopted, as owned: a later prune deletes it"
    plain = stage.run(*bodies, dry_run=DryRun.SERVER, conflicts=Conflicts.FORCE).plan
    assert planned.digest != plain.digest
    assert stage.run(*bodies, **options).exit_code == 0
    assert (_witness(api, stage), _recorded(stage)) == (True, OWNED)
    assert not stage.check().found
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    assert stage.run(*map(config_map, "ab")).outcomes["configmap/theirs"] is Outcome.PRUNED


@pytest.mark.parametrize(
    "way", [pytest.param("own", marks=pytest.mark.holds("told-as-owned")), "record-as"]
)
def test_object_that_is_kept_as_owned_is_called_so(stage: Stage, api: Api, way: str) -> None:
    """A mark or its name keeps it, and the run does not say that a prune deletes it."""
    mark = {"applyprune.dev/prune": "disabled"}
    _create(stage, api, annotations=mark)
    place = of_kind("Namespace", stage.namespace)
    bodies = [place, *map(config_map, ("theirs", "a", "b"))]
    options: dict[str, Any] = {"conflicts": Conflicts.FORCE}
    if way == "own":
        assert stage.run(*bodies, **options).exit_code == 0
        story = stage.own("configmap/theirs", f"namespace/{stage.namespace}")
    else:
        story = stage.run(*bodies, adopt_as=OWNED, **options)
    assert story.exit_code == 0
    told = {one.ref.name: one.reason for one in story.of(ObjectDone)}
    assert told["theirs"].endswith("orphans it: marked applyprune.dev/prune: disabled")
    whole = "as owned; only a delete of the whole set deletes it: it contains this set's inventory"
    # What --record-as owned says of all objects, it does not say of this one.
    adopted = "adopted: it existed and belonged to no set"
    assert told[stage.namespace] == (whole if way == "own" else adopted)
    story = stage.run(*map(config_map, "ab"), allow_kinds=frozenset({"namespace"}))
    names = ("configmap/theirs", f"namespace/{stage.namespace}")
    assert {story.outcomes[name] for name in names} == {Outcome.ORPHANED}
