"""The control plane from a mirror: complete and the one that is trusted, or an error."""

from __future__ import annotations

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from applyprune.cli.sandbox import plane_origin
from applyprune.errors import AccessError, UsageError
from applyprune.localplane import Binaries, ensure_built
from applyprune.localplane.wheel import MIRROR_INDEX, PROGRAMS
from tests.support.plane_wheels import (
    SCRIPTS,
    WHEEL,
    FolderMirror,
    Steps,
    facts_of,
    small_mirror,
)
from tests.support.tls_site import Answer, Site, files_of, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAGE = b"<!DOCTYPE html><title>Please sign in</title>"


@pytest.fixture
def mirror(tmp_path: Path) -> FolderMirror:
    """A mirror that is right."""
    return small_mirror(tmp_path / "mirror")


@pytest.fixture
def web(mirror: FolderMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The same mirror over HTTPS, with a CA that is trusted."""
    with site(files_of(tmp_path)) as running:
        (tmp_path / "ca.pem").write_bytes(running.ca)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        yield running


def taken(named: str, steps: Steps | None = None) -> Binaries:
    """Return the programs of a mirror."""
    return ensure_built(steps or Steps(), origin=plane_origin(named))


def said_by(binaries: Binaries) -> list[str]:
    """Return what the programs print: the scripts print their names."""
    both = (binaries.program, binaries.kubectl)
    return [subprocess.check_output([path], text=True).strip() for path in both]


def left_in(cache: Path) -> list[str]:
    """Return the files of the cache, but locks."""
    return [path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]


def refused(named: str, cache: Path) -> str:
    """Return the error of a mirror from which nothing is taken and nothing is left."""
    with pytest.raises(AccessError) as failed:
        taken(named)
    assert left_in(cache) == []
    assert failed.value.hint
    return str(failed.value)


def test_folder_is_a_mirror_and_then_in_the_cache(mirror: FolderMirror, cache: Path) -> None:
    first, again, later = Steps(), Steps(), Steps()
    binaries = taken(str(mirror.folder), first)
    assert said_by(binaries) == list(PROGRAMS)
    assert f"fetching the control plane from {mirror.folder}: {WHEEL}" in first.text
    assert "fetched the control plane in 0:00" in first.text
    assert sorted(left_in(cache)) == sorted(PROGRAMS)
    assert taken(str(mirror.folder), again) == binaries
    assert "that was fetched from" in again.text
    mirror.wheel.unlink()
    assert ensure_built(later) == binaries
    assert later.lines == [f"using the control plane in the cache: {binaries.program.parent}"]


def test_mirror_comes_before_the_cache(mirror: FolderMirror, cache: Path, tmp_path: Path) -> None:
    first = taken(str(mirror.folder))
    other = dict.fromkeys(PROGRAMS, b"#!/bin/sh\necho other\n")
    second = small_mirror(tmp_path / "other", facts=facts_of(programs=other), programs=other)
    assert said_by(taken(str(second.folder))) == ["other", "other"]
    assert said_by(first) == list(PROGRAMS)


@pytest.mark.usefixtures("cache")
def test_https_mirror_is_read_once(mirror: FolderMirror, web: Site) -> None:
    address, steps = f"{web.url}/mirror/#sha256={mirror.pin}", Steps()
    assert said_by(taken(address, steps)) == list(PROGRAMS)
    assert steps.ticks == ["fetching the control plane: 0 of 0 MB"]
    assert [call.path for call in web.calls] == [f"/mirror/{MIRROR_INDEX}", f"/mirror/{WHEEL}"]
    assert said_by(taken(address)) == list(PROGRAMS)
    assert len(web.calls) == 2


@pytest.mark.usefixtures("cache")
def test_two_processes_fetch_once(mirror: FolderMirror, web: Site) -> None:
    """A lock belongs to an open file, so two threads are to each other as two processes."""
    address = f"{web.url}/mirror#sha256={mirror.pin}"
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(taken, [address, address])
    assert one == other
    assert said_by(one) == list(PROGRAMS)
    assert len(web.calls) == 2


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("https://mirror.example/plane", "does not say which control plane is trusted"),
        ("https://mirror.example/plane#sha256=abc", "#sha256="),
        ("http://mirror.example/plane#sha256=" + 64 * "a", "only a folder and an https:// address"),
        ("https://user:secret@mirror.example/x?token=secret", "https://mirror.example/x does not"),
    ],
)
def test_address_that_pins_nothing_is_refused(named: str, words: str, cache: Path) -> None:
    with pytest.raises(UsageError) as failed:
        taken(named)
    assert words in str(failed.value)
    assert "secret" not in str(failed.value)
    assert not cache.exists()


WEB_FAULTS: dict[str, tuple[str, Callable[[bytes], Answer], str]] = {
    "page": (
        MIRROR_INDEX,
        lambda _: Answer(200, PAGE, {"Content-Type": "text/html"}),
        "is a web page",
    ),
    "unmarked page": (
        MIRROR_INDEX,
        lambda _: Answer(200, PAGE),
        "is a web page: it has the digest",
    ),
    "other index": (MIRROR_INDEX, lambda data: Answer(200, data + b" "), "has the digest"),
    "no index": (MIRROR_INDEX, lambda _: Answer(404, b""), "the server answered 404 Not Found"),
    "page as wheel": (
        WHEEL,
        lambda _: Answer(200, PAGE, {"Content-Type": "text/html; charset=utf-8"}),
        "the response is a web page",
    ),
    "half a wheel": (
        WHEEL,
        lambda data: Answer(200, data, cut=len(data) // 2),
        "the response of localhost",
    ),
    "short wheel": (WHEEL, lambda data: Answer(200, data[:-9]), "has another digest than in the"),
    "long wheel": (WHEEL, lambda data: Answer(200, data + b"x"), "the response is larger than"),
    "other wheel": (WHEEL, lambda data: Answer(200, data[:-1] + b"x"), "has another digest than"),
    "no wheel": (WHEEL, lambda _: Answer(404, b""), "the server answered 404 Not Found"),
}


@pytest.mark.parametrize("fault", WEB_FAULTS)
def test_fault_of_a_server_is_refused(
    fault: str, mirror: FolderMirror, web: Site, cache: Path
) -> None:
    name, answer, words = WEB_FAULTS[fault]
    content = (mirror.folder / name).read_bytes()
    web.answers[f"/mirror/{name}"] = lambda _: answer(content)
    address = f"{web.url}/mirror#sha256={mirror.pin}"
    assert words in refused(address, cache)
    web.answers.clear()
    assert said_by(taken(address)) == list(PROGRAMS), "a later call is not spoiled"


def test_server_that_is_not_trusted_is_refused(
    mirror: FolderMirror, web: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    said = refused(f"{web.url}/mirror#sha256={mirror.pin}", cache)
    assert "is not trusted" in said


FACTS_FAULTS = {
    "platform": (facts_of(platform="Plan9/mips"), "it is for Plan9/mips, and this machine is"),
    "sources": (facts_of(module="0" * 20), "it was built from other sources"),
    "program": (
        replace(facts_of(), programs=dict.fromkeys(PROGRAMS, 64 * "0")),
        "is damaged: it has another digest",
    ),
    "no digest": (replace(facts_of(), programs=dict.fromkeys(PROGRAMS, "")), "is invalid"),
    "escape": (replace(facts_of(), go="\x1b[2J"), "is invalid"),
}


@pytest.mark.parametrize("fault", FACTS_FAULTS)
def test_wheel_with_other_facts_is_refused(fault: str, cache: Path, tmp_path: Path) -> None:
    facts, words = FACTS_FAULTS[fault]
    mirror = small_mirror(tmp_path / "wrong", facts=facts)
    assert words in refused(str(mirror.folder), cache)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"sha256": 64 * "0"}, "has another digest than in the index"),
        ({"size": 10}, "has another digest than in the index"),
        ({"size": -1}, f"its {MIRROR_INDEX} is invalid"),
        ({"size": "1"}, f"its {MIRROR_INDEX} is invalid"),
        ({"wheel": "../../wheel.whl"}, f"its {MIRROR_INDEX} is invalid"),
        ({"wheel": "missing.whl"}, "missing.whl: No such file"),
        ({"sha256": None}, f"its {MIRROR_INDEX} is invalid"),
    ],
)
def test_wrong_line_of_the_index_is_refused(
    line: dict[str, object], words: str, cache: Path, tmp_path: Path
) -> None:
    mirror = small_mirror(tmp_path / "wrong", line=line)
    assert words in refused(str(mirror.folder), cache)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (b"", "is invalid"),
        (b"[]", "is invalid"),
        (PAGE, "is invalid"),
        (b'{"planes": {}}', "it has no control plane of this applyprune for"),
    ],
)
def test_folder_with_another_index_is_refused(
    index: bytes, words: str, mirror: FolderMirror, cache: Path
) -> None:
    (mirror.folder / MIRROR_INDEX).write_bytes(index)
    assert words in refused(str(mirror.folder), cache)


def test_wheel_without_a_program_is_refused(cache: Path, tmp_path: Path) -> None:
    only = {"kubectl": SCRIPTS["kubectl"]}
    mirror = small_mirror(tmp_path / "half", facts=facts_of(), programs=only)
    assert "is not a wheel of the control plane" in refused(str(mirror.folder), cache)


def test_file_that_is_no_zip_is_refused(mirror: FolderMirror, cache: Path, tmp_path: Path) -> None:
    content = b"no zip"
    line: dict[str, object] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    wrong = small_mirror(tmp_path / "wrong", line=line)
    wrong.wheel.write_bytes(content)
    assert "is not a wheel of the control plane" in refused(str(wrong.folder), cache)


def test_folder_that_is_no_mirror_is_refused(cache: Path, tmp_path: Path) -> None:
    said = refused(str(tmp_path / "nothing"), cache)
    assert f"{MIRROR_INDEX}: No such file or directory" in said
    assert "make plane-wheel" in said
