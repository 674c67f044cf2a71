"""A refused prune that is approved by its digest, and sets that belong to a Bundle."""

from __future__ import annotations

import pytest

from applyprune.errors import OwnedByBundle
from applyprune.model.events import InventoryWritten
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.values import replace
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.objects import config_map
from tests.support.stage import Stage

OWNER = "Bundle shop/web"


@pytest.mark.holds("one-approval")
def test_approval_covers_one_prune_only(stage: Stage) -> None:
    """The digest of what was refused lets exactly that go; one object more is another prune."""
    names = [f"a{number}" for number in range(8)]
    stage.run(*map(config_map, names))
    refused = stage.run(config_map("a0"))
    assert refused.exit_code == 6
    assert refused.deletions
    assert stage.run(config_map("a0")).deletions == refused.deletions
    other = stage.run(config_map("a0"), config_map("a1"), approved=refused.deletions)
    assert other.exit_code == 6
    assert other.deletions not in {"", refused.deletions}
    done = stage.run(config_map("a0"), approved=refused.deletions)
    assert (done.exit_code, done.refusal) == (0, "")
    assert sum(one is Outcome.PRUNED for one in done.outcomes.values()) == 7


def test_approval_expires_with_its_objects(stage: Stage, api: Api) -> None:
    """An object of the same name and another UID was not approved."""
    stage.run(*(config_map(f"a{number}") for number in range(8)))
    refused = stage.run(config_map("a0"))
    path = stage.path()
    assert api("DELETE", f"{path}/a7")[0] == 200
    again = stage.run(config_map("a0"), approved=refused.deletions)
    assert again.exit_code == 6
    assert all(api.exists(f"{path}/a{number}") for number in range(7))


def test_empty_input_can_be_approved(stage: Stage) -> None:
    """What ``--allow-empty`` is on the command line."""
    stage.run(config_map("a"), config_map("b"))
    refused = stage.run()
    assert refused.exit_code == 6
    assert set(stage.run(approved=refused.deletions).outcomes.values()) == {Outcome.PRUNED}


@pytest.mark.holds("set-owner")
def test_set_belongs_to_its_bundle(stage: Stage) -> None:
    """The Bundle takes it over without touching an object; nobody else may change it then."""
    stage.run(config_map("a"), config_map("b"))
    with pytest.raises(OwnedByBundle, match="inventoryName: web"):
        replace(stage, owner=OWNER).run(config_map("a"), config_map("b"))
    bundle = replace(stage, owner=OWNER, takes_over=True)
    taken = bundle.run(config_map("a"), config_map("b"))
    assert set(taken.outcomes.values()) == {Outcome.UNCHANGED}
    assert stage.inventory().owner == OWNER
    assert not bundle.run(config_map("a"), config_map("b")).of(InventoryWritten)
    for mode in (Mode.APPLY, Mode.PRUNE, Mode.DELETE, Mode.ORPHAN):
        with pytest.raises(OwnedByBundle, match=OWNER):
            stage.run(config_map("a"), mode=mode)
    with pytest.raises(OwnedByBundle):
        replace(bundle, owner="Bundle shop/other").run(config_map("a"))
    with pytest.raises(OwnedByBundle):
        stage.move(replace(stage, name="other"))
    looked = stage.run(config_map("a"), dry_run=DryRun.SERVER)
    assert looked.outcomes["configmap/b"] is Outcome.PRUNED
    assert stage.inventory().owner == OWNER
    assert stage.listed() == {"configmap/a", "configmap/b"}


def test_bundle_removes_only_its_own_set(stage: Stage) -> None:
    """A set that was released meanwhile stays, whatever becomes of the Bundle."""
    stage.run(config_map("a"))
    bundle = replace(stage, owner=OWNER, takes_over=True)
    for mode in (Mode.DELETE, Mode.ORPHAN):
        with pytest.raises(OwnedByBundle, match="does not belong to Bundle shop/web"):
            bundle.run(mode=mode)
    assert stage.listed() == {"configmap/a"}


def test_set_can_be_taken_back_from_a_deleted_bundle(stage: Stage) -> None:
    """The command line says whose it was, and may apply it again."""
    replace(stage, owner=OWNER).run(config_map("a"))
    call = ("web", "-n", stage.namespace)
    refused = applyprune("delete", *call, "--yes", kubeconfig=stage.kubeconfig)
    assert refused.code == 2
    assert OWNER in refused.err
    assert "inventory release web" in refused.err
    released = applyprune("inventory", "release", *call, kubeconfig=stage.kubeconfig)
    assert released.code == 0, released.err
    assert OWNER in released.out
    again = applyprune("inventory", "release", *call, kubeconfig=stage.kubeconfig)
    assert "belongs to no Bundle" in again.out
    assert stage.run(config_map("a")).outcomes == {"configmap/a": Outcome.UNCHANGED}
