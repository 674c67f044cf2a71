"""Where the control plane comes from: the cache, the installed package or the build."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import AccessError
from applyprune.localplane import ensure_built
from applyprune.localplane.build import last_build, module_digest, remember
from applyprune.localplane.wheel import FACTS, PROGRAMS, installed
from applyprune.values import replace
from tests.support.plane_wheels import SCRIPTS, Steps, facts_of, small_package

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing can be built."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def in_cache(cache: Path, *names: str) -> Path:
    """Write the programs into the folder of a build."""
    folder = cache / "controlplane" / module_digest()
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(SCRIPTS[name])
        (folder / name).chmod(0o755)
    return folder


def test_installed_package_is_used_where_it_is(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = small_package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    steps = Steps()
    binaries = ensure_built(steps)
    assert (binaries.program, binaries.kubectl) == tuple(package / name for name in PROGRAMS)
    assert "using the control plane of the package applyprune-plane" in steps.text
    assert "checked in 0.0 s" in steps.text
    assert not cache.exists(), "it needs no cache"


def test_cache_comes_before_the_package(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = in_cache(cache, *PROGRAMS)
    small_package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    steps = Steps()
    assert ensure_built(steps).program.parent == folder
    assert steps.lines == [f"using the control plane in the cache: {folder}"]


def test_half_of_the_programs_in_the_cache_counts_as_absent(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cache(cache, PROGRAMS[0])
    package = small_package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert ensure_built().program.parent == package


def _shorten(package: Path) -> None:
    program = package / PROGRAMS[0]
    program.write_bytes(program.read_bytes()[:-3])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "platform": (
        lambda package: (package / FACTS).write_bytes(facts_of(platform="Plan9/mips").written()),
        "it is for Plan9/mips, and this machine is",
    ),
    "sources": (
        lambda package: (package / FACTS).write_bytes(facts_of(module="0" * 20).written()),
        "it was built from other sources",
    ),
    "digest": (
        lambda package: (package / FACTS).write_bytes(
            replace(facts_of(), programs=dict.fromkeys(PROGRAMS, 64 * "0")).written()
        ),
        "its program controlplane is damaged",
    ),
    "half a program": (_shorten, "its program controlplane is damaged"),
    "no program": (lambda package: (package / "kubectl").unlink(), "kubectl cannot be read: No"),
    "no right": (lambda package: (package / "kubectl").chmod(0o644), "kubectl is not executable"),
    "no facts": (lambda package: (package / FACTS).unlink(), f"its {FACTS} cannot be read"),
    "half the facts": (
        lambda package: (package / FACTS).write_text("{"),
        f"its {FACTS} is invalid",
    ),
    "no digest": (
        lambda package: (package / FACTS).write_bytes(
            replace(facts_of(), programs=dict.fromkeys(PROGRAMS, "")).written()
        ),
        f"its {FACTS} is invalid",
    ),
    "escape": (
        lambda package: (package / FACTS).write_bytes(replace(facts_of(), go="\x1b[2J").written()),
        f"its {FACTS} is invalid",
    ),
}


@pytest.mark.holds("sources-of-a-wheel", row="sources")
@pytest.mark.holds("program-of-a-wheel", row="half a program")
@pytest.mark.parametrize("fault", FAULTS)
def test_package_that_does_not_fit_is_not_used(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, words = FAULTS[fault]
    spoil(small_package(tmp_path / "site"))
    monkeypatch.syspath_prepend(tmp_path / "site")
    steps = Steps()
    assert installed(module_digest(), steps) is None
    assert words in steps.text
    assert "pip install --force-reinstall" in steps.text


@pytest.mark.usefixtures("cache", "no_go")
def test_build_comes_after_a_package_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_package(tmp_path / "site", facts_of(module="0" * 20))
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(AccessError, match=r"needs Go 1\.26") as failed:
        ensure_built()
    assert "pip install 'applyprune[plane]'" in failed.value.hint


def test_cache_that_is_read_only_is_read(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = in_cache(cache, *PROGRAMS)
    cache.chmod(0o500)
    folder.parent.chmod(0o500)
    try:
        assert ensure_built().program.parent == folder
    finally:
        folder.parent.chmod(0o700)
        cache.chmod(0o700)


@pytest.mark.usefixtures("no_go")
def test_cache_that_cannot_be_written_is_an_error(cache: Path) -> None:
    cache.parent.write_text("a file where the folder would be: even root cannot write there")
    with pytest.raises(AccessError, match="the cache cannot be written") as failed:
        ensure_built()
    assert str(cache) in failed.value.location
    assert "XDG_CACHE_HOME" in failed.value.hint


@pytest.mark.usefixtures("cache")
def test_build_time_is_remembered() -> None:
    assert last_build("some") == ""
    told = remember("some", 281.4, 520.2)
    assert told.startswith("4:41 on ")
    assert told.endswith(", 520 CPU seconds")
    assert last_build("some") == told


def test_build_time_that_is_not_readable_is_left_out(cache: Path) -> None:
    cache.joinpath("build-times").mkdir(parents=True)
    for content in ("", "[]", '{"seconds": "x", "cpu": 1, "cores": 2}'):
        cache.joinpath("build-times", "some.json").write_text(content)
        assert last_build("some") == ""
