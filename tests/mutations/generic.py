"""``python -m tests.mutations.generic [PATH …]``: small changes that no pure test notices.

mutmut makes the changes in a copy below ``build/mutants``: by default in ``applyprune/planning``
and ``applyprune/engine/steps``. It runs the tests that need no server and reach the changed
function. The result is JSON: each change, named by its number in its function, and how it ended.
The numbers stay while the code does. With ``--before``, the exit code is 1 if a change survives
that a test noticed then.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutations.copies import copy, read
from tests.mutations.guards import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = ROOT / "build" / "mutants"
GENERIC = ROOT / "build" / "generic.json"
MUTATED = (
    "applyprune/planning",
    *(f"applyprune/engine/{name}.py" for name in ("apply", "dry_run", "prune", "send", "waiting")),
)
TESTS = ("tests/decisions", "tests/unit/planning", "tests/stories")
NOTICED = {"killed", "timeout"}
_RESULT = re.compile(r"^ +(\S+__mutmut_\d+): (.+)$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run mutmut; print the score and what survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.generic")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a module or folder to change")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH")
    parser.add_argument("--json", type=Path, default=GENERIC, metavar="FILE")
    parser.add_argument("--before", type=Path, metavar="FILE", help="an earlier --json")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    before = json.loads(read(options.before)) if options.before else {}
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    copy(FOLDER)
    configured = configuration(options.paths or MUTATED, options.tests)
    (FOLDER / "setup.cfg").write_text(configured, encoding="utf-8")
    # What it prints is a line that it overwrites a thousand times.
    log = None if sys.stdout.isatty() else (FOLDER / "log").open("w", encoding="utf-8")
    run = _mutmut("run", "--max-children", str(options.jobs))
    if subprocess.run(run, cwd=FOLDER, stdout=log, stderr=log, check=False).returncode != 0:
        sys.stderr.write(f"mutmut failed: see {FOLDER / 'log'}\n")
        return 2
    results = _mutmut("results", "--all", "true")
    said = subprocess.run(results, cwd=FOLDER, capture_output=True, text=True, check=True).stdout
    ended = dict(_RESULT.findall(said))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(ended, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name in (name for name, result in ended.items() if result not in NOTICED):
        sys.stdout.write(f"{name}: {ended[name]}\n")
        sys.stdout.write(change(_functions(module_of(name)), name.rpartition(".")[2]))
    sys.stdout.write(scores(ended))
    lost = [one for one in ended if before.get(one) in NOTICED and ended[one] not in NOTICED]
    sys.stdout.writelines(f"noticed before: {one}\n" for one in lost)
    return int(bool(lost))


def _mutmut(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mutmut", *arguments]


def configuration(paths: Sequence[str], tests: Sequence[str]) -> str:
    """Return what mutmut reads as ``setup.cfg``."""
    values = {
        "source_paths": ["applyprune"],
        "only_mutate": [path if path.endswith(".py") else f"{path}/*" for path in paths],
        "also_copy": ["tests", "fixtures", "deploy", "pyproject.toml"],
        "pytest_add_cli_args": ["--fast", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(tests),
        # Seconds on top of 15 times what the tests take: a busy machine notices no change.
        "timeout_constant": ["30"],
    }
    lines = [f"{key}=\n    " + "\n    ".join(value) for key, value in values.items()]
    return "\n".join(["[mutmut]", *lines, ""])


def module_of(name: str) -> str:
    """Return the module of a change: ``applyprune.planning.order.x_in_order__mutmut_3``."""
    return name.rpartition(".")[0]


def scores(ended: Mapping[str, str]) -> str:
    """Return how many changes were noticed: in each module, and in all."""
    all_of = Counter(module_of(name) for name in ended)
    noticed = Counter(module_of(name) for name, how in ended.items() if how in NOTICED)
    lines = [f"{noticed[one]:6} of {all_of[one]:6}  {one}" for one in sorted(all_of)]
    ways = ", ".join(f"{count} {how}" for how, count in sorted(Counter(ended.values()).items()))
    share = 100 * noticed.total() / max(1, len(ended))
    lines.append(f"{noticed.total():6} of {len(ended):6}  noticed: {share:.1f} % ({ways})")
    return "\n".join(lines) + "\n"


@cache
def _functions(module: str) -> dict[str, list[str]]:
    return functions(read(FOLDER / "mutants" / f"{module.replace('.', '/')}.py"))


def functions(source: str) -> dict[str, list[str]]:
    """Return the lines of each function that mutmut has made: the original and the changed ones."""
    return {
        node.name: ast.unparse(node).replace(node.name, "", 1).splitlines()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }


def change(made: Mapping[str, Sequence[str]], mutant: str) -> str:
    """Return the lines that a change removes and adds."""
    original = f"{mutant.rpartition('__mutmut_')[0]}__mutmut_orig"
    lines = difflib.ndiff(made[original], made[mutant])
    return "".join(f"    {line}\n" for line in lines if line.startswith(("- ", "+ ")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
