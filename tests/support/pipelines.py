"""The recipes for pipelines, and what runs their jobs: a checkout, variables, a shell."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ruamel.yaml import YAML

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from applyprune.localplane import Plane

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


def account_of(plane: Plane, namespace: str, rights: str, folder: Path) -> Path:
    """Create the account of a pipeline; return its kubeconfig, in the folder."""
    kubectl = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig)]
    subprocess.run([*kubectl, "apply", "-f", "-"], check=True, input=rights, text=True)
    token = subprocess.run(
        [*kubectl, "create", "token", "applyprune", "-n", namespace],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    yaml = YAML(typ="safe")
    config = yaml.load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    with path.open("w") as file:
        yaml.dump(config, file)
    return path


def recipe(name: str) -> dict[str, Any]:
    """Return a recipe as its system reads it."""
    found = YAML(typ="safe").load((PIPELINE / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def report(path: Path) -> ET.Element:
    """Return the JUnit report at a path."""
    return ET.parse(path).getroot()  # noqa: S314 - it is our own


class GitHub:
    """One run of a workflow for one event."""

    def __init__(self, runner: Runner, event: str, form: str = "github") -> None:
        """Give it the files that a runner gives to each job; ``form`` names the recipe."""
        temporary = runner.folder.parent / f"temporary-{os.urandom(3).hex()}"
        temporary.mkdir()
        self.runner = runner
        self.event = event
        self.form = form
        self.summary = temporary / "summary.md"
        self.exported = temporary / "env"
        self.written = temporary / "output"
        self.variables = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(runner.folder),
            "GITHUB_REPOSITORY": "example/shop",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ENV": str(self.exported),
            "GITHUB_OUTPUT": str(self.written),
            "RUNNER_TEMP": str(temporary),
        }
        self.expressions = {"secrets.KUBECONFIG": runner.kubeconfig.read_text()}
        self.said = ""
        self.ran: list[str] = []

    def run(self, job: str = "applyprune") -> int:
        """Run the steps of a job that this event asks for; return the first bad exit code."""
        code = 0
        for step in recipe(self.form)["jobs"][job]["steps"]:
            if "run" not in step or not self._is_due(step.get("if", ""), code):
                continue
            given = {name: self._evaluated(text) for name, text in step.get("env", {}).items()}
            process = self.runner.sh(step["run"], **{**self.variables, **given})
            self.said += process.communicate(timeout=HANG)[0]
            self.ran.append(step["name"])
            code = code or process.returncode
            self.variables.update(_pairs(self.exported))
        return code

    @property
    def outputs(self) -> dict[str, str]:
        """Return what the steps have written to GITHUB_OUTPUT."""
        return _pairs(self.written)

    def _is_due(self, condition: str, code: int) -> bool:
        if condition == "failure()":
            return code != 0
        wanted = re.fullmatch(r"github.event_name == '(\w+)'", condition)
        assert wanted or not condition, condition
        return not code and (wanted is None or wanted[1] == self.event)

    def _evaluated(self, text: str) -> str:
        return re.sub(r"\${{ (.*?) }}", lambda found: self.expressions[found[1]], text)


def _pairs(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict([line.split("=", 1) for line in lines])
