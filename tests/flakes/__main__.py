"""``python -m tests.flakes [PATH…]``: run the changed test files on a busy machine, repeatedly.

Two processes burn a core each meanwhile. Each test that failed at least once is named, and the exit
code is then 1. Without a PATH, a file counts as changed since the branch left ``main``, and so does
one that is not committed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.outcomes import Outcome, read_outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).parents[2]
SECONDS = 300
"""No run begins that would end later, judged by the longest one; but there are FEWEST_RUNS."""
FEWEST_RUNS = 3
BURNERS = 2
_TEST_FILE = re.compile(r"tests/(.+/)?test_[^/]+\.py")
_PASSED_OR_FAILED, _NO_TESTS = {0, 1}, 5
# It ends when its input does: that is when this process is gone, however it went.
_BURN = """
import os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
while True:
    pass
"""


def main(arguments: Sequence[str]) -> int:
    """Run the files and tell what failed; return the exit code."""
    paths = list(arguments) or changed_test_files(ROOT)
    if not paths:
        sys.stdout.write("No test file has changed.\n")
        return 0
    runs: list[list[Outcome]] = []
    code = 0
    try:
        with burners(BURNERS):
            code = _run_repeatedly(paths, runs)
    except KeyboardInterrupt:
        code = 130
    sys.stdout.write(told(runs))
    return code or int(bool(failures(runs)))


def _run_repeatedly(paths: Sequence[str], runs: list[list[Outcome]]) -> int:
    """Add the outcomes of each run; return an exit code when pytest itself fails."""
    end, longest = time.monotonic() + SECONDS, 0.0
    while len(runs) < FEWEST_RUNS or time.monotonic() + longest <= end:
        start = time.monotonic()
        code, outcomes, output = _run(paths)
        if code == _NO_TESTS:
            sys.stdout.write(f"No test of these runs outside of a sweep: {', '.join(paths)}\n")
            return 0
        if code not in _PASSED_OR_FAILED and not any(one.has_failed for one in outcomes):
            sys.stdout.write(output)
            return 2
        runs.append(outcomes)
        longest = max(longest, time.monotonic() - start)
        failed = len({one.test for one in outcomes if one.has_failed})
        sys.stdout.write(f"run {len(runs)}: {failed} failed, {time.monotonic() - start:.0f} s\n")
        sys.stdout.flush()
    return 0


def _run(paths: Sequence[str]) -> tuple[int, list[Outcome], str]:
    """Run pytest once; return its exit code, the outcomes, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes, output = Path(folder) / "outcomes", Path(folder) / "output"
        command = [sys.executable, "-m", "pytest", *paths, "-q", "-n", "2", "--dist", "loadfile"]
        plugin = ["-p", "no:cacheprovider", "-p", "tests.support.outcomes", "--outcomes"]
        with output.open("w") as file:
            process = subprocess.Popen(
                [*command, *plugin, str(outcomes)], cwd=ROOT, stdout=file, stderr=file
            )
            try:
                code = process.wait()
            except KeyboardInterrupt:
                # It has the signal too, and stops the control planes that it has started.
                process.wait()
                raise
        return code, read_outcomes(outcomes), output.read_text(encoding="utf-8")


@contextmanager
def burners(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep ``count`` cores busy; nothing is left of it when this process is killed, either."""
    command = [sys.executable, "-c", _BURN]
    # On Ctrl-C they would print where they were.
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
            one.communicate()


def changed_test_files(root: Path) -> list[str]:
    """Return the test files that differ from where the branch left ``main``, or are new."""
    known = _git(root, "for-each-ref", "--format=%(refname)", "refs/remotes/origin/main")
    main_branch = "origin/main" if known else "main"
    (base,) = _git(root, "merge-base", "HEAD", main_branch)
    differing = _git(root, "diff", "--name-only", "--diff-filter=d", base)
    return _collected([*differing, *_git(root, "ls-files", "--others", "--exclude-standard")])


def _git(root: Path, *arguments: str) -> list[str]:
    reply = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return reply.stdout.splitlines()


def _collected(paths: Iterable[str]) -> list[str]:
    """Return those that pytest would collect, each once."""
    return sorted({path for path in paths if _TEST_FILE.fullmatch(path)})


def failures(runs: Sequence[Sequence[Outcome]]) -> dict[str, list[Outcome]]:
    """Return the failures of each test, at most one for each run."""
    found: dict[str, list[Outcome]] = {}
    for run in runs:
        # A test can fail, and its fixture after it.
        for outcome in {one.test: one for one in reversed(run) if one.has_failed}.values():
            found.setdefault(outcome.test, []).append(outcome)
    return found


def told(runs: Sequence[Sequence[Outcome]]) -> str:
    """Return the report: each test that failed, how often, and the end of its last failure."""
    failed = failures(runs)
    lines = []
    for test, outcomes in sorted(failed.items()):
        lines.append(f"\n{test}: failed in {len(outcomes)} of {len(runs)} runs")
        lines.extend(f"    {line}" for line in outcomes[-1].last_lines.splitlines())
    tests = {outcome.test for run in runs for outcome in run}
    lines.append(f"\n{len(tests)} tests, {len(runs)} runs: {len(failed)} failed at least once.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
