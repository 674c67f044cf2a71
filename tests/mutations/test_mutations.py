"""A test proves each guard: in a copy of the project without the guard, that test fails."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutations.copies import (
    GUARD,
    ROOT,
    copy,
    python,
    read,
    source_of,
    sources,
    taken_out,
    without,
)
from tests.mutations.mutations import MUTATIONS
from tests.support.outcomes import DISPROVED

if TYPE_CHECKING:
    from collections.abc import Collection

    from applyprune.localplane import Binaries
    from tests.mutations.mutations import Mutation

ALL_PASSED = re.compile(r"^(\d+) passed in ", re.MULTILINE)
FAILED = re.compile(rf"^FAILED .+? - ({DISPROVED})", re.MULTILINE)


def _pytest(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "pytest", *tests, "-x", "-q", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def _sound(
    request: pytest.FixtureRequest,
    binaries: Binaries,
    tmp_path_factory: pytest.TempPathFactory,
    worker_id: str,
) -> None:
    """Each test of a chosen mutation passes in a copy, with the control plane of the cache.

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
            said = _faults_without_mutations(_chosen(request.session), tmp_path_factory) or "sound"
            file.write(said)
    assert said == "sound", said


def _chosen(session: pytest.Session) -> set[str]:
    """Return the tests of the mutations that this run removes: all, or those of ``-k``."""
    ids = {
        one.callspec.id
        for one in session.items
        if isinstance(one, pytest.Function)
        and one.originalname == test_every_removed_guard_fails_its_test.__name__
    }
    return {mutation.test for mutation in MUTATIONS if mutation.takes_out in ids}


def _faults_without_mutations(
    tests: Collection[str], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Return which of these tests fail in a copy of the project that nobody has changed."""
    folder = copy(tmp_path_factory.mktemp("unmutated"))
    where = python(folder, "-c", "import applyprune; print(applyprune.__file__)")
    if Path(where.stdout.strip()) != folder / "applyprune" / "__init__.py":
        return f"another package is imported: {where.stdout}{where.stderr}"
    arguments = ("-m", "pytest", *sorted(tests), "-q", "-p", "no:cacheprovider", "-n", "3")
    reply = python(folder, *arguments, "--dist", "loadfile", within=3000, hang="300")
    # A test without its parameters counts more than once.
    passed = ALL_PASSED.search(reply.stdout)
    is_sound = reply.returncode == 0 and passed is not None and int(passed[1]) >= len(tests)
    return "" if is_sound else reply.stdout


def test_guards_are_marked_once_in_the_code_and_used_in_the_list() -> None:
    """A lost, copied or leftover mark is an error in the code or in the list."""
    marked = [guard for path in sources(ROOT) for guard in GUARD.findall(read(path))]
    assert sorted(marked) == sorted({guard for one in MUTATIONS for guard in one.guards})


@pytest.fixture(scope="module")
def marked() -> dict[str, str]:
    """The text of the module that has each mark."""
    texts = [read(path) for path in sources(ROOT)]
    return {guard: text for text in texts for guard in GUARD.findall(text)}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.takes_out)
def test_mutations_change_the_marked_lines(mutation: Mutation, marked: dict[str, str]) -> None:
    """Each pattern matches its line."""
    for guard in mutation.guards:
        before, after = marked[guard], without(marked[guard], guard, mutation)
        pairs = zip(before.splitlines(), after.splitlines(), strict=True)
        assert len([one for one, other in pairs if one != other]) == 1


def test_mutations_leave_valid_code(marked: dict[str, str], tmp_path: Path) -> None:
    """No name is undefined: that would fail differently."""
    for number, mutation in enumerate(MUTATIONS):
        for guard in mutation.guards:
            path = tmp_path / f"{guard}-{number}.py"
            path.write_text(without(marked[guard], guard, mutation), encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", str(tmp_path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reply.returncode == 0, reply.stdout


def test_mutations_name_tests_that_exist(tmp_path: Path) -> None:
    """With their parameters: a test that has moved would fail without any guard."""
    listed = tmp_path / "tests"
    listed.write_text("\n".join({mutation.test for mutation in MUTATIONS}), encoding="utf-8")
    reply = python(
        ROOT, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", f"@{listed}"
    )
    assert reply.returncode == 0, f"{reply.stdout}{reply.stderr}"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy for all mutations of a process: only what one changes is compiled again."""
    return copy(tmp_path_factory.mktemp("mutated"))


def test_bytecode_of_one_mutation_is_not_that_of_another(copied: Path) -> None:
    """Also where both are of one module, leave the same size, and follow within a second."""
    guards = ("unpacked-in-total", "values-in-total")
    mutations = [one for one in MUTATIONS if one.guards[0] in guards]
    show = (
        "import dis, io; from applyprune.cluster.inventory_format import UnpackedLines\n"
        "out = io.StringIO(); dis.dis(UnpackedLines.add, file=out); print(out.getvalue())"
    )
    sizes, compiled = set(), set()
    for mutation in mutations * 3:
        with taken_out(copied, mutation):
            sizes.add(source_of(copied, guards[0]).stat().st_size)
            compiled.add((mutation.guards, python(copied, "-c", show).stdout))
    assert (len(mutations), len(sizes)) == (2, 1)
    assert len(compiled) == 2


@pytest.mark.sweep
@pytest.mark.usefixtures("_sound")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.takes_out)
def test_every_removed_guard_fails_its_test(mutation: Mutation, copied: Path) -> None:
    """Check all of them: each needs a control plane."""
    _is_missed(mutation, copied)


@pytest.mark.usefixtures("binaries")
@pytest.mark.parametrize(
    "mutation",
    [one for one in MUTATIONS if one.takes_out == "the UID of a delete"],
    ids=lambda one: one.takes_out,
)
def test_removed_guard_fails_its_test(mutation: Mutation, copied: Path) -> None:
    """The short form: the listed test fails, by its own assertion."""
    _is_missed(mutation, copied)


def _is_missed(mutation: Mutation, folder: Path) -> None:
    with taken_out(folder, mutation):
        reply = _pytest(folder, mutation.test)
    assert reply.returncode == 1, f"{reply.returncode}: {reply.stdout}{reply.stderr}"
    assert len(FAILED.findall(reply.stdout)) == 1, reply.stdout
