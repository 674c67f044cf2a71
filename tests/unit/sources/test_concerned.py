"""What a change concerns: each set that may read something else than at a commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path

import pytest

from applyprune.errors import ApplypruneError, InputError, UsageError
from applyprune.sources import Overlay, read
from applyprune.sources.concerned import (
    Concern,
    RemovedSet,
    SetName,
    SetReads,
    concerned,
    removed_sets,
)
from tests.support.repository import Repository

CONFIG = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: one}\n"
FILES = {
    "applyprune.yaml": f"{CONFIG}actor: one\n",
    "applyprune.schema.json": '{"title": "one"}\n',
    ".gitignore": "out/\n",
    "notes.txt": "one\n",
    # A set of a folder, with a folder below it and rules.
    "deploy/web/applyprune.yaml": f"{CONFIG}name: web\nnamespace: shop\nfilename: manifests\n",
    "deploy/web/.sourceignore": "one.yaml\n",
    "deploy/web/manifests/a.yaml": CONFIG_MAP % "a",
    "deploy/web/manifests/one.yaml": CONFIG_MAP % "one",
    "deploy/web/manifests/two.yaml": CONFIG_MAP % "two",
    "deploy/web/manifests/deep/b.json": '{"apiVersion": "v1", "kind": "Secret", '
    '"metadata": {"name": "one"}}',
    "deploy/web/manifests/README.md": "one\n",
    # A set that is built, with all that a kustomization may name.
    "deploy/api/applyprune.yaml": f"{CONFIG}name: api\nnamespace: shop\nkustomize: .\n",
    "deploy/api/kustomization.yaml": "namePrefix: one-\n"
    "resources: [../../base, two words.yaml]\ncomponents: [../../component]\n"
    "patches: [{path: patch.yaml}]\ntransformers: [transformer.yaml]\n"
    "configMapGenerator: [{name: g, files: [run=run.sh], envs: [one.env]}]\n",
    "deploy/api/two words.yaml": CONFIG_MAP % "words",
    "deploy/api/patch.yaml": CONFIG_MAP % "base",
    "deploy/api/transformer.yaml": "apiVersion: builtin\nkind: PatchTransformer\n"
    "metadata: {name: one}\npath: by a transformer.yaml\ntarget: {name: words}\n",
    "deploy/api/by a transformer.yaml": CONFIG_MAP % "words",
    "deploy/api/run.sh": "echo one\n",
    "deploy/api/one.env": "key=one\n",
    "deploy/api/README.md": "one\n",
    "base/kustomization.yaml": "resources: [a.yaml]\nnameSuffix: -one\n",
    "base/a.yaml": CONFIG_MAP % "base",
    "component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\n"
    "kind: Component\npatches: [{path: patch.yaml}]\n",
    "component/patch.yaml": CONFIG_MAP % "base",
    # A set that shares the base; its own folder has no more than its configuration.
    "deploy/pay/applyprune.yaml": f"{CONFIG}name: pay\nnamespace: pay\nkustomize: ../../base\n",
    # A set of a pattern.
    "deploy/jobs/applyprune.yaml": f"{CONFIG}name: jobs\nnamespace: pay\nfilename: '*/job-*'\n",
    "deploy/jobs/daily/job-a.yaml": CONFIG_MAP % "job",
    "deploy/jobs/daily/job-b.yaml": CONFIG_MAP % "b",
    "deploy/jobs/daily/other.yaml": CONFIG_MAP % "other",
}
SETS = (
    SetReads(
        "web", SetName("web", "shop"), ["deploy/web/manifests"], ["deploy/web/applyprune.yaml"]
    ),
    SetReads(
        "api", SetName("api", "shop"), [Overlay("deploy/api")], ["deploy/api/applyprune.yaml"]
    ),
    SetReads("pay", SetName("pay", "pay"), ["base"], ["deploy/pay/applyprune.yaml"]),
    SetReads(
        "jobs", SetName("jobs", "pay"), ["deploy/jobs/*/job-*"], ["deploy/jobs/applyprune.yaml"]
    ),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository of four sets, with a commit."""
    found = Repository(tmp_path_factory.mktemp("template") / "repository")
    found.commit(**FILES)
    return found


@pytest.fixture
def repository(template: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a copy of it in which we stand."""
    found = copy(template)
    found.root = tmp_path / "repository"
    shutil.copytree(template.root, found.root)
    monkeypatch.chdir(found.root)
    return found


def reasons(sets: Sequence[SetReads] = SETS, revision: str = "HEAD") -> Mapping[str, str]:
    found = concerned("deploy", sets, revision)
    assert found.removed == ()
    return {one.key: one.reason for one in found.concerns}


Change = Callable[[Repository], object]


def write(name: str, text: str | None = None) -> Change:
    """Write a file: its text, or its own one with other words."""

    def change(repository: Repository) -> None:
        content = FILES[name].replace("one", "other") if text is None else text
        repository.write(**{name: content})

    return change


def remove(name: str) -> Change:
    return lambda repository: (repository.root / name).unlink()


def move(name: str, to: str) -> Change:
    def change(repository: Repository) -> None:
        (repository.root / to).parent.mkdir(parents=True, exist_ok=True)
        (repository.root / name).rename(repository.root / to)

    return change


def link(name: str, to: str) -> Change:
    """Replace what is at a path by a link."""

    def change(repository: Repository) -> None:
        path = repository.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    return change


def line_ends(name: str) -> Change:
    return write(name, FILES[name].replace("\n", "\r\n"))


def mode(repository: Repository) -> None:
    (repository.root / "deploy/web/manifests/a.yaml").chmod(0o755)


def touch(repository: Repository) -> None:
    for name in FILES:
        os.utime(repository.root / name)


def both(*changes: Change) -> Change:
    return lambda repository: [change(repository) for change in changes]


def submodule(name: str) -> Change:
    def change(repository: Repository) -> None:
        other = Repository(repository.root.parent / "other")
        other.commit(**{"c.yaml": CONFIG_MAP % "c"})
        repository.git("submodule", "add", "-q", str(other.root), name)

    return change


def repository_in(name: str) -> Change:
    return lambda repository: repository.git("init", "-q", name)


WEB, API = "deploy/web/manifests", "deploy/api"
ALL = ("web", "api", "pay", "jobs")


CHANGES: Mapping[str, tuple[Change, Mapping[str, str]]] = {
    "nothing": (lambda _: None, {}),
    "times": (touch, {}),
    "executable bit": (mode, {}),
    "file of no set": (write("notes.txt"), {}),
    "schema": (write("applyprune.schema.json"), {}),
    "other file of a folder": (write(f"{WEB}/README.md"), {}),
    "other file of a build": (write(f"{API}/README.md"), {}),
    "other file beside a pattern": (write("deploy/jobs/daily/other.yaml"), {}),
    "line ends of a manifest": (line_ends(f"{WEB}/a.yaml"), {}),
    "own file": (write(f"{WEB}/a.yaml"), {"web": f"{WEB}/a.yaml changed"}),
    "own file, same size": (
        write(f"{WEB}/a.yaml", (CONFIG_MAP % "a").replace("one", "two")),
        {"web": f"{WEB}/a.yaml changed"},
    ),
    "file further down": (
        write(f"{WEB}/deep/b.json"),
        {"web": f"{WEB}/deep/b.json changed"},
    ),
    "ignored file": (write(f"{WEB}/one.yaml"), {"web": f"{WEB}/one.yaml changed"}),
    "ignore rules": (
        write("deploy/web/.sourceignore"),
        {"web": "deploy/web/.sourceignore changed"},
    ),
    "new ignore rules": (
        write(".sourceignore", "two.yaml\n"),
        dict.fromkeys(ALL, ".sourceignore is not in HEAD"),
    ),
    "new file": (write(f"{WEB}/new.YML", "{}"), {"web": f"{WEB}/new.YML is not in HEAD"}),
    "new folder": (
        write(f"{WEB}/new/a.yaml", "{}"),
        {"web": f"{WEB}/new/a.yaml is not in HEAD"},
    ),
    "removed file": (
        remove(f"{WEB}/a.yaml"),
        {"web": f"{WEB}/a.yaml was removed"},
    ),
    "removed folder": (
        remove(f"{WEB}/deep/b.json"),
        {"web": f"{WEB}/deep/b.json was removed"},
    ),
    "renamed file": (
        move(f"{WEB}/a.yaml", f"{WEB}/c.yaml"),
        {"web": f"{WEB}/a.yaml was removed and 1 more"},
    ),
    "file that is a link now": (
        both(write("notes.yaml", CONFIG_MAP % "a"), link(f"{WEB}/a.yaml", "../../../notes.yaml")),
        {"web": f"{WEB}/a.yaml changed and 1 more"},
    ),
    "new link": (link(f"{WEB}/more", "deep"), {"web": f"{WEB}/more is not in HEAD"}),
    "build": (write(f"{API}/kustomization.yaml"), {"api": f"{API}/kustomization.yaml changed"}),
    "base": (
        write("base/a.yaml"),
        dict.fromkeys(("api", "pay"), "base/a.yaml changed"),
    ),
    "kustomization of a base": (
        write("base/kustomization.yaml"),
        dict.fromkeys(("api", "pay"), "base/kustomization.yaml changed"),
    ),
    "second kustomization": (
        write("base/Kustomization", "{}"),
        dict.fromkeys(("api", "pay"), "base/Kustomization is not in HEAD"),
    ),
    "component": (
        write("component/patch.yaml"),
        {"api": "component/patch.yaml changed"},
    ),
    "patch": (write(f"{API}/patch.yaml"), {"api": f"{API}/patch.yaml changed"}),
    "file of a transformer": (
        write(f"{API}/by a transformer.yaml"),
        {"api": f"{API}/by a transformer.yaml changed"},
    ),
    "file of a generator": (write(f"{API}/run.sh"), {"api": f"{API}/run.sh changed"}),
    "line ends of a generator": (line_ends(f"{API}/run.sh"), {"api": f"{API}/run.sh changed"}),
    "removed file of a build": (
        remove(f"{API}/one.env"),
        {"api": f"{API}/one.env was removed"},
    ),
    "match": (
        write("deploy/jobs/daily/job-a.yaml"),
        {"jobs": "deploy/jobs/daily/job-a.yaml changed"},
    ),
    "new match": (
        write("deploy/jobs/daily/job-c.txt", CONFIG_MAP % "c"),
        {"jobs": "deploy/jobs/daily/job-c.txt is not in HEAD"},
    ),
    "removed match": (
        remove("deploy/jobs/daily/job-a.yaml"),
        {"jobs": "deploy/jobs/daily/job-a.yaml was removed"},
    ),
    "own configuration": (
        write("deploy/web/applyprune.yaml", f"{FILES['deploy/web/applyprune.yaml']}actor: x\n"),
        {"web": "deploy/web/applyprune.yaml changed"},
    ),
    "inherited configuration": (
        write("applyprune.yaml"),
        dict.fromkeys(ALL, "applyprune.yaml changed"),
    ),
    "new inherited configuration": (
        write("deploy/applyprune.yaml", CONFIG),
        dict.fromkeys(ALL, "deploy/applyprune.yaml is not in HEAD"),
    ),
    "removed inherited configuration": (
        remove("applyprune.yaml"),
        dict.fromkeys(ALL, "applyprune.yaml was removed"),
    ),
    "configuration of the input": (
        write("base/applyprune.yaml", CONFIG),
        {"pay": "base/applyprune.yaml is not in HEAD"},
    ),
    "repository in the input": (
        repository_in(WEB),
        {"web": f"{WEB} is not in this work tree"},
    ),
    "repository further down": (
        repository_in(f"{WEB}/deep"),
        {"web": f"{WEB}/deep is a repository of its own"},
    ),
    "new submodule": (
        submodule(f"{WEB}/module"),
        {"web": f"{WEB}/module is a repository of its own"},
    ),
}


@pytest.mark.holds("files-above", row="inherited configuration")
@pytest.mark.holds("removed-from-a-folder", row="removed file")
@pytest.mark.holds("matched-before", row="removed match")
@pytest.mark.holds("named-and-missing", row="removed file of a build")
@pytest.mark.holds("bytes-of-a-build", row="line ends of a generator")
@pytest.mark.holds("other-work-tree", row="repository in the input")
@pytest.mark.holds("nested-repository", row="repository further down")
@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_change_concerns_the_sets_that_read_it(
    repository: Repository, change: Change, expected: Mapping[str, str]
) -> None:
    change(repository)
    assert reasons() == expected


def test_change_of_a_commit_counts_as_one_of_the_work_tree(repository: Repository) -> None:
    """Staged, committed, and undone by hand; the revision may have any form."""
    change = write("base/a.yaml")
    change(repository)
    repository.git("add", "-A")
    assert [*reasons()] == ["api", "pay"]
    head = repository.commit()
    repository.git("tag", "v1")
    assert reasons() == {}
    for revision in ("HEAD~1", "main^", f"{head}~1"):
        assert [*reasons(revision=revision)] == ["api", "pay"], revision
    assert concerned("deploy", SETS, "v1").commit == head
    repository.write(**{"base/a.yaml": FILES["base/a.yaml"]})
    assert reasons(revision="HEAD~1") == {}
    assert reasons(revision="v1")["pay"] == "base/a.yaml changed"


def test_set_is_compared_with_the_branch_itself(repository: Repository) -> None:
    """Not with where we have left it: what is newer there is not applied by us."""
    repository.git("checkout", "-q", "-b", "ours")
    repository.git("checkout", "-q", "main")
    repository.commit(**{"base/a.yaml": CONFIG_MAP % "theirs"})
    repository.git("checkout", "-q", "ours")
    repository.commit(**{f"{WEB}/a.yaml": CONFIG_MAP % "ours"})
    assert [*reasons(revision="main")] == ["web", "api", "pay"]
    base = repository.git("merge-base", "main", "HEAD")
    assert [*reasons(revision=base)] == ["web"]


@pytest.mark.parametrize("where", ["deploy/web", "/", "out"])
def test_set_is_followed_from_wherever_one_is(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Reasons name files from the root of the work tree."""
    (repository.root / "out").mkdir()
    monkeypatch.chdir(repository.root / where)

    def here(path: str) -> str:
        return os.path.relpath(repository.root / path)

    sets = [
        SetReads("web", SetName("web"), [here(WEB)], [here("deploy/web/applyprune.yaml")]),
        SetReads("api", SetName("api"), [Overlay(here(API))], []),
    ]
    write("base/a.yaml")(repository)
    write(f"{WEB}/deep/b.json")(repository)
    found = concerned(here("deploy"), sets, "HEAD").concerns
    assert [one.reason for one in found] == [f"{WEB}/deep/b.json changed", "base/a.yaml changed"]


def test_file_that_git_ignores_counts_where_it_is_read(repository: Repository) -> None:
    """No commit has it: ``helm template > out/``."""
    repository.write(**{"out/web.yaml": CONFIG_MAP % "web"})
    assert reasons([SetReads("web", SetName("web"), ["out"], [])]) == {
        "web": "out/web.yaml is not in HEAD"
    }
    assert reasons() == {}


def test_reasons_of_a_set_are_all_there(repository: Repository) -> None:
    """The first one is shown; each is there once, though base and build are both read."""
    for name in ("base/a.yaml", f"{API}/patch.yaml", "applyprune.yaml"):
        write(name)(repository)
    sets = [SetReads("api", SetName("api"), [Overlay(API), "base", Overlay("base")], [])]
    (found,) = concerned("deploy", sets, "HEAD").concerns
    assert found == Concern(
        "api", ("applyprune.yaml changed", f"{API}/patch.yaml changed", "base/a.yaml changed")
    )
    assert found.reason == "applyprune.yaml changed and 2 more"


# Links.


LINKS: Mapping[str, tuple[Change, str | Overlay, Change, Sequence[str]]] = {
    "content behind the path": (
        link("live", WEB),
        "live",
        write(f"{WEB}/a.yaml"),
        [f"{WEB}/a.yaml changed"],
    ),
    "path leads elsewhere": (link("live", WEB), "live", link("live", "base"), ["live changed"]),
    "one link leads to another": (
        both(link("first", "second"), link("second", WEB)),
        "first/deep",
        link("second", "base"),
        ["second changed"],
    ),
    "content behind a link in a folder": (
        link("linked/more", "../base"),
        "linked",
        write("base/a.yaml"),
        ["base/a.yaml changed"],
    ),
    "link in a folder is gone": (
        both(link("linked/more", "../base"), write("linked/c.yaml", "")),
        "linked",
        remove("linked/more"),
        ["linked/more was removed"],
    ),
    "linked base, seen from where it is": (
        both(
            link("app/base", "../other/deep"),
            write("app/kustomization.yaml", "resources: [base]"),
            write("other/deep/kustomization.yaml", "resources: [../b]"),
            write("other/b/kustomization.yaml", "resources: [b.yaml]"),
            write("other/b/b.yaml", CONFIG_MAP % "b"),
        ),
        Overlay("app"),
        write("other/b/b.yaml", CONFIG_MAP % "c"),
        ["other/b/b.yaml changed"],
    ),
    "linked base leads elsewhere": (
        both(link("app/base", "../base"), write("app/kustomization.yaml", "resources: [base]")),
        Overlay("app"),
        link("app/base", "../component"),
        ["app/base changed"],
    ),
    "link that is a file with its text": (
        link("linked/x.yaml", "../notes.txt"),
        "linked",
        both(remove("linked/x.yaml"), write("linked/x.yaml", "../notes.txt")),
        ["linked/x.yaml changed"],
    ),
    "absolute link within the work tree": (
        lambda repository: link("live", str(repository.root / WEB))(repository),
        "live",
        write(f"{WEB}/a.yaml"),
        [f"{WEB}/a.yaml changed"],
    ),
    "links in a circle": (
        both(link("linked/one", "two"), link("linked/two", "one")),
        "linked",
        lambda _: None,
        ["linked/one leads out of the work tree", "linked/two leads out of the work tree"],
    ),
    "link that leads out": (
        link("linked/out", "../.."),
        "linked",
        lambda _: None,
        ["linked/out leads out of the work tree"],
    ),
    "removed match of a pattern behind a link": (
        link("links/a", "../base"),
        "links/*/a.yaml",
        link("links/a", "../base/a.yaml"),
        ["links/*/a.yaml matches no file", "links/a changed"],
    ),
    "removed match behind the folder of a pattern": (
        link("live", WEB),
        "live/*.yaml",
        remove(f"{WEB}/a.yaml"),
        [f"{WEB}/a.yaml was removed"],
    ),
    "pattern that may have matched behind a link": (
        link("links/a", "../base"),
        "links/**/*.yaml",
        remove("base/a.yaml"),
        ["links/**/*.yaml may match anything behind links/a"],
    ),
}


@pytest.mark.holds("matched-behind-a-link", row="pattern that may have matched behind a link")
@pytest.mark.holds("links-on-the-way", row="path leads elsewhere")
@pytest.mark.holds("link-with-the-text-of-a-file", row="link that is a file with its text")
@pytest.mark.holds("link-out-of-the-tree", row="link that leads out")
@pytest.mark.parametrize(("before", "path", "change", "expected"), LINKS.values(), ids=LINKS)
def test_link_counts_as_much_as_where_it_leads(
    repository: Repository,
    before: Change,
    path: str | Overlay,
    change: Change,
    expected: Sequence[str],
) -> None:
    before(repository)
    repository.commit()
    change(repository)
    found = concerned("deploy", [SetReads("web", SetName("web"), [path], [])], "HEAD").concerns
    assert [reason for one in found for reason in one.reasons] == expected


# Doubt.


BUILD = "app/kustomization.yaml"
UNPINNED = "the kustomization of app names what is neither in the work tree nor of one version"
REMOTE = "https://github.com/org/repo//deploy"
DOUBTS: Mapping[str, tuple[Change, str | Overlay, str]] = {
    "standard input": (lambda _: None, "-", "<stdin> is not in HEAD"),
    "address": (
        lambda _: None,
        "https://ana:hunter2@example.com/a.yaml?token=hunter2",
        "https://example.com/a.yaml?… is not in HEAD",
    ),
    "artifact": (
        lambda _: None,
        Overlay("oci://example.com/web:1.2.3"),
        "oci://example.com/web:1.2.3 is not in HEAD",
    ),
    "nothing there": (lambda _: None, "deploy/none", "deploy/none does not exist"),
    "no match": (lambda _: None, "deploy/none-*", "deploy/none-* matches no file"),
    "out of the work tree": (lambda _: None, "..", ".. is not in this work tree"),
    "pattern that goes back": (
        lambda _: None,
        "deploy/*/../web/manifests/a.yaml",
        "deploy/*/../web/manifests/a.yaml may match anything",
    ),
    "rules that cannot be read": (
        both(write("app/.sourceignore", "x" * 2000), write(BUILD, "{}")),
        "app",
        "app cannot be read",
    ),
    "submodule": (submodule("app/module"), "app", "app/module is a submodule"),
    "path in a submodule": (
        submodule("app/module"),
        "app/module",
        "app/module is not in this work tree",
    ),
    "base in a submodule": (
        both(submodule("module"), write(BUILD, "resources: [../module/c.yaml]")),
        Overlay("app"),
        "module is a submodule",
    ),
    "charts": (
        write(BUILD, "helmCharts: [{name: x}]"),
        Overlay("app"),
        "the kustomization of app names Helm charts",
    ),
    "no kustomization that can be read": (
        write(BUILD, "resources: ["),
        Overlay("app"),
        "the kustomization of app cannot be read",
    ),
    "base out of the work tree": (
        write(BUILD, "resources: [../..]"),
        Overlay("app"),
        "the kustomization of app names what is outside of the work tree",
    ),
    "base that is not there": (write(BUILD, "resources: [../none]"), Overlay("app"), UNPINNED),
    "base without a version": (write(BUILD, f"resources: ['{REMOTE}']"), Overlay("app"), UNPINNED),
    "base of a branch": (
        write(BUILD, f"resources: ['{REMOTE}?ref=main']"),
        Overlay("app"),
        UNPINNED,
    ),
    "base of a branch that is the name of a file here": (
        both(
            write(BUILD, f"resources: ['{REMOTE}?ref=main']"),
            write("app/main/kustomization.yaml", "{}"),
        ),
        Overlay("app"),
        UNPINNED,
    ),
    "base of a base": (
        both(
            write("below/kustomization.yaml", f"resources: ['{REMOTE}']"),
            write(BUILD, "resources: [../below]"),
        ),
        Overlay("app"),
        UNPINNED.replace("app", "below"),
    ),
    "patch of an address": (
        write(BUILD, "patches: [{path: 'https://example.com/a.yaml'}]"),
        Overlay("app"),
        UNPINNED,
    ),
    "patch of a transformer": (
        write(BUILD, "transformers: ['{path: https://example.com/a.yaml}']"),
        Overlay("app"),
        UNPINNED,
    ),
    "file by its whole path": (
        write(BUILD, "resources: [/etc/hostname]"),
        Overlay("app"),
        UNPINNED,
    ),
    "folder of transformers": (
        both(
            write("plugins/kustomization.yaml", "resources: [a.yaml]"),
            write("plugins/a.yaml", "kind: PatchTransformer\npath: ../patch.yaml"),
            write(BUILD, "transformers: [../plugins]"),
        ),
        Overlay("app"),
        "the kustomization of app names a folder of generators or transformers",
    ),
}


@pytest.mark.holds("pattern-that-goes-back", row="pattern that goes back")
@pytest.mark.holds("unknown-build", row="charts")
@pytest.mark.holds("folder-of-plugins", row="folder of transformers")
@pytest.mark.holds("pinned-base", row="base of a branch")
@pytest.mark.holds("base-out-of-the-tree", row="base out of the work tree")
@pytest.mark.parametrize(("before", "path", "expected"), DOUBTS.values(), ids=DOUBTS)
def test_doubt_concerns_a_set(
    repository: Repository, before: Change, path: str | Overlay, expected: str
) -> None:
    """Also where nothing has changed; no credential is in the reason."""
    before(repository)
    repository.commit(**{"more.txt": ""})
    assert reasons([SetReads("web", SetName("web"), [path], [])]) == {"web": expected}


def test_base_of_one_version_counts_by_its_text(repository: Repository) -> None:
    text = f"resources: ['{REMOTE}?ref=v1.2.3']"
    write(BUILD, text)(repository)
    repository.commit()
    sets = [SetReads("web", SetName("web"), [Overlay("app")], [])]
    assert reasons(sets) == {}
    write(BUILD, text.replace("3", "4"))(repository)
    assert reasons(sets) == {"web": f"{BUILD} changed"}


def test_rule_of_the_set_decides_whether_its_folder_is_built(repository: Repository) -> None:
    """A kustomization that is ignored is none; then each manifest of the folder is read."""
    write("base/other.yaml", CONFIG_MAP % "other")(repository)
    repository.commit()
    write("base/other.yaml", CONFIG_MAP % "more")(repository)
    built = SetReads("pay", SetName("pay"), ["base"], [])
    is_read = SetReads("all", SetName("all"), ["base"], [], ["kustomization.yaml"])
    assert reasons([built, is_read]) == {"all": "base/other.yaml changed"}


# Never unconcerned where the manifests differ.


def linked_away(name: str) -> Change:
    def change(repository: Repository) -> None:
        text = (repository.root / name).read_text()
        (repository.root.parent / "other").write_text(text.replace("one", "other"))
        link(name, str(repository.root.parent / "other"))(repository)

    return change


FOLDERS = sorted({str(Path(name).parent) for name in FILES})
NEW = {
    **dict.fromkeys(("new.yaml", "job-new", "README", "new words.yaml"), CONFIG_MAP % "new"),
    "kustomization.yml": "resources: [new.yaml]\n",
    "applyprune.yaml": CONFIG,
    ".sourceignore": "*.yaml\n",
}
ADDED = {str(Path(folder, name)) for folder in FOLDERS for name in NEW} - FILES.keys()
EVERYWHERE: Mapping[str, Mapping[str, Change]] = {
    "changed": {name: write(name) for name in FILES},
    "removed": {name: remove(name) for name in FILES},
    "with other line ends": {name: line_ends(name) for name in FILES},
    "led elsewhere": {name: linked_away(name) for name in FILES},
    "added": {name: write(name, NEW[Path(name).name]) for name in ADDED},
}


def at_rest(repository: Repository) -> None:
    """Make all as old as it must be to be read at once."""
    for folder, _, files in os.walk(repository.root):
        for name in (".", *files):
            os.utime(Path(folder, name), (1, 1), follow_symlinks=False)


def manifests(one: SetReads) -> object:
    """Return what a set reads, or what is wrong with it."""
    try:
        given = read(one.paths)
    except ApplypruneError as error:
        return str(error)
    return [each.body for each in given], given.ignored


def restore(repository: Repository, name: str) -> None:
    (repository.root / name).unlink(missing_ok=True)
    if name in FILES:
        repository.write(**{name: FILES[name]})


@pytest.mark.parametrize("changes", EVERYWHERE.values(), ids=EVERYWHERE)
def test_set_is_concerned_wherever_a_change_changes_its_manifests(
    repository: Repository, changes: Mapping[str, Change]
) -> None:
    """Each place is changed alone. A set reads the same with all changes that do not concern it."""
    at_rest(repository)
    before = {one.key: manifests(one) for one in SETS}
    concerning = {}
    for name, change in changes.items():
        change(repository)
        concerning[name] = {one.key for one in concerned("deploy", SETS, "HEAD").concerns}
        restore(repository, name)
    assert "api" in set().union(*concerning.values())
    for one in SETS:
        harmless = [name for name, keys in concerning.items() if one.key not in keys]
        assert harmless
        for name in harmless:
            changes[name](repository)
        at_rest(repository)
        assert concerned("deploy", [one], "HEAD").concerns == ()
        assert manifests(one) == before[one.key], harmless
        for name in harmless:
            restore(repository, name)


# Sets that are gone.


def remove_folder(name: str) -> Change:
    return lambda repository: shutil.rmtree(repository.root / name)


def named(name: str, *lines: str) -> str:
    return "".join([CONFIG, f"name: {name}\n", *(f"{line}\n" for line in lines)])


OF_WEB = "deploy/web/applyprune.yaml"
GONE: Mapping[str, tuple[Change, SetName | None, Sequence[SetName]]] = {
    "folder": (remove_folder("deploy/web"), None, [SetName("web", "shop")]),
    "file": (remove(OF_WEB), None, [SetName("web", "shop")]),
    "renamed folder": (move("deploy/web", "deploy/site"), SetName("web", "shop"), []),
    "folder elsewhere in the work tree": (move("deploy/web", "old/web"), None, []),
    "other name": (
        write(OF_WEB, named("site", "namespace: shop")),
        SetName("site", "shop"),
        [SetName("web", "shop")],
    ),
    "other namespace": (
        write(OF_WEB, named("web", "namespace: store")),
        SetName("web", "store"),
        [SetName("web", "shop")],
    ),
    "namespace that is unknown now": (write(OF_WEB, named("web")), SetName("web"), []),
    "no name": (write(OF_WEB, CONFIG), None, [SetName("web", "shop")]),
    "broken file": (write(OF_WEB, "name: ["), SetName("web", "shop"), []),
}


@pytest.mark.holds("set-outside-of-the-folder", row="folder elsewhere in the work tree")
@pytest.mark.holds("set-that-is-gone", row="namespace that is unknown now")
@pytest.mark.parametrize(("change", "now", "gone"), GONE.values(), ids=GONE)
def test_removed_set_is_named_as_it_was(
    repository: Repository, change: Change, now: SetName | None, gone: Sequence[SetName]
) -> None:
    """What still names the set, wherever in the work tree, is a rename, or may be one."""
    change(repository)
    others = SETS[1:]
    sets = [*others, *([SetReads("new", now, [], [])] if now else [])]
    found = concerned("deploy", sets, "HEAD")
    assert found.removed == tuple(RemovedSet(one, OF_WEB) for one in gone)
    assert {one.key for one in found.concerns} <= {"new", "api", "pay"}


def test_removed_set_has_the_keys_that_it_inherited(repository: Repository) -> None:
    """The namespace and the context of the files above it count, as they were."""
    above = f"{CONFIG}namespace: above\ncontext: {{name: prod, use: true}}\n"
    repository.commit(
        **{
            "applyprune.yaml": above,
            "deploy/new/applyprune.yaml": named("new"),
            "deploy/own/applyprune.yaml": named("own", "namespace: its"),
            "deploy/bad/applyprune.yaml": "name: [",
            "elsewhere/applyprune.yaml": named("elsewhere"),
        }
    )
    for name in ("deploy/new", "deploy/own", "deploy/bad", "elsewhere"):
        remove_folder(name)(repository)
    write("applyprune.yaml", CONFIG)(repository)
    found = concerned("deploy", SETS, "HEAD").removed
    assert [one.set for one in found] == [
        SetName("new", "above", "prod"),
        SetName("own", "its", "prod"),
    ]
    assert concerned("deploy/new", SETS, "HEAD").removed == found[:1]
    assert [one.set.name for one in concerned(".", SETS, "HEAD").removed] == [
        "new", "own", "elsewhere"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "may_be"),
    [
        (SetName("web", "a", "x"), SetName("web", "a", "x"), True),
        (SetName("web", "a", "x"), SetName("web", "a"), True),
        (SetName("web"), SetName("web", "a", "x"), True),
        (SetName("web", "a"), SetName("web", "b"), False),
        (SetName("web", "a", "x"), SetName("web", "a", "y"), False),
        (SetName("web", "a"), SetName("api", "a"), False),
    ],
)
def test_set_is_gone_only_if_no_set_may_be_it(one: SetName, other: SetName, may_be: bool) -> None:
    """Whoever is told that it is gone may delete it."""
    before = [RemovedSet(one, "a/applyprune.yaml"), RemovedSet(one, "b/applyprune.yaml")]
    gone = [RemovedSet(one, "a/applyprune.yaml")]
    assert removed_sets(before, []) == gone
    assert removed_sets(before, [other]) == ([] if may_be else gone)
    assert removed_sets(before, [SetName("else", "b"), other]) == ([] if may_be else gone)


# Revisions and work trees: such as do, and such as do not.


def test_partial_clone_is_enough(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the contents of the commit, its names and IDs are there."""
    repository.commit(**{f"{WEB}/a.yaml": CONFIG_MAP % "changed"})
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = repository.root.parent / "clone"
    url = f"file://{repository.root}"
    repository.git("clone", "-q", "--filter=blob:none", url, str(clone))
    monkeypatch.chdir(clone)
    assert reasons(revision="HEAD~1") == {"web": f"{WEB}/a.yaml changed"}


def test_revision_that_is_not_here_is_an_error_with_what_to_do(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit(**{"more.txt": ""})
    shallow = repository.root.parent / "shallow"
    repository.git("clone", "-q", "--depth=1", f"file://{repository.root}", str(shallow))
    fetch = "git fetch {}origin +refs/heads/{}:refs/remotes/origin/{}"
    hints = {
        repository.root: {"v9": "git fetch --tags", "origin/x": fetch.format("", "x", "x")},
        shallow: {
            "HEAD~1": "git fetch --unshallow",
            "origin/a/b": fetch.format("--depth=1 ", "a/b", "a/b"),
        },
    }
    for root, expected in hints.items():
        monkeypatch.chdir(root)
        for revision, hint in expected.items():
            with pytest.raises(InputError, match="the repository has no commit") as caught:
                concerned("deploy", SETS, revision)
            assert caught.value.hint == f"Get it first: {hint}"


def test_sets_in_no_work_tree_or_in_two_are_an_error(
    repository: Repository, tmp_path: Path
) -> None:
    outside = str(tmp_path)
    with pytest.raises(UsageError, match="is in no Git work tree, so it has no commit"):
        concerned(outside, [], "HEAD")
    other = Repository(tmp_path / "other")
    other.commit(**{"applyprune.yaml": named("other")})
    sets = [SetReads("other", SetName("other"), [], [str(other.root / "applyprune.yaml")])]
    with pytest.raises(UsageError, match="is in the work tree") as caught:
        concerned("deploy", sets, "HEAD")
    assert caught.value.hint == "Give --changed-since with the paths of one work tree."


def test_comparison_writes_nothing_and_runs_no_program(repository: Repository) -> None:
    """Neither a filter nor a hook of the repository; its index stays as it is."""
    ran = repository.root.parent / "ran"
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "core.hooksPath"):
        repository.git("config", key, f"touch {ran}; cat")
    repository.commit(**{".gitattributes": "*.yaml filter=x\n"})
    touch(repository)
    remove_folder("deploy/web")(repository)
    ran.unlink(missing_ok=True)
    kept = [path for path in sorted((repository.root / ".git").rglob("*")) if path.is_file()]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept}
    assert concerned("deploy", SETS[1:], "HEAD").removed
    assert not ran.exists()
    after = [path for path in sorted((repository.root / ".git").rglob("*")) if path.is_file()]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in after} == before
