"""The recipes of other versions: what they pin, and what is never taken for what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from applyprune.localplane.build import MODULE, built_folder, kubernetes_version, source_of
from tests.support.plane_wheels import SCRIPTS, Steps
from tests.versions import __main__ as sweep
from tests.versions.build import main as build
from tests.versions.derive import derived, released
from tests.versions.releases import (
    MODULES,
    ensure_release,
    go_mod_of,
    is_older,
    release_named,
    releases,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHERS = [version for version in releases() if version != kubernetes_version()]
RELEASE = """\
module k8s.io/kubernetes

require (
\tgo.etcd.io/etcd/client/v3 v3.5.21
\tgo.etcd.io/etcd/server/v3 v3.5.20 // indirect
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubectl => ./staging/src/k8s.io/kubectl
)
"""
DEFAULT = """\
module here

go 1.26.0

require (
\tgithub.com/spf13/cobra v1.10.2
\tgo.etcd.io/etcd/server/v3 v3.6.8
\tk8s.io/kubectl v0.36.3
\tk8s.io/kubernetes v1.36.3
\tsigs.k8s.io/kwok v0.8.0
)

require k8s.io/api v0.36.3 // indirect
"""


def requirements(go_mod: Path) -> dict[str, str]:
    """Return what a go.mod requires directly."""
    lines = re.findall(r"^\t(\S+) (v\S+)$", go_mod.read_text(), re.MULTILINE)
    return dict(lines)


def test_default_version_is_the_newest_of_at_least_three() -> None:
    assert releases()[-1] == kubernetes_version()
    minors = [int(version.split(".")[1]) for version in releases()]
    assert minors == list(range(minors[-1] - len(minors) + 1, minors[-1] + 1))
    assert len(minors) >= 3


@pytest.mark.parametrize("version", OTHERS)
def test_staging_modules_are_pinned_to_the_same_release(version: str) -> None:
    go_mod = go_mod_of(version)
    replaced = re.findall(r"^\t(k8s\.io/\S+) => \1 (v\S+)$", go_mod.read_text(), re.MULTILINE)
    assert len(replaced) > 29
    assert {pinned for _, pinned in replaced} == {version.replace("v1.", "v0.")}
    assert source_of(go_mod).version == f"Kubernetes {version}"


@pytest.mark.parametrize("version", OTHERS)
def test_modules_are_those_that_the_default_requires(version: str) -> None:
    """The programs are the same, so a module that one needs, all need."""
    wanted, default = requirements(go_mod_of(version)), requirements(MODULE / "go.mod")
    assert wanted.keys() == default.keys()
    ours = [module for module in default if module.startswith("github.com/")]
    assert [wanted[one] for one in ours] == [default[one] for one in ours]
    assert f"{version}/go.mod" in go_mod_of(version).with_suffix(".sum").read_text()


def test_go_mod_is_derived_from_the_default_one_and_the_release() -> None:
    text = derived(DEFAULT, RELEASE, "v1.33.13")
    assert text == (
        "module here\n\ngo 1.26.0\n\nrequire (\n"
        "\tgithub.com/spf13/cobra v1.10.2\n"
        "\tgo.etcd.io/etcd/server/v3 v3.5.20\n"
        "\tk8s.io/kubectl v0.33.13\n"
        "\tk8s.io/kubernetes v1.33.13\n"
        "\tgithub.com/wzshiming/easycel v0.6.0\n"
        "\tsigs.k8s.io/kwok v0.6.1\n"
        ")\n\nreplace (\n"
        "\tk8s.io/api => k8s.io/api v0.33.13\n"
        "\tk8s.io/kubectl => k8s.io/kubectl v0.33.13\n"
        ")\n"
    )
    assert "sigs.k8s.io/kwok v0.8.0" in derived(DEFAULT, RELEASE, "v1.36.1")
    with pytest.raises(ValueError, match=r"does not require example\.com/none"):
        released(RELEASE, "example.com/none")


@pytest.mark.parametrize("main", [build, sweep.main])
def test_unknown_version_is_an_error_with_the_known_ones(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["1.2.3"]) == 2
    said = capsys.readouterr().err
    assert "Kubernetes v1.2.3 cannot be built" in said
    assert all(version in said for version in releases())
    assert "python -m tests.versions.derive v1.2.3" in said


def test_version_is_named_with_or_without_v() -> None:
    assert release_named("") == kubernetes_version()
    assert {release_named(OTHERS[0]), release_named(OTHERS[0][1:])} == {OTHERS[0]}


def test_no_version_shares_a_folder_of_the_cache_with_another() -> None:
    sources = [source_of(), *(source_of(go_mod_of(version)) for version in OTHERS)]
    folders = {built_folder(source) for source in sources}
    assert len({folder.name for folder in folders}) == len(sources)
    assert len({folder.parent for folder in folders}) == len(sources)
    for source, version in zip(sources[1:], OTHERS, strict=True):
        assert source.cache == f"controlplane-{version}"
        assert f"k8s.io/component-base/version.gitVersion={version}" in " ".join(
            source.linker_flags
        )


@pytest.mark.parametrize(
    "changed", [pytest.param(".mod", marks=pytest.mark.holds("modules-of-a-build")), ".sum"]
)
def test_digest_changes_with_the_other_go_mod_and_its_go_sum(changed: str, tmp_path: Path) -> None:
    for suffix in (".mod", ".sum"):
        content = go_mod_of(OTHERS[0]).with_suffix(suffix).read_bytes()
        (tmp_path / f"some{suffix}").write_bytes(content)
    source = source_of(tmp_path / "some.mod")
    before = source.digest()
    assert before == source_of(go_mod_of(OTHERS[0])).digest()
    with (tmp_path / f"some{changed}").open("a") as file:
        file.write("\n")
    assert source.digest() != before


def test_other_version_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = built_folder(source_of(go_mod_of(OTHERS[0])))
    assert folder.is_relative_to(tmp_path)
    folder.mkdir(parents=True)
    for name, content in SCRIPTS.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755)
    assert ensure_release(OTHERS[0], Steps()).program.parent == folder


def test_sweep_runs_stories_that_exist_on_the_version_that_it_names() -> None:
    root = MODULES.parents[2]
    assert all((root / place).exists() for place in sweep.STORIES)
    command = sweep.command("v1.35.4")
    assert command[command.index("--kubernetes") + 1] == "v1.35.4"
    assert command[-len(sweep.STORIES) :] == list(sweep.STORIES)


def test_older_is_decided_by_numbers() -> None:
    assert is_older("v1.9.3", "v1.36")
    assert is_older("v1.35.9", "v1.36")
    assert not is_older("v1.36.0", "v1.36")
    assert not is_older("v1.36.3", "v1.36")
