"""The recipe of many sets for GitLab: its very commands, in a shell, as the pipeline's account."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.few_sets import GREEN, MANY, TOP, colours, delete_sets, files, names, own
from tests.support.pipelines import Runner, gitlab_job, recipe
from tests.support.repository import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

RECIPE = recipe("gitlab-many")
NONE = {"CI_COMMIT_BEFORE_SHA": "0" * 40}
"""What GitLab gives to all pipelines but those of a push."""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository of four sets."""
    found = Repository(tmp_path / "sets")
    found.commit(**files())
    return found


@pytest.fixture
def sets(runner: Runner, repository: Repository, plane: Plane) -> Runner:
    """A runner in this repository, whose sets are applied."""
    delete_sets(runner.kubeconfig)
    one = replace(runner, folder=repository.root)
    # kubectl builds the kustomizations.
    one.variables["PATH"] += f"{os.pathsep}{plane.kubectl.parent}"
    for name in ("plan", "apply"):
        done(one, name, **NONE)
    return one


def job(runner: Runner, name: str, **variables: str) -> tuple[int, str]:
    """Run a job of the recipe; return its exit code and what it said."""
    return gitlab_job(runner, RECIPE, name, **variables)


def done(runner: Runner, name: str, **variables: str) -> str:
    """Run a job that succeeds; return what it said."""
    code, said = job(runner, name, **variables)
    assert code == 0, said
    return said


def squashed(repository: Repository) -> dict[str, str]:
    """Bring the branch to main; return what GitLab says of it."""
    repository.git("checkout", "-q", "main")
    before = repository.git("rev-parse", "HEAD")
    repository.git("merge", "-q", "--squash", "change")
    repository.git("commit", "-q", "-m", "squashed")
    return {"CI_COMMIT_BEFORE_SHA": before}


def test_merge_applies_the_plans_of_the_sets_that_a_request_changes(
    sets: Runner, repository: Repository, api: Api, tmp_path: Path
) -> None:
    """It finds them although main has gone on; other manifests of these sets have no plan.

    Slow: each job is several processes of Python.
    """
    store = {"CI_API_V4_URL": f"file://{tmp_path}", "CI_PROJECT_ID": "7", "CI_JOB_TOKEN": "t"}
    base = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "-b", "change")
    repository.git("rm", "-q", "-r", f"{TOP}/old")
    repository.commit(**own("web", "red"), **own("jobs", "red"))
    request = NONE | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    for name in ("sum", "plan"):
        said = done(sets, name, **request)
        assert "applyprune delete old -n shop" in said
    page = (repository.root / "plan.md").read_text()
    assert "web-web" in page
    assert "api-" not in page
    (place,) = RECIPE[".store"]["before_script"]
    made = 'mkdir -p "$(dirname "${url#file://}")"'
    assert sets.sh(f"{place}\n{made}", **store).communicate()[0] == ""
    done(sets, "keep", **store)
    written = ("sum", "all.plan", "plan.md", "applyprune.json", "checked.json")
    for one in written:
        (repository.root / one).unlink()

    repository.git("checkout", "-q", "main")
    repository.commit(**own("api", "yellow"))
    push = squashed(repository)
    for name in ("sum", "fetch", "apply"):
        done(sets, name, **push, **store)
    assert colours(api) == GREEN | {"web-web": "red", "jobs": "red"}
    done(sets, "drift", **NONE)

    before = repository.git("rev-parse", "HEAD")
    (repository.root / "all.plan").unlink()
    repository.commit(**own("jobs", "blue"))
    other = {"CI_COMMIT_BEFORE_SHA": before}
    done(sets, "sum", **other)
    code, said = job(sets, "fetch", **other, **store)
    assert code == 8
    assert "No plan was made for these sets" in said


def test_prunes_of_several_sets_are_approved_together(
    sets: Runner, repository: Repository, api: Api
) -> None:
    """The jobs before pass with a warning, and apply the other sets.

    Slow: each job is several processes of Python.
    """
    before = {"CI_COMMIT_BEFORE_SHA": repository.git("rev-parse", "HEAD")}
    repository.commit(**own("jobs", "green", *MANY), **own("old", "green", *MANY))
    for name in ("plan", "apply", "approved"):
        done(sets, name, **before)
    before = {"CI_COMMIT_BEFORE_SHA": repository.git("rev-parse", "HEAD")}
    changed = own("jobs", "red", MANY[0]) | own("old", "green", MANY[0]) | own("web", "blue")
    repository.commit(**changed)
    for name in ("plan", "apply"):
        code, said = job(sets, name, **before)
        assert [code] == RECIPE[name]["allow_failure"]["exit_codes"], said
    assert "start the job approved" in said
    assert colours(api) == GREEN | {"web-web": "blue"}
    done(sets, "approved", **before)
    assert names(api, "jobs") | names(api, "old") == {"jobs-one", "old-one"}
    assert colours(api) == GREEN | {"web-web": "blue", "jobs": "red"}


@pytest.mark.parametrize(
    ("variables", "since"),
    [
        (NONE, ""),
        ({"CI_COMMIT_BEFORE_SHA": "1" * 40}, ""),
        ({"CI_COMMIT_BEFORE_SHA": "main~1"}, "main~1"),
        (NONE | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "main~1"}, "main~1"),
        (
            NONE
            | {
                "CI_MERGE_REQUEST_DIFF_BASE_SHA": "main~1",
                "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "main",
            },
            "main",
        ),
    ],
)
def test_change_is_compared_with_what_gitlab_names(
    runner: Runner, repository: Repository, variables: dict[str, Any], since: str
) -> None:
    """A pipeline of merged results has what others have merged since, which is no change of it."""
    repository.commit(**{f"{TOP}/README.md": "more"})
    script = "\n".join([*RECIPE[".applyprune"]["before_script"], "echo $sets"])
    one = replace(runner, folder=repository.root)
    said = one.sh(script, **variables).communicate()[0]
    *told, found = said.splitlines()
    assert found == f"--all-in {TOP}" + (f" --changed-since {since}" if since else "")
    assert [line[:30] for line in told] == ([] if since else ["This run is about all sets: th"])
