"""Stories of other tools that take an object over; the decisions are in tests/decisions."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Adopt, PruneAlso
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.stage import Stage

RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}


@pytest.mark.holds("mark-of-a-later-tool")
def test_apply_after_the_take_over_does_not_hide_it(stage: Stage, api: Api) -> None:
    """The pipeline still applies the object a few times before it leaves the input."""
    stage.run(*map(config_map, "abc"))
    api.patch(stage.path("b"), {"metadata": {"annotations": RELEASE}}, by="helm")
    changed = config_map("b", "new")
    for body in (changed, config_map("b", "newer", annotations={"note": "x"})):
        assert stage.run(config_map("a"), body, config_map("c")).exit_code == 0
    assert stage.run(*map(config_map, "ac")).outcomes["configmap/b"] is Outcome.ORPHANED
    assert api.exists(stage.path("b"))


def test_tool_that_was_left_behind_is_no_owner(stage: Stage, api: Api) -> None:
    """Its marks outlive it: they were there at the set's last apply already."""
    api.create(stage.path(), config_map("b", annotations=RELEASE), by="helm2")
    stage.run(*map(config_map, "ab"), adopt=Adopt.ALL)
    story = stage.run(config_map("a"), also=frozenset({PruneAlso.ADOPTED}))
    assert story.outcomes["configmap/b"] is Outcome.PRUNED
    assert not api.exists(stage.path("b"))
