"""The recipes for pipelines, and what runs the jobs of GitLab: a checkout, variables, a shell."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from ruamel.yaml import YAML

from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def gitlab_job(
    runner: Runner, jobs: Mapping[str, Any], name: str, **variables: str
) -> tuple[int, str]:
    """Run a job of a recipe for GitLab; return its exit code and what it said."""
    job = jobs[name]
    before = jobs[job["extends"]].get("before_script", []) if "extends" in job else []
    process = runner.sh(
        "\n".join([*before, *job["script"]]), KUBECONFIG=str(runner.kubeconfig), **variables
    )
    said = process.communicate(timeout=HANG)[0]
    status = "failed" if process.returncode else "success"
    after = runner.sh("\n".join(job.get("after_script", [])), CI_JOB_STATUS=status)
    return process.returncode, said + after.communicate(timeout=HANG)[0]


def report(path: Path) -> ET.Element:
    """Return the JUnit report at a path."""
    return ET.parse(path).getroot()  # noqa: S314 - it is our own
