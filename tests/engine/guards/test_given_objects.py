"""Objects that one set takes from another with ``--adopt set/NAME``: nothing is deleted by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import AdoptFrom, Conflicts, DryRun
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import Api
    from tests.support.fault_proxy import FaultProxy
    from tests.support.plane import Kubectl

GIVEN = AdoptFrom("other")


@pytest.fixture
def other(stage: Stage) -> Stage:
    """Another set of the namespace."""
    return Stage(stage.kubeconfig, stage.namespace, name="other")


def ownership_of(stage: Stage) -> dict[str, Ownership]:
    return {ref.name: one.ownership for ref, one in stage.inventory().entries.items()}


def test_object_moves_without_a_deletion(stage: Stage, other: Stage, api: Api) -> None:
    """The taker runs first; the giver's next run says who has it, and a delete takes it along."""
    other.run(config_map("x"), config_map("stays"))
    uid = api.get(other.path("x"))["metadata"]["uid"]
    planned = stage.run(config_map("x"), config_map("own"), adopt=GIVEN, dry_run=DryRun.SERVER)
    assert planned.outcomes["configmap/x"] is Outcome.UPDATED
    (step,) = (one for one in planned.plan.applies if one.desired.ref.name == "x")
    assert step.taken_from == (f"the set other in namespace {stage.namespace}",)
    taken = stage.run(config_map("x"), config_map("own"), adopt=GIVEN)
    assert taken.exit_code == 0
    assert ownership_of(stage) == {"x": Ownership.OWNED, "own": Ownership.OWNED}
    given = other.run(config_map("stays"))
    assert given.outcomes["configmap/x"] is Outcome.REMOVED_FROM_INVENTORY
    named = f"the set {stage.name} in namespace {stage.namespace}"
    assert given.reasons["configmap/x"] == f"it belongs to {named} now"
    assert other.listed() == {"configmap/stays"}
    assert api.get(other.path("x"))["metadata"]["uid"] == uid
    again = stage.run(config_map("x"), config_map("own"), adopt=GIVEN)
    assert again.outcomes["configmap/x"] is Outcome.UNCHANGED
    stage.run(config_map("own"))
    assert not api.exists(other.path("x"))


def test_adopted_object_stays_adopted(
    stage: Stage, other: Stage, api: Api, kubectl: Kubectl
) -> None:
    """Whoever has it: neither set has created it, so neither deletes it."""
    body = json.dumps(config_map("theirs"))
    kubectl("create", "-n", stage.namespace, "-f", "-", stdin=body)
    other.run(config_map("theirs"), config_map("stays"), conflicts=Conflicts.FORCE)
    stage.run(config_map("theirs"), config_map("own"), adopt=GIVEN)
    assert ownership_of(stage)["theirs"] is Ownership.ADOPTED
    gone = stage.run(config_map("own"))
    assert gone.outcomes["configmap/theirs"] is Outcome.ORPHANED
    assert api.exists(stage.path("theirs"))


def test_other_sets_and_labels_by_hand_give_nothing(
    stage: Stage, other: Stage, kubectl: Kubectl
) -> None:
    third = Stage(stage.kubeconfig, stage.namespace, name="third")
    third.run(config_map("of-third"))
    other.run(config_map("stays"))
    kubectl("create", "-n", stage.namespace, "-f", "-", stdin=json.dumps(config_map("by-hand")))
    label = f"applyset.kubernetes.io/part-of={other.target.id}"
    kubectl("label", "-n", stage.namespace, "configmap", "by-hand", label)
    story = stage.run(config_map("of-third"), config_map("by-hand"), adopt=GIVEN)
    assert story.exit_code == 3
    assert "it belongs to the set third" in story.problem("configmap/of-third")
    assert "does not list its UID" in story.problem("configmap/by-hand")
    assert "configmap/of-third" in third.listed()


def test_refusal_names_the_option_that_takes(stage: Stage, other: Stage) -> None:
    """As it must be typed: a copy of it works."""
    other.run(config_map("x"))
    refused = stage.run(config_map("x"))
    assert "To take it from that set: --adopt=set/other." in refused.problem("configmap/x")


def test_fields_of_the_giver_leave_with_its_manifest(stage: Stage, other: Stage, api: Api) -> None:
    """A field that the taker's manifest lacks is removed, as it would be in one set."""
    first = of_kind("ConfigMap", "x", data={"a": "1", "b": "2"})
    other.run(first)
    stage.run(of_kind("ConfigMap", "x", data={"a": "3"}), adopt=GIVEN)
    assert api.get(stage.path("x"))["data"] == {"a": "3"}


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("number", range(4, 13))
@pytest.mark.sweep
def test_killed_taker_is_run_again(
    stage: Stage,
    other: Stage,
    api: Api,
    proxy: FaultProxy,
    tmp_path: Path,
    number: int,
    moment: Moment,
) -> None:
    """At each request: one set lists it, its UID stays, and the giver's prune deletes nothing."""
    other.run(config_map("x"), config_map("stays"))
    uid = api.get(other.path("x"))["metadata"]["uid"]
    files = write_input(tmp_path / "x.yaml", [config_map("x")])
    command = ["apply", stage.name, "-n", stage.namespace, "-f", str(files), "--adopt=set/other"]
    kill_at(proxy, number, moment, command, proxy.kubeconfig(tmp_path))
    assert stage.run(config_map("x"), adopt=GIVEN).exit_code == 0
    other.run(config_map("stays"))
    assert api.get(other.path("x"))["metadata"]["uid"] == uid
    assert (stage.listed(), other.listed()) == ({"configmap/x"}, {"configmap/stays"})
    assert ownership_of(stage) == {"x": Ownership.OWNED}


def test_workload_moves_without_a_rollout(stage: Stage, other: Stage, api: Api) -> None:
    """Its annotations alone change, for which its kind counts generations too."""
    other.run(DEPLOYMENT)
    path = stage.path(DEPLOYMENT["metadata"]["name"], "deployments", "/apis/apps/v1")
    before = api.get(path)
    stage.run(DEPLOYMENT, adopt=GIVEN)
    after = api.get(path)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
