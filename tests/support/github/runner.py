"""Runs the jobs of a workflow as the runner of GitHub does: steps, expressions, files, a shell.

Other actions than ours are not run: a checkout is there already, artifacts go to and come from the
server in ``rest.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.github.expressions import Expressions, as_text
from tests.support.github.rest import FORK_ID, REPOSITORY, REPOSITORY_ID, GitHubServer
from tests.support.waiting import HANG

ROOT = Path(__file__).parents[3]
ACTION = "example/applyprune@v0.1.0"
LONGEST_SUMMARY = 1024 * 1024
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class GitHubEvent:
    """What has started a workflow."""

    name: str
    ref: str = "refs/heads/main"
    number: int = 0
    """The pull request."""
    head: str | None = REPOSITORY
    """The repository that the pull request comes from; None if it was deleted since."""
    actor: str = "ann"
    sha: str = COMMIT
    """The head of the pull request."""
    before: str = ""
    """The commit that was pushed to, or the base of the pull request."""

    @property
    def payload(self) -> dict[str, Any]:
        """Return what GITHUB_EVENT_PATH has, as far as anything reads it."""
        found: dict[str, Any] = {"repository": {"default_branch": "main"}}
        if self.number:
            head = None if self.head is None else {"full_name": self.head}
            found |= {
                "number": self.number,
                "pull_request": {
                    "number": self.number,
                    "head": {"repo": head, "sha": self.sha},
                    "base": {"sha": self.before},
                },
            }
        elif self.before:
            found["before"] = self.before
        return found

    @property
    def is_from_fork(self) -> bool:
        """Return whether the pull request is of another repository."""
        return self.head != REPOSITORY

    @property
    def is_untrusted(self) -> bool:
        """Return whether its jobs get no secrets, and a token that only reads."""
        return self.is_from_fork or self.actor == "dependabot[bot]"


def request(
    number: int = 3, *, head: str | None = REPOSITORY, actor: str = "ann", **commits: str
) -> GitHubEvent:
    """Return a push to a pull request."""
    return GitHubEvent("pull_request", f"refs/pull/{number}/merge", number, head, actor, **commits)


FORK = "stranger/shop"
MERGE = GitHubEvent("push")
MANUAL = GitHubEvent("workflow_dispatch")
NIGHT = GitHubEvent("schedule")


@dataclass
class GitHubRepository:
    """A repository with a workflow, its secrets, and a checkout."""

    server: GitHubServer
    checkout: Path
    workflow: Mapping[str, Any]
    secrets: Mapping[str, str]
    installed: Path | None
    """The environment that the step Install finds; None lets it install one."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the runner's machine has in its environment."""
    runs: int = 100

    def start(self, event: GitHubEvent) -> WorkflowRun:
        """Start the workflow and run its jobs, but for those that wait for a reviewer."""
        self.runs += 1
        run = WorkflowRun(self, event, self.runs)
        for name, job in self.workflow["jobs"].items():
            if run.is_due(job):
                if "environment" in job:
                    run.waiting.append(name)
                else:
                    run.job(name)
        return run


@dataclass
class JobRun:
    """What one job did."""

    result: str = "success"
    code: int = 0
    """The exit code of the first step that failed."""
    said: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass
class WorkflowRun:
    """One run of a workflow for one event."""

    repository: GitHubRepository
    event: GitHubEvent
    id: int
    jobs: dict[str, JobRun] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def is_due(self, job: Mapping[str, Any]) -> bool:
        """Return whether the job runs for this event, after what it needs."""
        needed = [self.jobs.get(name) for name in job.get("needs", [])]
        status = {
            "success": lambda: all(one and one.result == "success" for one in needed),
            "cancelled": lambda: False,
        }
        found = Expressions(self._contexts(job, ""), status)
        return found.condition(job.get("if", ""))

    def job(self, name: str) -> JobRun:
        """Run the steps of a job; a reviewer has approved it if it waits for one."""
        job = self.repository.workflow["jobs"][name]
        permissions = job.get("permissions", self.repository.workflow.get("permissions", {}))
        if self.event.is_untrusted:
            permissions = dict.fromkeys(permissions, "read")
        contexts = self._contexts(job, self.repository.server.token(permissions))
        steps = _Steps(self)
        steps.run(job["steps"], contexts)
        done = steps.done
        found = Expressions(contexts, {})
        done.outputs = {key: found.text(text) for key, text in job.get("outputs", {}).items()}
        self.jobs[name] = done
        return done

    def _contexts(self, job: Mapping[str, Any], token: str) -> dict[str, object]:
        secrets = {} if self.event.is_untrusted else self.repository.secrets
        needs = {
            name: {"result": one.result, "outputs": one.outputs}
            if (one := self.jobs.get(name))
            else {"result": "skipped", "outputs": {}}
            for name in job.get("needs", [])
        }
        github = {
            "event_name": self.event.name,
            "event": self.event.payload,
            "ref": self.event.ref,
            "ref_name": self.event.ref.removeprefix("refs/heads/").removeprefix("refs/pull/"),
            "repository": REPOSITORY,
            "run_id": str(self.id),
            "token": token,
        }
        return {"github": github, "secrets": secrets, "needs": needs}


@dataclass
class _Steps:
    """Runs steps one after the other, those of our action among those of the job."""

    of: WorkflowRun
    done: JobRun = field(default_factory=JobRun)
    temporary: Path = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        """Make the files that a runner gives to a job."""
        self.temporary = self.of.repository.checkout.parent / f"temporary-{os.urandom(4).hex()}"
        self.temporary.mkdir()
        if (installed := self.of.repository.installed) is not None:
            (self.temporary / f"applyprune-{ROOT.name}").symlink_to(installed)
        (self.temporary / "event.json").write_text(json.dumps(self.of.event.payload))

    def run(
        self, steps: list[Any], contexts: dict[str, object], action: Path | None = None
    ) -> None:
        """Run steps; what they leave goes into the context ``steps``."""
        left: dict[str, object] = {}
        contexts["steps"] = left
        status = {
            "success": lambda: not self.done.code,
            "failure": lambda: bool(self.done.code),
            "cancelled": lambda: False,
        }
        found = Expressions(contexts, status)
        for step in steps:
            if not found.condition(step.get("if", "")):
                continue
            given = {key: found.text(_text(text)) for key, text in step.get("with", {}).items()}
            if "run" in step:
                assert step["shell"] == "bash", step
                own = {key: found.text(text) for key, text in step.get("env", {}).items()}
                outputs = self._script(step["run"], own, action)
            elif step["uses"] == ACTION:
                outputs = self._action(given, contexts)
            else:
                outputs = self._other(step["uses"], given)
            if "id" in step:
                left[step["id"]] = {"outputs": outputs}

    def _action(self, given: Mapping[str, str], outer: Mapping[str, object]) -> dict[str, str]:
        """Run the steps of action.yml; return its outputs."""
        action = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
        assert given.keys() <= action["inputs"].keys(), given
        inputs = {}
        for name, wanted in action["inputs"].items():
            assert name in given or not wanted.get("required"), name
            inputs[name] = given.get(name, wanted.get("default", ""))
        assert action["runs"]["using"] == "composite"
        # An action sees neither the secrets nor what other jobs have left.
        contexts = {"github": outer["github"], "inputs": inputs}
        self.run(action["runs"]["steps"], contexts, ROOT)
        found = Expressions(contexts, {})
        return {name: found.text(one["value"]) for name, one in action["outputs"].items()}

    def _script(self, script: str, own: Mapping[str, str], action: Path | None) -> dict[str, str]:
        """Run a script with its files; return its outputs."""
        assert "${{" not in script, "an expression in a script runs what it contains"
        self._written += 1
        files = {
            name: self.temporary / f"{name.lower()}-{self._written}"
            for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")
        }
        for path in files.values():
            path.touch()
        path = self.temporary / f"script-{self._written}.sh"
        path.write_text(script)
        reply = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", path],
            cwd=self.of.repository.checkout,
            env={**self._environment(), **own, **{name: str(one) for name, one in files.items()}}
            | ({"GITHUB_ACTION_PATH": str(action)} if action else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANG,
            check=False,
        )
        self.done.said += reply.stdout
        summary = files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        assert len(summary.encode()) <= LONGEST_SUMMARY, "GitHub drops this summary"
        self.done.summary += summary
        assert files["GITHUB_ENV"].read_text() == "", "an action must not change the job"
        if reply.returncode and not self.done.code:
            self.done.code = reply.returncode
            self.done.result = "failure"
        lines = files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines()
        return dict([line.split("=", 1) for line in lines])

    def _environment(self) -> dict[str, str]:
        """Return what a runner gives to each step, and nothing that names a cluster."""
        event, repository = self.of.event, self.of.repository
        kept = {
            name: text
            for name, text in os.environ.items()
            if name != "KUBECONFIG" and not name.startswith(("APPLYPRUNE_", "GITHUB_"))
        }
        home = self.temporary / "home"
        home.mkdir(exist_ok=True)
        return {
            **kept,
            "HOME": str(home),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTOR": event.actor,
            "GITHUB_API_URL": repository.server.address,
            "GITHUB_EVENT_NAME": event.name,
            "GITHUB_EVENT_PATH": str(self.temporary / "event.json"),
            "GITHUB_REF": event.ref,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(self.of.id),
            "GITHUB_SERVER_URL": "https://github.example.com",
            "GITHUB_WORKSPACE": str(repository.checkout),
            "RUNNER_TEMP": str(self.temporary),
            **repository.variables,
        }

    def _other(self, uses: str, given: Mapping[str, str]) -> dict[str, str]:
        """Do what an action of GitHub's own does."""
        server = self.of.repository.server
        name = uses.partition("@")[0]
        if name == "actions/upload-artifact":
            head = FORK_ID if self.of.event.is_from_fork else REPOSITORY_ID
            server.upload(given["name"], Path(given["path"]), run=self.of.id, head=head)
        elif name == "actions/download-artifact":
            run, token = int(given["run-id"]), given["github-token"]
            server.download(given["name"], run, Path(given["path"]), token)
        else:
            assert name == "actions/checkout", uses
        return {}


def _text(value: object) -> str:
    """Return a value of YAML as an input has it."""
    return as_text(value) if isinstance(value, bool) else str(value)
