"""Calls that cannot mean anything: each ends with 2 and one message, before a cluster is asked."""

from __future__ import annotations

import io
import json
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Wrong = Callable[..., str]

# A cluster that does not answer.
SILENT = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    "current-context": "c",
}
CALLS: dict[str, str] = {
    "apply web -f nowhere/": "nowhere: cannot be read: No such file",
    "apply web -f a.yaml -l app=a --prune": "exclude each other",
    "apply web -f a.yaml --only cm/a --prune": "exclude each other",
    "delete web --only cm/a -l app=a --yes": "exclude each other",
    "inventory show -- Web": "DNS label",
    "inventory show a.b": "DNS label",
    "inventory show -- -x-": "DNS label",
    f"inventory show {'a' * 64}": "DNS label",
    "inventory orphan web": "name the objects as KIND/NAME, or give --all",
    "inventory orphan web configmap/a --all": "or give --all",
    "inventory repair web configmap/a --yes": "a repair is about the whole inventory",
    "inventory repair web configmap/a --record-as adopted --yes": "about the whole inventory",
    "inventory repair web configmap/a --record-as owned --allow-partial --yes": "whole inventory",
    "status web -A": "-A",
    "status -A --watch": "--watch",
    "status web shop --watch": "--watch",
    "status web --wait=deleted --watch": "--wait=deleted excludes --watch",
    "status": "no set given",
    "rbac -f a.yaml --account ci": "Write NAMESPACE/NAME",
    "rbac -f a.yaml --account user:": "Write NAMESPACE/NAME",
    # What an artifact can be pushed to.
    "push web:1 -f -": "'web:1' is not an address of a registry",
    "push https://me:hunter2@h/web.tar.gz -f -": "'https://h/web.tar.gz' is not an address of a",
    "push oci://h/web:1": "no input given",
    "push oci://h/web -f -": "cannot push to oci://h/web: it names no tag",
    "push oci://h/web?semver=1 -f -": "a range of versions is not read",
    "push git@h:web.git -f -": "'h:web.git' is not an address of a registry",
    "push oci://h/web:1//x -f -": "cannot push to oci://h/web:1: it has a path",
    "push oci://me:hunter2@h/web:1 -f -": "invalid address oci://h/web:1: it has a user",
    # What -o is given.
    "inventory show web -o xml": "unknown format -o 'xml'",
    "inventory show web -o json=": "names no file",
    "inventory show web -o json -o name": "json and name cannot both go",
    "inventory show web -o json=x -o junit=./x": "two formats cannot both go",
    "inventory show web -o json=a.yaml": "could overwrite a manifest",
    "inventory show web -o json=.": ". cannot be written: Is a directory",
    # No numbers: how many objects a prune may delete.
    **{
        f"apply web -f a.yaml --max-prune={shlex.quote(limit)}": "invalid value for --max-prune"
        for limit in (
            *("9" * 5000, f"{'9' * 5000}%", "-1", "-1%", "٣", "²", "5.5%", "101%", "1e3", "1_000"),
            *(" 5", "+5", "", "%", "5%%", "nan"),
        )
    },
}


@pytest.mark.parametrize("line", CALLS, ids=lambda line: line[:60])
def test_senseless_call_is_one_clear_message(folder: Path, wrong: Wrong, line: str) -> None:
    """That names what is wrong with it."""
    write(folder, {"a.yaml": config_map("a"), "none": json.dumps(SILENT)})
    told = wrong(*shlex.split(line))
    assert told.startswith("error: ")
    assert CALLS[line] in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "words",
    [
        ("a\x1b[2Jpply",),
        ("apply", "web", "-f", "a\x1b[31m.yaml"),
        ("apply", "web", "-f", "a.yaml", "--\x9b2J"),
        ("apply", "w\x07eb", "-f", "a.yaml"),
        ("apply", "web", "-f", "a.yaml", "--orphan", "x\u202e/y", "--dry-run=no\x1b"),
        ("inventory", "show", "web", "--namespace", "\x1b]0;x\x07"),
    ],
    ids=json.dumps,
)
def test_typed_text_is_shown_escaped(folder: Path, wrong: Wrong, words: tuple[str, ...]) -> None:
    """Scripts pass on what others wrote; errors repeat it."""
    write(folder, {"none": json.dumps(SILENT)})
    told = wrong(*words)
    assert told
    assert all(line.isprintable() for line in told.split("\n")), told


@pytest.mark.parametrize("rule", ["deployment.apps", "deployment.apps="])
def test_invalid_ready_rule_is_refused(folder: Path, wrong: Wrong, rule: str) -> None:
    """By its name, as a key of the file has it too."""
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\n"
    file = f"{head}filename: a.yaml\nready-when: ['{rule}']\n"
    write(folder, {"a.yaml": config_map("a"), "none": json.dumps(SILENT), "c.yaml": file})
    assert "ready-when" in wrong("apply", "--wait", "--config", "c.yaml")


def test_fault_in_standard_input_has_its_place(
    wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a name for messages."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: [\n")))
    assert wrong("apply", "web", "-f", "-").startswith("error: <stdin>:")
