"""Each set of a command does what was shown of it, and nothing more: asked, or by a plan file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from applyprune.errors import UsageError
from applyprune.model.events import Planned, SetEvent
from applyprune.model.identity import SetKey
from applyprune.model.options import Mode
from applyprune.planning.approval import Consent, needed_consent
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import config_map
from tests.support.pseudo_terminal import ANSWER, on_terminal
from tests.support.set_folders import ManyStory, SetFolders
from tests.support.waiting import next_second


def consent_in(story: ManyStory) -> Mapping[SetKey, Consent]:
    """Return what somebody agrees to who says yes to the plans."""
    return {
        one.key: needed_consent(one.event.plan, Mode.APPLY)
        for one in story.events
        if isinstance(one, SetEvent) and isinstance(one.event, Planned)
    }


def first(sets: SetFolders) -> None:
    """Apply a base that web needs, and another set; x is to move, and old-of-NAME to go."""
    sets.write("base", *map(config_map, ("of-base", "old-of-base", "x")))
    sets.write("web", *map(config_map, ("of-web", "old-of-web")), dependsOn=["base"])
    sets.write("other", *map(config_map, ("of-other", "old-of-other")))
    assert sets.apply().end.exit_code == 0


def second(sets: SetFolders) -> None:
    """Write what comes next."""
    sets.write("base", config_map("of-base"))
    sets.write("web", *map(config_map, ("of-web", "x")), dependsOn=["base"])
    sets.write("other", config_map("of-other"), config_map("new"))


DONE = {
    "base/of-base": "unchanged",
    "base/old-of-base": "pruned",
    "base/x": "removed-from-inventory",
    "web/of-web": "unchanged",
    "web/old-of-web": "pruned",
    "web/x": "updated",
    "other/new": "created",
    "other/of-other": "unchanged",
    "other/old-of-other": "pruned",
}


def test_agreed_plans_are_carried_out(sets: SetFolders) -> None:
    """Also what moves, and what is pruned by the second run of a set."""
    first(sets)
    second(sets)
    story = sets.apply(agreed=consent_in(sets.plan()))
    assert story.end.exit_code == 0, story.events
    assert story.outcomes == DONE


@pytest.mark.holds("agreed-for-each-set")
def test_set_that_needs_more_than_was_agreed_to_changes_nothing(
    sets: SetFolders, api: Api, audit: AuditTrail
) -> None:
    """Between the question and the answer, an object has come that it would delete; others run."""
    first(sets)
    sets.write("other", *map(config_map, ("of-other", "old-of-other", "new")))
    agreed = consent_in(sets.plan())
    second(sets)
    audit.restart()
    story = sets.apply(agreed=agreed)
    assert story.exit_codes["other"] == 8
    assert "needs more than you have agreed to" in story.errors("other")
    assert api.exists(sets.stage("other").path("old-of-other"))
    assert not [one for one in writes(audit) if "-other" in one or "/new" in one]


def test_consent_to_one_set_does_not_count_for_another(sets: SetFolders) -> None:
    """A set whose plan nobody has seen may only do what needs no consent."""
    first(sets)
    second(sets)
    agreed = {key: one for key, one in consent_in(sets.plan()).items() if key.name != "other"}
    story = sets.apply(agreed=agreed)
    assert story.exit_codes == {"base": 0, "web": 0, "other": 8}
    assert sets.apply().end.exit_code == 0


def test_question_is_one_for_all_sets(sets: SetFolders, audit: AuditTrail) -> None:
    """After a no, nothing is written; after a yes, each set does what was shown of it.

    Meanwhile another run has given a set one more object, which it would delete.
    """
    first(sets)
    second(sets)
    call = partial(on_terminal, "apply", "--all-in", sets.folder, kubeconfig=sets.kubeconfig)
    audit.restart()
    with call() as terminal:
        terminal.read_until(ANSWER)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert writes(audit) == []
    with call() as terminal:
        terminal.read_until(ANSWER)
        more = map(config_map, ("of-other", "old-of-other", "new", "more"))
        assert sets.stage("other").run(*more).exit_code == 0
        terminal.type("y\n")
        assert terminal.ended() == 8
        assert terminal.shown.count(ANSWER) == 1
    assert sets.listed("base", "web", "other") == {
        "base": {"of-base"},
        "web": {"of-web", "x"},
        "other": {"of-other", "old-of-other", "new", "more"},
    }


# By a file.


@pytest.fixture
def file(sets: SetFolders, tmp_path: Path) -> Path:
    """The plans of what comes next, a second after the applies before them."""
    first(sets)
    second(sets)
    next_second()
    path = tmp_path / "all.plan"
    planned = sets.plan(out=path)
    assert planned.end.exit_code == 0
    return path


def test_plans_of_a_file_are_carried_out(sets: SetFolders, file: Path, audit: AuditTrail) -> None:
    """With what moves, and with what is pruned by a second run; once more, nothing is to do."""
    story = sets.apply(plans=file)
    assert story.end.exit_code == 0, story.events
    assert story.outcomes == DONE
    audit.restart()
    again = sets.apply(plans=file)
    assert again.end.exit_code == 0, again.events
    assert writes(audit) == []


def test_set_that_has_changed_since_its_plan_fails_alone(
    sets: SetFolders, file: Path, audit: AuditTrail
) -> None:
    """Nothing of it is written; what needs it does not run."""
    sets.write("other", config_map("of-other"), config_map("new", "changed"))
    audit.restart()
    story = sets.apply(plans=file)
    assert story.exit_codes == {"base": 0, "web": 0, "other": 8}
    assert "no longer fits the plan" in story.sets["other"].problem("configmap/new")
    assert not [one for one in writes(audit) if "-other" in one or "/new" in one]
    assert {name: one for name, one in story.outcomes.items() if "other" not in name} == {
        name: one for name, one in DONE.items() if "other" not in name
    }


def test_object_whose_taker_has_changed_since_its_plan_stays(
    sets: SetFolders, file: Path, api: Api
) -> None:
    """The taker is refused, so its giver keeps the object, and prunes nothing."""
    uid = api.get(sets.stage("base").path("x"))["metadata"]["uid"]
    sets.write("web", *map(config_map, ("of-web", "x", "more")), dependsOn=["base"])
    story = sets.apply(plans=file)
    assert story.exit_codes == {"base": 0, "web": 8, "other": 0}
    assert story.outcomes["base/x"] == story.outcomes["base/old-of-base"] == "not-pruned"
    assert api.get(sets.stage("base").path("x"))["metadata"]["uid"] == uid
    assert sets.apply().end.exit_code == 0
    assert api.get(sets.stage("base").path("x"))["metadata"]["uid"] == uid


def test_input_that_has_taken_an_object_since_the_plan_is_refused(
    sets: SetFolders, file: Path, api: Api
) -> None:
    """Two sets would have it, which is found before any plan is read from the cluster."""
    sets.write("other", *map(config_map, ("of-other", "new", "x")))
    story = sets.apply(plans=file)
    assert story.exit_codes == {"base": 0, "web": 2, "other": 2}


def test_set_that_is_gone_since_the_plan_ends_the_command(
    sets: SetFolders, file: Path, audit: AuditTrail
) -> None:
    """Its plan could not be carried out."""
    sets.remove("other")
    audit.restart()
    with pytest.raises(UsageError, match=f"{sets.namespace}/other"):
        sets.apply(plans=file)
    assert writes(audit) == []


def test_set_that_has_come_since_the_plan_does_not_run(sets: SetFolders, file: Path) -> None:
    """Nobody has seen its plan."""
    sets.write("late", config_map("of-late"))
    story = sets.apply(plans=file)
    assert story.exit_codes == {"base": 0, "web": 0, "other": 0}


def test_failed_plan_writes_no_file(sets: SetFolders, tmp_path: Path, api: Api) -> None:
    """Half of the plans are no plan of all sets."""
    first(sets)
    second(sets)
    (sets.folder / "other" / "m.json").write_text("{")
    path = tmp_path / "all.plan"
    assert sets.plan(out=path).end.exit_code == 2
    assert not path.exists()


def edited(data: bytes) -> bytes:
    return data.replace(b'"prune"', b'"leave"', 1)


BAD = {
    "cut": lambda data: data[:-20],
    "cut at a line": lambda data: data[: data.rindex(b"\n", 0, -5) + 1],
    "edited": edited,
    "with more behind it": lambda data: data + b"{}\n",
    "without its first line": lambda data: data.partition(b"\n")[2],
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
def test_file_that_is_not_as_it_was_written_is_refused(
    sets: SetFolders, audit: AuditTrail, tmp_path: Path, spoil: object
) -> None:
    """No set runs by it."""
    sets.write("web", config_map("of-web"), config_map("old"))
    sets.write("other", config_map("of-other"))
    sets.apply()
    sets.write("web", config_map("of-web"))
    file = tmp_path / "all.plan"
    sets.plan(out=file)
    assert callable(spoil)
    file.write_bytes(spoil(file.read_bytes()))
    audit.restart()
    with pytest.raises(UsageError):
        sets.apply(plans=file)
    assert writes(audit) == []


def test_command_line_applies_the_plans_of_a_file(sets: SetFolders) -> None:
    """The file says which folder it is; the plan of one set is no plan of many."""
    first(sets)
    second(sets)
    next_second()
    planned = sets.call("plan", "--all-in", "sets", "--out", "all.plan")
    assert planned.code == 0, planned
    assert "all.plan" in planned.err
    alone = ("plan", "other", "-f", "sets/other/m.json", "-n", sets.namespace)
    assert sets.call(*alone, "--out", "one.plan").code == 0
    mixed = sets.call("apply", "--all-in", "sets", "--plan", "one.plan")
    assert (mixed.code, "is the plan of one set" in mixed.err) == (2, True)
    done = sets.call("apply", "--plan", "all.plan")
    assert done.code == 0, done
    assert sets.listed("base", "web", "other") == {
        "base": {"of-base"},
        "web": {"of-web", "x"},
        "other": {"of-other", "new"},
    }


def test_approval_of_one_set_does_not_hold_back_another(sets: SetFolders) -> None:
    """What no guard refuses is pruned; another digest still approves nothing."""
    sets.write("web", *map(config_map, ("of-web", "old-of-web")))
    sets.write("big", *map(config_map, "abcdef"))
    assert sets.apply().end.exit_code == 0
    sets.write("web", config_map("of-web"))
    sets.write("big", *map(config_map, "ab"))
    (planned,) = sets.plan().sets["big"].of(Planned)
    words = ("apply", "--all-in", sets.folder.name, "--yes", "-o", "json", "--approve")
    wrong = sets.call(*words, f"sha256:{'0' * 64}")
    assert wrong.code == 6
    assert sets.listed("web", "big") == {"web": {"of-web"}, "big": set("abcdef")}
    assert sets.call(*words, planned.plan.deletions).code == 0
    assert sets.listed("big") == {"big": set("ab")}
