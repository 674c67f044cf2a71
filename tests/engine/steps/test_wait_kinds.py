"""``--wait-for-kinds``: an operator of the set installs a CRD while the set is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import InputError
from applyprune.model.events import (
    Finished,
    InventoryWritten,
    ObjectDone,
    Outcome,
    Planned,
    Started,
)
from applyprune.model.options import DryRun
from tests.support.objects import config_map, crd, custom_resource

if TYPE_CHECKING:
    from applyprune.model.events import Event
    from tests.support.api import Api
    from tests.support.stage import Stage, Story

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _of_wave(name: str, wave: int) -> dict[str, Any]:
    return config_map(name, annotations={"applyprune.dev/wave": str(wave)})


def _count(story: Story, kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in story.events)


def _install(stage: Stage, api: Api, *definitions: dict[str, Any]) -> None:
    """Install the CRDs as soon as the ConfigMap ``operator`` is applied."""

    def seen(event: Event) -> None:
        if isinstance(event, ObjectDone) and event.ref.name == "operator":
            for definition in definitions:
                assert api("POST", CRDS, definition)[0] in {201, 409}

    stage.seen = seen


def test_objects_of_kinds_that_an_operator_installs_are_applied_in_the_same_run(
    crd_stage: Stage, crds: Api
) -> None:
    """Their scope is known only then; what has left the set is pruned at the end, once."""
    assert crd_stage.run(config_map("leaves"), config_map("stays")).exit_code == 0
    _install(crd_stage, crds, crd("LateOne"), crd("LateAll", scope="Cluster"))
    name = f"one-{crd_stage.namespace}"
    bodies = [
        custom_resource("one", "LateOne"),
        custom_resource(name, "LateAll"),
        config_map("operator"),
        config_map("stays"),
        _of_wave("after", 1),
    ]
    story = crd_stage.run(*bodies, kinds=60.0, max_prune=crd_stage.most(1), check=True)
    assert story.exit_code == 0
    late = {"lateone.x.example.com/one", f"lateall.x.example.com/{name}"}
    made = {*late, "configmap/operator", "configmap/after"}
    assert story.outcomes == {
        **dict.fromkeys(made, Outcome.CREATED),
        "configmap/stays": Outcome.UNCHANGED,
        "configmap/leaves": Outcome.PRUNED,
    }
    assert [_count(story, kind) for kind in (Started, Planned, Finished)] == [1, 2, 1]
    (end,) = (event for event in story.events if isinstance(event, Finished))
    assert end.counts == {Outcome.CREATED: 4, Outcome.UNCHANGED: 1, Outcome.PRUNED: 1}
    order = [event.ref.short for event in story.events if isinstance(event, ObjectDone)]
    assert order.index("configmap/operator") < min(map(order.index, late))
    assert max(map(order.index, late)) < order.index("configmap/after")
    listed = {ref.short: ref.namespace for ref in crd_stage.inventory().entries}
    assert listed == {
        **dict.fromkeys({*made, "configmap/stays"}, crd_stage.namespace),
        f"lateall.x.example.com/{name}": "",
    }
    crd_stage.seen = lambda _: None
    again = crd_stage.run(*bodies, kinds=60.0)
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert _count(again, InventoryWritten) == 0


def test_kind_that_is_not_served_in_time_fails_its_objects_and_prunes_nothing(
    crd_stage: Stage,
) -> None:
    """What comes after them is not applied either; nothing about them is recorded."""
    assert crd_stage.run(config_map("leaves"), config_map("stays")).exit_code == 0
    bodies = [
        custom_resource("one", "NeverServed"),
        config_map("stays"),
        config_map("operator"),
        _of_wave("after", 1),
    ]
    story = crd_stage.run(*bodies, kinds=1.0)
    assert story.exit_code == 5
    assert story.outcomes == {
        "neverserved.x.example.com/one": Outcome.FAILED,
        "configmap/stays": Outcome.UNCHANGED,
        "configmap/operator": Outcome.CREATED,
        "configmap/after": Outcome.SKIPPED,
    }
    assert "was not served within 1 s" in story.problem("neverserved.x.example.com/one")
    assert crd_stage.listed() == {"configmap/leaves", "configmap/stays", "configmap/operator"}


def test_unknown_kind_is_refused_before_any_write_without_the_option(crd_stage: Stage) -> None:
    """The error names the option; other errors of such objects are found at once with it too."""
    one = custom_resource("one", "NeverServed")
    with pytest.raises(InputError, match="no matches for kind") as refused:
        crd_stage.run(one, config_map("operator"))
    assert "--wait-for-kinds" in refused.value.hint
    one["metadata"]["annotations"] = {"applyprune.dev/wave": "first"}
    with pytest.raises(InputError, match=r"invalid applyprune\.dev/wave"):
        crd_stage.run(one, config_map("operator"), kinds=60.0)
    typo = {**config_map("a"), "apiVersion": "v1", "kind": "ConfigMapp"}
    with pytest.raises(InputError, match="no matches for kind"):
        crd_stage.run(typo, config_map("operator"), kinds=60.0)
    assert not crd_stage.inventory().exists


def test_dry_run_says_which_objects_it_could_not_plan(crd_stage: Stage) -> None:
    """It waits for nothing."""
    one = custom_resource("one", "NeverServed")
    story = crd_stage.run(one, config_map("a"), kinds=60.0, dry_run=DryRun.SERVER)
    assert (story.exit_code, story.outcomes) == (0, {"configmap/a": Outcome.CREATED})
    (warning,) = story.warnings
    assert "not served yet: neverserved.x.example.com/one" in warning
