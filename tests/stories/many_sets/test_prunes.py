"""What has left a set that others need is deleted after they have run, or not at all."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Outcome
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import config_map
from tests.support.set_folders import SetFolders, deleted


def chain(sets: SetFolders, *, old: bool) -> None:
    """Write three sets, each of which needs the one before; with an old object each, or without."""
    for name, needs in (("a", []), ("b", ["a"]), ("c", ["b"])):
        bodies = [config_map(f"new-of-{name}"), *([config_map(f"old-of-{name}")] if old else [])]
        sets.write(name, *bodies, dependsOn=needs)


def test_prunes_go_in_the_reverse_order(sets: SetFolders, audit: AuditTrail) -> None:
    """Over three sets; for whoever reads the events, each set has one run."""
    chain(sets, old=True)
    sets.apply()
    chain(sets, old=False)
    audit.restart()
    story = sets.apply()
    assert story.exit_codes == {"a": 0, "b": 0, "c": 0}
    assert deleted(audit, sets.namespace) == ["old-of-c", "old-of-b", "old-of-a"]
    pruned = {name: one.outcomes[f"configmap/old-of-{name}"] for name, one in story.sets.items()}
    assert pruned == dict.fromkeys("abc", Outcome.PRUNED)
    assert story.end.counts == {Outcome.UNCHANGED: 3, Outcome.PRUNED: 3}
    assert sets.listed("a", "b", "c") == {name: {f"new-of-{name}"} for name in "abc"}


def test_nothing_is_pruned_before_a_failed_dependent(
    sets: SetFolders, api: Api, audit: AuditTrail
) -> None:
    """The reason names the set that failed; the next command prunes what was left."""
    chain(sets, old=True)
    sets.apply()
    chain(sets, old=False)
    api.create(sets.stage("b").path(), config_map("theirs"))
    sets.write("b", config_map("new-of-b"), config_map("theirs"), dependsOn=["a"], adopt="none")
    audit.restart()
    story = sets.apply()
    assert story.exit_codes == {"a": 0, "b": 3, "c": 3}
    assert deleted(audit, sets.namespace) == []
    assert story.sets["a"].outcomes["configmap/old-of-a"] is Outcome.NOT_PRUNED
    reason = story.sets["a"].reasons["configmap/old-of-a"]
    assert reason == f"the set {sets.namespace}/b, which needs it, has failed"
    chain(sets, old=False)
    assert sets.apply().end.exit_code == 0
    assert deleted(audit, sets.namespace) == ["old-of-c", "old-of-b", "old-of-a"]


def test_far_dependent_that_failed_is_named(sets: SetFolders, api: Api) -> None:
    """Through a set between that has run well, and prunes nothing either."""
    chain(sets, old=True)
    sets.apply()
    chain(sets, old=False)
    api.create(sets.stage("c").path(), config_map("theirs"))
    sets.write("c", config_map("new-of-c"), config_map("theirs"), dependsOn=["b"], adopt="none")
    story = sets.apply()
    assert story.exit_codes == {"a": 0, "b": 0, "c": 3}
    for name in ("a", "b"):
        assert story.sets[name].reasons[f"configmap/old-of-{name}"] == (
            f"the set {sets.namespace}/c, which needs it, has failed"
        )
        assert api.exists(sets.stage(name).path(f"old-of-{name}"))


@pytest.mark.parametrize("needed", [False, True], ids=["alone", "needed by another set"])
def test_refused_prune_writes_nothing_of_its_set(
    sets: SetFolders, audit: AuditTrail, needed: bool
) -> None:
    """The others go on, but for those that need it."""
    olds = [config_map(f"old-{number}") for number in range(6)]
    sets.write("a", config_map("x", "1"), *olds)
    sets.write("b", config_map("y", "1"), dependsOn=["a"] if needed else [])
    sets.write("other", config_map("z", "1"))
    sets.apply()
    sets.write("a", config_map("x", "2"))
    sets.write("b", config_map("y", "2"), dependsOn=["a"] if needed else [])
    sets.write("other", config_map("z", "2"))
    planned = sets.plan()
    assert planned.exit_codes["a"] == 6
    audit.restart()
    story = sets.apply()
    assert story.exit_codes == {"a": 6, "b": 3 if needed else 0, "other": 0}
    assert story.sets["a"].refusal
    assert story.end.exit_code == 6
    own = [one for one in writes(audit) if "/x" in one or "/old-" in one or "applyprune-a" in one]
    assert own == []
    allowed = sets.apply("--max-prune", "6")
    assert allowed.exit_codes == {"a": 0, "b": 0, "other": 0}
    assert sets.listed("a") == {"a": {"x"}}
