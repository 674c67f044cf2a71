"""Which plan file, which set and which input a call means, and what is no such file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cli.options import KEYS
from applyprune.cli.session import InputPaths
from applyprune.sources import Overlay
from applyprune.sources.plan_files import write_plan
from applyprune.values import replace
from tests.support.plan_files import FILE
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Wrong = Callable[..., str]

PLAIN = (
    "a plan file must be a plain file: a pipe or a device can deliver a different plan each time"
)
HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "the plan file cannot be read: the path is empty"),
        ("/dev/stdin", f"/dev/stdin: {PLAIN}"),
        (
            "esc\x1b[31m\n",
            "esc\\x1b[31m\\n: the plan file cannot be read: No such file or directory",
        ),
    ],
)
def test_path_of_no_plan_ends_the_call(folder: Path, wrong: Wrong, path: str, text: str) -> None:
    """An empty variable is no call without a plan; the error is one line."""
    write(folder, {"a.yaml": config_map("a")})
    assert wrong("apply", "web", "-f", "a.yaml", "--plan", path) == f"error: {text}\n"


@pytest.mark.parametrize("text", ["yes", "sha256:", f"sha256:{'g' * 64}", "0" * 64])
def test_text_that_is_no_digest_approves_nothing(wrong: Wrong, text: str) -> None:
    """It is most probably not what somebody approved; and it is no key of a configuration."""
    assert "is not a digest" in wrong("apply", "web", "-f", "x", "--approve", text)
    assert "approve" in KEYS.guards


@pytest.mark.parametrize(
    ("verb", "text"),
    [("apply", "--approve has more than one digest"), ("prune", "only one digest can be given")],
)
def test_several_digests_are_for_the_plans_of_many_sets(
    folder: Path, wrong: Wrong, verb: str, text: str
) -> None:
    """No other call has several plans."""
    write(folder, {"a.yaml": config_map("a")})
    digests = f"sha256:{'a' * 64} sha256:{'b' * 64}"
    assert text in wrong(verb, "web", "-f", "a.yaml", "--approve", digests)


def _plan(**values: Any) -> None:
    write_plan("web.plan", replace(FILE, **values))


def test_plan_file_decides_over_the_configuration_of_the_folder(folder: Path, wrong: Wrong) -> None:
    """Of which a default is no wish; a file for another set is one."""
    _plan(input={"filename": ("a.yaml",)})
    write(folder, {"a.yaml": config_map("a"), "applyprune.yaml": f"{HEAD}name: other\n"})
    told = wrong("apply", "--plan", "web.plan")
    assert "applyprune.yaml is for the set other, and the plan for the set web" in told
    assert "Use applyprune apply web --plan web.plan" in told


def test_file_of_the_planned_input_counts(folder: Path, wrong: Wrong) -> None:
    """As in the plan: here it refuses another context."""
    _plan(input={"filename": ("prod",)})
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
        "current-context": "here",
    }
    file = f"{HEAD}name: web\ncontext: another\n"
    text = {"prod/a.yaml": config_map("a"), "prod/applyprune.yaml": file}
    write(folder, {**text, "none": json.dumps(kubeconfig)})
    assert "and prod/applyprune.yaml:4:1 is for another" in wrong("apply", "--plan", "web.plan")


def test_plan_of_another_folder_says_where_it_was_made(wrong: Wrong) -> None:
    """Its paths are relative."""
    _plan(input={"filename": ("set.json",)})
    told = wrong("apply", "--plan", "web.plan")
    assert "set.json does not exist here, and the plan was made from it" in told
    assert "Run this in the folder in which the plan was made" in told


def test_plan_names_local_input_only(wrong: Wrong) -> None:
    """Who applies a plan of another one must give the same input again."""
    for paths in (("-",), ("a.yaml", "-"), ("https://x.example/a.yaml",), ("\x1b",)):
        assert InputPaths(paths).recorded == {}
    named = InputPaths(("a.yaml", Overlay("prod"))).recorded
    assert named == {"filename": ("a.yaml",), "kustomize": ("prod",)}
    _plan()
    assert "no input given" in wrong("apply", "--plan", "web.plan")
