"""Where sets may be: the folders with a file of a name, links, and what cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from applyprune.sources.set_folders import set_folders
from tests.support.source_text import write

NAMES = ("applyprune.yaml", "applyprune.yml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a work tree with sets in deploy, and one beside it."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    files = (
        "b/applyprune.yaml",
        "a/x/applyprune.yaml",
        "a/applyprune.yaml",
        "a/m/web.yaml",
        "C/z/",
    )
    write(work, {f"deploy/{file}": "" for file in files if not file.endswith("/")})
    write(work, {"other/applyprune.yaml": "", "deploy/d/applyprune.yml": ""})
    return work


def folders_in(top: str) -> list[str]:
    """Return what is found; nothing may be wrong."""
    found = set_folders(top, NAMES)
    assert found.errors == ()
    return list(found.folders)


def test_folders_come_in_the_order_of_their_names(folder: Path) -> None:
    """As seen from the current folder; a folder before those in it."""
    below = ["a/", "a/x/", "b/", "d/"]
    assert folders_in("deploy") == folders_in("deploy/") == [f"deploy/{one}" for one in below]
    assert folders_in(".") == [*(f"deploy/{one}" for one in below), "other/"]
    assert folders_in("./deploy")[0] == "./deploy/a/"
    assert folders_in(str(folder / "other")) == [f"{folder}/other/"]
    os.chdir("deploy/a")
    assert folders_in(".") == ["", "x/"]
    assert folders_in("..") == ["../a/", "../a/x/", "../b/", "../d/"]
    assert set_folders("m", NAMES).folders == ()
    assert set_folders("../..", NAMES).looked_at == 8


def test_git_is_skipped_and_other_hidden_folders_are_not(folder: Path) -> None:
    write(folder, {"deploy/.git/applyprune.yaml": "", "deploy/.x/applyprune.yaml": ""})
    assert folders_in("deploy")[0] == "deploy/.x/"
    assert "deploy/.git/" not in folders_in("deploy")


def test_ignored_file_is_named_with_its_rule(folder: Path) -> None:
    """It is not a part of the source, as for an input."""
    write(folder, {".sourceignore": "deploy/a/\n!deploy/a/x\n", "deploy/b/.sourceignore": "*.yaml"})
    found = set_folders("deploy", NAMES)
    assert (found.folders, found.errors) == (("deploy/a/x/", "deploy/d/"), ())
    assert {str(one.path): one.rule for one in found.ignored} == {
        "deploy/a/applyprune.yaml": "the rule deploy/a/ in .sourceignore",
        "deploy/b/applyprune.yaml": "the rule *.yaml in deploy/b/.sourceignore",
    }


def test_link_within_leads_to_what_is_found_anyway(folder: Path) -> None:
    """Once, by its own path, also where a link leads up."""
    (folder / "deploy/0").symlink_to("b")
    (folder / "deploy/a/up").symlink_to("../../deploy")
    (folder / "deploy/file").symlink_to("../other/applyprune.yaml")
    (folder / "top").symlink_to("deploy")
    assert folders_in("top") == ["top/a/", "top/a/x/", "top/b/", "top/d/"]


@pytest.mark.holds("link-out-of-the-sets")
def test_link_that_leads_out_is_refused(folder: Path) -> None:
    """Also to a folder whose name begins alike; one that a rule leaves out does not count."""
    write(folder, {"deploy2/applyprune.yaml": ""})
    (folder / "deploy/up").symlink_to("..")
    (folder / "deploy/2").symlink_to("../deploy2")
    (folder / "deploy/a/else").symlink_to(folder / "other")
    told = [str(error) for error in set_folders("deploy", NAMES).errors]
    assert [line.partition(": ")[0] for line in told] == [
        "deploy/2",
        "deploy/up",
        "deploy/a/else",
    ]
    assert told[0] == (
        "deploy/2: this link leads out of deploy: to ../deploy2, where no set is looked for\n"
        "  Name a folder that has both, or leave the link out in .sourceignore."
    )
    write(folder, {".sourceignore": "deploy/up\n/deploy/2\n"})
    os.chdir("deploy")
    told = [str(error) for error in set_folders(".", NAMES).errors]
    assert len(told) == 1
    assert told[0].startswith("a/else: this link leads out of the current folder: to /")


def test_link_to_nothing_is_an_error(folder: Path) -> None:
    """It may have led to a folder of sets."""
    (folder / "deploy/a/gone").symlink_to("../../nothing")
    (folder / "deploy/ring").symlink_to("ring")
    told = [str(error) for error in set_folders("deploy", NAMES).errors]
    assert told == [
        "deploy/ring: cannot be read: Too many levels of symbolic links",
        "deploy/a/gone: cannot be read: No such file or directory",
    ]
    write(folder, {".sourceignore": "gone\nring\n"})
    assert folders_in("deploy/a") == ["deploy/a/", "deploy/a/x/"]


AS_NOBODY = """
import os
from applyprune.sources.set_folders import set_folders
if os.geteuid() == 0:
    os.seteuid(65534)
found = set_folders("deploy", ["applyprune.yaml"])
print(*found.folders, *found.errors, sep="\\n")
"""


def test_folder_that_cannot_be_read_is_an_error() -> None:
    """What is in it is unknown; the others are still looked at. Root reads all, so nobody looks."""
    with TemporaryDirectory() as name:
        place = Path(name)
        write(place, {f"deploy/{one}/applyprune.yaml": "" for one in "abc"})
        place.chmod(0o755)
        (place / "deploy/b").chmod(0)
        run = [sys.executable, "-c", AS_NOBODY]
        ended = subprocess.run(run, cwd=place, capture_output=True, text=True, check=False)
        (place / "deploy/b").chmod(0o755)
    told = "deploy/a/\ndeploy/c/\ndeploy/b: cannot be read: Permission denied\n"
    assert ended.stdout == told, ended


@pytest.mark.parametrize(
    ("top", "told"),
    [
        ("gone", "gone: cannot be read: No such file or directory"),
        ("deploy/a/m/web.yaml", "deploy/a/m/web.yaml: cannot be read: Not a directory"),
    ],
)
def test_path_that_is_not_a_folder_is_an_error(folder: Path, top: str, told: str) -> None:
    assert [str(error) for error in set_folders(top, NAMES).errors] == [told]


def test_rules_that_cannot_be_read_are_an_error(folder: Path) -> None:
    """Which sets they leave out is unknown."""
    write(folder, {"deploy/.sourceignore": "x" * 1001})
    told = [str(error) for error in set_folders("deploy", NAMES).errors]
    assert told == ["deploy/.sourceignore: a rule has more than 1000 characters\n  Shorten it."]


def test_folder_that_changes_meanwhile_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that is just being renamed would be missing."""
    real = os.lstat

    def renaming(path: str) -> os.stat_result:
        if str(path) == "deploy/a/x":
            (folder / "deploy/b").rename(folder / "deploy/a/b")
        return real(path)

    monkeypatch.setattr("applyprune.sources.set_folders.os.lstat", renaming)
    told = [str(error).partition(": ")[0] for error in set_folders("deploy", NAMES).errors]
    assert "deploy" in told
    assert "deploy/a" in told
