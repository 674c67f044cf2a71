"""``python -m tests.mutations.killers [GUARD …]``: every test that fails without a guard.

For each mutation, or for those of the guards, it runs tests in a copy without the guard: those that
execute the marked line, by ``python -m tests.mutations.contexts``; the files of the named test's
folder, where that knows none; or those that ``--tests`` names. A test kills a mutation if one of
its assertions fails then, and the test does not fail in the copy with the guard.

The result is JSON: each mutation with its killers. A mutation that has some is not run again:
remove the file after a change of the code or of a test.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from tests.mutations.contexts import DATABASE, executing, statement
from tests.mutations.copies import (
    GUARD,
    ROOT,
    copy,
    marked_line,
    python,
    read,
    sources,
    taken_out,
)
from tests.mutations.mutations import MUTATIONS
from tests.support.outcomes import Outcome, read_outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutations.mutations import Mutation

KILLERS = ROOT / "build" / "killers.json"
HANGS_AFTER = 240
"""Seconds after which a test is ended: before ``tests.support.waiting`` gives up."""


def main(arguments: Sequence[str]) -> int:
    """Find the killers that are not known yet, and write them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.killers")
    parser.add_argument("guards", nargs="*", metavar="GUARD")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run these")
    parser.add_argument("--json", type=Path, default=KILLERS, metavar="FILE")
    parser.add_argument("--enough", type=int, default=0, metavar="N", help="stop at N failures")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutations at a time")
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTATIONS if not options.guards or {*one.guards} & {*options.guards}]
    unknown = {*options.guards} - {guard for one in chosen for guard in one.guards}
    if unknown:
        parser.error(f"no such guard: {', '.join(sorted(unknown))}")
    known = read_killers(options.json)
    lock = Lock()

    def note(mutation: Mutation) -> None:
        start = time.monotonic()
        found = _result(mutation, options.tests or tests_for(mutation), enough=options.enough)
        with lock:
            known[mutation.takes_out] = found
            _write(options.json, known)
        seconds = time.monotonic() - start
        sys.stdout.write(f"{mutation.takes_out}: {summary(found)}, {seconds:.0f} s\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(note, [one for one in chosen if not has_killers(one, known)]))
    unkilled = [one.takes_out for one in chosen if not has_killers(one, known)]
    sys.stdout.write(f"{len(chosen)} mutations, {len(unkilled)} that none of the tests kills\n")
    sys.stdout.writelines(f"    {takes_out}\n" for takes_out in unkilled)
    return int(bool(unkilled))


def read_killers(path: Path) -> dict[str, Any]:
    """Return what the file has: each mutation, by what it takes out."""
    return dict(json.loads(read(path))) if path.exists() else {}


def has_killers(mutation: Mutation, known: Mapping[str, Any]) -> bool:
    """Whether some test is known to kill it."""
    return bool(known.get(mutation.takes_out, {}).get("killers"))


def _write(path: Path, known: Mapping[str, Any]) -> None:
    """Replace the file at once: a run that is killed goes on from there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    new.replace(path)


def summary(found: Mapping[str, Any]) -> str:
    """Return the figures of one mutation."""
    others = f", {len(found['otherwise'])} fail otherwise" if found["otherwise"] else ""
    return f"{len(found['killers'])} of {found['run']} tests kill it{others}"


def tests_for(mutation: Mutation) -> list[str]:
    """Return the tests to run: the named one, and what executes a marked line or lies beside it."""
    executing_it = executing_tests(mutation) if is_measured(mutation) else set()
    found = {test.partition("[")[0] for test in executing_it}
    if not found:
        folder = (ROOT / mutation.test.partition("::")[0]).parent
        found = {str(path.relative_to(ROOT)) for path in folder.glob("test_*.py")}
    named = mutation.test.partition("[")[0]
    is_among = named in found or named.partition("::")[0] in found
    return sorted(found if is_among else {*found, named})


def is_measured(mutation: Mutation) -> bool:
    """Whether the lines of the marked modules are those that the coverage is of."""
    measured = DATABASE.stat().st_mtime if DATABASE.exists() else 0.0
    return all(_marked()[guard].stat().st_mtime <= measured for guard in mutation.guards)


def executing_tests(mutation: Mutation) -> set[str]:
    """Return the tests that execute a marked line."""
    places = (marked_place(guard) for guard in mutation.guards)
    return {test for place in places for test in executing(DATABASE, *place)}


def marked_place(guard: str) -> tuple[str, range]:
    """Return the module and the lines of a marked statement."""
    path = _marked()[guard]
    lines = statement(read(path), marked_line(read(path), guard) + 1)
    return module_of(guard), lines


def module_of(guard: str) -> str:
    """Return the path of the module that has the mark."""
    return str(_marked()[guard].relative_to(ROOT))


@cache
def _marked() -> dict[str, Path]:
    return {guard: path for path in sources(ROOT) for guard in GUARD.findall(read(path))}


def _result(mutation: Mutation, tests: Sequence[str], *, enough: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="killers-") as name:
        folder = copy(Path(name))
        with taken_out(folder, mutation):
            outcomes = _outcomes(folder, tests, "--maxfail", str(enough))
        failed = [one for one in outcomes if one.has_failed]
        again = _outcomes(folder, sorted({one.test for one in failed})) if failed else []
    broken = {one.test for one in again if one.has_failed}
    return {
        "guards": list(mutation.guards),
        "tests": list(tests),
        "run": len({one.test for one in outcomes}),
        "killers": _names(one for one in failed if one.is_disproved and one.test not in broken),
        "otherwise": _names(
            one for one in failed if not one.is_disproved and one.test not in broken
        ),
        "broken": sorted(broken),
    }


def _outcomes(folder: Path, tests: Sequence[str], *options: str) -> list[Outcome]:
    """Run the tests in a copy; say so if pytest itself fails."""
    outcomes, chosen = folder / "outcomes", folder / "chosen"
    outcomes.unlink(missing_ok=True)
    # There can be thousands, too many for a command line.
    chosen.write_text("\n".join(tests), encoding="utf-8")
    plugin = ("-p", "no:cacheprovider", "-p", "tests.support.outcomes", "--outcomes", str(outcomes))
    limit = ("--timeout", str(HANGS_AFTER))
    command = ("-m", "pytest", f"@{chosen}", "-q", *plugin, *limit, *options)
    reply = python(folder, *command, within=None)
    found = read_outcomes(outcomes)
    if not found:
        sys.stderr.write(reply.stdout + reply.stderr)
    return found


def _names(outcomes: Iterable[Outcome]) -> list[str]:
    return sorted({one.test for one in outcomes})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
