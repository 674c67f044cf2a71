"""The recipes for pipelines: their very commands, in a shell, as the account that they describe."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.plane import Kubectl

PIPELINE = Path(__file__).parents[2] / "deploy/pipeline"
SHOP = "/api/v1/namespaces/shop"
MANIFESTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: {colour}
---
apiVersion: v1
kind: Secret
metadata:
  name: key
stringData:
  token: not-to-be-told
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {{app: web}}
  template:
    metadata:
      labels: {{app: web}}
    spec:
      containers:
        - name: web
          image: example/web:1
"""


@dataclass
class Runner:
    """Does what a runner does with the steps of a recipe: a checkout, variables, a shell."""

    folder: Path
    kubeconfig: Path
    variables: dict[str, str] = field(default_factory=dict)

    def sh(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Start a script as both systems do: it ends with its first command that fails."""
        return subprocess.Popen(
            ["sh", "-e", "-c", script],
            cwd=self.folder,
            env={**os.environ, **self.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def write(self, colour: str) -> None:
        """Write the manifests of the checkout."""
        (self.folder / "manifests").mkdir(exist_ok=True)
        (self.folder / "manifests/web.yaml").write_text(MANIFESTS.format(colour=colour))


@pytest.fixture(scope="module")
def shop(plane: Plane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The namespace of the recipes, and a kubeconfig of the account that they describe."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    status, reply = api("POST", "/api/v1/namespaces", body)
    assert status == 201, reply
    kubectl = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig)]
    subprocess.run([*kubectl, "apply", "-f", PIPELINE / "account.yaml"], check=True)
    token = subprocess.run(
        [*kubectl, "create", "token", "applyprune", "-n", "shop"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    yaml = YAML(typ="safe")
    config = yaml.load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    with path.open("w") as file:
        yaml.dump(config, file)
    yield path
    api("DELETE", "/api/v1/namespaces/shop")


@pytest.fixture
def runner(shop: Path, tmp_path: Path) -> Runner:
    """A checkout, and ``applyprune`` on the path as in the image."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "applyprune"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m applyprune "$@"\n')
    script.chmod(0o755)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    one = Runner(checkout, shop, {"PATH": f"{programs}:{os.environ['PATH']}"})
    one.variables["KUBECONFIG"] = ""
    one.write("green")
    return one


def recipe(name: str) -> dict[str, Any]:
    """Return a recipe as its system reads it."""
    found = YAML(typ="safe").load((PIPELINE / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def report(path: Path) -> ET.Element:
    """Return the JUnit report at a path."""
    return ET.parse(path).getroot()  # noqa: S314 - it is our own


class GitHub:
    """One run of the workflow for one event."""

    def __init__(self, runner: Runner, event: str) -> None:
        """Give it the files that a runner gives to each job."""
        temporary = runner.folder.parent / f"temporary-{os.urandom(3).hex()}"
        temporary.mkdir()
        self.runner = runner
        self.event = event
        self.summary = temporary / "summary.md"
        self.exported = temporary / "env"
        self.variables = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(runner.folder),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ENV": str(self.exported),
            "RUNNER_TEMP": str(temporary),
        }
        self.said = ""

    def run(self) -> int:
        """Run the steps of the job that this event asks for; return the first bad exit code."""
        (job,) = recipe("github")["jobs"].values()
        ran = []
        for step in job["steps"]:
            wanted = re.fullmatch(r"github.event_name == '(\w+)'", step.get("if", ""))
            if "run" not in step or (wanted and wanted[1] != self.event):
                continue
            given = {
                name: value.replace("${{ secrets.KUBECONFIG }}", self.runner.kubeconfig.read_text())
                for name, value in step.get("env", {}).items()
            }
            process = self.runner.sh(step["run"], **{**self.variables, **given})
            self.said += process.communicate(timeout=120)[0]
            ran.append(step["name"])
            if process.returncode:
                return process.returncode
            if self.exported.exists():
                lines = self.exported.read_text().splitlines()
                self.variables.update(dict([line.split("=", 1) for line in lines]))
        assert len(ran) == 2, ran
        return 0


def test_github_recipe_works(runner: Runner, api: Api, kubectl: Kubectl) -> None:
    """A pull request tells, a merge applies, a nightly job notices; nothing tells a secret."""
    proposed = GitHub(runner, "pull_request")
    assert proposed.run() == 0, proposed.said
    summary = proposed.summary.read_text()
    assert "configmap/settings" in summary
    assert "colour: green" in summary
    assert not api.exists(f"{SHOP}/configmaps/settings"), "a diff has written something"

    merged = GitHub(runner, "push")
    assert merged.run() == 0, merged.said
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
        said, _ = process.communicate(timeout=120)
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
    ended = [(process.communicate(timeout=120)[0], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert api.get(f"{SHOP}/configmaps/settings")["data"]["colour"] in {"one", "two", "three"}


def test_missing_permission_is_named(runner: Runner, api: Api) -> None:
    """What the account may not is told object by object, and nothing is pruned for it."""
    more = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: more}\n"
    with (runner.folder / "manifests/web.yaml").open("a") as file:
        file.write(more)
    (script,) = recipe("gitlab")["apply"]["script"]
    process = runner.sh(script, KUBECONFIG=str(runner.kubeconfig))
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 3, said
    assert "poddisruptionbudget.policy/more" in said
    assert "forbidden" in said.lower()
    assert api.exists(f"{SHOP}/configmaps/settings")
