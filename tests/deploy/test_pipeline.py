"""The recipes for pipelines: their very commands, in a shell, as the account that they describe."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.pipelines import MANIFESTS, SHOP, GitHub, Runner, recipe, report
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.plane import Kubectl


def test_github_recipe_works(runner: Runner, api: Api, kubectl: Kubectl) -> None:
    """A pull request tells, a merge applies, a nightly job notices; nothing tells a secret."""
    proposed = GitHub(runner, "pull_request")
    assert proposed.run() == 0, proposed.said
    assert proposed.ran == ["Kubeconfig", "Diff"]
    summary = proposed.summary.read_text()
    assert "configmap/settings" in summary
    assert "colour: green" in summary
    assert not api.exists(f"{SHOP}/configmaps/settings"), "a diff has written something"

    merged = GitHub(runner, "push")
    assert merged.run() == 0, merged.said
    assert merged.ran == ["Kubeconfig", "Apply"]
    assert api.get(f"{SHOP}/configmaps/settings")["data"] == {"colour": "green"}
    cases = report(runner.folder / "applyprune.xml").iter("testcase")
    named = {str(case.get("name")).partition(" ")[0] for case in cases}
    assert named >= {"configmap/settings", "deployment.apps/web", "secret/key"}

    nightly = GitHub(runner, "schedule")
    assert nightly.run() == 0, nightly.said
    kubectl(
        "patch", "cm", "settings", "-n", "shop", "--type=merge", "-p", '{"data":{"colour":"x"}}'
    )
    nightly = GitHub(runner, "schedule")
    assert nightly.run() == 1, nightly.said
    assert "configmap/settings" in nightly.summary.read_text()
    # What kubectl has written it owns; whoever wants it back has to say so, or to delete it.
    kubectl("delete", "cm", "settings", "-n", "shop")

    (runner.folder / "manifests/web.yaml").write_text(MANIFESTS.format(colour="red: [\n"))
    broken = GitHub(runner, "pull_request")
    assert broken.run() == 1, "what is no difference fails the step"
    assert "::error file=manifests/web.yaml,line=6" in broken.said
    told = "".join(one.said + one.summary.read_text() for one in (proposed, merged, nightly))
    assert "not-to-be-told" not in told + broken.said


def test_gitlab_recipe_works(runner: Runner, api: Api, kubectl: Kubectl) -> None:
    """The same story, by the jobs of the other system."""
    jobs = recipe("gitlab")

    def job(name: str) -> tuple[str, int]:
        process = runner.sh("\n".join(jobs[name]["script"]), KUBECONFIG=str(runner.kubeconfig))
        said, _ = process.communicate(timeout=HANG)
        return said, process.returncode

    runner.write("blue")
    said, code = job("diff")
    assert code == 0, said
    assert "+  colour: blue" in said
    assert (runner.folder / jobs["diff"]["artifacts"]["reports"]["codequality"]).exists()
    said, code = job("apply")
    assert code == 0, said
    assert api.get(f"{SHOP}/configmaps/settings")["data"] == {"colour": "blue"}
    junit = jobs["apply"]["artifacts"]["reports"]["junit"]
    assert list(report(runner.folder / junit).iter("testcase"))
    assert job("drift")[1] == 0
    kubectl("delete", "cm", "settings", "-n", "shop")
    assert job("drift")[1] == 1
    assert job("apply")[1] == 0


def test_concurrent_pipelines_take_turns(runner: Runner, api: Api) -> None:
    """Without the systems' own locks: each waits for the other by the inventory's holder."""
    (script,) = recipe("gitlab")["apply"]["script"]
    started = []
    for colour in ("one", "two", "three"):
        runner.write(colour)
        copy = runner.folder.parent / colour
        subprocess.run(["cp", "-r", runner.folder, copy], check=True)
        one = Runner(copy, runner.kubeconfig, runner.variables)
        started.append(one.sh(script, KUBECONFIG=str(runner.kubeconfig)))
    ended = [(process.communicate(timeout=HANG)[0], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert api.get(f"{SHOP}/configmaps/settings")["data"]["colour"] in {"one", "two", "three"}


def test_missing_permission_is_named(runner: Runner, api: Api) -> None:
    """What the account may not is told object by object, and nothing is written then."""
    more = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: more}\n"
    with (runner.folder / "manifests/web.yaml").open("a") as file:
        file.write(more)
    before = api.get(f"{SHOP}/configmaps")["items"]
    (script,) = recipe("gitlab")["apply"]["script"]
    process = runner.sh(script, KUBECONFIG=str(runner.kubeconfig))
    said = process.communicate(timeout=HANG)[0]
    assert process.returncode == 3, said
    assert "poddisruptionbudget.policy/more" in said
    assert "forbidden" in said.lower()
    assert api.get(f"{SHOP}/configmaps")["items"] == before
