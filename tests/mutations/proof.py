"""``python -m tests.mutations.proof TEST …``: whether tests can go without a loss.

TEST is a test, a case of it, a file or a folder. From ``build/coverage`` and ``build/killers.json``
it tells what only these tests execute, and for each guard that they need who else does. A commit
that deletes a test has this in its message. The exit code is 1 if something would be lost, or is
not known yet.

Nobody has measured what a test does in other processes: for the test of a command, run
``python -m tests.mutations.killers GUARD --tests`` with it and with those that are to replace it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tests.mutations.contexts import (
    DATABASE,
    executed_by,
    is_part_of,
    only_executed_by,
    tests_in,
)
from tests.mutations.guards import guards, taken_out_with
from tests.mutations.killers import (
    KILLERS,
    has_killers,
    is_measured,
    marked_lines,
    read_killers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.mutations.contexts import Place
    from tests.mutations.guards import Guard

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the proof: something is held by other tests, would be lost, or is not known."""

    state: str
    text: str


def main(arguments: Sequence[str]) -> int:
    """Print the proof; return the exit code."""
    if not arguments or not DATABASE.exists():
        sys.stderr.write(f"{__doc__}\nIt needs {DATABASE} and a TEST.\n")
        return 2

    def is_named(test: str) -> bool:
        return any(is_part_of(test, one) for one in arguments)

    proof = [*_about_coverage(is_named), *_about_guards(is_named)]
    for one in proof:
        sys.stdout.write(f"{one.state:8} {one.text}\n")
    return int(any(one.state != "held" for one in proof))


def _about_coverage(is_named: Callable[[str], bool]) -> Iterator[Finding]:
    count = sum(map(is_named, tests_in(DATABASE)))
    if count == 0:
        yield Finding("unknown", "the coverage has none of these tests")
    places = only_executed_by(DATABASE, is_named)
    yield from (Finding("lost", f"only these tests execute {one}") for one in shown(places))
    if not places:
        yield Finding("held", f"every line and branch that these {count} tests execute")


def shown(places: Sequence[Place]) -> list[str]:
    """Return places as text, with neighbouring lines as one: ``applyprune/values.py:12-14``."""
    texts = [str(one) for one in places if one.to is not None]
    lines = [one for one in places if one.to is None]
    runs = groupby(enumerate(lines), lambda pair: (pair[1].module, pair[1].line - pair[0]))
    for (module, _), run in runs:
        found = [place.line for _, place in run]
        end = f"-{found[-1]}" if len(found) > 1 else ""
        texts.append(f"{module}:{found[0]}{end}")
    return sorted(texts)


def _about_guards(is_named: Callable[[str], bool]) -> Iterator[Finding]:
    known = read_killers(KILLERS)
    executed = executed_by(DATABASE, is_named)
    not_known = []
    for guard in guards().values():
        if has_killers(guard, known):
            yield from about_guard(guard.name, known[guard.name]["killers"], is_named)
        elif _is_reached(guard, executed):
            not_known.append(guard.name)
    if not_known:
        names = " ".join(not_known)
        yield Finding("unknown", f"{len(not_known)}: python -m tests.mutations.killers {names}")


def _is_reached(guard: Guard, executed: Mapping[str, set[int]]) -> bool:
    """Whether the tests execute a marked line, or nobody knows."""
    if not is_measured(guard):
        return True
    parts = taken_out_with(guard)
    return any(
        executed[one.module] & {*marked_lines(one)} for one in parts if one.module in executed
    )


def about_guard(
    guard: str, killers: Sequence[str], is_named: Callable[[str], bool]
) -> Iterator[Finding]:
    """Return what the tests are for one guard; nothing if they do not need it."""
    others = [test for test in killers if not is_named(test)]
    if len(others) == len(killers):
        return
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield Finding("held", f"{guard}: by {', '.join(others[:_SHOWN])}{more}")
    else:
        yield Finding("lost", f"{guard}: nothing else holds it")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
