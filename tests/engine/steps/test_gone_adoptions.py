"""What was to be adopted, and is gone since the plan: the same run creates it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import Planned
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import AdoptFrom, Approval
from tests.support.fault_proxy import always, faults
from tests.support.objects import config_map
from tests.support.stage import Stage, on

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import Api
    from tests.support.fault_proxy import Exchange, FaultProxy

GIVEN = AdoptFrom("other")


def of_other_set(stage: Stage) -> dict[str, Any]:
    """Let another set have x; return the options that take it."""
    Stage(stage.kubeconfig, stage.namespace, name="other").run(config_map("x"))
    return {"adopt": GIVEN}


def deleting(stage: Stage, api: Api, *names: str) -> Stage:
    """Return the same set; these objects are deleted as soon as the plan is there."""

    def act() -> None:
        for name in names:
            assert api("DELETE", stage.path(name))[0] == 200

    return Stage(stage.kubeconfig, stage.namespace, seen=on(Planned, act))


@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
def test_gone_object_is_created_as_owned(stage: Stage, api: Api, check: bool) -> None:
    """Whichever of its requests says so: a patch of its label, or the apply itself."""
    options = of_other_set(stage)
    api.create(stage.path(), config_map("nobodys"))
    given = config_map("x"), config_map("nobodys")
    story = deleting(stage, api, "x", "nobodys").run(*given, check=check, **options)
    assert story.exit_code == 0, story.events
    assert set(story.outcomes.values()) == {Outcome.CREATED}
    for ref, entry in stage.inventory().entries.items():
        assert entry.ownership is Ownership.OWNED
        assert entry.uid == api.get(stage.path(ref.name))["metadata"]["uid"]
    stage.run(config_map("own"), max_prune=Stage.most(2))
    assert not any(api.exists(stage.path(name)) for name in ("x", "nobodys"))


@pytest.mark.holds("reviewed-adoption")
def test_gone_object_of_an_approved_plan_is_not_created(stage: Stage, api: Api) -> None:
    """The plan says that it is adopted; nobody has agreed to a new one."""
    options = {**of_other_set(stage), "approval": Approval.ALWAYS}
    planned = stage.run(config_map("x"), **options)
    given = {**options, "approved_plan": planned.plan.digest}
    story = deleting(stage, api, "x").run(config_map("x"), **given)
    assert story.exit_code == 3
    assert not api.exists(stage.path("x"))


@pytest.mark.holds("only-adoptions-are-created")
def test_gone_object_of_the_set_is_not_created(stage: Stage, api: Api) -> None:
    """Somebody has deleted it during the run: the next run says so."""
    stage.run(config_map("x", "1"))
    story = deleting(stage, api, "x").run(config_map("x", "2"))
    assert story.exit_code == 3
    assert not api.exists(stage.path("x"))


@pytest.mark.holds("gone-is-proved")
def test_object_that_only_a_patch_does_not_find_is_not_created(
    stage: Stage, proxy: FaultProxy, tmp_path: Path, api: Api
) -> None:
    """A read shows it; the next run adopts it."""
    options = of_other_set(stage)
    uid = api.get(stage.path("x"))["metadata"]["uid"]

    def is_patch(exchange: Exchange) -> bool:
        return exchange.method == "PATCH" and "/configmaps/x?" in f"{exchange.path}?"

    gone = faults.status(
        *(404, "NotFound", 'configmaps "x" not found'), name="x", kind="configmaps"
    )
    proxy.rule = always(gone, where=is_patch)
    through = Stage(proxy.kubeconfig(tmp_path), stage.namespace)
    assert through.run(config_map("x"), **options).exit_code == 3
    (entry,) = stage.inventory().entries.values()
    assert (entry.ownership, entry.uid_before_apply) == (Ownership.ADOPTED, uid)
    assert api.get(stage.path("x"))["metadata"]["uid"] == uid
