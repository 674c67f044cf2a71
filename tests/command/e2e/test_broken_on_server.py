"""Input that only a server can find fault with: each file's message is the one beside it.

All files of a folder are one run: nothing that is wrong hides anything else that is.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.cli.session import run_set
from applyprune.cli.target import ClusterTarget
from applyprune.errors import ApplypruneError, problems_of
from applyprune.localplane import API_SERVER_ONLY, Binaries, start
from applyprune.model.events import ObjectDone, WarningRaised
from applyprune.model.options import DryRun, Options
from applyprune.sources import read
from tests.support.api import Api
from tests.support.objects import DEPLOYMENT, of_kind
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syrupy.assertion import SnapshotAssertion

    from applyprune.model.problem import Problem

FOLDER = Path(__file__).parents[3] / "fixtures" / "broken" / "server"
CASES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml"))
NAMESPACE = "broken"
# The error is reported at the other one of the two.
SILENT = {"references/object-in-two-files-1.yaml", "hooks/install-hooks-2.yaml"}

Told = dict[str, list["Problem"]]


@pytest.fixture(scope="module")
def told(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What one dry run of each folder says, by the files that it is about."""
    found: Told = defaultdict(list)
    before = Path.cwd()
    os.chdir(FOLDER)
    try:
        with start(binaries, API_SERVER_ONLY, tmp_path_factory.mktemp("plane") / "broken") as plane:
            _furnish(Api(plane))
            for folder in sorted({case.partition("/")[0] for case in CASES}):
                for problem in _problems(
                    folder, ClusterTarget(str(plane.kubeconfig), "", NAMESPACE)
                ):
                    path = problem.origin.path if problem.origin else ""
                    found[path].append(problem)
    finally:
        os.chdir(before)
    return found


def _problems(folder: str, where: ClusterTarget) -> Sequence[Problem]:
    found: list[Problem] = []
    events = run_set(
        where, "web", partial(read, [folder]), Options(dry_run=DryRun.SERVER, check=False)
    )
    try:
        found.extend(
            event.problem
            for event in events
            if isinstance(event, ObjectDone | WarningRaised) and event.problem is not None
        )
    except ApplypruneError as error:
        found += problems_of(error)
    return found


def _furnish(api: Api) -> None:
    """Make what the files need: their namespace, a kind of somebody's own, a Deployment."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    for path, body in (
        ("/api/v1/namespaces", of_kind("Namespace", NAMESPACE)),
        (definitions, DEFINITION),
        (deployments, {**DEPLOYMENT, "metadata": {"name": "immutable"}}),
    ):
        api.create(path, body)
    eventually(lambda: api.exists("/openapi/v3/apis/example.com/v1"))
    api.close()


LABELS = {
    "type": "array",
    "items": {"type": "object", "properties": {"a.b": {"type": "string"}}},
}
RULE = {"rule": "self.size < 10 || self.color == 'red'", "message": "what is big is red"}
VALVE = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "labels": LABELS,
    },
    "x-kubernetes-validations": [RULE],
}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": VALVE}}}
DEFINITION = of_kind(
    "CustomResourceDefinition",
    "valves.example.com",
    spec={
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Valve", "plural": "valves"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}],
    },
)


def test_every_broken_file_is_reported(told: Told) -> None:
    """Every problem names its place; every file has one, but for one of a pair."""
    assert set(told) == set(CASES) - SILENT


@pytest.mark.parametrize("case", CASES)
def test_broken_file_is_refused_by_the_server_with_its_golden_message(
    told: Told, case: str, golden: SnapshotAssertion
) -> None:
    """To change a message on purpose is to change its file: see tests/support/golden.py."""
    message = "".join(f"{problem}\n" for problem in told.get(case, ()))
    # Before 1.35, the server quotes the type of a value that breaks a rule.
    message = message.replace('Invalid value: "object": ', "Invalid value: ")
    assert message == "" if case in SILENT else message == golden(name=f"broken/server/{case}.txt")


def test_secret_values_are_in_no_message(told: Told) -> None:
    """Not in what the server said, not in a line of the file."""
    everything = [text for problems in told.values() for problem in problems for text in (
        str(problem), repr(problem)
    )]  # fmt: skip
    assert [text for text in everything if "hunter2" in text] == []
