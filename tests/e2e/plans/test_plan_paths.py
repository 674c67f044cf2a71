"""The paths of ``--plan`` and ``--out``: what is no plan file is refused, in any format."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.plan_files import read_plan
from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.desk import NAMES
from tests.support.input_files import write_input
from tests.support.objects import config_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api import AuditTrail
    from tests.support.desk import Desk

NOWHERE = os.devnull
"""A kubeconfig without a cluster: a call that names the plan file has not asked for one."""
EMPTY = "the plan file cannot be read: the path is empty"
PLAIN = (
    "a plan file must be a plain file: a pipe or a device can deliver a different plan each time"
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", EMPTY),
        ("/dev/stdin", f"/dev/stdin: {PLAIN}"),
        (
            "esc\x1b[31m\n",
            "esc\\x1b[31m\\n: the plan file cannot be read: No such file or directory",
        ),
    ],
)
def test_path_of_no_plan_ends_the_call(tmp_path: Path, path: str, text: str) -> None:
    """An empty variable is no call without a plan; the error is one line, and one document."""
    given = write_input(tmp_path / "set.json", [config_map("a")])
    call = ("apply", "web", "-f", given, "--plan", path)
    ended = applyprune(*call, kubeconfig=NOWHERE, stdin="{}")
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {text}\n")
    ended = applyprune(*call, "-o", "json", kubeconfig=NOWHERE, stdin="{}")
    document = json.loads(ended.out)
    (error,) = document["errors"]
    assert (ended.code, document["exitCode"], error["kind"]) == (2, 2, "UsageError")


@pytest.mark.parametrize("time", ["1ms", "8761h"])
def test_impossible_validity_ends_the_call(tmp_path: Path, time: str) -> None:
    """Before anything is planned."""
    call = ("plan", "web", "-f", tmp_path, "--out", "web.plan", "--expires-in", time)
    ended = applyprune(*call, kubeconfig=NOWHERE, cwd=tmp_path)
    text = "a plan file must be valid for at least 1s, and at most 8760h, a year"
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {text}\n")
    assert list(tmp_path.iterdir()) == []


def test_process_substitution_is_no_plan_file(tmp_path: Path) -> None:
    """What was reviewed is a file; a command may print another plan."""
    given = write_input(tmp_path / "set.json", [config_map("a")])
    line = f"{sys.executable} -m applyprune apply web -f {given} --plan <(echo)"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith(f": {PLAIN}\n")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "the path is empty"),
        ("missing/web.plan", "there is no folder missing"),
        ("set.json", "another file has this name, and it is not a plan file"),
        ("/dev/full", "it is not a plain file"),
    ],
)
def test_plan_is_not_written_to_such_a_path(desk: Desk, path: str, reason: str) -> None:
    """Not even planned, so that nobody waits for it; the input is not replaced."""
    line = desk.line("plan", "--out", path, "-o", "json", a0="2")
    ended = applyprune(*line, kubeconfig=desk.plane.kubeconfig, cwd=desk.folder)
    document = json.loads(ended.out)
    (error,) = document["errors"]
    assert (ended.code, document["plan"], error["kind"]) == (2, None, "UsageError")
    assert error["reason"] == reason
    assert json.loads((desk.folder / "set.json").read_text())


def test_plan_file_goes_with_any_output(desk: Desk, audit: AuditTrail) -> None:
    """Standard output stays one document; quiet is quiet; a full disk is an error at the end."""
    values = dict.fromkeys(NAMES[:-1], "1")
    path = desk.folder / "web.plan"
    written = desk.call("plan", "--out", path, "-o", "json", "--no-check", **values)
    document = json.loads(written.out)
    assert (written.code, document["exitCode"]) == (0, 0)
    assert f"{path} was written" in written.err
    file = read_plan(path)
    assert (file.digest, file.deletions) == (
        document["plan"]["digest"],
        document["plan"]["deletions"],
    )
    quiet = desk.call("plan", "--out", path, "-q", "--expires-in", "1s", **values)
    assert (quiet.code, quiet.err) == (0, "")
    expired = read_plan(path)
    assert (expired.expires - expired.created).total_seconds() == 1
    line = " ".join(map(str, desk.line("plan", "--out", path, "-o", "json", **values)))
    full = subprocess.run(
        ["bash", "-c", f"ulimit -f 0; {sys.executable} -m applyprune {line} | cat"],
        env={**os.environ, "KUBECONFIG": str(desk.plane.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    (error,) = json.loads(full.stdout)["errors"]
    assert error["reason"] == "File too large"
    assert read_plan(path) == expired
    assert writes(audit) == []


def _edited(content: bytes) -> bytes:
    """Change the last digit, so that it stays the JSON of a plan."""
    at = max(place for place, byte in enumerate(content) if chr(byte).isdigit())
    return content[:at] + (b"1" if content[at : at + 1] != b"1" else b"2") + content[at + 1 :]


CONTENTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda content: content[:-50], "was changed or cut off after it was written"),
    "one byte edited": (_edited, "was changed or cut off after it was written"),
    "a gzip bomb": (
        lambda _: gzip.compress(bytes(50_000_000)),
        "is not a plan file, or was changed after it was written",
    ),
    "a newer schema": (
        lambda content: content.replace(b"plan/v1", b"plan/v2", 1),
        "the plan file has the schema v2, which is unknown: applyprune ",
    ),
}


@pytest.mark.parametrize("name", [*CONTENTS, "a pipe", "standard input"])
def test_bad_plan_file_writes_nothing(desk: Desk, audit: AuditTrail, name: str) -> None:
    """The error names the file; the same plan, as it was written, is applied."""
    values = {**dict.fromkeys(NAMES[:-1], "1"), "a0": "2"}
    true, path, text = desk.folder / "web.plan", desk.folder / "bad.plan", PLAIN
    assert desk.call("plan", "--out", true, **values).code == 0
    if name in CONTENTS:
        change, text = CONTENTS[name]
        path.write_bytes(change(true.read_bytes()))
    elif name == "a pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/stdin")
    audit.restart()
    line = desk.line("apply", "--plan", path, **values)
    kubeconfig = desk.plane.kubeconfig
    refused = applyprune(*line, kubeconfig=kubeconfig, stdin=true.read_text())
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"error: {path}: ")
    assert text in refused.err
    assert writes(audit) == []
    assert desk.call("apply", "--plan", true, **values).code == 0
