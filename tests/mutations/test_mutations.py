"""Tests hold each guard: in a copy of the project without the guard, they fail."""

from __future__ import annotations

import ast
import fcntl
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutations.copies import copy, python, read, taken_out
from tests.mutations.guards import ROOT, Guard, WrongMark, guards, marks, without
from tests.support.holders import ANY, files_of_guards
from tests.support.outcomes import read_outcomes

if TYPE_CHECKING:
    from collections.abc import Collection

    from applyprune.localplane import Binaries
    from tests.support.outcomes import Outcome

GUARDS = sorted(guards().values(), key=lambda one: one.name)
ALL_PASSED = re.compile(r"^(\d+) passed", re.MULTILINE)


def _module(*lines: str) -> str:
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        (["if a and b:  # guard: x never", "    c"], ["if False:", "    c"]),
        (["while a:  # guard: x always", "    c"], ["while True:", "    c"]),
        (["# guard: x never", "if (", "    a", "):", "    c"], ["if False:", "    c"]),
        (["if a:", "    b", "elif c:  # guard: x never", "    d"],
         ["if a:", "    b", "elif False:", "    d"]),
        (["if (b := a()) is None:  # guard: x never", "    c"],
         ["if (b := a()) is None and False:", "    c"]),
        (["if (b := a()):  # guard: x always", "    c"], ["if (b := a()) or True:", "    c"]),
        (["if a:  # guard: x -> b", "    c"], ["if b:", "    c"]),
        (["a = (", "    b", "    # guard: x", "    and c(d)", "    and e", ")"], ["a = b and e"]),
        (["a = (", "    b", "    # guard: x", "    or c", ")"], ["a = b"]),
        (["a = (", "    b", "    # guard: x always", "    or c", ")"], ["a = b or True"]),
        (["a(", "    b,", "    c(d),  # guard: x", "    e=f,", ")"], ["a(b, e=f)"]),
        (["a(", "    b,", "    e=f,  # guard: x", ")"], ["a(b)"]),
        (["a(", "    e=f,  # guard: x -> g", ")"], ["a(e=g)"]),
        (["a(", "    *b,  # guard: x", ")"], ["a()"]),
        (["a = [", "    b,  # guard: x", "    c,", "]"], ["a = [c]"]),
        (["a = (", "    b,  # guard: x", "    c,", ")"], ["a = (c,)"]),
        (['a = {', '    "b": c(d, e),  # guard: x', '    **f,', '}'], ["a = {**f}"]),
        (['a = {', '    "b": c,', '    **f,  # guard: x', '}'], ['a = {"b": c}']),
        (['a = {', '    "b": c,  # guard: x -> d', '}'], ['a = {"b": d}']),
        (["a = [", "    b", "    for b in c", "    if d  # guard: x never", "]"],
         ["a = [b for b in c if False]"]),
        (["a = b if c else d  # guard: x -> d"], ["a = d"]),
        (["a = (", "    b", "    if c  # guard: x always", "    else d", ")"],
         ["a = (b if True else d)"]),
        (["try:", "    a", "except (B, C):  # guard: x", "    d"],
         ["try:", "    a", "except ():", "    d"]),
        (["a(b, c)  # guard: x"], ["pass"]),
        (["raise A(  # guard: x", "    b,", "    c,", ")"], ["pass"]),
        (["a: int = b(c)  # guard: x -> 0"], ["a: int = 0"]),
        (["def a():", "    return b(c)  # guard: x -> None"], ["def a():", "    return None"]),
        (["def a():", "    return b(c)  # guard: x"], ["def a():", "    pass"]),
        (["for a in b:", "    return c  # guard: x -> continue"] , ["for a in b:", "    continue"]),
        (["for a in b(c):  # guard: x -> d", "    e"], ["for a in d:", "    e"]),
        (["with a(b, c) as d:  # guard: x -> a(b)", "    e"], ["with a(b) as d:", "    e"]),
        (['a = b and f"{c and d}"  # guard: x -> b'], ["a = b"]),
    ],
)  # fmt: skip
def test_mark_takes_out_the_largest_node_of_its_line(lines: list[str], changed: list[str]) -> None:
    """That and nothing else, line for line."""
    source = _module(*lines, "after")
    (guard,) = marks(source, "a.py")
    found = without(source, [guard])
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(_module(*changed, "after")))
    assert found.splitlines()[len(lines)] == "after"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("if a:  # guard: x\n    b", "drop says nothing about the test"),
        ("if a:  # guard: x drop\n    b", "drop says nothing about the test"),
        ("a(b)  # guard: x never", "never says nothing about the statement"),
        ("for a in b:  # guard: x\n    c", "drop says nothing about the header"),
        ("a(\n    b, c  # guard: x\n)", "2 nodes of line 2 may be meant"),
        ("if a:  # guard: x -> b = 1\n    c", "b = 1 is not an expression"),
        ("a = b  # guard: x -> c; d", "c; d is not one expression or simple statement"),
        ("if a:\n    b\nelse:  # guard: x\n    c", "nothing on line 3 can be taken out"),
        ("if a:  # guard: x -> a\n    b", "nothing changes without it"),
        ("a = b  # guard: X", "a.py:1: a = b  # guard: X"),
        ("a = b  # guard: x sometimes", "a.py:1: a = b  # guard: x sometimes"),
    ],
)
def test_mark_that_says_nothing_or_two_things_is_an_error(source: str, words: str) -> None:
    """Of a test, it must say which: nobody would find that the wrong one is taken out."""
    with pytest.raises(WrongMark, match=re.escape(words)):
        without(source, marks(source, "a.py"))


def test_guards_that_go_together_are_taken_out_in_one_module() -> None:
    """From the last one up: the first changes no line of the second."""
    source = _module("a(  # guard: x", "    b", ")", "if c:  # guard: y never", "    d")
    found = without(source, marks(source, "a.py"))
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse("pass\nif False:\n    d"))


def test_each_guard_has_a_holder_and_each_holder_a_guard() -> None:
    """A lost, copied or leftover mark is an error in the code or in a test."""
    assert sorted(files_of_guards()) == sorted(guards())


def test_guards_leave_valid_code_without_them(tmp_path: Path) -> None:
    """No name is undefined: that would fail differently. Each marks one node, and changes it."""
    assert {guard.also for guard in GUARDS} - {""} <= guards().keys()
    for guard in GUARDS:
        source = read(ROOT / guard.module)
        changed = without(source, [guard])
        assert changed.count("\n") == source.count("\n")
        (tmp_path / f"{guard.name}.py").write_text(changed, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", str(tmp_path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reply.returncode == 0, reply.stdout


def test_rows_that_hold_a_guard_exist() -> None:
    """A row that was renamed would hold nothing."""
    files = {file for files in files_of_guards().values() for file in files}
    reply = python(ROOT, "-m", "pytest", "--collect-only", "-q", "--holds", ANY, *SWEEP_TOO, *files)
    assert reply.returncode == 0, f"{reply.stdout}{reply.stderr}"


SWEEP_TOO = ("-m", "sweep or not sweep", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def _sound(
    request: pytest.FixtureRequest,
    binaries: Binaries,
    tmp_path_factory: pytest.TempPathFactory,
    worker_id: str,
) -> None:
    """Each holder of a chosen guard passes in a copy, with the control plane of the cache.

    The first process of a parallel run tries that for all; the others wait for it.
    """
    del binaries
    alone = worker_id == "master"
    shared = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    with (shared / "sound").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        said = file.read()
        if not said:
            said = _faults_with_all_guards(_chosen(request.session), tmp_path_factory) or "sound"
            file.write(said)
    assert said == "sound", said


def _chosen(session: pytest.Session) -> set[str]:
    """Return the guards that this run takes out: all, or those of ``-k``."""
    ids = {
        one.callspec.id
        for one in session.items
        if isinstance(one, pytest.Function)
        and one.originalname == test_every_guard_is_held_by_its_tests.__name__
    }
    return ids & guards().keys()


def _faults_with_all_guards(
    chosen: Collection[str], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Return which holders fail in a copy of the project that nobody has changed."""
    folder = copy(tmp_path_factory.mktemp("unmutated"))
    where = python(folder, "-c", "import applyprune; print(applyprune.__file__)")
    if Path(where.stdout.strip()) != folder / "applyprune" / "__init__.py":
        return f"another package is imported: {where.stdout}{where.stderr}"
    known = files_of_guards()
    files = sorted({file for guard in chosen for file in known[guard]})
    only = next(iter(chosen)) if len(chosen) == 1 else ANY
    arguments = ("-m", "pytest", *files, "-q", "--holds", only, *SWEEP_TOO, "-n", "3")
    reply = python(folder, *arguments, "--dist", "loadfile", within=3000, hang="300")
    is_sound = reply.returncode == 0 and ALL_PASSED.search(reply.stdout) is not None
    return "" if is_sound else reply.stdout


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all guards of a process: only what one changes is compiled again."""
    return copy(tmp_path_factory.mktemp("mutated"))


def test_bytecode_without_one_guard_is_not_that_without_another(copied: Path) -> None:
    """Also where both are of one module, leave the same size, and follow within a second."""
    names = ("unpacked-in-total", "values-in-total")
    show = (
        "import dis, io; from applyprune.cluster.inventory_format import UnpackedLines\n"
        "out = io.StringIO(); dis.dis(UnpackedLines.add, file=out); print(out.getvalue())"
    )
    compiled = set()
    for name in names * 3:
        with taken_out(copied, guards()[name]):
            compiled.add((name, python(copied, "-c", show).stdout))
    assert len({guards()[name].module for name in names}) == 1
    assert len(compiled) == 2


@pytest.mark.sweep
@pytest.mark.usefixtures("_sound")
@pytest.mark.parametrize("guard", GUARDS, ids=lambda one: one.name)
def test_every_guard_is_held_by_its_tests(guard: Guard, copied: Path) -> None:
    """Check all of them: many need a control plane."""
    _is_missed(guard, copied)


@pytest.mark.usefixtures("binaries")
def test_guard_is_held_by_its_tests(copied: Path) -> None:
    """The short form: each holder fails, by its own assertion.

    Slow: each guard runs pytest in a process of its own.
    """
    _is_missed(guards()["delete-uid"], copied)


def _is_missed(guard: Guard, folder: Path) -> None:
    with taken_out(folder, guard):
        outcomes, said = _outcomes(folder, guard)
    # A fixture may fail as well, when the test has ended.
    disproved = {one.test for one in outcomes if one.is_disproved}
    assert disproved == {one.test for one in outcomes} != set(), said


def _outcomes(folder: Path, guard: Guard) -> tuple[list[Outcome], str]:
    """Return how the holders of a guard end in a copy, and what pytest said."""
    path = folder / "outcomes"
    path.unlink(missing_ok=True)
    plugin = ("-p", "tests.support.outcomes", "--outcomes", str(path))
    files = files_of_guards()[guard.name]
    reply = python(folder, "-m", "pytest", *files, "-q", "--holds", guard.name, *SWEEP_TOO, *plugin)
    return read_outcomes(path), f"{reply.returncode}: {reply.stdout}{reply.stderr}"
