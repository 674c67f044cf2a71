"""``python -m tests.mutations.killers [GUARD …]``: every test that fails without a guard.

For each guard, or for the named ones, it runs tests in a copy without it: those that execute the
marked line, by ``python -m tests.mutations.contexts``; the folders of its holders, where that knows
none; or those that ``--tests`` names. A test is a killer if one of its assertions fails then, and
the test does not fail in the copy with the guard.

The result is JSON: each guard with its killers. A guard that has some is not run again: remove the
file after a change of the code or of a test.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from tests.mutations.contexts import DATABASE, executing, statement
from tests.mutations.copies import copy, python, read, taken_out
from tests.mutations.guards import ROOT, guards, taken_out_with
from tests.support.holders import files_of_guards
from tests.support.outcomes import Outcome, read_outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutations.guards import Guard

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
    parser.add_argument("--jobs", type=int, default=2, help="how many guards at a time")
    options = parser.parse_args(arguments)
    unknown = {*options.guards} - guards().keys()
    if unknown:
        parser.error(f"no such guard: {', '.join(sorted(unknown))}")
    chosen = [one for one in guards().values() if one.name in (options.guards or guards())]
    known = read_killers(options.json)
    lock = Lock()

    def note(guard: Guard) -> None:
        start = time.monotonic()
        found = _result(guard, options.tests or tests_for(guard), enough=options.enough)
        with lock:
            known[guard.name] = found
            _write(options.json, known)
        seconds = time.monotonic() - start
        sys.stdout.write(f"{guard.name}: {summary(found)}, {seconds:.0f} s\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(note, [one for one in chosen if not has_killers(one, known)]))
    unkilled = [one.name for one in chosen if not has_killers(one, known)]
    sys.stdout.write(f"{len(chosen)} guards, {len(unkilled)} that none of the tests needs\n")
    sys.stdout.writelines(f"    {name}\n" for name in unkilled)
    return int(bool(unkilled))


def read_killers(path: Path) -> dict[str, Any]:
    """Return what the file has: each guard by its name."""
    return dict(json.loads(read(path))) if path.exists() else {}


def has_killers(guard: Guard, known: Mapping[str, Any]) -> bool:
    """Whether some test is known to fail without it."""
    return bool(known.get(guard.name, {}).get("killers"))


def _write(path: Path, known: Mapping[str, Any]) -> None:
    """Replace the file at once: a run that is killed goes on from there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    new.replace(path)


def summary(found: Mapping[str, Any]) -> str:
    """Return the figures of one guard."""
    others = f", {len(found['otherwise'])} fail otherwise" if found["otherwise"] else ""
    return f"{len(found['killers'])} of {found['run']} tests need it{others}"


def tests_for(guard: Guard) -> list[str]:
    """Return the tests to run: what executes a marked line, or lies beside a holder."""
    executing_it = executing_tests(guard) if is_measured(guard) else set()
    found = {test.partition("[")[0] for test in executing_it}
    for file in files_of_guards()[guard.name]:
        if not found:
            found = {str(path.relative_to(ROOT)) for path in (ROOT / file).parent.glob("test_*.py")}
        if not any(test.partition("::")[0] == file for test in found):
            found.add(file)
    return sorted(found)


def is_measured(guard: Guard) -> bool:
    """Whether the lines of the marked modules are those that the coverage is of."""
    measured = DATABASE.stat().st_mtime if DATABASE.exists() else 0.0
    parts = taken_out_with(guard)
    return all((ROOT / one.module).stat().st_mtime <= measured for one in parts)


def executing_tests(guard: Guard) -> set[str]:
    """Return the tests that execute a marked line."""
    parts = taken_out_with(guard)
    return {test for one in parts for test in executing(DATABASE, one.module, marked_lines(one))}


def marked_lines(guard: Guard) -> range:
    """Return the lines of a marked statement."""
    return statement(read(ROOT / guard.module), guard.line)


def _result(guard: Guard, tests: Sequence[str], *, enough: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="killers-") as name:
        folder = copy(Path(name))
        with taken_out(folder, guard):
            outcomes = _outcomes(folder, tests, "--maxfail", str(enough))
        failed = [one for one in outcomes if one.has_failed]
        again = _outcomes(folder, sorted({one.test for one in failed})) if failed else []
    broken = {one.test for one in again if one.has_failed}
    return {
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
