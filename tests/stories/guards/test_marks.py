"""Stories of marks: what is left out, created once, or only required to exist."""

from __future__ import annotations

import pytest

from applyprune.model.events import Event
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from tests.decisions.world import annotated
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.run_rows import RunRow
from tests.support.stage import Stage

LEFT_OUT = {"applyprune.dev/apply": "disabled"}
ONCE = {"applyprune.dev/apply": "once"}
EXISTS = {"applyprune.dev/apply": "exists"}
A, B, NEW = config_map("a"), config_map("b"), config_map("b", "new")
FIXED = {**B, "immutable": True}
STORIES = {
    "a manifest is left out": RunRow(
        applied=[A, B],
        given=[A, *(config_map(name, "new", annotations=LEFT_OUT) for name in "bn")],
        outcomes={"configmap/b": Outcome.SKIPPED, "configmap/n": Outcome.SKIPPED},
        live={"configmap/b": B, "configmap/n": None},
        listed=frozenset({"configmap/a", "configmap/b"}),
    ),
    "an object of the set shall only exist": RunRow(
        applied=[A, B],
        given=[A, config_map("b", annotations=EXISTS)],
        outcomes={"configmap/b": Outcome.ORPHANED},
        live={"configmap/b": {"metadata": {"labels": None}}},
        listed=frozenset({"configmap/a"}),
    ),
    "an object is marked after the plan": RunRow(
        applied=[FIXED],
        given=[{**FIXED, "data": {"key": "new"}}],
        options={"recreate": True},
        meanwhile=[annotated("configmap/b", LEFT_OUT)],
        exit_code=3,
        outcomes={"configmap/b": Outcome.FAILED},
        live={"configmap/b": B},
        says={"configmap/b": "it is marked applyprune.dev/apply: disabled"},
    ),
}


@pytest.mark.holds("left-alone-recreate", row="an object is marked after the plan")
@pytest.mark.parametrize("row", STORIES.values(), ids=STORIES.keys())
def test_mark_keeps_an_object_as_it_is(stage: Stage, api: Api, row: RunRow) -> None:
    """The tables of tests/decisions/test_marks.py, as far as a run does more than decide."""
    row.holds(api, stage)


def test_mark_against_deletion_of_a_manifest_that_is_left_out_is_recorded(
    stage: Stage, api: Api
) -> None:
    """Nothing is sent, so only the inventory can know it when the manifest is gone."""
    stage.run(*map(config_map, "abc"))
    kept = {"applyprune.dev/prune": "disabled"}
    stage.run(
        config_map("a"),
        config_map("b", annotations=LEFT_OUT | kept),
        config_map("c", annotations=ONCE | kept),
    )
    story = stage.run(config_map("a"))
    assert story.outcomes["configmap/b"] is Outcome.ORPHANED
    assert story.outcomes["configmap/c"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


@pytest.mark.holds("unlisted-object")
def test_object_that_must_exist_is_never_ours(stage: Stage, api: Api) -> None:
    """The run waits for it, and what depends on it follows; nothing of it changes."""
    must = config_map("must", "mine", annotations=EXISTS)
    needs = f"/namespaces/{stage.namespace}/ConfigMap/must"
    after = config_map("after", annotations={"config.kubernetes.io/depends-on": needs})
    creations: list[bool] = []

    def create_late(event: Event) -> None:
        if type(event).__name__ == "Waiting" and not creations:
            creations.append(api.exists(stage.path("after")))
            api.create(stage.path(), config_map("must"))

    planned = stage.run(A, must, after, dry_run=DryRun.SERVER)
    assert "it does not exist yet" in planned.reasons["configmap/must"]
    stage.seen = create_late
    story = stage.run(A, must, after)
    assert (story.exit_code, creations) == (0, [False])
    assert story.outcomes["configmap/after"] is Outcome.CREATED
    live = api.get(stage.path("must"))
    assert (live["data"], live["metadata"].get("labels")) == ({"key": "v"}, None)
    assert stage.listed() == {"configmap/a", "configmap/after"}
    stage.run(mode=Mode.DELETE)
    assert api.exists(stage.path("must"))


def test_object_that_does_not_come_is_an_error(stage: Stage, api: Api) -> None:
    """After its own time; only what depends on it is held back, and nothing is pruned."""
    stage.run(*map(config_map, "ab"))
    must = config_map("must", annotations={**EXISTS, "applyprune.dev/timeout": "200ms"})
    needs = f"/namespaces/{stage.namespace}/ConfigMap/must"
    after = config_map("after", annotations={"config.kubernetes.io/depends-on": needs})
    story = stage.run(config_map("a"), config_map("c"), must, after)
    assert story.exit_code == 5
    assert "timed out waiting for configmap/must" in story.problem("configmap/must").lower()
    assert story.outcomes["configmap/after"] is Outcome.SKIPPED
    assert story.outcomes["configmap/c"] is Outcome.CREATED
    assert story.outcomes["configmap/b"] is Outcome.NOT_PRUNED
    assert not api.exists(stage.path("must"))
    assert "configmap/must" not in stage.listed()


def test_unready_object_that_is_left_alone_holds_nothing_back(stage: Stage, api: Api) -> None:
    """No run waits for it, and no status."""
    never = config_map("b", annotations={"applyprune.dev/ready-when": "false"})
    stage.run(config_map("a"), never)
    api.patch(stage.path("b"), {"metadata": {"annotations": LEFT_OUT}})
    story = stage.run(config_map("a", "new"), never, wait=True)
    assert story.exit_code == 0
    assert stage.status(wait=True).exit_code == 0
