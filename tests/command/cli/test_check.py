"""``applyprune check``, alone and as the hook of pre-commit: no cluster, and no kubeconfig."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from applyprune.cli.main import cli
from tests.support.repository import Repository
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
    kinds = ["cert-manager.io/v1 Certificate"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", found.pop("checksum"))
    assert found == {"objects": 2, "unknownKinds": kinds, "sets": 1}


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


SET = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
WEB = f"{SET}name: web\nfilename: [m]\n"


def test_all_sets_below_a_folder_are_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its own name, namespace and input; what files above in the work tree say counts."""
    (folder / ".git").mkdir()
    write(
        folder,
        {
            "deploy/applyprune.yaml": f"{SET}namespace: shop\n",
            "deploy/web/applyprune.yaml": f"{SET}name: web\nfilename: [m]\n",
            "deploy/web/m/a.yaml": config_map("a"),
            "deploy/api/applyprune.yaml": f"{SET}name: api\nfilename: [m]\n",
            "deploy/api/m/a.yaml": f"{config_map('a')}---\n{CERTIFICATE}",
        },
    )
    assert call("--all-in", "deploy") == 0
    assert capsys.readouterr().out.startswith("no fault found in 3 objects of 2 sets; ")
    assert call("--all-in", "deploy", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["inputChecked"]["sets"] == 2
    write(folder, {"deploy/web/m/a.yaml": TWICE, "deploy/api/m/a.yaml": "kind: [\n"})
    assert call("--all-in", "deploy") == 2
    told = capsys.readouterr().err
    assert "configmap/a in namespace shop is defined twice" in told
    assert "deploy/web/m/a.yaml:9:3" in told
    assert "deploy/api/m/a.yaml" in told


def test_checksum_is_of_the_sets_and_their_manifests(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not of the order, the form or the number of their files."""
    (folder / ".git").mkdir()
    two = f"{config_map('a')}---\n{config_map('b')}"

    def checksum(*places: str, **files: str) -> str:
        shutil.rmtree(folder / "m", ignore_errors=True)
        write(folder, {f"m/{name}.yaml": text for name, text in files.items()})
        assert call(*places, "-o", "json") == 0
        return str(json.loads(capsys.readouterr().out)["inputChecked"]["checksum"])

    write(folder, {"deploy/web/applyprune.yaml": f"{SET}name: web\nfilename: [../../m]\n"})
    for places in (("-f", "m"), ("--all-in", "deploy")):
        known = checksum(*places, one=two)
        reformed = config_map("a").replace("metadata:\n  name: a", 'metadata: {"name": a}')
        assert known == checksum(*places, one=config_map("b"), two=reformed)
        other = checksum(*places, one=config_map("a"))
        labelled = f"{config_map('a')}  labels: {{c: d}}\n"
        assert known not in {other, checksum(*places, one=labelled, two=config_map("b"))}
    write(folder, {"deploy/web/applyprune.yaml": f"{SET}name: api\nfilename: [../../m]\n"})
    assert known != checksum("--all-in", "deploy", one=two)


def test_only_sets_that_a_change_concerns_are_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose folder is gone is named, with the command that deletes it."""
    repository = Repository(folder / "repository")
    os.chdir(repository.root)  # the fixture goes back
    names = ("web", "api", "old")
    repository.write(
        **{f"deploy/{one}/applyprune.yaml": WEB.replace("web", one) for one in names},
        **{f"deploy/{one}/m/a.yaml": config_map(one) for one in names},
    )
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "first")
    repository.write(**{"deploy/web/m/a.yaml": TWICE, "deploy/api/README.md": "no manifest"})
    shutil.rmtree(repository.root / "deploy/old")
    assert call("--all-in", "deploy", "--changed-since", "HEAD") == 2
    told = capsys.readouterr().err
    assert "configmap/a in namespace default is defined twice" in told
    assert "1 set is not concerned by this change" in told
    assert "the set old is gone" in told
    assert "applyprune delete old" in told
    assert call("--all-in", "deploy", "--changed-since", "nowhere") == 2
    assert "nowhere" in capsys.readouterr().err
    assert call("-f", "deploy", "--changed-since", "HEAD") == 2
    assert "--changed-since needs --all-in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "words", "message"),
    [
        ({}, ("--all-in", "."), "no set in the current folder"),
        ({"a/applyprune.yaml": f"{SET}name: a\n"}, ("--all-in", "a"), "a"),
        ({}, ("--all-in", "gone"), "gone: cannot be read"),
        ({}, ("web", "--all-in", "."), "--all-in excludes NAME, -f, -k and --config"),
        ({}, ("--all-in", ".", "-f", "m"), "--all-in excludes NAME, -f, -k and --config"),
        (
            dict.fromkeys(
                ("a/applyprune.yaml", "b/applyprune.yaml"), f"{SET}name: web\nfilename: [m]\n"
            ),
            ("--all-in", "."),
            "names the set default/web, too",
        ),
    ],
    ids=["no set", "no input", "no folder", "a name", "an input", "one set twice"],
)
def test_folder_of_sets_that_means_nothing_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    words: tuple[str, ...],
    message: str,
) -> None:
    write(folder, files)
    assert call(*words) == 2
    assert message in capsys.readouterr().err


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
