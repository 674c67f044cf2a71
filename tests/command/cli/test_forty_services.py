"""The repository of 40 sets in two environments, which shows what many sets are for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from applyprune.cli.main import cli
from applyprune.cli.many_sets import SetCalls, concerned_by, sets_of_call
from applyprune.sources import read
from applyprune.sources.kustomize import Overlay
from tests.support.forty_services import CONCERNED, PLATFORM, change_sets, committed

if TYPE_CHECKING:
    from applyprune.localplane import Binaries
    from tests.support.repository import Repository

Objects = dict[tuple[str, str, str], Any]
PROD = "deploy/prod"


@pytest.fixture(params=[False, True], ids=["plain", "built"])
def builds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the sets are overlays, which the embedded kubectl then builds."""
    monkeypatch.setattr("applyprune.sources.moment.REST", 0.0)
    if request.param:
        binaries: Binaries = request.getfixturevalue("binaries")
        monkeypatch.setenv("PATH", f"{binaries.kubectl.parent}:{os.environ['PATH']}")
    return bool(request.param)


@pytest.fixture
def repository(builds: bool, folder: Path) -> Repository:
    """The repository, as the working directory; its second commit is the change."""
    found = committed(folder / "repository", builds=builds)
    os.chdir(found.root)
    return found


def sets_in(folder: str) -> SetCalls:
    check = cli.get_command(click.Context(cli), "check")
    assert check is not None
    return sets_of_call(check.make_context("check", ["--all-in", folder]), folder, lambda _: "")


def objects_of(name: str) -> Objects:
    """Return the objects that a set of prod has now."""
    (call,) = [one for one in sets_in(PROD).sets if one.found.key.name == name]
    paths = [one if isinstance(one, Overlay) else str(one) for one in call.values["paths"].paths]
    return {(one.body["kind"], one.namespace, one.name): one.body for one in read(paths)}


def test_sets_of_both_environments_pass_the_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("applyprune.sources.moment.REST", 0.0)
    os.chdir(committed(folder / "repository", builds=False).root)
    assert cli.main(["check", "--all-in", "deploy"], "applyprune", standalone_mode=False) == 0
    told = capsys.readouterr()
    assert told.out.startswith("no fault found in 628 objects of 80 sets; ")
    assert told.err == ""


def test_change_concerns_three_sets(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each differs as the guide says: 2 changed and 1 removed, 4 of 6 removed, 1 new."""
    before = {name: objects_of(name) for name in CONCERNED}
    assert len(before["api"]) == 6
    change_sets(repository.root)
    repository.commit()
    after = {name: objects_of(name) for name in CONCERNED}
    found = {
        name: (
            len(after[name].keys() - old.keys()),
            sum(after[name].get(key, body) != body for key, body in old.items()),
            len(old.keys() - after[name].keys()),
        )
        for name, old in before.items()
    }
    assert found == {"api": (0, 0, 4), "payments": (1, 0, 0), "web": (0, 2, 1)}
    concerned = concerned_by(sets_in(PROD), PROD, "HEAD~1")
    assert tuple(one.found.key.name for one in concerned.sets) == CONCERNED
    assert [one.message for one in concerned.notes] == ["37 sets are not concerned by this change"]
    words = ["check", "--all-in", PROD, "--changed-since", "HEAD~1"]
    assert cli.main(words, "applyprune", standalone_mode=False) == 0
    assert "no fault found in 18 objects of 3 sets" in capsys.readouterr().out
    # Dev has sets of the same names, in another context.
    assert cli.main([*words[:2], "deploy", *words[3:]], "applyprune", standalone_mode=False) == 0
    told = capsys.readouterr()
    assert "no fault found in 18 objects of 3 sets" in told.out
    assert "77 sets are not concerned by this change" in told.err


def test_some_sets_depend_on_the_platform(repository: Repository) -> None:
    """Those whose namespace or kind it has; all others may run beside it."""
    calls = sets_in(PROD)
    assert {one.found.key.namespace for one in calls.sets} == {"shop", "pay", PLATFORM}
    needs = {one.found.key.name: one.found.depends_on.depends_on for one in calls.sets}
    dependents = [name for name, found in needs.items() if found]
    assert 5 <= len(dependents) <= 10
    assert {found for found in needs.values() if found} == {(f"{PLATFORM}/{PLATFORM}",)}
