"""Kustomizations: built by the real program, never read raw, never half."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.clock import CLOCK, SystemClock
from applyprune.errors import InputError, InputErrors
from applyprune.sources import Overlay, kustomize, read
from applyprune.system import processes
from tests.support.source_text import config_map, write
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from applyprune.localplane import Binaries
    from applyprune.model.problem import Problem

OVERLAY = {
    "base/a.yaml": config_map("a"),
    "base/kustomization.yaml": "resources: [a.yaml]\n",
    "overlays/prod/kustomization.yaml": "resources: [../../base]\nnamePrefix: prod-\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binaries: Binaries) -> Path:
    """A working directory, and the embedded kubectl as the only program on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(binaries.kubectl)
    monkeypatch.setenv("PATH", str(programs))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def message(*paths: str | Overlay) -> str:
    with pytest.raises(InputError) as caught:
        read(paths)
    return str(caught.value)


def program(folder: Path, name: str, script: str) -> None:
    """Put a program of one's own on the PATH."""
    path = folder.parent / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("path", [Overlay("overlays/prod"), "overlays/prod", "overlays/pro?"])
def test_kustomization_is_built(folder: Path, path: str | Overlay) -> None:
    """By -k, and by -f for a folder that has one; nobody has the output, so no place is in it."""
    write(folder, OVERLAY)
    (manifest,) = read([path])
    assert manifest.name == "prod-a"
    assert str(manifest.origin) == "overlays/prod (kustomize)"


@pytest.mark.parametrize("name", kustomize.NAMES)
def test_every_file_name_of_a_kustomization_works(folder: Path, name: str) -> None:
    write(folder, {"m/a.yaml": config_map("a"), f"m/{name}": "resources: [a.yaml]\n"})
    (folder / "m/not-a-resource.yaml").write_text(config_map("b"))
    assert [one.name for one in read(["m"])] == ["a"]


def test_kustomization_is_built_once(folder: Path) -> None:
    write(folder, OVERLAY)
    assert len(read(["base", Overlay("base"), Overlay("./base/")])) == 1


@pytest.mark.parametrize(
    "change",
    [
        "echo '# new' >> $2/../../base/a.yaml",
        "echo >> $2/kustomization.yaml",
        "mv $2/../../base/a.yaml $2/../../base/b.yaml",
        "echo 2 > $2/settings.txt",
        "echo b=2 > $2/c.env",
        "echo 'patches: [{path: new.yaml}]' >> $2/kustomization.yaml; echo > $2/new.yaml",
        pytest.param("echo > $2/later.yaml", marks=pytest.mark.holds("files-of-a-build")),
    ],
)
def test_file_that_changes_during_a_build_is_an_error(folder: Path, change: str) -> None:
    """It may be any that kustomize reads, and one that was not there."""
    write(folder, OVERLAY)
    overlay = folder / "overlays/prod"
    (overlay / "kustomization.yaml").write_text(
        "resources: [../../base]\npatches: [{path: later.yaml}]\nconfigMapGenerator:\n"
        "- {name: s, files: [x=settings.txt], envs: [c.env]}\n"
    )
    write(overlay, {"settings.txt": "1", "c.env": "b=1", "unused.yaml": ""})
    text = config_map("built").replace("\n", "\\n")
    program(folder, "kustomize", f"printf '{text}'\necho > $2/unused.yaml")
    assert [one.name for one in read([Overlay("overlays/prod")])] == ["built"]
    program(folder, "kustomize", f"printf '{text}'\n{change}")
    assert "changed while it was read" in message(Overlay("overlays/prod"))


def test_program_notes_are_warnings(folder: Path) -> None:
    """But not that the kustomization uses old names of fields: that changes nothing."""
    write(folder, OVERLAY)
    made = "resources: [a.yaml]\ncommonLabels: {a: b}\n"
    (folder / "base/kustomization.yaml").write_text(made)
    said: list[Problem] = []
    read([Overlay("base")], warn=said.append)
    assert said == []
    unused = "vars: [{name: UNUSED, objref: {apiVersion: v1, kind: ConfigMap, name: a}}]\n"
    (folder / "base/kustomization.yaml").write_text(made + unused)
    read([Overlay("base")], warn=said.append)
    (warning,) = said
    assert "UNUSED" in warning.message
    assert "deprecated" not in warning.message
    assert warning.location == "base (kustomize)"


def test_program_error_is_the_reason(folder: Path) -> None:
    write(folder, {"m/kustomization.yaml": "resources: [gone.yaml]\n"})
    text = message("m")
    assert text.startswith("m (kustomize): the build failed: accumulating resources")
    assert "gone.yaml" in text
    assert "\n" not in text


DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
ENDS = {
    "replicas of nothing": (
        "resources: [web.yaml]\nreplicas: [{name: shop, count: 2}]\n",
        "the following GVK Deployment, StatefulSet, ReplicaSet, ReplicationController",
    ),
    "the same object twice": (
        "resources: [web.yaml, again.yaml]\n",
        "already registered id: Deployment.v1.apps/web",
    ),
    "a patch of nothing": (
        (
            "resources: [web.yaml]\npatches: [{patch: '{apiVersion: v1, kind: Secret, metadata: "
            "{name: x}}'}]\n"
        ),
        "no matches for Id Secret.v1/x; failed to find unique target for patch Secret.v1/x",
    ),
    "a replacement by nothing": (
        (
            "resources: [web.yaml]\nreplacements: [{source: {kind: ConfigMap, name: x}, targets: "
            "[{select: {kind: Deployment}, fieldPaths: [spec.x]}]}]\n"
        ),
        "nothing selected by ConfigMap/x",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_program_error_is_shown_to_its_end(folder: Path, name: str) -> None:
    """What kustomize itself puts into brackets is none of the input."""
    text, end = ENDS[name]
    files = {"m/kustomization.yaml": text, "m/web.yaml": DEPLOYMENT, "m/again.yaml": DEPLOYMENT}
    write(folder, files)
    told = message("m")
    assert end in told
    assert "…" not in told


@pytest.mark.holds("quoted-input-of-a-build")
def test_brackets_that_are_not_closed_hide_all_within(folder: Path) -> None:
    """The end of a name must not end what a value has begun."""
    write(folder, OVERLAY)
    said = "x] value [hunter2 of Secret.v1.[noGrp]/a.[noNs]"
    program(folder, "kustomize", f"echo 'Error: {said}' >&2; exit 1")
    told = message("base")
    assert "the build failed: x] value …" in told
    assert "hunter2" not in told


CUT = {
    "nothing that is known": ("it has ", ""),
    "a bracket": ("value [", "]"),
    "a backtick": ("json: `", "`"),
    "a file": ('a literal source "', '" key name or file path'),
    "a patch": ("evalsymlink failure on '", "\n'"),
    "a literal": ("invalid literal source ", ""),
}


@pytest.mark.holds("errors-of-a-build", row="a bracket")
@pytest.mark.parametrize("name", CUT)
def test_quote_without_its_end_is_hidden(folder: Path, name: str) -> None:
    """The beginning of a long error is shown; if no quote is found in it, it may be anywhere."""
    begin, end = CUT[name]
    write(folder, OVERLAY)
    (folder / "said").write_text(f"Error: in a.yaml: {begin}{'hunter2 ' * 10_000}{end}")
    program(folder, "kustomize", "cat said >&2; exit 1")
    told = message("base")
    assert told.endswith(f": in a.yaml: {begin}…" if begin != "it has " else "exited with code 1")


def test_long_error_names_the_cause(folder: Path) -> None:
    literal = " ".join(["hunter2"] * 10_000)
    write(
        folder, {"m/kustomization.yaml": f"secretGenerator: [{{name: s, literals: ['{literal}']}}]"}
    )
    assert message("m").endswith("loading KV pairs: literal sources […")


SECRETS = {
    "a literal without a key": "secretGenerator:\n- name: s\n  literals: [hunter2]\n",
    "a patch that is none": (
        "resources: [a.yaml]\npatches:\n- patch: |\n    kind: Secret\n    data: ']hunter2'\n"
    ),
}

SECRETS_OF_FILES = {
    "an environment that is no text": (
        "secretGenerator:\n- name: s\n  envs: [e]\n",
        {"e": b"a=hunter2\xff\n"},
    ),
    "a part of a value that there is not": (
        (
            "resources: [s.yaml, a.yaml]\nreplacements:\n"
            "- source: {kind: Secret, fieldPath: stringData.p, options: {delimiter: x, index: 9}}\n"
            "  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.x]}]\n"
        ),
        {"s.yaml": b"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}"},
    ),
    "a literal among the files": (
        "secretGenerator:\n- name: s\n  files: ['a=b=hunter2']\n",
        {},
    ),
    "a patch taken for a file": (
        (
            "resources: [a.yaml]\npatchesStrategicMerge:\n"
            "- |\n  kind: Secret\n  stringData: {p: hunter2}\n"
        ),
        {},
    ),
    "a word that is none": (
        (
            "resources: [a.yaml]\npatches:\n"
            '- {target: {kind: ConfigMap}, patch: \'[{"op": "hunter2"}]\'}\n'
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", SECRETS_OF_FILES)
def test_secret_of_a_file_is_never_quoted(folder: Path, name: str) -> None:
    text, files = SECRETS_OF_FILES[name]
    write(folder, {"m/kustomization.yaml": text, "m/a.yaml": config_map("a")})
    for path, content in files.items():
        (folder / "m" / path).write_bytes(content)
    told = message("m")
    assert "the build failed" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_never_quoted(folder: Path, name: str) -> None:
    """kustomize's own messages quote its input."""
    write(folder, {"m/kustomization.yaml": SECRETS[name], "m/a.yaml": config_map("a")})
    text = message("m")
    assert "the build failed" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("noted", "place"),
    [
        ("path: ../../base/a.yaml\n", "base/a.yaml"),
        ("path: a.yaml\n", "overlays/prod/a.yaml"),
        (
            "configuredIn: ../kustomization.yaml\nconfiguredBy:\n  kind: X\n",
            "overlays/kustomization.yaml",
        ),
        ("repo: https://x.io/a\npath: b.yaml\nref: v1\n", "https://x.io/a//b.yaml"),
        ("path: a\x1b.yaml\n", r"overlays/prod/a\x1b.yaml"),
        ("other: a\n", "overlays/prod (kustomize)"),
    ],
)
def test_object_of_a_build_has_the_place_of_its_origin(
    folder: Path, noted: str, place: str
) -> None:
    """By ``buildMetadata: [originAnnotations]``, and else none."""
    write(folder, OVERLAY)
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "annotations": {"config.kubernetes.io/origin": noted}},
    }
    (folder.parent / "made").write_text(json.dumps(made))
    program(folder, "kustomize", f"cat {folder.parent / 'made'}")
    (manifest,) = read([Overlay("overlays/prod")])
    assert str(manifest.origin) == place


def test_output_error_names_its_line(folder: Path) -> None:
    write(folder, OVERLAY)
    program(folder, "kustomize", "printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {}\\n'")
    assert message("base").startswith("base (kustomize):3")


def test_kustomization_below_a_plain_folder_is_an_error(folder: Path) -> None:
    """Neither read raw nor built unasked: base and overlays side by side are one set twice."""
    write(folder, {**OVERLAY, "plain.yaml": config_map("plain")})
    with pytest.raises(InputErrors) as caught:
        read(["."])
    assert [error.location for error in caught.value.errors] == [
        "base/kustomization.yaml",
        "overlays/prod/kustomization.yaml",
    ]
    assert "-k overlays/prod" in str(caught.value)
    assert "a kustomization is not a manifest" in message("base/kustomization.yaml")
    assert "a kustomization is not a manifest" in message("base/*.yaml")


def test_kustomize_precedes_kubectl(folder: Path) -> None:
    write(folder, OVERLAY)
    program(folder, "kustomize", f"cat <<'END'\n{config_map('by-kustomize')}\nEND")
    assert [one.name for one in read(["base"])] == ["by-kustomize"]


def test_missing_program_is_reported_with_a_hint(folder: Path) -> None:
    write(folder, OVERLAY)
    (folder.parent / "bin/kubectl").unlink()
    text = message("base")
    assert "kustomize or kubectl is needed to build a kustomization" in text
    assert "kustomize build DIR | applyprune … -f -" in text


def test_empty_build_is_an_error(folder: Path) -> None:
    """Not an empty set."""
    write(folder, {"m/kustomization.yaml": "resources: []\n"})
    assert "m (kustomize): the build is empty" in message("m")


def test_endless_build_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it has started: here its time is over when there is a child."""
    write(folder, OVERLAY)
    program(folder, "kustomize", "sleep 3600 & echo $! >child; echo >&2; wait")
    child = folder / "child"

    def now() -> float:
        is_late = child.exists() and child.read_text().endswith("\n")
        return CLOCK.now() + (kustomize.BUILD_TIMEOUT if is_late else 0)

    monkeypatch.setattr(processes, "CLOCK", SystemClock(now))
    assert "the build did not finish within" in message("base")
    stat = Path(f"/proc/{int(child.read_text())}/stat")

    def is_killed() -> bool:
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    eventually(is_killed, lambda: "the end of what the program has started")


def test_endless_output_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its size."""
    from applyprune.sources import inputs  # noqa: PLC0415

    write(folder, OVERLAY)
    program(folder, "kustomize", "exec yes")
    monkeypatch.setattr(inputs, "MAX_BYTES", 100_000)
    assert "the input is larger than" in message("base")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("https://github.com/x/y", "-k needs a folder"),
        ("nowhere", "no such folder"),
        ("plain", "it contains no kustomization.yaml, kustomization.yml or Kustomization"),
    ],
)
def test_unbuildable_kustomization_is_reported(folder: Path, path: str, expected: str) -> None:
    write(folder, {"plain/a.yaml": config_map("a")})
    assert expected in message(Overlay(path))


def test_unrunnable_program_is_reported(folder: Path) -> None:
    write(folder, OVERLAY)
    program(folder, "kustomize", "")
    (folder.parent / "bin/kustomize").write_bytes(b"\x7fELF rubbish")
    assert "base (kustomize): cannot be built" in message("base")
    assert os.environ["PATH"] == str(folder.parent / "bin")


NEEDS_AN_OPTION = {
    "a chart": (
        "helmCharts: [{name: x, repo: 'https://charts.example.com', version: 1.0.0}]\n",
        "kustomize build --enable-helm web | applyprune … -f -",
    ),
    "a plugin": (
        "generators: [plugin.yaml]\n",
        "kustomize build --enable-alpha-plugins web | applyprune … -f -",
    ),
}


@pytest.mark.parametrize("name", NEEDS_AN_OPTION)
def test_advice_names_no_option_that_applyprune_lacks(folder: Path, name: str) -> None:
    """The program asks for an option of its own, which nobody can give to it here."""
    text, advice = NEEDS_AN_OPTION[name]
    plugin = "apiVersion: x.io/v1\nkind: Maker\nmetadata: {name: x}\n"
    write(folder, {"web/kustomization.yaml": text, "web/plugin.yaml": plugin})
    told = message(Overlay("web"))
    assert advice in told
    assert "must specify" not in told
