"""action.yml and the recipe that uses it, step by step as a runner runs them, on a real server."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from tests.support.command import applyprune
from tests.support.github.rest import BOT, served
from tests.support.github.runner import (
    ACTION,
    FORK,
    MANUAL,
    MERGE,
    NIGHT,
    GitHubRepository,
    JobRun,
    WorkflowRun,
    request,
)
from tests.support.pipelines import PIPELINE, SHOP, Runner, recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api
    from tests.support.plane import Kubectl

SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
  colour: {colour}
---
"""
PROGRAM = PIPELINE / "github_action.py"
MANY = ("one", "two", "three", "four")
ONE = ("INPUT_SET", "INPUT_NAMESPACE", "INPUT_FILES")
NOTICE = re.compile(r"^::notice title=applyprune::(.*)$", re.MULTILINE)


@pytest.fixture
def github(runner: Runner, tmp_path: Path) -> Iterator[GitHubRepository]:
    """A repository with the recipe and the manifests of a set that does not exist."""
    delete = ("delete", "web", "-n", "shop", "--prune-also", "adopted", "--yes")
    reply = applyprune(*delete, kubeconfig=runner.kubeconfig)
    assert reply.code == 0, reply
    with served(tmp_path / "artifacts") as server:
        yield GitHubRepository(
            server,
            runner.folder,
            recipe("github"),
            {"KUBECONFIG": runner.kubeconfig.read_text()},
            Path(sys.prefix),
        )


def write(github: GitHubRepository, *names: str, colour: str = "green") -> None:
    """Replace the manifests by ConfigMaps."""
    text = "".join(SETTINGS.format(name=name, colour=colour) for name in names)
    (github.checkout / "manifests/web.yaml").write_text(text)


def done(run: WorkflowRun, job: str) -> JobRun:
    """Return the only job of a run, which has succeeded."""
    assert [*run.jobs] == [job]
    assert run.jobs[job].result == "success", run.jobs[job].said
    return run.jobs[job]


def bodies(github: GitHubRepository, number: int = 3) -> list[str]:
    """Return the comments of a pull request."""
    return [one["body"] for one in github.server.comments.get(number, [])]


def live(api: Api) -> list[Any]:
    """Return the ConfigMaps of the namespace, the inventory among them."""
    found = api.get(f"{SHOP}/configmaps")["items"]
    assert isinstance(found, list)
    return found


def names(api: Api) -> set[str]:
    """Return those of the set that exist."""
    return {one["metadata"]["name"] for one in live(api)} & {*MANY}


def with_steps(github: GitHubRepository, *inputs: dict[str, str]) -> None:
    """Replace the workflow by one job that calls the action for each of some inputs."""
    web = {"set": "web", "namespace": "shop", "files": "manifests/"}
    web["kubeconfig"] = "${{ secrets.KUBECONFIG }}"
    steps = [{"uses": ACTION, "id": "web", "with": web | one} for one in inputs]
    outputs = ("code", "changed", "digest", "deletions", "plan")
    github.workflow = {
        "jobs": {
            "all": {
                "permissions": {"actions": "read", "pull-requests": "write"},
                "outputs": {one: f"${{{{ steps.web.outputs.{one} }}}}" for one in outputs},
                "steps": steps,
            }
        }
    }


def test_recipe_applies_the_plan_of_the_pull_request(
    github: GitHubRepository, api: Api, kubectl: Kubectl
) -> None:
    """One comment shows it, which the next plan replaces; other manifests have no plan.

    A second run of the job does nothing, and the one at night fails if a field was changed.

    Slow: each job is several processes of Python.
    """
    before = live(api)
    proposed = done(github.start(request()), "plan")
    (body,) = bodies(github)
    assert "`secret/key`" in body
    assert "colour: green" in body
    assert "https://github.example.com/example/shop/actions/runs/101" in body
    assert "secret/key" in proposed.summary
    told = body + proposed.said + proposed.summary
    assert "not-to-be-told" not in told
    assert "not-to-be-told" not in github.server.plan(0).read_text()
    write(github, "one", colour="red")
    other = github.start(MERGE)
    assert other.jobs["apply"].code == 8
    assert "No plan was made for these manifests" in other.jobs["apply"].said
    assert "Run this workflow manually" in other.jobs["apply"].said
    assert live(api) == before

    done(github.start(request()), "plan")
    (body,) = bodies(github)
    assert "colour: red" in body
    merged = done(github.start(MERGE), "apply")
    assert merged.outputs["code"] == "0"
    assert api.get(f"{SHOP}/configmaps/one")["data"] == {"colour": "red"}
    again = done(github.start(MERGE), "apply")
    assert (again.outputs["code"], again.outputs.get("changed", "false")) == ("0", "false")
    patch = '{"data":{"colour":"x"}}'
    kubectl("patch", "cm", "one", "-n", "shop", "--type=merge", "-p", patch)
    drifted = github.start(NIGHT).jobs["drift"]
    assert drifted.code == 1
    assert "configmap/one" in drifted.summary


def test_recipe_refuses_a_plan_that_no_longer_fits(
    github: GitHubRepository, api: Api, kubectl: Kubectl
) -> None:
    """And says what to do: a plan of main is applied after an approval, and no newer one.

    Slow: each job is several processes of Python.
    """
    write(github, "one")
    apply(github, "one")
    write(github, "one", colour="blue")
    done(github.start(request(2)), "plan")
    kubectl("label", "cm", "one", "-n", "shop", "by=hand")
    before = live(api)
    outdated = github.start(MERGE).jobs["apply"]
    assert outdated.code == 8
    assert outdated.said.count("The plan no longer fits, and nothing was written.") == 1
    assert "Run this workflow manually on the default branch" in outdated.said

    manual = github.start(MANUAL)
    done(manual, "plan")
    assert bodies(github, 0) == []
    assert live(api) == before
    assert manual.waiting == ["approved"]
    # A newer plan of the same manifests, which the reviewer has not seen.
    done(github.start(request()), "plan")
    assert len({one["name"] for one in github.server.artifacts}) == 1
    github.server.plan(-1).write_text("not this one")
    approved = manual.job("approved")
    assert approved.code == 0, approved.said
    assert api.get(f"{SHOP}/configmaps/one")["data"] == {"colour": "blue"}


def apply(github: GitHubRepository, *names: str) -> None:
    """Apply ConfigMaps from the same checkout, without the action."""
    write(github, *names)
    config = github.checkout.parent / "config"
    config.write_text(github.secrets["KUBECONFIG"])
    command = ("apply", "web", "-n", "shop", "-f", str(github.checkout / "manifests"))
    reply = applyprune(*command, kubeconfig=config)
    assert reply.code == 0, reply


def test_recipe_prunes_what_a_guard_refuses_after_an_approval(
    github: GitHubRepository, api: Api
) -> None:
    """The jobs before it are green, write nothing, and start the one that is approved.

    The approval is of the deletions that were refused: a newer plan that deletes more is refused.

    Slow: each job is several processes of Python.
    """
    apply(github, *MANY)
    write(github, MANY[0])
    done(github.start(request(2)), "plan")
    (body,) = bodies(github, 2)
    assert "more than half" in body
    before = live(api)
    merged = github.start(MERGE)
    assert done(merged, "apply").outputs["code"] == "6"
    assert live(api) == before
    assert merged.waiting == ["approved"]
    # Meanwhile another object comes into the set, and a job makes a plan that deletes it too.
    apply(github, *MANY, "five")
    write(github, MANY[0])
    done(github.start(request(2)), "plan")
    before = live(api)
    approved = merged.job("approved")
    assert approved.code == 6, approved.said
    assert live(api) == before
    merged = github.start(MERGE)
    approved = merged.job("approved")
    assert approved.code == 0, approved.said
    assert names(api) == {MANY[0]}


def test_request_without_secrets_is_only_checked(github: GitHubRepository, api: Api) -> None:
    """Without a cluster and without a comment, and it says so; its manifests have no plan.

    Slow: each job is several processes of Python.
    """
    before = live(api)
    of_fork, of_bot = "a pull request from a fork", "a pull request of Dependabot"
    for event, whose in (
        (request(head=FORK), of_fork),
        (request(head=None), of_fork),
        (request(actor="dependabot[bot]"), of_bot),
    ):
        proposed = done(github.start(event), "plan")
        told = NOTICE.findall(proposed.said)
        assert len(told) == 2
        assert f"No plan was made, because {whose} gets no credentials of the cluster" in told[0]
        assert f"There is no comment, because {whose} gets no token that may write" in told[1]
        assert "::error" not in proposed.said
        assert "no fault found in 3 objects" in proposed.summary
    (github.checkout / "manifests/web.yaml").write_text("kind: [\n")
    broken = github.start(event).jobs["plan"]
    assert broken.code == 2
    assert "::error file=manifests/web.yaml,line=" in broken.said
    assert "Traceback" not in broken.said + proposed.said
    assert (live(api), github.server.comments) == (before, {})


def test_fork_with_credentials_gets_a_plan_without_a_comment(
    github: GitHubRepository, runner: Runner
) -> None:
    """Where a repository gives them to forks; what a fork uploads is applied by nobody.

    Slow: each job is several processes of Python.
    """
    write(github, "one")
    github.variables = {"KUBECONFIG": str(runner.kubeconfig)}
    proposed = done(github.start(request(head=FORK)), "plan")
    assert len(NOTICE.findall(proposed.said)) == 1
    assert "configmap/one" in proposed.summary
    assert github.server.comments == {}
    assert len(github.server.artifacts) == 1
    assert github.start(MERGE).jobs["apply"].code == 8


def test_missing_permission_is_named(github: GitHubRepository) -> None:
    """A request of the repository's own fails without its comment, or without its plan.

    Slow: each job is several processes of Python.
    """
    workflow = copy.deepcopy(dict(github.workflow))
    workflow["jobs"]["plan"]["permissions"] = {"contents": "read"}
    workflow["jobs"]["apply"]["permissions"] = {"contents": "read"}
    github.workflow = workflow
    proposed = github.start(request()).jobs["plan"]
    assert proposed.code == 1
    assert "The job needs the permission pull-requests: write." in proposed.said
    assert "Resource not accessible by integration" in proposed.said
    merged = github.start(MERGE).jobs["apply"]
    assert merged.code == 1
    assert "The job needs the permission actions: read." in merged.said


def test_each_set_has_a_comment_that_is_found_among_many(github: GitHubRepository) -> None:
    """On any page, and only if the job's own user has written it; a push replaces each of them.

    Slow: each job is several processes.
    """
    with_steps(github, {}, {"set": "api"})
    done(github.start(request()), "all")
    own, other = github.server.comments[3]
    mark = own["body"].partition("\n")[0]
    assert re.fullmatch("<!-- applyprune [0-9a-f]{64} -->", mark)
    assert mark != other["body"].partition("\n")[0]
    others = [github.server.comment(3, "mallory", f"{mark}\nLooks good!") for _ in range(150)]
    others.append(github.server.comment(3, BOT, f"Something else.\n{mark}\n"))
    github.server.comments[3] = [*others[:130], {"id": 999, "user": None, "body": None}, own, other]
    github.server.comments[3] += others[130:]
    own["body"] = f"{mark}\nold"
    done(github.start(request()), "all")
    assert "`web` in namespace `shop`" in own["body"]
    assert "`api` in namespace `shop`" in other["body"]
    assert len(github.server.comments[3]) == 154
    assert {one["body"] for one in others[:150]} == {f"{mark}\nLooks good!"}
    assert len({one["name"] for one in github.server.artifacts}) == 2


def test_unreachable_cluster_has_a_comment_of_its_own(github: GitHubRepository) -> None:
    """Beside that of the same set elsewhere.

    Slow: the run asks a server that nobody listens at until its retries are over.
    """
    elsewhere = YAML(typ="safe").load(github.secrets["KUBECONFIG"])
    elsewhere["clusters"][0]["cluster"] = {"server": "https://127.0.0.1:1"}
    github.secrets = {**github.secrets, "OTHER": json.dumps(elsewhere)}
    write(github, "one")
    with_steps(github, {}, {"kubeconfig": "${{ secrets.OTHER }}"})
    failed = github.start(request()).jobs["all"]
    assert failed.code == 7, failed.said
    assert "connection refused" in bodies(github)[1]


def test_plan_that_fails_replaces_the_comment(github: GitHubRepository) -> None:
    """So that no plan stays there which nobody can apply, even if the call itself is wrong.

    A merge of broken manifests names what is wrong, and looks for no plan.

    Slow: each job is several processes of Python.
    """
    write(github, "one")
    done(github.start(request()), "plan")
    (github.checkout / "manifests/web.yaml").write_text("kind: [\n")
    (github.checkout / "manifests/more.yaml").write_text("kind: Pod\n")
    failed = github.start(request()).jobs["plan"]
    assert failed.code == 2
    assert "::error file=manifests/web.yaml,line=" in failed.said
    (body,) = bodies(github)
    assert "Exit code 2" in body
    github.server.requests.clear()
    merged = github.start(MERGE).jobs["apply"]
    assert merged.code == 2
    for file in ("web.yaml", "more.yaml"):
        assert f"manifests/{file}" in merged.said
    assert github.server.requests == []
    with_steps(github, {"arguments": "--no-such-option"})
    assert github.start(request()).jobs["all"].code == 2
    (body,) = bodies(github)
    assert "Exit code 2. See the log of this run." in body
    assert "`web` in namespace `shop`" in body


def test_unbound_merge_applies_what_the_manifests_say(github: GitHubRepository, api: Api) -> None:
    """Without a plan, and without looking for one.

    A refusal fails unless a job asks for an approval; `deletions` has what that needs.

    Slow: each job is several processes of Python.
    """
    write(github, *MANY[:2])
    with_steps(github, {"bound": "false"})
    proposed = done(github.start(request()), "all")
    assert proposed.outputs["changed"] == "true"
    assert re.fullmatch("sha256:[0-9a-f]{64}", proposed.outputs["digest"])
    write(github, *MANY)
    merged = done(github.start(MERGE), "all")
    assert merged.outputs["code"] == "0"
    assert names(api) == {*MANY}
    assert github.server.artifacts == []
    write(github, MANY[0])
    for event in (request(), MERGE):
        refused = github.start(event).jobs["all"]
        assert refused.code == 6, refused.said
        assert re.fullmatch("sha256:[0-9a-f]{64}", refused.outputs["deletions"])
    assert "more than half" in bodies(github)[0]


@pytest.mark.parametrize(
    ("event", "ref", "inputs", "message"),
    [
        ("push", "refs/heads/change", {}, "This is a push to refs/heads/change"),
        ("issue_comment", "", {}, "the event issue_comment does not say"),
        ("push", "", {"INPUT_MODE": "aply"}, "mode must be plan, apply or drift, not 'aply'"),
        ("push", "", {"INPUT_BOUND": "yes"}, "bound must be true or false, not 'yes'"),
        (
            "schedule",
            "",
            {"INPUT_SET": "web", "INPUT_FILES": "m"},
            "Give set, namespace and files, or all-in: namespace is empty.",
        ),
        (
            "schedule",
            "",
            {"INPUT_ALL_IN": "deploy", "INPUT_SET": "web", "INPUT_FILES": "m"},
            "all-in excludes set, files",
        ),
        (
            "schedule",
            "",
            {**dict.fromkeys(ONE, "web"), "INPUT_CHANGED_SINCE": "main"},
            "changed-since needs all-in.",
        ),
    ],
)
def test_call_that_does_not_say_what_to_do_is_refused(
    action: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    event: str,
    ref: str,
    inputs: dict[str, str],
    message: str,
) -> None:
    """Before anything is read or written: there is not even a folder for it."""
    (tmp_path / "event.json").write_text(json.dumps({"repository": {"default_branch": "main"}}))
    names = [f"INPUT_{name.upper().replace('-', '_')}" for name in (*action.INPUTS, "mode")]
    given = {**dict.fromkeys(names, ""), "INPUT_BOUND": "true", "INPUT_FAIL_ON_REFUSAL": "true"}
    given |= {"GITHUB_EVENT_NAME": event, "GITHUB_REF": ref}
    given |= {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), **inputs}
    for name, text in given.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(SystemExit) as ended:
        action.prepare()
    assert ended.value.code == 2
    assert f"::error title=applyprune::{message}" in capsys.readouterr().out.replace(
        "Set the input mode: ", ""
    )


def test_plan_is_kept_by_its_set_its_cluster_and_its_manifests(action: Any, tmp_path: Path) -> None:
    """However they were merged: not by the order, the form or the number of files."""

    def name(*files: str, identity: str = "a") -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, text in enumerate(files):
            (folder / f"{number}.yaml").write_text(text)
        given = {"set": "My set", "files": str(folder), "identity": identity, "all-in": ""}
        return str(action.artifact_name(given, tmp_path, is_needed=False))

    one, two = (SETTINGS.format(name=name, colour="green") for name in ("one", "two"))
    known = name(one, two)
    assert re.fullmatch("applyprune--y-set-[0-9a-f]{64}", known)
    form = one.replace("metadata:\n  name: one", 'metadata: {"name": one}')
    assert form != one
    assert {name(two + form), name(two, one)} == {known}
    assert known not in {name(one), name(one, two, identity="b"), name(one, two.replace("g", "b"))}


def test_inputs_are_no_script(github: GitHubRepository, tmp_path: Path) -> None:
    """A shell never sees them, and applyprune refuses them by its own rules.

    No step has an expression in its script, which the runner of these tests rejects.

    Slow: each job is several processes of Python.
    """
    hostile = f"$(touch {tmp_path}/made)`touch {tmp_path}/made`'\"; touch {tmp_path}/made #"
    apply = {"mode": "apply", "bound": "false"}
    for names in (("arguments",), ("set", "namespace", "files", "context", "timeout")):
        with_steps(github, apply | dict.fromkeys(names, hostile))
        refused = github.start(request()).jobs["all"]
        assert refused.code, names
        assert "Traceback" not in refused.said
    assert not (tmp_path / "made").exists()


@pytest.mark.installs
def test_action_installs_its_own_checkout(github: GitHubRepository) -> None:
    """From the index only what it needs; the version is that of the action.

    Slow: pip builds a wheel of the checkout and installs it, as on a runner.
    """
    github.installed = None
    write(github, "one")
    done(github.start(request()), "plan")


def test_python_of_the_action_passes_a_strict_type_check() -> None:
    """It is no part of the package, and still runs beside it."""
    reply = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", PROGRAM],
        cwd=PROGRAM.parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert reply.returncode == 0, reply.stdout
