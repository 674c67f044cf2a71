"""No limit begins again with the next document or file: memory and errors are those of a load."""

from __future__ import annotations

import resource
import subprocess
import sys
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError, InputErrors, raise_all
from applyprune.model.problem import Manifest
from applyprune.sources import read
from applyprune.sources.documents import text_in
from applyprune.sources.load import read_source
from applyprune.sources.tree import SourceText
from applyprune.sources.yaml import Allowance
from tests.support.source_text import config_map, write
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

LARGE = "is too large: up to here, with all aliases expanded, it takes more than"
MIB = 2**20


def bombs(documents: int) -> str:
    """Return documents that Go's limit allows, each of half a megabyte in memory."""
    shared = "x: &x {" + ", ".join(f"k{number}: {{}}" for number in range(50)) + "}\n"
    each = f"{shared}y: [{'*x, ' * 90}]\n---\n"
    return "".join(config_map(f"a{number}") + each for number in range(documents))


def found(text: str, allowance: Allowance, path: str = "in.yaml") -> list[Manifest | InputError]:
    """Return what one source of a load holds."""
    source = SourceText(path, text.encode())
    return list(read_source(source, text_in(source.data), allowance))


@pytest.mark.holds("memory-of-a-load")
def test_aliases_of_all_documents_share_one_limit() -> None:
    """Each is allowed by itself; the error is at the alias that is too much."""
    allowance = Allowance(10 * MIB)
    assert len(found(bombs(10), allowance)) == 10
    errors = [
        one for one in found(bombs(20), allowance, "more.yaml") if isinstance(one, InputError)
    ]
    assert len(errors) == 1
    (error,) = errors
    assert LARGE + " 10 MiB of memory" in error.message
    assert str(error.problem.origin).startswith("more.yaml:")
    assert error.problem.origin is not None
    assert error.problem.origin.line % 7 == 6
    assert "aliases" in error.hint
    # What follows in the same load is not read any more, and no second error says so.
    assert (allowance.spent, found(config_map("b"), allowance, "last.yaml")) == (True, [])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (config_map("a") + "x: &x " + "y" * 50_000 + "\ny: [" + "*x, " * 500 + "]\n", "in.yaml:6:"),
        (config_map("a") + "y: [" + "{}, " * 300_000 + "]\n", "in.yaml:1:1"),
        ('\n{"a": [' + "{}, " * 300_000 + "{}]}", "in.yaml:2:1"),
        ("#" * 11 * MIB + "\n", "in.yaml:1:1"),
    ],
)
def test_long_texts_and_many_values_count(text: str, place: str) -> None:
    """A string that is named a thousand times is sent a thousand times."""
    errors = [one for one in found(text, Allowance(10 * MIB)) if isinstance(one, InputError)]
    assert [LARGE in error.message for error in errors] == [True]
    assert [str(error.problem.origin).startswith(place) for error in errors] == [True]


def test_text_that_is_read_twice_counts_once() -> None:
    """A fault, or a colon that only libyaml rejects, makes the reader begin again."""
    allowance = Allowance(10 * MIB)
    colons = "y: [--listen=:80]\n---\n"
    for _ in range(3):
        left = allowance.memory
        assert len(found(bombs(2) + colons + "a: b: c\n---\n", allowance)) == 4
        assert left - allowance.memory < 2 * MIB


@pytest.mark.parametrize(
    "each", ["a\n---\n", "a: b: c\n---\n", "{kind: A}\n---\n", '{"a":1,"a":1}\n']
)
def test_only_so_many_errors_are_reported(each: str) -> None:
    """A megabyte may have a hundred thousand; all sources of a load share the number."""
    allowance = Allowance(errors=30)
    errors = [*found(each * 5, allowance), *found(each * 20_000, allowance)]
    assert all(isinstance(error, InputError) for error in errors)
    assert 30 <= len(errors) <= 40
    last = errors[-1]
    assert isinstance(last, InputError)
    assert "there may be more errors than these" in last.message
    assert found(each, allowance) == []


def test_errors_of_one_object_count_too() -> None:
    """They are cut before their lines are looked for."""
    labels = "".join(f"    a{number}: {number}\n" for number in range(5000))
    errors = found(f"{config_map('a')}  labels:\n{labels}", Allowance())
    assert len(errors) == 1001
    last = errors[-1]
    assert isinstance(last, InputError)
    assert last.message == "there may be more errors than these 1000"


def test_errors_of_all_files_count() -> None:
    """Also those of files that cannot be read, and what is wrong with objects."""
    with pytest.raises(InputErrors) as caught:
        raise_all([InputError(f"error {number}") for number in range(3000)])
    assert len(caught.value.errors) == 1001
    assert caught.value.errors[-1].message == "there are 2000 more errors"


def test_lists_in_lists_have_a_limit() -> None:
    """Each level is searched again for the lines of its items."""
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"

    def nested(levels: int) -> str:
        return "{kind: List, apiVersion: v1, items: [" * levels + item + "]}" * levels

    assert [type(one) for one in found(nested(10), Allowance())] == [Manifest]
    (error,) = found(nested(11), Allowance())
    assert isinstance(error, InputError)
    assert error.message == "a List inside 10 Lists"


def test_many_lists_are_read_quickly() -> None:
    """Each has the lines of its items, and none costs the reading of all that follow."""
    block = "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n"
    manifests = found(f"{block}---\n" * 8000, Allowance())
    lines = [one.origin.line for one in manifests if isinstance(one, Manifest)]
    assert lines == list(islice(range(4, 10**6, 5), 8000))


@pytest.mark.parametrize("limit", [128, pytest.param(1024, marks=pytest.mark.sweep)])
def test_command_line_has_the_same_limit(tmp_path: Path, limit: int) -> None:
    """A gigabyte over all files: a process that may have little more reports the place."""
    half = limit * 3 // 2
    write(tmp_path, {"a.yaml": bombs(half), "b.yaml": bombs(half)})
    smaller = f"load.Allowance = partial(load.Allowance, {limit * MIB})\n"
    program = (
        "from functools import partial\n"
        "from applyprune.sources import load, read\n"
        f"{smaller if limit < 1024 else ''}"
        f"read([{str(tmp_path)!r}])"
    )
    most = 2 * limit * MIB

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
        preexec_fn=limited,
    )
    assert "MemoryError" not in done.stderr
    assert "b.yaml:" in done.stderr
    assert f"{LARGE} {limit} MiB" in done.stderr


@pytest.mark.holds("errors-of-a-load")
def test_errors_of_the_command_line_end(tmp_path: Path) -> None:
    """With the thousandth."""
    write(tmp_path, {"a.yaml": "a\n---\n" * 600, "b.yaml": "a\n---\n" * 600})
    with pytest.raises(InputErrors) as caught:
        read([str(tmp_path)])
    assert len(caught.value.errors) == 1001
    assert caught.value.errors[-1].message == "there may be more errors than these 1000"
