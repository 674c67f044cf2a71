"""``applyprune check``, alone and as the hook of pre-commit: no cluster, and no kubeconfig."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from applyprune.cli.main import cli
from tests.support.source_text import config_map, value, write

ROOT = Path(__file__).parents[3]

HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\nfilename: [m]\n"
CERTIFICATE = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\n"
TWICE = f"{config_map('a')}---\n{config_map('a')}  labels: {{b: c}}\n"


def call(*arguments: str) -> int:
    """Call in this process, and return the exit code."""
    code: int = cli.main(["check", *arguments], "applyprune", standalone_mode=False)
    return code


def test_check_says_how_much_it_knows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kind of a controller is no error."""
    write(folder, {"m/a.yaml": config_map("a"), "m/b.yaml": CERTIFICATE})
    assert call("-f", "m") == 0
    assert capsys.readouterr().out == (
        "no fault found in 2 objects; only a cluster can check the fields, and all but the name of "
        "cert-manager.io/v1 Certificate: applyprune plan\n"
    )
    assert call("-f", "m", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)["inputChecked"]
    assert found == {"objects": 2, "unknownKinds": ["cert-manager.io/v1 Certificate"]}


def test_empty_input_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a wrong name looks just like it."""
    (folder / "m").mkdir()
    assert call("-f", "m") == 2
    assert "there is no object in the input" in capsys.readouterr().err


def test_fault_has_its_place_and_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As before an apply."""
    write(folder, {"m/a.yaml": TWICE})
    assert call("-f", "m") == 2
    told = capsys.readouterr().err
    assert "m/a.yaml:9:3" in told
    assert "configmap/a in namespace default is defined twice" in told
    assert call("-f", "m", "-o", "github") == 2
    assert capsys.readouterr().out.startswith("::error file=m/a.yaml,line=")


def test_input_is_that_of_the_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its name, so the set's own inventory is found too."""
    write(folder, {"applyprune.yaml": HEAD, "m/a.yaml": config_map("applyprune-web")})
    assert call() == 2
    assert "is the inventory of this set" in capsys.readouterr().err


def test_hook_of_pre_commit_fails_for_a_faulty_input(folder: Path) -> None:
    """Its entry, as pre-commit calls it: in the root of the repository, without files."""
    (hook,) = value((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    program = Path(sys.executable).with_name("applyprune")
    name, *arguments = shlex.split(hook["entry"])
    assert name == program.name
    command = [str(program), *arguments]
    write(folder, {"applyprune.yaml": HEAD, "m/a.yaml": config_map("a")})
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0
    write(folder, {"m/a.yaml": TWICE})
    assert subprocess.run(command, cwd=folder, check=False).returncode == 2
