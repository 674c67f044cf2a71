"""The second form of the recipes: the merge applies the very plan of the pull request."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.pipelines import PIPELINE, SHOP, GitHub, Runner, account_of, recipe
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
---
"""
MANY = ("one", "two", "three", "four")


@pytest.fixture(autouse=True)
def no_set(runner: Runner) -> None:
    """Delete what an earlier test has left."""
    delete = "applyprune delete web -n shop --prune-also adopted --yes"
    process = runner.sh(delete, KUBECONFIG=str(runner.kubeconfig))
    said = process.communicate(timeout=HANG)[0]
    assert process.returncode == 0, said


def write_settings(runner: Runner, *names: str) -> None:
    """Replace the manifests by ConfigMaps."""
    text = "".join(SETTINGS.format(name=name) for name in names)
    (runner.folder / "manifests/web.yaml").write_text(text)


def program(runner: Runner, name: str, script: str) -> None:
    """Put a program first on the path of the runner."""
    path = runner.folder.parent / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def gitlab(runner: Runner, name: str, **variables: str) -> tuple[int, str]:
    """Run a job of the recipe; return its exit code and what it said."""
    job = recipe("gitlab-plan")[name]
    parts: list[str] = []
    if "extends" in job:
        parts += recipe("gitlab-plan")[job["extends"]].get("before_script", [])
    process = runner.sh(
        "\n".join([*parts, *job["script"]]), KUBECONFIG=str(runner.kubeconfig), **variables
    )
    said = process.communicate(timeout=HANG)[0]
    status = "failed" if process.returncode else "success"
    after = runner.sh("\n".join(job.get("after_script", [])), CI_JOB_STATUS=status)
    return process.returncode, said + after.communicate(timeout=HANG)[0]


def live(api: Api) -> list[Any]:
    """Return the ConfigMaps of the namespace, the inventory among them."""
    found = api.get(f"{SHOP}/configmaps")["items"]
    assert isinstance(found, list)
    return found


def test_github_plan_recipe_applies_the_plan_of_the_pull_request(runner: Runner, api: Api) -> None:
    """Another input is refused and says what to do; a second run of the job does nothing."""
    runner.write("planned")
    before = live(api)
    proposed = GitHub(runner, "pull_request", "github-plan")
    assert proposed.run("plan") == 0, proposed.said
    shown = (runner.folder / "plan.md").read_text() + proposed.summary.read_text()
    assert "configmap/settings" in shown
    assert "not-to-be-told" not in shown + proposed.said + (runner.folder / "web.plan").read_text()

    runner.write("other")
    other = GitHub(runner, "push", "github-plan")
    assert other.run("apply") == 8, other.said
    assert "its manifest has changed" in other.said
    assert other.said.count("Run this workflow manually on main") == 1
    assert live(api) == before

    runner.write("planned")
    for _ in range(2):
        merged = GitHub(runner, "push", "github-plan")
        assert merged.run("apply") == 0, merged.said
        assert "What to do" not in merged.ran
    assert "already applied this plan" in merged.said
    assert api.get(f"{SHOP}/configmaps/settings")["data"] == {"colour": "planned"}


def test_github_plan_recipe_prunes_what_a_guard_refuses_after_an_approval(
    runner: Runner, api: Api
) -> None:
    """The jobs before it are green, write nothing, and start the one that is approved."""
    write_settings(runner, *MANY)
    first = GitHub(runner, "pull_request", "github-plan")
    assert [first.run("plan"), first.run("apply")] == [0, 0], first.said
    assert first.outputs["code"] == "0"

    write_settings(runner, MANY[0])
    proposed = GitHub(runner, "pull_request", "github-plan")
    assert proposed.run("plan") == 0, proposed.said
    assert "more than half" in (runner.folder / "plan.md").read_text()
    before = live(api)
    merged = GitHub(runner, "push", "github-plan")
    assert merged.run("apply") == 0, merged.said
    assert merged.outputs["code"] == "6"
    assert live(api) == before
    approved = GitHub(runner, "push", "github-plan")
    assert approved.run("approved") == 0, approved.said
    assert {each["metadata"]["name"] for each in live(api)} & {*MANY} == {MANY[0]}


def test_gitlab_plan_recipe_applies_the_plan_of_the_merge_request(runner: Runner, api: Api) -> None:
    """The same by the jobs of the other system; another user may read the plan."""
    runner.write("reviewed")
    code, said = gitlab(runner, "plan")
    assert code == 0, said
    for path in recipe("gitlab-plan")["plan"]["artifacts"]["paths"]:
        assert (runner.folder / path).stat().st_mode & 0o004
    runner.write("other")
    code, said = gitlab(runner, "apply")
    assert code == 8, said
    assert "start a pipeline manually on this branch" in said
    runner.write("reviewed")
    code, said = gitlab(runner, "apply")
    assert code == 0, said
    assert "manually" not in said
    assert api.get(f"{SHOP}/configmaps/settings")["data"] == {"colour": "reviewed"}


def test_gitlab_plan_recipe_prunes_what_a_guard_refuses_after_an_approval(
    runner: Runner, api: Api
) -> None:
    """The jobs before it pass with a warning; to start it without need does nothing."""
    jobs = recipe("gitlab-plan")
    write_settings(runner, *MANY)
    assert [gitlab(runner, name)[0] for name in ("plan", "apply", "approved")] == [0, 0, 0]
    write_settings(runner, MANY[0])
    before = live(api)
    for name in ("plan", "apply"):
        code, said = gitlab(runner, name)
        assert [code] == jobs[name]["allow_failure"]["exit_codes"], said
    assert "start the job approved" in said
    assert live(api) == before
    code, said = gitlab(runner, "approved")
    assert code == 0, said
    assert {each["metadata"]["name"] for each in live(api)} & {*MANY} == {MANY[0]}


def git(folder: Path, *arguments: str) -> None:
    """Call git in a checkout."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("way", ["merge", "squash", "rebase"])
def test_plan_is_found_after_every_way_to_merge(runner: Runner, way: str) -> None:
    """By the checksum of the manifests, which is that of the pull request, in both recipes."""
    folder = runner.folder
    git(folder, "init", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--message=base")
    git(folder, "checkout", "-b", "change")
    runner.write("changed")
    git(folder, "commit", "--all", "--message=change")
    (folder / "manifests/more file.yaml").write_text(SETTINGS.format(name="more"))
    git(folder, "add", ".")
    git(folder, "commit", "--message=more")
    planned = checksums(runner)
    git(folder, "checkout", "main")
    assert checksums(runner) != planned
    (folder / "README.md").write_text("other work")
    git(folder, "add", ".")
    git(folder, "commit", "--message=other work")
    if way == "rebase":
        git(folder, "rebase", "main", "change")
        git(folder, "checkout", "main")
        git(folder, "merge", "--ff-only", "change")
    elif way == "squash":
        git(folder, "merge", "--squash", "change")
        git(folder, "commit", "--message=squashed")
    else:
        git(folder, "merge", "--no-ff", "--message=merged", "change")
    assert checksums(runner) == planned


def checksums(runner: Runner) -> list[str]:
    """Return the names under which the two recipes keep a plan."""
    run = GitHub(runner, "push", "github-plan")
    for name in ("plan", "find"):
        (step,) = (
            each
            for each in recipe("github-plan")["jobs"][name]["steps"]
            if each.get("id") == "name"
        )
        process = runner.sh(step["run"], **run.variables)
        assert process.communicate(timeout=HANG)[0] == ""
    lines = run.written.read_text().splitlines()
    assert len(lines) == 2
    assert len({*lines}) == 1
    store = [*recipe("gitlab-plan")[".store"]["before_script"], "echo $url"]
    process = runner.sh("\n".join(store), CI_API_V4_URL="https://example.com", CI_PROJECT_ID="7")
    return [lines[0], process.communicate(timeout=HANG)[0]]


def test_github_plan_recipe_looks_for_the_plan_by_its_name(runner: Runner) -> None:
    """And says what to do if there is none."""
    program(runner, "gh", 'echo "$2" >&2; cat ../answer')
    answer = runner.folder.parent / "answer"
    answer.write_text("42\n")
    found = GitHub(runner, "push", "github-plan")
    found.expressions |= {"github.token": "t", "steps.name.outputs.name": "web-1"}
    assert found.run("find") == 0, found.said
    assert "repos/example/shop/actions/artifacts?name=web-1\n" in found.said
    assert found.outputs["run"] == "42"
    answer.write_text("")
    missing = GitHub(runner, "push", "github-plan")
    missing.expressions |= {"github.token": "t", "steps.name.outputs.name": "web-1"}
    assert missing.run("find") == 8
    assert "::error::No plan was made for these manifests, and nothing was written." in missing.said


@pytest.mark.parametrize("old", ["", "7"])
def test_github_plan_recipe_keeps_one_comment(runner: Runner, old: str) -> None:
    """It starts with a mark, by which the next plan finds it."""
    (runner.folder / "plan.md").write_text("the plan\n")
    program(runner, "gh", f'[ $2 != --paginate ] || {{ echo {old}; exit; }}\necho "$*" >&2')
    run = GitHub(runner, "pull_request", "github-plan")
    run.expressions |= {
        "github.token": "t",
        "github.repository": "example/shop",
        "github.event.number": "3",
    }
    assert run.run("comment") == 0, run.said
    (step,) = (each for each in recipe("github-plan")["jobs"]["comment"]["steps"] if "run" in each)
    mark, _, text = (runner.folder / "comment.md").read_text().partition("\n")
    assert text == "the plan\n"
    assert f'startswith("{mark}")' in step["run"]
    to = "--method PATCH repos/example/shop/issues/comments/7"
    other = "repos/example/shop/issues/3/comments"
    assert run.said == f"api --silent {to if old else other} -F body=@comment.md\n"


def test_gitlab_plan_recipe_keeps_and_fetches_the_plan(runner: Runner, tmp_path: Path) -> None:
    """Another pipeline gets the same file; for other manifests it says that none exists."""
    variables = {"CI_API_V4_URL": f"file://{tmp_path}", "CI_PROJECT_ID": "7", "CI_JOB_TOKEN": "t"}
    store = recipe("gitlab-plan")[".store"]["before_script"]
    folder = 'mkdir -p "$(dirname "${url#file://}")"'
    process = runner.sh("\n".join([*store, folder]), **variables)
    assert process.communicate(timeout=HANG)[0] == ""
    plan = runner.folder / "web.plan"
    plan.write_text("a plan")
    code, said = gitlab(runner, "keep", **variables)
    assert code == 0, said
    plan.unlink()
    code, said = gitlab(runner, "fetch", **variables)
    assert code == 0, said
    assert plan.read_text() == "a plan"
    runner.write("other")
    code, said = gitlab(runner, "fetch", **variables)
    assert code == 8
    assert "No plan was made for these manifests" in said


def test_plan_of_a_new_set_needs_to_read_its_namespace(
    runner: Runner, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Without that right of the account, nothing identifies the cluster, and no file is written."""
    name = f"shop-{os.urandom(3).hex()}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert api("POST", "/api/v1/namespaces", body)[0] == 201
    rights = (PIPELINE / "account.yaml").read_text().replace("shop", name)
    right = (
        f'  - apiGroups: [""]\n    resources: [namespaces]\n    resourceNames: [{name}]\n'
        "    verbs: [get]\n"
    )
    assert right in rights
    path = runner.folder / "web.plan"
    plan = f"applyprune plan web -n {name} -f manifests/ --out web.plan"
    for text, code in ((rights.replace(right, ""), 2), (rights, 0)):
        kubeconfig = account_of(plane, name, text, tmp_path)
        process = runner.sh(plan, KUBECONFIG=str(kubeconfig))
        said = process.communicate(timeout=HANG)[0]
        assert (process.returncode, path.exists()) == (code, not code), said
        assert (f"Allow the account to get the Namespace {name}." in said) is bool(code)
    api("DELETE", f"/api/v1/namespaces/{name}")
