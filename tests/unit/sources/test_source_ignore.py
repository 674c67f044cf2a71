"""Ignore rules: which files they leave out, where the default list holds, what they may cost."""

from __future__ import annotations

import pytest

from applyprune.sources.source_ignore import (
    FILE,
    IgnoreRulesInvalid,
    ignore_files,
    rules_in,
    without_ignored,
)
from applyprune.sources.tree import FileTree


def left_out(paths: str, given: str = "", **files: str) -> str:
    """Return which of the paths are left out; ``files`` has the rules of folders."""
    rules = {
        f"{folder}/{FILE}" if folder != "root" else FILE: text for folder, text in files.items()
    }
    tree = {**dict.fromkeys(paths.split(), b""), **{n: t.encode() for n, t in rules.items()}}
    found = without_ignored(FileTree(tree), rules_in(given, "the test"))
    assert found.files.keys() | found.ignored.keys() == tree.keys()
    assert not found.files.keys() & found.ignored.keys()
    return " ".join(path for path in paths.split() if path in found.ignored)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ("a.jpg x/a.jpeg a.gif a.png a.wmv a.flv a.tar.gz a.zip", None),
        (".gitignore x/.gitmodules .gitattributes .git/x.yaml", None),
        (".github/x.yaml a/.circleci/b/c.yaml .travis.yml .gitlab-ci.yml appveyor.yml", None),
        (".drone.yml cloudbuild.yaml codeship-services.yml codeship-steps.yml", None),
        (".goreleaser.yml a/b/.sops.yaml a/.flux.yaml", None),
        # No more than that.
        ("a.yaml values.yaml .hidden.yaml a.tgz a.JPG .gitlab/x.yaml .sourceignore", ""),
        ("github/x.yaml .github.yaml x.gitignore cloudbuild.yml .sops.yml .git-x.yaml", ""),
    ],
)
def test_default_list_is_that_of_flux(paths: str, expected: str | None) -> None:
    assert left_out(paths) == (paths if expected is None else expected)


@pytest.mark.parametrize(
    ("rules", "paths", "expected"),
    [
        ("*.md", "a.md b/c.md d.yaml", "a.md b/c.md"),
        ("docs", "docs a/docs docs/x a/docs/b/x docs2/x", "docs a/docs docs/x a/docs/b/x"),
        ("docs/", "docs a/docs docs/x a/docs/b/x", "docs/x a/docs/b/x"),
        ("/docs", "docs/x a/docs/x", "docs/x"),
        ("a/b", "a/b a/b/c x/a/b", "a/b a/b/c"),
        ("a/*", "a/b/c a/d a", "a/b/c a/d"),
        ("a/**", "a/b/c a/d a", "a/b/c a/d"),
        ("**/a/x", "a/x b/a/x b/c/a/x a/b/x", "a/x b/a/x b/c/a/x"),
        ("a/**/x", "a/x a/b/x a/b/c/x b/a/x", "a/x a/b/x a/b/c/x"),
        # The part that matches first is not the only one that may.
        ("**/a/b", "a/x/a/b a/b", "a/x/a/b a/b"),
        ("?.yaml", "a.yaml ab.yaml", "a.yaml"),
        ("[ab].yaml", "a.yaml c.yaml", "a.yaml"),
        ("[!ab].yaml", "a.yaml c.yaml", "c.yaml"),
        ("[^ab].yaml", "a.yaml c.yaml", "c.yaml"),
        ("a*b", "a/b axb", "axb"),
        ("# a\n\n  \na", "a b", "a"),
        ("a\r\nb\r\n", "a b c", "a b"),
        ("a  ", "a", "a"),
        (r"\#a", "#a a", "#a"),
        (r"\!a", "!a a", "!a"),
        (r"a\*", "a* ab", "a*"),
        ("[a", "[a a", "[a"),
        # The last rule that matches wins, also for a file in a folder that an earlier one names.
        ("*.yaml\n!a.yaml", "a.yaml b.yaml", "b.yaml"),
        ("!a.yaml\n*.yaml", "a.yaml b.yaml", "a.yaml b.yaml"),
        ("/*\n!/deploy", "a.yaml x/b.yaml deploy/c.yaml deploy/d/e.yaml", "a.yaml x/b.yaml"),
        ("/*\n!/apps/\n!/clusters/", "a/b apps/c/d clusters/e apps2/x", "a/b apps2/x"),
        (
            "/*\n!/deploy\n/deploy/**/*.md",
            "deploy/a.md deploy/b/c.md deploy/x",
            "deploy/a.md deploy/b/c.md",
        ),
        ("docs/\n!docs/a.yaml", "docs/a.yaml docs/b.yaml", "docs/b.yaml"),
        # Nothing that could be a file.
        ("/\n!\n//", "a b/c", ""),
    ],
)
def test_rule_is_a_line_of_gitignore(rules: str, paths: str, expected: str) -> None:
    """The same in a file at the root, and given from elsewhere."""
    assert left_out(paths, root=rules) == expected
    assert left_out(paths, rules) == expected


def test_default_list_holds_only_where_no_rule_does() -> None:
    """What Git itself needs is left out all the same, unless a rule takes it back."""
    paths = ".gitignore .github/x.yaml web/.gitignore web/.sops.yaml"
    assert left_out(paths, "x") == ".gitignore web/.gitignore"
    assert left_out(paths, "!.gitignore") == ""
    assert left_out(paths, root="# no rule\n") == paths
    # A folder's own rules say nothing of the folders beside it.
    assert left_out(paths, web="x") == ".gitignore .github/x.yaml web/.gitignore"


def test_rules_of_a_folder_hold_below_it_and_come_after_those_above() -> None:
    paths = "a.yaml web/a.yaml web/x/a.yaml web/x/b.yaml api/a.yaml"
    assert left_out(paths, web="/a.yaml") == "web/a.yaml"
    assert left_out(paths, web="a.yaml") == "web/a.yaml web/x/a.yaml"
    assert left_out(paths, root="a.yaml", web="!a.yaml") == "a.yaml api/a.yaml"
    # Given rules come last.
    assert left_out(paths, "a.yaml", web="!a.yaml").split() == [
        path for path in paths.split() if path.endswith("a.yaml")
    ]


def test_message_has_the_rule_and_its_file() -> None:
    files = {"a/x.yaml": b"1", "a/.sourceignore": b"# all\n*.yaml\n"}
    (found,) = without_ignored(FileTree(files)).ignored.values()
    assert (found.rule, found.data) == ("the rule *.yaml in a/.sourceignore", b"1")
    (found,) = without_ignored(FileTree({".sops.yaml": b""})).ignored.values()
    assert found.rule == "the rule **/.sops.yaml in the default list"


def test_rules_above_a_path_are_known() -> None:
    assert ignore_files(["a/b", ""]) == {"a/.sourceignore", ".sourceignore"}


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("*a" * 300 + "b", "a" * 250),
        ("**/a/" * 100 + "b", "a/" * 200 + "c"),
        ("[" * 500, "[" * 200),
    ],
)
def test_pattern_of_a_tenant_costs_no_more_than_its_length(rule: str, path: str) -> None:
    """A pattern that tries every way to match would not end."""
    assert left_out(path, rule) == ""


@pytest.mark.parametrize(
    ("rules", "count", "message"),
    [
        ("a" * 1001, 1, r"\.sourceignore: a rule has more than 1000 characters"),
        ("a\n" * 2**20, 1, r"\.sourceignore: the file is too long"),
        pytest.param(
            "a\n" * 10_000,
            2000,
            "the ignore rules are too many for so many files",
            marks=pytest.mark.holds("steps-of-ignore-rules"),
        ),
    ],
)
def test_too_many_rules_are_an_error(rules: str, count: int, message: str) -> None:
    """They would hold up others; and with a part of them, files would come back."""
    files = {f"{number}.yaml": b"" for number in range(count)}
    with pytest.raises(IgnoreRulesInvalid, match=message):
        without_ignored(FileTree({FILE: rules.encode(), **files}))
