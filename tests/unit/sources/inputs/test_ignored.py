"""Files that a rule leaves out: the same of a folder, of its repository, and of a fetched tree."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError
from applyprune.model.problem import ProblemKind
from applyprune.sources import Overlay, read
from applyprune.sources.inputs import read_sources, tree_sources
from applyprune.sources.load import ignored_in, ignored_warnings
from applyprune.sources.source_ignore import FILE, rules_in, without_ignored
from applyprune.sources.tree import MAX_BYTES, FileTree, IgnoredText, SourceText
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from applyprune.localplane import Binaries
    from applyprune.model.problem import Problem

SHOWN = "oci://registry.example.com/shop/deploy:1.4.0"
BUILD = "resources: [a.yaml]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binaries: Binaries) -> Path:
    """The work tree of a repository, and the embedded kubectl as the only program."""
    for name in ("bin", "work/.git", "private"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin/kubectl").symlink_to(binaries.kubectl)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def of_tree(
    files: dict[str, str],
    path: str,
    *,
    ignore: str = "",
    refuses: bool = True,
    builds: bool = False,
) -> list[SourceText | IgnoredText | InputError]:
    tree = FileTree({name: text.encode() for name, text in files.items()}, "main@sha1:0")
    return list(
        tree_sources(
            without_ignored(tree, rules_in(ignore, "the Bundle")),
            path,
            shown=SHOWN,
            limit=MAX_BYTES,
            warn=lambda _: None,
            refuses_remote_bases=refuses,
            must_build=builds,
        )
    )


TREE = {
    FILE: "skipped\n",
    "web/a.yaml": config_map("a"),
    "web/values.yaml": "replicas: 1\n",
    "web/.sourceignore": "values.yaml\n/b.yaml\n",
    "web/b.yaml": config_map("b"),
    "web/deep/b.yaml": config_map("deep-b"),
    "web/deep/skipped/c.yaml": config_map("c"),
    "web/deep/skipped/kustomization.yaml": BUILD,
    "api/values.yaml": config_map("v"),
}


@pytest.mark.parametrize("path", ["web", "api", ".", "web/deep"])
@pytest.mark.parametrize("ignore", ["", "a.yaml", "!skipped/c.yaml"])
def test_folder_is_read_as_the_path_of_its_repository(folder: Path, path: str, ignore: str) -> None:
    """So the plan of a request is that of the Bundle: the rules above the folder hold, too."""
    write(folder, TREE)
    fetched = of_tree(TREE, path.removeprefix("."), ignore=ignore)
    local = [given.source for given in read_sources([path], rules=rules_in(ignore, "the Bundle"))]

    def seen(found: object) -> object:
        assert isinstance(found, SourceText | IgnoredText), found
        name = found.path.removeprefix(f"{SHOWN}//")
        rule = found.rule if isinstance(found, IgnoredText) else ""
        return os.path.normpath(name), found.data, rule

    assert list(map(seen, fetched)) == list(map(seen, local))
    read_at_all = [one.path for one in fetched if isinstance(one, SourceText)]
    assert read_at_all or ignore
    for absolute in (str(folder / path), str(folder / "web" / ".." / path)):
        again = [given.source for given in read_sources([absolute], rules=rules_in(ignore, "x"))]
        assert [type(one) for one in again] == [type(one) for one in local]


def test_folder_that_is_in_no_repository_is_a_source_itself(folder: Path) -> None:
    """What lies above it is not looked at."""
    (folder / ".git").rmdir()
    write(folder, {FILE: "a.yaml\n", "web/.github/a.yaml": config_map("a")})
    ((source,),) = [[given.source for given in read_sources(["web/.github"])]]
    assert isinstance(source, SourceText)
    ((source,),) = [[given.source for given in read_sources(["web"])]]
    assert isinstance(source, IgnoredText)
    assert source.rule == "the rule .github/ in the default list"
    both = [given.source for given in read_sources(["web/.github", "web", "."])]
    assert [type(one) for one in both] == [SourceText, IgnoredText, IgnoredText]
    assert isinstance(both[2], IgnoredText)
    assert both[2].rule == "the rule a.yaml in .sourceignore"


def test_folder_of_git_is_not_read(folder: Path) -> None:
    write(folder, {".git/x.yaml": "no: [manifest", "a.yaml": config_map("a")})
    assert [given.place for given in read_sources(["."])] == [str(folder / "a.yaml")]


def test_manifests_that_are_ignored_are_named_in_a_warning(folder: Path) -> None:
    """One warning for a rule; a file that is no manifest is not worth one."""
    files = {f"web/{n}.yaml": config_map(f"c{n}") for n in range(7)}
    write(
        folder,
        {
            **TREE,
            **files,
            FILE: "skipped\n.github/\n",
            "web/.sourceignore": "values.yaml\n/[0-9].yaml\n",
            ".github/workflow.yaml": "on: push\n",
            ".github/broken.yaml": "apiVersion: [",
        },
    )
    said: list[Problem] = []
    given = read(["web", ".github"], warn=said.append)
    assert [one.name for one in given] == ["a", "b", "deep-b"]
    shown = [f"web/{n}.yaml" for n in range(5)]
    assert [(one.message, one.reason) for one in said] == [
        (
            f"manifests are ignored: {', '.join(shown)} and 2 more",
            "by the rule /[0-9].yaml in web/.sourceignore",
        ),
        (
            "manifests are ignored: web/deep/skipped/c.yaml",
            "by the rule skipped in .sourceignore",
        ),
    ]
    assert {one.kind for one in said} == {ProblemKind.IGNORED_MANIFEST}
    assert {one.name for one in given.ignored} == {*(f"c{n}" for n in range(7)), "c"}
    assert given.empty == (".github",)


def test_file_that_is_ignored_cannot_be_named(folder: Path) -> None:
    """It is not a part of the source: a Bundle with this path would not read it either."""
    write(folder, TREE)
    (found,) = [given.source for given in read_sources(["web/values.yaml"])]
    assert isinstance(found, InputError)
    (fetched,) = of_tree(TREE, "web/values.yaml")
    assert isinstance(fetched, InputError)
    assert fetched.kind is found.kind is ProblemKind.PATH_NOT_FOUND
    told = "it is ignored: by the rule values.yaml in web/.sourceignore\n"
    assert str(found).startswith(f"web/values.yaml: {told}")
    assert str(fetched).startswith(f"{SHOWN}//web/values.yaml: {told}")
    # What a pattern finds is not named.
    (passed,) = [given.source for given in read_sources(["web/v*.yaml"])]
    assert isinstance(passed, IgnoredText)


@pytest.mark.parametrize(
    "builds", [pytest.param(False, marks=pytest.mark.holds("ignored-path")), True]
)
def test_path_of_which_everything_is_ignored_is_an_error(builds: bool) -> None:
    """It is not an empty set: that would prune everything."""
    files = {"web/a.yaml": config_map("a"), "web/deep/b.yaml": "", "api/c.yaml": config_map("c")}
    found, *_ = of_tree(files, "web", ignore="/web", builds=builds)
    assert isinstance(found, InputError)
    assert str(found).startswith(f"{SHOWN}//web: it is ignored: by the rule /web in the Bundle\n")
    found, *_ = of_tree(files, "", ignore="*", builds=builds)
    assert isinstance(found, InputError)
    assert found.kind is ProblemKind.PATH_NOT_FOUND


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"web/kustomization.yaml": BUILD}, "web/a.yaml"),
        (
            {"web/kustomization.yaml": "resources: [../base]", "base/kustomization.yaml": BUILD},
            "base/a.yaml",
        ),
        (
            {"web/kustomization.yaml": "configMapGenerator: [{name: x, files: [k=a.yaml]}]\n"},
            "web/a.yaml",
        ),
        ({"web/kustomization.yaml": "patches: [{path: a.yaml}]\n"}, "web/a.yaml"),
    ],
)
@pytest.mark.parametrize("refuses", [False, True])
def test_build_of_what_is_ignored_says_why_it_fails(
    folder: Path, files: dict[str, str], named: str, refuses: bool
) -> None:
    """By the rules of a Bundle, and of the command line; for a local folder, before the build."""
    tree = {**files, named: config_map("a"), FILE: "a.yaml\n"}
    write(folder, tree)
    (fetched,) = of_tree(tree, "web", refuses=refuses)
    assert isinstance(fetched, InputError)
    assert str(fetched).startswith(
        f"{SHOWN}//web: the kustomization names what is ignored: {SHOWN}//{named}, by the rule "
        "a.yaml in .sourceignore\n"
    )
    for path in (Overlay("web"), "web"):
        (local,) = [given.source for given in read_sources([path])]
        assert isinstance(local, InputError)
        assert str(local).startswith(
            f"web: the kustomization names what is ignored: {folder / named}, by the rule "
            "a.yaml in .sourceignore\n"
        )


def test_build_beside_what_is_ignored_succeeds(folder: Path) -> None:
    """A label that is called as an ignored file names no file."""
    tree = {
        "web/kustomization.yaml": "resources: [b.yaml]\ncommonLabels: {x: a.yaml}\n",
        "web/a.yaml": config_map("a"),
        "web/b.yaml": config_map("b"),
        "web/c.zip": "",
        FILE: "a.yaml\n",
    }
    write(folder, tree)
    (fetched,) = of_tree(tree, "web")
    (local,) = [given.source for given in read_sources(["web"])]
    assert isinstance(fetched, SourceText)
    assert isinstance(local, SourceText)
    assert fetched.data == local.data


def test_kustomization_that_is_ignored_builds_nothing(folder: Path) -> None:
    """Its folder is a plain one, but it cannot be built when that is asked for."""
    tree = {
        "web/kustomization.yaml": "resources: [other.yaml]\n",
        "web/a.yaml": config_map("a"),
        FILE: "kustomization.yaml\n",
    }
    write(folder, tree)
    for found in (of_tree(tree, "web"), [one.source for one in read_sources(["web"])]):
        first, second = found
        assert isinstance(first, SourceText)
        assert isinstance(second, IgnoredText)
        assert list(ignored_in(second)) == []
    (refused,) = of_tree(tree, "web", builds=True)
    (local,) = [one.source for one in read_sources([Overlay("web")])]
    for one in (refused, local):
        assert isinstance(one, InputError)
        assert "the kustomization names what is ignored" in str(one)


def test_rules_that_cannot_be_read_are_one_error(folder: Path) -> None:
    """Which files they leave out is unknown: none is read as if there were no rules."""
    write(folder, {"web/a/b.yaml": config_map("b"), "web/c.yaml": config_map("c")})
    (folder / "web/.sourceignore").mkdir()
    (found,) = [given.source for given in read_sources(["web"])]
    assert isinstance(found, InputError)
    assert f"{folder}/web/.sourceignore: " in str(found)


def test_rules_that_change_while_files_are_read_are_an_error(folder: Path) -> None:
    write(folder, {"web/a.yaml": config_map("a"), FILE: "x\n"})
    sources = read_sources(["web"])
    next(sources)
    (folder / FILE).write_text("a.yaml\n")
    (changed,) = sources
    assert isinstance(changed.source, InputError)
    assert "changed while it was read" in str(changed.source)


def test_unreadable_file_that_is_ignored_is_no_error(folder: Path) -> None:
    """A broken link, too; but a folder may have files that a rule takes back."""
    write(folder, {"web/a.yaml": config_map("a"), FILE: "gone*\n"})
    (folder / "web/gone.yaml").symlink_to("nowhere")
    (only,) = [given.source for given in read_sources(["web"])]
    assert isinstance(only, SourceText)
    (folder / "web/gone").symlink_to("nowhere")
    found = [given.source for given in read_sources(["web"])]
    assert [type(one) for one in found] == [SourceText, InputError]


def test_warnings_name_each_file_once() -> None:
    text = IgnoredText("a.yaml", f"{config_map('a')}---\n{config_map('b')}".encode(), "the rule a")
    (warning,) = ignored_warnings(ignored_in(text))
    assert warning.message == "manifests are ignored: a.yaml"
