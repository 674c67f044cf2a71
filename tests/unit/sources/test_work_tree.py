"""The work tree of an input: its files as of a commit, and the commit that it is of."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from applyprune.errors import ApplypruneError, InputError, UsageError
from applyprune.model.inventory import RunSource
from applyprune.sources import Input, Overlay, read
from applyprune.sources.moment import Moment
from applyprune.sources.work_tree import source_of
from tests.support.repository import Repository

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
BASE = "resources: [a.yaml]\n"
PROD = "resources: [../../base]\nnamePrefix: p-\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository in which we stand, with a commit of files and kustomizations."""
    found = Repository(tmp_path / "repository")
    found.commit(
        **{
            "deploy/prod/a.yaml": CONFIG_MAP % "a",
            "deploy/prod/b.yaml": CONFIG_MAP % "b",
            "base/kustomization.yaml": BASE,
            "base/a.yaml": CONFIG_MAP % "a",
            "overlays/prod/kustomization.yaml": PROD,
            ".gitignore": "out/\n",
        }
    )
    monkeypatch.chdir(found.root)
    return found


def source(*paths: str | Overlay) -> RunSource:
    return read(list(paths)).source()


def changed(repository: Repository) -> None:
    repository.write(**{"deploy/prod/a.yaml": CONFIG_MAP % "changed"})


def untracked(repository: Repository) -> None:
    repository.write(**{"deploy/prod/new.yaml": CONFIG_MAP % "new"})


def removed(repository: Repository) -> None:
    (repository.root / "deploy/prod/b.yaml").unlink()


def staged(repository: Repository) -> None:
    changed(repository)
    repository.git("add", "-A")


def line_ends(repository: Repository) -> None:
    text = (CONFIG_MAP % "a").replace("\n", "\r\n")
    repository.write(**{"deploy/prod/a.yaml": text})


def elsewhere(repository: Repository) -> None:
    repository.write(**{"base/a.yaml": CONFIG_MAP % "changed", "notes.txt": "x"})


def ignored_rules(repository: Repository) -> None:
    repository.write(**{"deploy/prod/.sourceignore": "b.yaml\n"})


def merging(repository: Repository) -> None:
    """Stand in the middle of a merge: one file is in conflict, and is ours again."""
    repository.git("checkout", "-q", "-b", "other")
    repository.commit(**{"base/a.yaml": CONFIG_MAP % "theirs"})
    repository.git("checkout", "-q", "main")
    repository.commit(**{"base/a.yaml": CONFIG_MAP % "ours"})
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "other")


def untouched(repository: Repository) -> None:
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (untouched, False),
        (changed, True),
        (staged, True),
        (untracked, True),
        (removed, True),
        (ignored_rules, True),
        (elsewhere, False),
        (line_ends, False),
        (merging, False),
    ],
)
def test_commit_of_an_input_has_a_plus_where_a_file_differs(
    repository: Repository, change: Callable[[Repository], None], differs: bool
) -> None:
    """Of what was read, each file is compared; of the rest, none."""
    change(repository)
    head = repository.git("rev-parse", "HEAD")
    paths = {"filename": ("deploy/prod",)}
    assert source("deploy/prod") == RunSource("deploy/prod", head, differs, paths)


def test_commit_of_an_input_counts_what_git_ignores(repository: Repository) -> None:
    """``helm template > out/`` is of no commit, though ``git status`` is silent about it."""
    repository.write(**{"out/web.yaml": CONFIG_MAP % "web"})
    assert repository.git("status", "--porcelain") == ""
    assert source("out").differs


def test_commit_of_a_build_counts_its_bases(repository: Repository) -> None:
    """What a kustomization reads outside of its folder is read, too."""
    assert not source(Overlay("overlays/prod")).differs
    assert source(Overlay("overlays/prod")).paths == {"kustomize": ("overlays/prod",)}
    elsewhere(repository)
    assert source(Overlay("overlays/prod")).differs
    assert not source("deploy/prod").differs


def test_paths_of_an_input_are_those_of_its_work_tree(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever one stands; a link on the way there is no other place."""
    link = repository.root.parent / "link"
    link.symlink_to(repository.root)
    monkeypatch.chdir(repository.root / "deploy")
    for path in (
        "prod",
        "./prod/../prod",
        str(repository.root / "deploy/prod"),
        f"{link}/deploy/prod",
    ):
        found = source(path)
        assert (found.shown, found.differs) == ("deploy/prod", False), path
    assert source(".").paths == {"filename": ("deploy",)}
    assert source("prod/*.yaml").paths == {"filename": ("deploy/prod/*.yaml",)}


def test_commit_of_a_linked_work_tree_and_of_a_submodule(repository: Repository) -> None:
    """Each has a commit of its own."""
    other = Repository(repository.root.parent / "other")
    of_module = other.commit(**{"a.yaml": CONFIG_MAP % "a"})
    repository.git("submodule", "add", "-q", str(other.root), "module")
    linked = repository.root.parent / "linked"
    repository.git("worktree", "add", "-q", "--detach", str(linked))
    assert source("module").commit == of_module
    found = source(str(linked / "deploy/prod"))
    assert (found.commit, found.differs) == (repository.git("rev-parse", "HEAD"), False)


def test_input_without_a_commit_has_only_its_paths(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a work tree, before the first commit, with a broken repository, without git."""
    outside = tmp_path / "a.yaml"
    outside.write_text(CONFIG_MAP % "a")
    assert source(str(outside)) == RunSource(str(outside))
    for paths in (("deploy/prod", str(outside)), (str(outside), "deploy/prod")):
        both = source(*paths)
        assert (both.shown, both.paths, both.differs) == (", ".join(paths), {}, True)
    empty = Repository(tmp_path / "empty")
    empty.write(**{"a.yaml": CONFIG_MAP % "a"})
    assert source(str(empty.root)) == RunSource(".")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source("deploy/prod") == RunSource("deploy/prod")


@pytest.mark.parametrize(
    "address",
    ["https://ana:hunter2@example.com/a.yaml", "https://example.com/a.yaml?token=hunter2"],
)
def test_source_of_an_address_has_no_credential(repository: Repository, address: str) -> None:
    """The inventory records it, and an error names it: alone, and beside files of a work tree."""
    for paths in ([address], ["deploy/prod", address]):
        shown = source_of(paths, Moment()).shown
        assert "example.com/a.yaml" in shown
        assert "hunter2" not in shown
    with pytest.raises(UsageError, match="has no commit") as caught:
        read([address], at="HEAD")
    assert "hunter2" not in str(caught.value)


def names(given: Input) -> list[str]:
    return sorted(one.body["metadata"]["name"] for one in given)


def test_input_at_a_commit_is_read_from_it(repository: Repository) -> None:
    """Files, folders, patterns and builds with what they name outside; the work tree stays."""
    first = repository.git("rev-parse", "HEAD")
    repository.commit(
        **{
            "deploy/prod/a.yaml": CONFIG_MAP % "changed",
            "base/a.yaml": CONFIG_MAP % "changed",
            "deploy/prod/new.yaml": CONFIG_MAP % "new",
        }
    )
    changed(repository)
    before = repository.git("status", "--porcelain=v2")
    expected: dict[str | Overlay, list[str]] = {
        "deploy/prod": ["a", "b"],
        "deploy/prod/a.yaml": ["a"],
        "deploy/*/b.yaml": ["b"],
        "deploy/**/*.yaml": ["a", "b"],
        Overlay("overlays/prod"): ["p-a"],
        "overlays/prod": ["p-a"],
    }
    for path, wanted in expected.items():
        assert names(read([path], at="HEAD~1")) == wanted, path
    given = read(["deploy/prod"], at=first)
    assert given.manifests[0].origin.path == f"{first[:7]}//deploy/prod/a.yaml"
    paths = {"filename": ("deploy/prod",)}
    assert given.source() == RunSource("deploy/prod", first, paths=paths)
    assert repository.git("status", "--porcelain=v2") == before


def test_input_at_a_commit_that_is_not_here_says_how_to_get_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shallow clone is made a whole one."""
    first = repository.git("rev-parse", "HEAD")
    repository.commit(**{"deploy/prod/a.yaml": CONFIG_MAP % "changed"})
    with pytest.raises(InputError, match="the repository has no commit v9") as caught:
        read(["deploy/prod"], at="v9")
    assert "git fetch --tags" in caught.value.hint
    with pytest.raises(InputError) as caught:
        read(["deploy/prod"], at="0" * 40)
    assert f"git fetch origin {'0' * 40}" in caught.value.hint
    shallow = repository.root.parent / "shallow"
    repository.git("clone", "-q", "--depth=1", f"file://{repository.root}", str(shallow))
    monkeypatch.chdir(shallow)
    with pytest.raises(InputError) as caught:
        read(["deploy/prod"], at=first)
    assert "git fetch --unshallow" in caught.value.hint


def lacking(repository: Repository) -> str:
    return "deploy/nowhere"


def linked(repository: Repository) -> str:
    (repository.root / "deploy/link").symlink_to("prod")
    repository.commit()
    return "deploy/link"


def submodule(repository: Repository) -> str:
    other = Repository(repository.root.parent / "other")
    other.commit(**{"a.yaml": CONFIG_MAP % "a"})
    repository.git("submodule", "add", "-q", str(other.root), "deploy/module")
    repository.commit()
    return "deploy"


def outside(repository: Repository) -> str:
    return str(repository.root.parent)


def standard_input(repository: Repository) -> str:
    return "-"


def address(repository: Repository) -> str:
    return "https://example.com/a.yaml"


def pattern(repository: Repository) -> str:
    return "deploy/*/none*.yaml"


@pytest.mark.parametrize(
    ("path_of", "error", "says"),
    [
        (lacking, InputError, "the source has no path deploy/nowhere"),
        (linked, InputError, "is a symbolic link, and links are not followed"),
        (submodule, InputError, "is a submodule, and submodules are not fetched"),
        (outside, UsageError, "is in no Git work tree, so it has no commit"),
        (standard_input, UsageError, "standard input has no commit"),
        (address, UsageError, "https://example.com/a.yaml has no commit"),
        (pattern, InputError, "no file matches"),
    ],
)
def test_input_that_no_commit_has_is_an_error(
    repository: Repository,
    path_of: Callable[[Repository], str],
    error: type[ApplypruneError],
    says: str,
) -> None:
    """It never counts as empty."""
    path = path_of(repository)
    with pytest.raises(error, match=says):
        read([path], at="HEAD")


def test_input_in_two_work_trees_has_no_one_commit(repository: Repository) -> None:
    """The error names both."""
    other = Repository(repository.root.parent / "other")
    with pytest.raises(UsageError, match=f"is in the work tree {other.root}, and another path in"):
        read(["deploy/prod", str(other.root)], at="HEAD")


def test_repository_that_lacks_an_object_is_left_as_it_is(repository: Repository) -> None:
    """The store of a Bundle would be made again; this one is the user's own."""
    blob = repository.git("rev-parse", "HEAD:deploy/prod/a.yaml")
    (repository.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    before = sorted(repository.root.rglob("*"))
    with pytest.raises(InputError, match="the repository lacks files of the commit"):
        read(["deploy/prod"], at="HEAD")
    assert sorted(repository.root.rglob("*")) == before


def test_program_that_a_repository_configures_is_not_run(repository: Repository) -> None:
    """Neither for the commit of an input, nor for an input of a commit."""
    told = repository.root.parent / "ran"
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "core.hooksPath"):
        repository.git("config", key, f"touch {told}")
    repository.commit(
        **{".gitattributes": "*.yaml filter=x\n", "deploy/prod/c.yaml": CONFIG_MAP % "c"}
    )
    told.unlink(missing_ok=True)
    assert names(read(["deploy/prod"], at="HEAD~1")) == ["a", "b"]
    source("deploy/prod")
    assert not told.exists()
