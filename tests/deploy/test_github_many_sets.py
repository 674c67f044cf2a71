"""action.yml and its recipe for many sets, in a repository with a base that some of them share."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.few_sets import GREEN, HEAD, MANY, TOP, colours, delete_sets, files, names, own
from tests.support.github.rest import served
from tests.support.github.runner import (
    FORK,
    MANUAL,
    NIGHT,
    GitHubEvent,
    GitHubRepository,
    JobRun,
    WorkflowRun,
    request,
)
from tests.support.pipelines import SHOP, recipe
from tests.support.repository import Repository
from tests.support.source_text import config_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.plane import Kubectl


@dataclass(frozen=True)
class Desk:
    """A repository, and what people do in it: a branch, a pull request, its merge."""

    repository: Repository
    github: GitHubRepository

    def propose(self, *removed: str, **files: str) -> GitHubEvent:
        """Commit to a branch, and check its pull request out as GitHub merges it."""
        git = self.repository.git
        if not git("branch", "--list", "change"):
            git("branch", "change", "main")
        git("checkout", "-q", "change")
        for folder in removed:
            git("rm", "-q", "-r", folder)
        head = self.repository.commit(**files) if files else git("rev-parse", "HEAD")
        git("checkout", "-q", "--detach", "main")
        git("merge", "-q", "--no-ff", "-m", "as merged", "change")
        # The event says where the branch was when somebody last pushed to the pull request.
        return request(sha=head, before=git("merge-base", "main", "change"))

    def merge(self) -> GitHubEvent:
        """Squash the branch into main."""
        git = self.repository.git
        git("checkout", "-q", "main")
        before = git("rev-parse", "HEAD")
        git("merge", "-q", "--squash", "change")
        git("commit", "-q", "-m", "squashed")
        git("branch", "-q", "-D", "change")
        return GitHubEvent("push", before=before)

    def apply_all(self, **files: str) -> None:
        """Commit to main, and apply what it says, without a plan."""
        self.others_commit(**files)
        with_inputs(self, bound="false")
        done(self.github.start(GitHubEvent("push", before="0" * 40)), "apply")
        self.github.workflow = recipe("github-many")

    def others_commit(self, **files: str) -> None:
        """Commit another change to main."""
        self.repository.git("checkout", "-q", "main")
        self.repository.commit(**files)

    @property
    def comment(self) -> str:
        """Return the only comment of the pull request."""
        (one,) = self.github.server.comments[3]
        return str(one["body"])


@pytest.fixture
def desk(shop: Path, plane: Plane, tmp_path: Path) -> Iterator[Desk]:
    """A repository with the recipe, whose four sets are applied."""
    delete_sets(shop)
    repository = Repository(tmp_path / "checkout")
    # kubectl builds the kustomizations.
    path = f"{plane.kubectl.parent}{os.pathsep}{os.environ['PATH']}"
    with served(tmp_path / "artifacts") as server:
        github = GitHubRepository(
            server,
            repository.root,
            recipe("github-many"),
            {"KUBECONFIG": shop.read_text()},
            Path(sys.prefix),
            {"PATH": path},
        )
        repository.git("commit", "-q", "--allow-empty", "-m", "first")
        one = Desk(repository, github)
        one.apply_all(**files())
        yield one


def with_inputs(desk: Desk, **inputs: str) -> None:
    """Give the action more inputs in each job of the recipe."""
    workflow = recipe("github-many")
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "applyprune" in step["uses"]:
                step["with"] |= inputs
    desk.github.workflow = workflow


def done(run: WorkflowRun, job: str) -> JobRun:
    """Return the only job of a run, which has succeeded."""
    assert [*run.jobs] == [job]
    assert run.jobs[job].result == "success", run.jobs[job].said
    return run.jobs[job]


def test_merge_applies_the_plans_of_the_sets_that_a_pull_request_changes(
    desk: Desk, api: Api, kubectl: Kubectl
) -> None:
    """Exactly them, although main has gone on; a folder that is gone is named, and its set stays.

    One comment shows them. At night, the drift of any set counts.

    Slow: each job is several processes of Python.
    """
    event = desk.propose(f"{TOP}/old", **own("web", "red"), **own("jobs", "red"))
    proposed = done(desk.github.start(event), "plan")
    assert "web-web" in desk.comment
    assert "api-" not in desk.comment
    assert "applyprune delete old -n shop" in desk.comment
    assert f"The sets in `{TOP}`" in desk.comment
    assert "web-web" in proposed.summary
    assert colours(api) == GREEN
    desk.others_commit(**own("api", "yellow"))
    event = desk.propose(**own("web", "blue"))
    done(desk.github.start(event), "plan")
    assert "blue" in desk.comment
    assert "yellow" not in desk.comment
    assert len(desk.github.server.artifacts) == 2

    desk.others_commit(**{f"{TOP}/README.md": "more"})
    event = desk.merge()
    merged = done(desk.github.start(event), "apply")
    assert merged.outputs["code"] == "0"
    assert "applyprune delete old -n shop" in merged.said
    assert colours(api) == GREEN | {"web-web": "blue", "jobs": "red"}
    again = desk.github.start(event).jobs["apply"]
    assert again.code == 0, again.said
    assert colours(api) == GREEN | {"web-web": "blue", "jobs": "red"}

    done(desk.github.start(NIGHT), "drift")
    patch = '{"data":{"colour":"x"}}'
    kubectl("patch", "cm", "jobs", "-n", "shop", "--type=merge", "-p", patch)
    drifted = desk.github.start(NIGHT).jobs["drift"]
    assert drifted.code == 1
    assert "jobs" in drifted.said


def test_prunes_of_several_sets_are_approved_together(desk: Desk, api: Api) -> None:
    """What no guard refuses is applied before, and each set deletes what its own digest is of.

    Slow: each job is several processes of Python.
    """
    desk.apply_all(**own("jobs", "green", *MANY), **own("old", "green", *MANY))
    changed = own("jobs", "red", MANY[0]) | own("old", "green", MANY[0]) | own("web", "blue")
    event = desk.propose(**changed)
    done(desk.github.start(event), "plan")
    assert desk.comment.count("more than half") >= 2
    event = desk.merge()
    merged = desk.github.start(event)
    applied = done(merged, "apply")
    assert applied.outputs["code"] == "6"
    assert len(applied.outputs["deletions"].split()) == 2
    assert colours(api) == GREEN | {"web-web": "blue"}
    assert merged.waiting == ["approved"]
    approved = merged.job("approved")
    assert approved.code == 0, approved.said
    assert names(api, "jobs") | names(api, "old") == {"jobs-one", "old-one"}
    assert colours(api) == GREEN | {"web-web": "blue", "jobs": "red"}


def test_plan_of_one_set_that_no_longer_fits_keeps_no_other_back(
    desk: Desk, api: Api, kubectl: Kubectl
) -> None:
    """The job says what to do: a run that somebody starts is about all sets.

    Slow: each job is several processes of Python.
    """
    event = desk.propose(**own("jobs", "red"), **own("web", "blue"))
    done(desk.github.start(event), "plan")
    kubectl("label", "cm", "jobs", "-n", "shop", "by=hand")
    event = desk.merge()
    outdated = desk.github.start(event).jobs["apply"]
    assert outdated.code == 8
    assert outdated.said.count("The plan no longer fits. Run this workflow manually") == 1
    assert colours(api) == GREEN | {"web-web": "blue"}
    manual = desk.github.start(MANUAL)
    done(manual, "plan")
    assert manual.waiting == ["approved"]
    approved = manual.job("approved")
    assert approved.code == 0, approved.said
    assert colours(api) == GREEN | {"web-web": "blue", "jobs": "red"}
    # Others have changed a set that the plan is about.
    done(desk.github.start(desk.propose(**own("jobs", "blue"))), "plan")
    desk.others_commit(**own("jobs", "red", "one"))
    before = desk.repository.git("rev-parse", "main~1")
    unplanned = desk.github.start(GitHubEvent("push", before=before)).jobs["apply"]
    assert unplanned.code == 8
    assert "No plan was made for these manifests" in unplanned.said


def test_object_of_a_removed_set_moves_with_the_plan(desk: Desk, api: Api) -> None:
    """The merge compares with the commit before it, so it knows the removed set.

    A change that concerns no set has a plan, too, by which the merge does nothing.

    Slow: each job is several processes of Python.
    """
    moved = {f"{TOP}/jobs/old.yaml": config_map("old", "data: {colour: green}\n")}
    moved[f"{TOP}/jobs/applyprune.yaml"] = f"{HEAD}name: jobs\nfilename: [own.yaml, old.yaml]\n"
    before = api.get(f"{SHOP}/configmaps/old")["metadata"]
    event = desk.propose(f"{TOP}/old", **moved)
    done(desk.github.start(event), "plan")
    done(desk.github.start(desk.merge()), "apply")
    after = api.get(f"{SHOP}/configmaps/old")["metadata"]
    assert after["uid"] == before["uid"]
    assert after["labels"] != before["labels"]
    event = desk.propose(**{f"{TOP}/README.md": "more"})
    done(desk.github.start(event), "plan")
    assert "4 sets" not in desk.comment
    assert "3 sets are not concerned" in desk.comment
    done(desk.github.start(desk.merge()), "apply")
    assert colours(api) == GREEN


def test_base_concerns_the_sets_that_build_it(desk: Desk, api: Api) -> None:
    """Although it is outside of the folder of the sets.

    Slow: each job is several processes of Python.
    """
    base = {"deploy/base/base.yaml": config_map("base", "data: {shared: red}\n")}
    done(desk.github.start(desk.propose(**base)), "plan")
    for name, is_concerned in {"api-base": True, "web-base": True, "jobs": False}.items():
        assert (name in desk.comment) is is_concerned
    done(desk.github.start(desk.merge()), "apply")
    assert colours(api) == GREEN | {"api-base": "red", "web-base": "red"}


def test_unbound_merge_applies_what_the_sets_say_that_changed(desk: Desk, api: Api) -> None:
    """Without a plan, the deletions of one set can be approved.

    Slow: each job is several processes of Python.
    """
    desk.apply_all(**own("old", "green", *MANY))
    desk.others_commit(**own("api", "yellow"))
    with_inputs(desk, bound="false")
    event = desk.propose(**own("jobs", "red"), **own("old", "green", MANY[0]))
    proposed = done(desk.github.start(event), "plan")
    assert re.fullmatch("sha256:[0-9a-f]{64}", proposed.outputs["deletions"])
    merged = desk.github.start(desk.merge())
    assert done(merged, "apply").outputs["code"] == "6"
    assert desk.github.server.artifacts == []
    assert colours(api) == GREEN | {"jobs": "red"}
    approved = merged.job("approved")
    assert approved.code == 0, approved.said
    assert names(api, "old") == {"old-one"}
    assert colours(api) == GREEN | {"jobs": "red"}


def test_request_of_a_fork_has_its_sets_checked(desk: Desk, api: Api) -> None:
    """Only those that it changes, without a cluster; broken ones have no plan.

    Slow: each job is several processes of Python.
    """
    event = replace(desk.propose(**own("jobs", "red")), head=FORK)
    proposed = done(desk.github.start(event), "plan")
    assert "no fault found in 1 object;" in proposed.summary
    assert desk.github.server.comments == {}
    broken = desk.propose(**{f"{TOP}/jobs/own.yaml": "kind: [\n"})
    assert desk.github.start(broken).jobs["plan"].code == 2
    assert "own.yaml" in desk.comment
    merged = desk.github.start(desk.merge()).jobs["apply"]
    assert merged.code == 2
    assert f"::error file={TOP}/jobs/own.yaml,line=" in merged.said
    assert desk.github.server.artifacts == []
    assert colours(api) == GREEN


@dataclass(frozen=True)
class Before:
    """What a change is compared with."""

    checkout: str
    """What is checked out: the merge of a pull request, or a branch."""
    event: dict[str, Any]
    """The payload, in which main~1 and others are commits."""
    found: str
    said: str = ""


PULL = {"head": {"sha": "change"}, "base": {"sha": "main~1"}}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(Before("merge", {"pull_request": PULL}, "main"), id="merge commit"),
        pytest.param(Before("change", {"pull_request": PULL}, "fork"), id="head of the request"),
        pytest.param(Before("main", {"before": "main~1"}, "main~1"), id="push"),
        pytest.param(Before("main", {}, ""), id="schedule"),
        pytest.param(
            Before("main", {"before": "0" * 40}, "", "the branch is new"), id="new branch"
        ),
        pytest.param(
            Before("main", {"before": "1" * 40}, "", f"there is no commit {'1' * 40}"),
            id="replaced commits",
        ),
    ],
)
def test_commit_before_is_that_of_the_event(
    action: Any, history: Repository, capsys: pytest.CaptureFixture[str], row: Before
) -> None:
    """If it is not known, the run is about all sets, and says so."""
    history.git("checkout", "-q", row.checkout)
    found = action.commit_before(str(history.root), resolved(row.event, history))
    assert found == (history.git("rev-parse", row.found) if row.found else "")
    told = capsys.readouterr().out
    assert row.said in told
    assert bool(told) is bool(row.said)


@pytest.mark.parametrize(
    ("checkout", "event"),
    [
        ("merge", {"pull_request": PULL}),
        ("change", {"pull_request": PULL}),
        ("main", {"before": "main~1"}),
    ],
)
def test_shallow_checkout_says_what_it_needs(
    action: Any,
    history: Repository,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    checkout: str,
    event: dict[str, Any],
) -> None:
    """Its commit is not the one that was replaced; all sets each time would be a slow surprise."""
    shallow = tmp_path / "shallow"
    history.git(
        "clone", "-q", "--depth=1", f"--branch={checkout}", history.root.as_uri(), str(shallow)
    )
    with pytest.raises(SystemExit) as ended:
        action.commit_before(str(shallow), resolved(event, history))
    assert ended.value.code == 2
    assert "fetch-depth: 0" in capsys.readouterr().out
    assert action.commit_before(str(shallow), {"before": "0" * 40}) == ""


def test_repository_among_the_files_is_not_asked(
    action: Any, history: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pull request may have put it there, with settings of its own."""
    folder = history.root / "deploy"
    history.git("clone", "-q", "--bare", ".", str(folder))
    commit = history.git("rev-parse", "main~1")
    assert action.commit_before(str(folder), {"before": commit}) == ""
    assert "This run is about all sets" in capsys.readouterr().out
    assert action.commit_before(str(history.root), {"before": commit}) == commit


def resolved(value: Any, history: Repository) -> Any:
    """Return an event with the IDs of its commits."""
    if isinstance(value, dict):
        return {key: resolved(one, history) for key, one in value.items()}
    return value if {*value} <= {"0", "1"} else history.git("rev-parse", value)


@pytest.fixture
def history(tmp_path: Path) -> Repository:
    """A branch that main has gone on without, and its merge as GitHub tries it."""
    found = Repository(tmp_path / "history")
    found.commit(a="1")
    found.git("branch", "fork")
    found.git("checkout", "-q", "-b", "change")
    found.commit(b="1")
    found.git("checkout", "-q", "main")
    found.commit(a="more")
    found.commit(a="much more")
    found.git("checkout", "-q", "-b", "merge")
    found.git("merge", "-q", "--no-ff", "-m", "merge", "change")
    return found


def test_outputs_are_about_all_sets(action: Any) -> None:
    """Without a plan file, only the deletions of one set can be approved."""

    def of(name: str, digit: str, code: int, deletions: str = "") -> dict[str, Any]:
        plan = {"digest": f"sha256:{digit * 64}", "deletions": deletions}
        return {"set": {"name": name, "namespace": "shop"}, "plan": plan, "exitCode": code}

    web, api, old = of("web", "a", 6, "w"), of("api", "b", 0, "a"), of("old", "c", 6, "o")
    failed = {"set": {"name": "jobs", "namespace": "shop"}, "plan": None, "exitCode": 2}
    report = {"plan": None, "sets": [web, api, old, failed]}
    assert action.deletions(report, is_bound=True) == "a o w"
    assert action.deletions(report, is_bound=False) == ""
    assert action.deletions({"sets": [web, api, failed]}, is_bound=False) == "w"
    assert action.deletions(api | {"sets": []}, is_bound=False) == "a"
    digest = action.digest(report)
    assert re.fullmatch("sha256:[0-9a-f]{64}", digest)
    assert digest == action.digest({"sets": [failed, old, web, api]})
    assert digest != action.digest({"sets": [web, api]})
    assert action.digest(api | {"sets": []}) == api["plan"]["digest"]
    assert action.digest({}) == action.deletions({}, is_bound=True) == ""
