"""A fetched tree as input: the rules of a local folder, and builds in a folder nobody sees."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError
from applyprune.model.problem import ProblemKind
from applyprune.sources import Overlay, read
from applyprune.sources.inputs import read_sources, tree_sources
from applyprune.sources.tree import MAX_BYTES, FileTree, IgnoredText, SourceText
from tests.support.source_text import config_map, write
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from applyprune.localplane import Binaries
    from applyprune.model.problem import Problem

SHOWN = "oci://registry.example.com/shop/deploy:1.4.0"
CONFIG = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\n"
SCHEMA = '{"$id": "https://applyprune.dev/schemas/v1alpha1/config.json"}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binaries: Binaries) -> Path:
    """A working directory, the embedded kubectl as the only program, and a place for builds."""
    for name in ("bin", "work", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/kubectl").symlink_to(binaries.kubectl)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def sources(
    files: dict[str, str],
    path: str = "",
    *,
    limit: int = MAX_BYTES,
    refuses: bool = False,
    must_build: bool = False,
    said: list[Problem] | None = None,
    shown: str = SHOWN,
) -> list[SourceText | IgnoredText | InputError]:
    tree = FileTree({name: text.encode() for name, text in files.items()}, "main@sha1:0")
    return list(
        tree_sources(
            tree,
            path,
            shown=shown,
            limit=limit,
            warn=(said if said is not None else []).append,
            refuses_remote_bases=refuses,
            must_build=must_build,
        )
    )


def error(files: dict[str, str], path: str = "", *, refuses: bool = False) -> str:
    (only,) = sources(files, path, refuses=refuses)
    assert isinstance(only, InputError)
    return str(only)


TREE = {
    "m/b.yaml": config_map("b"),
    "m/a/z.yml": config_map("a-z"),
    "m/a/c/x.json": "{}",
    "m/c.yaml": config_map("c"),
    "m/.hidden/h.yaml": config_map("h"),
    "m/README.md": "no manifest",
    "m/d.yaml.bak": "no: [manifest",
    "m/a b/\N{GREEK SMALL LETTER ALPHA}.yaml": config_map("greek"),
    "m/applyprune.yaml": CONFIG,
    "m/applyprune.schema.json": SCHEMA,
    "m2/d.yaml": config_map("d"),
    "one": config_map("one"),
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "m",
            [
                "m/.hidden/h.yaml",
                "m/a/c/x.json",
                "m/a/z.yml",
                "m/a b/α.yaml",
                "m/b.yaml",
                "m/c.yaml",
            ],
        ),
        ("m/a", ["m/a/c/x.json", "m/a/z.yml"]),
        ("m/b.yaml", ["m/b.yaml"]),
        ("m/d.yaml.bak", ["m/d.yaml.bak"]),
        ("one", ["one"]),
        ("m2", ["m2/d.yaml"]),
    ],
)
def test_tree_is_read_as_a_local_folder(folder: Path, path: str, expected: list[str]) -> None:
    """The same files in the same order; only the names in messages have the address."""
    write(folder, TREE)
    found = [one for one in sources(TREE, path) if isinstance(one, SourceText)]
    assert [one.path for one in found] == [f"{SHOWN}//{name}" for name in expected]
    local = [given.source for given in read_sources([path])]
    assert [one.path for one in local if isinstance(one, SourceText)] == expected
    assert [one.data for one in found] == [one.data for one in local if isinstance(one, SourceText)]


def test_root_of_a_tree_is_read() -> None:
    found = sources({"b.yaml": "b", "a/a.yaml": "a"})
    assert [one.data for one in found if isinstance(one, SourceText)] == [b"a", b"b"]


def test_folder_without_manifests_has_none() -> None:
    assert sources({"m/README.md": ""}, "m") == []


MISSING = {"gone": "one", "M": "m", "m/b.yml": "m/b.yaml", "m/x": "", "m/b.yaml/x": "", "one/x": ""}
"""Each path that the tree lacks, and the one that may be meant."""


@pytest.mark.parametrize("path", MISSING)
def test_missing_path_is_an_error(path: str) -> None:
    """It names what is similar, for a Bundle too."""
    (only,) = sources(TREE, path)
    assert isinstance(only, InputError)
    assert only.kind is ProblemKind.PATH_NOT_FOUND
    assert str(only).startswith(f"{SHOWN}//{path}: the source has no path {path}")
    meant = MISSING[path]
    spelling = "Check the spelling. Paths are case-sensitive."
    assert only.hint == (f"Did you mean {meant}?" if meant else spelling)
    assert only.problem.remedy == only.hint.removesuffix(spelling)


def test_configuration_that_is_named_is_an_error() -> None:
    assert error(TREE, "m/applyprune.yaml") == (
        f"{SHOWN}//m/applyprune.yaml: an applyprune configuration is not a manifest"
    )


def test_kustomization_is_never_read_raw() -> None:
    files = {"m/a.yaml": config_map("a"), "m/n/kustomization.yml": "resources: []\n"}
    assert error(files, "m/n/kustomization.yml").startswith(
        f"{SHOWN}//m/n/kustomization.yml: a kustomization is not a manifest\n"
        "  Name its folder to have it built: m/n"
    )
    manifest, nested = sources(files, "m")
    assert isinstance(manifest, SourceText)
    assert isinstance(nested, InputError)
    assert str(nested).startswith(
        f"{SHOWN}//m/n/kustomization.yml: found a kustomization in a subfolder of {SHOWN}//m: "
    )
    assert "Use the path m/n to build it" in str(nested)


@pytest.mark.parametrize("path", ["", "m/a.yaml", "gone"])
def test_path_to_build_needs_a_kustomization(path: str) -> None:
    (only,) = sources({"m/a.yaml": config_map("a")}, path, must_build=True)
    assert isinstance(only, InputError)
    assert "it contains no kustomization.yaml" in str(only)


def test_limit_is_for_all_files_together() -> None:
    files = {"a.yaml": "x" * 10, "b.yaml": "x" * 10}
    assert all(isinstance(one, SourceText) for one in sources(files, limit=20))
    first, second = sources(files, limit=19)
    assert isinstance(first, SourceText)
    assert "the input is larger than" in str(second)


BASE = {
    "base/a.yaml": config_map("a"),
    "base/kustomization.yaml": "resources: [a.yaml]\n",
    "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\n",
}


@pytest.mark.parametrize("refuses", [False, True])
def test_kustomization_is_built(folder: Path, refuses: bool) -> None:
    (built,) = sources(BASE, "prod", refuses=refuses, must_build=True)
    assert isinstance(built, SourceText)
    assert built.path == f"{SHOWN}//prod (kustomize)"
    assert b"name: prod-a\n" in built.data
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.parametrize("refuses", [False, True])
def test_build_is_that_of_the_same_local_folder(folder: Path, refuses: bool) -> None:
    files = {
        **BASE,
        "prod/kustomization.yaml": (
            "resources: [../base]\ncomponents: [../part]\npatches: [{path: p.yaml}]\n"
            "configMapGenerator: [{name: g, files: [k=f.txt], literals: ['u=https://x/y']}]\n"
        ),
        "prod/p.yaml": config_map("a") + "data: {p: q}\n",
        "prod/f.txt": "text",
        "part/kustomization.yaml": (
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
            "commonAnnotations: {see: 'https://example.com'}\n"
        ),
    }
    write(folder, files)
    (built,) = sources(files, "prod", refuses=refuses)
    (local,) = read_sources([Overlay("prod")])
    assert isinstance(built, SourceText), built
    assert isinstance(local.source, SourceText), local.source
    assert built.data == local.source.data


@pytest.mark.parametrize("path", ["prod", ""])
def test_failed_build_names_the_address(folder: Path, path: str) -> None:
    files = {f"{path}/kustomization.yaml".lstrip("/"): "resources: [gone.yaml]\n"}
    text = error(files, path)
    place = f"{SHOWN}//{path}" if path else SHOWN
    assert text.startswith(f"{place} (kustomize): the build failed: accumulating resources")
    assert f"{SHOWN}//" in text.partition("accumulating")[2]
    assert tempfile.gettempdir() not in text


def test_notes_of_a_build_are_warnings(folder: Path) -> None:
    said: list[Problem] = []
    files = {"a.yaml": config_map("a"), "kustomization.yaml": "resources: [a.yaml]\nbases: []\n"}
    unused = "{name: UNUSED, objref: {apiVersion: v1, kind: ConfigMap, name: a}}"
    files["kustomization.yaml"] += f"vars: [{unused}]\n"
    sources(files, said=said)
    assert [one.location for one in said] == [f"{SHOWN} (kustomize)"]
    assert tempfile.gettempdir() not in said[0].message


@pytest.mark.parametrize("refuses", [False, True])
def test_build_for_others_has_an_empty_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    """No variable of the controller, no program such as git, and no server that answers."""
    monkeypatch.setenv("TOKEN", "hunter2")
    program = folder.parent / "bin/kustomize"
    program.write_text("#!/bin/sh\necho TOKEN=$TOKEN PATH=$PATH PROXY=$HTTPS_PROXY HOME=$HOME\n")
    program.chmod(0o755)
    (built,) = sources({"kustomization.yaml": "resources: []\n"}, refuses=refuses)
    assert isinstance(built, SourceText)
    values = dict(pair.split("=", 1) for pair in built.data.decode().split())
    assert (values["TOKEN"] == "hunter2") is not refuses
    assert (values["PATH"] == str(program.parent)) is not refuses
    assert (values["PROXY"] == "http://127.0.0.1:1") is refuses
    assert values["HOME"].startswith(tempfile.gettempdir()) is refuses


@pytest.mark.holds("remote-bases")
def test_remote_base_is_refused_before_a_build(folder: Path) -> None:
    """For others, kustomize is not even started; for the user, it does what it does."""
    program = folder.parent / "bin/kustomize"
    program.write_text(f"#!/bin/sh\necho ran >> {folder}/ran\necho 'kind: Ran'\n")
    program.chmod(0o755)
    files = {
        "m/kustomization.yaml": "resources: [../base]\n",
        "base/kustomization.yaml": "resources: ['https://me:hunter2@example.com/x?t=hunter2']\n",
    }
    (refused,) = sources(files, "m", refuses=True)
    assert isinstance(refused, InputError)
    assert str(refused).startswith(
        f"{SHOWN}//base/kustomization.yaml: the kustomization names a URL or a remote base: "
        "it is in a base\n"
    )
    assert "hunter2" not in str(refused)
    assert not (folder / "ran").exists()
    (built,) = sources(files, "m")
    assert isinstance(built, SourceText)
    assert (folder / "ran").read_text() == "ran\n"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../x.yaml", marks=pytest.mark.holds("tree-path")),
        "a//x.yaml",
        "a/../../x.yaml",
    ],
)
def test_no_file_is_written_outside_the_private_folder(folder: Path, name: str) -> None:
    """The fetchers give no such name; this is the second lock."""
    files = {"m/kustomization.yaml": "resources: []\n", name: config_map("x")}
    text = error(files, "m")
    assert (
        text == f"{SHOWN}//m: its files cannot be written for the build: a file has an invalid path"
    )
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_name_that_the_system_refuses_is_an_error(folder: Path) -> None:
    files = {"kustomization.yaml": "resources: []\n", "x" * 300: ""}
    text = error(files)
    assert text == f"{SHOWN}: its files cannot be written for the build: File name too long"


def test_input_has_no_address_without_a_path(folder: Path) -> None:
    """An empty path, as of an unset variable, means nothing."""
    with pytest.raises(Exception, match="empty path"):
        read([Overlay("")])


def test_killed_build_leaves_no_process_and_no_folder(folder: Path) -> None:
    """SIGKILL in the middle of a build, in a process of its own."""
    program = folder.parent / "bin/kustomize"
    # More than a pipe holds: it is read once the guard knows the build.
    much = "head -c 200000 /dev/zero >&2"
    script = f"#!/bin/sh\nPATH=/bin:/usr/bin\n{much}\necho $$ > {folder}/pid\nsleep 600\n"
    program.write_text(script)
    program.chmod(0o755)
    tree = (
        "from applyprune.sources.tree import FileTree\n"
        "from applyprune.sources.inputs import tree_sources\n"
        "tree = FileTree({'kustomization.yaml': b'resources: []'})\n"
        "rules = {'limit': 99, 'warn': print, 'refuses_remote_bases': False}\n"
        "list(tree_sources(tree, '', shown='x', **rules))\n"
    )
    private = tempfile.gettempdir()
    environ = {**os.environ, "TMPDIR": private}
    with subprocess.Popen([sys.executable, "-c", tree], env=environ) as process:
        eventually(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())
        build = int((folder / "pid").read_text())
        assert list(Path(private).iterdir()) != []
        process.kill()
    eventually(lambda: list(Path(private).iterdir()) == [])
    eventually(lambda: not Path(f"/proc/{build}").exists())


def test_root_of_a_source_without_an_address_has_a_name() -> None:
    """A Bundle's messages name no address: a root without any would leave a gap."""
    files = {"a.yaml": config_map("a"), "n/kustomization.yaml": "resources: []\n"}
    (only,) = [one for one in sources(files, shown="") if isinstance(one, InputError)]
    assert "in a subfolder of the root of the source" in str(only)
    (missing,) = sources({"a.yaml": config_map("a")}, must_build=True, shown="")
    assert str(missing).startswith("the root of the source: ")
