"""The input is one moment: what changes while it is read is an error, and never a part of a set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError
from applyprune.sources import Overlay
from applyprune.sources.inputs import read_sources
from applyprune.sources.moment import Moment, read_at_once
from applyprune.sources.tree import SourceText
from tests.support.clocks import ManualClock
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from collections.abc import Callable

WRITTEN = 2.0**30
"""When the files were written that have just been written."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def at(path: Path, seconds: float) -> None:
    """Let a file or folder be written at that time."""
    os.utime(path, (seconds, seconds))


def later() -> Moment:
    """Return one for which nothing has just changed."""
    return Moment(ManualClock(begin=1.0))


def found(*paths: str | Overlay, moment: Moment, first: Callable[[], object]) -> list[str]:
    """Return what is read, and the errors; ``first`` happens after the first source."""
    texts: list[str] = []
    for given in read_sources(paths, moment=moment):
        assert given.source is not None
        texts.append(str(getattr(given.source, "path", given.source)).partition("\n")[0])
        if len(texts) == 1:
            first()
    return texts


def error(*places: str) -> list[str]:
    reason = "a part of it may be missing, and would be pruned"
    return [f"{place}: changed while it was read: {reason}" for place in places]


FILES = {"m/a.yaml": config_map("a"), "m/b.yaml": config_map("b"), "m/n/c.yaml": config_map("c")}


def test_input_that_rests_is_read(folder: Path) -> None:
    write(folder, FILES)
    read = ["m/a.yaml", "m/b.yaml", "m/n/c.yaml"]
    assert found("m", moment=later(), first=lambda: None) == read
    assert found("m/*.yaml", "m/*/c.yaml", moment=later(), first=lambda: None) == read


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        pytest.param(
            lambda: os.truncate("m/a.yaml", 9),
            ["m/a.yaml"],
            marks=pytest.mark.holds("file-of-one-moment"),
        ),
        (lambda: at_once("m/a.yaml", "a: 1\n"), ["m/a.yaml"]),
        (lambda: os.utime("m/a.yaml", (1e9, 1e9)), ["m/a.yaml"]),
        pytest.param(
            lambda: Path("m/a.yaml").unlink(),
            ["m/a.yaml", "m"],
            marks=pytest.mark.holds("folder-of-one-moment"),
        ),
        (lambda: Path("m/a.yaml").rename("m/z.yaml"), ["m/a.yaml", "m"]),
        (lambda: replaced("m/a.yaml"), ["m/a.yaml", "m"]),
        (lambda: at_once("m/new.yaml", config_map("new")), ["m"]),
        (lambda: Path("m/new").mkdir(), ["m"]),
        (lambda: at_once("m/n/new.yml", config_map("new")), []),
        (lambda: Path("m/n").rename("m/o"), ["m"]),
    ],
    ids=[
        *("cut", "written", "touched", "deleted", "renamed", "replaced", "new", "new folder"),
        *("new in a folder that is read later", "renamed folder"),
    ],
)
def test_change_is_an_error(folder: Path, change: Callable[[], object], changed: list[str]) -> None:
    """Of a file that was read, and of the names in a folder; of what comes later it is none."""
    write(folder, FILES)
    texts = found("m", moment=later(), first=change)
    assert [one for one in texts if "changed while" in one] == error(*changed)


def test_folder_that_was_read_is_read_again_at_the_end(folder: Path) -> None:
    """Also after all its files, and one in which a pattern has found nothing."""
    write(folder, {**FILES, "x/n/other.yaml": "", "z.yaml": config_map("z")})
    for pattern, new in (
        ("m", "m/n/d.yaml"),
        ("m/**/*.yaml", "m/n/d.yaml"),
        ("?/n/c.yaml", "x/n/c.yaml"),
    ):
        sources = read_sources([pattern, "z.yaml"], moment=later())
        texts = []
        for given in sources:
            assert given.source is not None
            texts.append(str(getattr(given.source, "path", given.source)).partition("\n")[0])
            if texts[-1] == "z.yaml":
                write(folder, {new: config_map("new")})
        assert texts[-1:] == error(str(Path(new).parent))
        (folder / new).unlink()


@pytest.mark.holds("rest")
def test_file_that_has_just_changed_is_read_when_it_has_rested(folder: Path) -> None:
    """Somebody has emptied it, and writes it."""
    write(folder, {"a.yaml": ""})
    file = folder / "a.yaml"
    at(file, WRITTEN)

    def written(_: float) -> None:
        if not file.stat().st_size:
            write(folder, {"a.yaml": config_map("a")})
            at(file, WRITTEN + 0.125)

    clock = ManualClock(written, begin=WRITTEN + 0.0625)
    (given,) = read_sources(["a.yaml"], moment=Moment(clock))
    assert given.source == SourceText("a.yaml", config_map("a").encode())
    assert clock.now() >= WRITTEN + 0.3


def test_folder_that_has_just_changed_is_read_when_it_has_rested(folder: Path) -> None:
    """Somebody has renamed a file to write it."""
    write(folder, {"m/a.yaml": config_map("a"), "m/b.tmp": config_map("b")})
    for name in ("m/a.yaml", "m/b.tmp"):
        at(folder / name, 1.0)
    at(folder / "m", WRITTEN)

    def renamed(_: float) -> None:
        if (folder / "m/b.tmp").exists():
            (folder / "m/b.tmp").rename(folder / "m/b.yaml")
            at(folder / "m", WRITTEN)

    clock = ManualClock(renamed, begin=WRITTEN)
    assert found("m", moment=Moment(clock), first=lambda: None) == ["m/a.yaml", "m/b.yaml"]


def test_file_that_never_rests_is_an_error(folder: Path) -> None:
    """Only for the first one is there a wait."""
    write(folder, {"a.yaml": config_map("a"), "b.yaml": config_map("b")})
    clock = ManualClock(begin=WRITTEN)

    def touched(passed: float) -> None:
        at(folder / "a.yaml", WRITTEN + passed + 0.2)

    clock.meanwhile = touched
    at(folder / "a.yaml", WRITTEN)
    moment = Moment(clock)
    texts = found("a.yaml", moment=moment, first=lambda: None)
    assert texts == error("a.yaml")
    waited = len(clock.waits)
    at(folder / "b.yaml", clock.now())
    assert moment.read(folder / "b.yaml", 1) == b"a"
    assert len(clock.waits) == waited


def test_link_that_leads_elsewhere_is_an_error(folder: Path) -> None:
    """As when the kubelet replaces a mounted ConfigMap."""
    write(folder, {"1/a.yaml": config_map("a"), "2/a.yaml": config_map("a")})
    (folder / "m").symlink_to("1")

    def turned() -> None:
        (folder / "new").symlink_to("2")
        (folder / "new").rename(folder / "m")

    texts = found("m", moment=later(), first=turned)
    assert texts == ["m/a.yaml", *error("m/a.yaml", "m")]


def test_pipe_is_read_as_before(folder: Path) -> None:
    """What a shell gives as <(command) has no moment."""
    reading, writing = os.pipe()
    os.write(writing, config_map("a").encode())
    os.close(writing)
    (given,) = read_sources([f"/dev/fd/{reading}"])
    os.close(reading)
    assert isinstance(given.source, SourceText)
    assert given.source.data == config_map("a").encode()


@pytest.mark.holds("regular-file")
def test_single_file_is_one_moment_too(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(InputError, match="pipe: not a regular file"):
        read_at_once(folder / "pipe", 10, waits=False)
    write(folder, {"a": "text"})
    assert read_at_once(folder / "a", 2) == b"te"


def at_once(name: str, text: str) -> None:
    Path(name).write_text(text)


def replaced(name: str) -> None:
    at_once("m/.tmp", "a: 1\n")
    Path("m/.tmp").replace(name)
