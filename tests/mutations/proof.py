"""``python -m tests.mutations.proof TEST …``: whether tests can go without a loss.

TEST is a test, a case of it, a file or a folder. From ``build/coverage`` and ``build/killers.json``
it tells what only these tests execute, and for each mutation that they kill who else does. A commit
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
from tests.mutations.killers import (
    KILLERS,
    has_killers,
    is_measured,
    marked_place,
    module_of,
    read_killers,
)
from tests.mutations.mutations import MUTATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.mutations.contexts import Place
    from tests.mutations.mutations import Mutation

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

    proof = [*_about_coverage(is_named), *_about_mutations(is_named)]
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


def _about_mutations(is_named: Callable[[str], bool]) -> Iterator[Finding]:
    known = read_killers(KILLERS)
    executed = executed_by(DATABASE, is_named)
    not_known = []
    for mutation in MUTATIONS:
        if has_killers(mutation, known):
            killers = known[mutation.takes_out]["killers"]
            yield from about_mutation(mutation, killers, is_named)
        elif is_named(mutation.test) or _is_reached(mutation, executed):
            not_known.append(mutation)
    if not_known:
        guards = " ".join(guard for one in not_known for guard in one.guards)
        yield Finding("unknown", f"{len(not_known)}: python -m tests.mutations.killers {guards}")


def _is_reached(mutation: Mutation, executed: Mapping[str, set[int]]) -> bool:
    """Whether the tests execute a marked line, or nobody knows."""
    if not is_measured(mutation):
        return True
    return any(
        executed[module_of(guard)] & {*marked_place(guard)[1]}
        for guard in mutation.guards
        if module_of(guard) in executed
    )


def about_mutation(
    mutation: Mutation, killers: Sequence[str], is_named: Callable[[str], bool]
) -> Iterator[Finding]:
    """Return what the tests are for one mutation; nothing if they do not kill it."""
    others = [test for test in killers if not is_named(test)]
    if is_named(mutation.test):
        yield Finding("lost", f"{mutation.takes_out}: its entry names {mutation.test}")
    if len(others) == len(killers):
        return
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield Finding("held", f"{mutation.takes_out}: by {', '.join(others[:_SHOWN])}{more}")
    else:
        yield Finding("lost", f"{mutation.takes_out}: nothing else kills it")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
