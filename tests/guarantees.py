"""``python -m tests.guarantees``: each guarantee, the code that keeps it, and the tests of it.

A guarantee is a guard of the package (``# guard: NAME``). Its words are those of the first test
that holds it: the names of tests are sentences.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutations.guards import Guard, guards
from tests.support.holders import marked_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
RULES: Mapping[str, Sequence[str]] = {
    "Nothing is deleted that must stay": (
        "engine/prune.py",
        "engine/set_runs.py",
        "planning/bundle_set.py",
        "planning/cascade.py",
        "planning/guards.py",
        "planning/own_namespace.py",
        "planning/prune_waits.py",
        "planning/references.py",
        "planning/remaining.py",
        "planning/removals.py",
        "planning/uids.py",
    ),
    "Nothing is taken from others": (
        "planning/applyset.py",
        "planning/between_sets.py",
        "planning/conflicts.py",
        "planning/decide.py",
        "planning/desired.py",
        "planning/full_reads.py",
        "planning/import_content.py",
        "planning/staying_fields.py",
        "planning/managed_fields.py",
        "planning/marks.py",
        "planning/ownership.py",
        "planning/still_recorded.py",
        "planning/world.py",
    ),
    "No object is lost track of": (
        "cluster/inventory_format.py",
        "cluster/inventory_store.py",
        "engine/inventory.py",
        "engine/lock.py",
        "engine/run.py",
        "model/inventory.py",
        "planning/recovery.py",
    ),
    "Nothing is done that was not shown and approved": (
        "cli/confirmation.py",
        "cli/many_runs.py",
        "cli/run.py",
        "cli/session.py",
        "engine/plan_stage.py",
        "model/options.py",
        "model/plan.py",
        "planning/approval.py",
        "planning/digests.py",
        "planning/approved_deletions.py",
        "planning/history.py",
        "planning/plan.py",
        "planning/refusals.py",
        "planning/requests.py",
        "sources/plan_files.py",
    ),
    "A reply counts only if it proves something": (
        "cluster/",
        "engine/apply.py",
        "engine/checks.py",
        "engine/dry_run.py",
        "engine/import_objects.py",
        "engine/reader.py",
        "engine/send.py",
        "http.py",
        "planning/comparison.py",
        "planning/normalize.py",
        "planning/replies.py",
        "planning/served_kinds.py",
        "planning/server_errors.py",
    ),
    "No Secret is shown": (
        "cli/importing.py",
        "cluster/messages.py",
        "output/",
        "planning/secrets.py",
        "planning/tool_records.py",
    ),
    "Ready means that it is ready": (
        "engine/status.py",
        "engine/waiting.py",
        "planning/cel.py",
    ),
    "An input is what it seems to be": (
        "addresses.py",
        "cli/config.py",
        "model/identity.py",
        "planning/configuration.py",
        "planning/names.py",
        "planning/order.py",
        "planning/schemas.py",
        "planning/set_order.py",
        "sources/",
    ),
    "A Bundle does no more than its account may": ("api/bundles.py", "controller/"),
    "What runs is what was meant": (
        "api/",
        "cli/main.py",
        "cli/publish.py",
        "clock.py",
        "localplane/",
        "system/",
    ),
}
"""The safety rules, and the modules that keep each: a file, or a folder."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A test, or one row of its table, that fails without a guard."""

    file: str
    name: str
    row: str = ""

    @property
    def sentence(self) -> str:
        """Return the name of the test as the sentence that it is."""
        words = self.name.removeprefix("test_").replace("_", " ")
        return f"{words[:1].upper()}{words[1:]}{f' ({self.row})' if self.row else ''}"


def table() -> str:
    """Return the page: a table for each rule."""
    by_rule: dict[str, list[str]] = {rule: [] for rule in RULES}
    held, places = holders(), {guard.name: place for guard, place in _placed()}
    for name, guard in sorted(guards().items()):
        found = held[name]
        module = guard.module.removeprefix("applyprune/")
        first = found[0]
        tests = ", ".join(
            f"[{Path(one.file).stem.removeprefix('test_')}](../../{one.file})"
            for one in {one.file: one for one in found}.values()
        )
        line = f"| {first.sentence} | `{name}` |"
        code = f" [{module}](../../{guard.module}): `{places[name]}` | {tests} |"
        by_rule[rule_of(module)].append(line + code)
    head = "| guarantee | guard | code | tests |\n|---|---|---|---|"
    return "\n\n".join(
        f"## {rule}\n\n{head}\n" + "\n".join(sorted(lines)) for rule, lines in by_rule.items()
    )


def rule_of(module: str) -> str:
    """Return the rule that a module keeps: that of its file before that of its folder."""
    for whole in (True, False):
        for rule, parts in RULES.items():
            if module in parts if whole else module.startswith(tuple(parts)):
                return rule
    raise LookupError(f"no safety rule names {module}: see RULES in tests/guarantees.py")


def _placed() -> Iterator[tuple[Guard, str]]:
    """Yield each guard with the function or class in which it stands."""
    trees: dict[str, ast.Module] = {}
    for guard in guards().values():
        if guard.module not in trees:
            trees[guard.module] = ast.parse((ROOT / guard.module).read_text(encoding="utf-8"))
        yield guard, _enclosing(trees[guard.module], guard.line) or "the module"


def _enclosing(tree: ast.AST, line: int) -> str:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if node.end_lineno is not None and first <= line <= node.end_lineno:
                inner = _enclosing(node, line)
                return f"{node.name}.{inner}" if inner else node.name
        elif found := _enclosing(node, line):
            return found
    return ""


@cache
def holders() -> Mapping[str, Sequence[Holder]]:
    """Return the tests that hold each guard, by their marks."""
    found: dict[str, list[Holder]] = defaultdict(list)
    for file, tree in marked_files():
        for guard, name, row in _marks(tree):
            found[guard].append(Holder(file, name, row))
    return found


def _marks(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield the guard, the test and the row of each mark in a file."""
    tests = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    tables = {
        target.id: node
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for test in tests:
        for decorator in test.decorator_list:
            yield from ((guard, test.name, row) for guard, row in _held_in(decorator))
            for name in ast.walk(decorator):
                if isinstance(name, ast.Name) and name.id in tables:
                    rows = _held_in(tables[name.id])
                    yield from ((guard, test.name, row) for guard, row in rows)


def _held_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each guard that a decorator or a table names, with the id of its row if it has one."""
    rows: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="param"), keywords=keywords):
                given = {one.arg: one.value for one in keywords}
                row = given.get("id")
                label = str(row.value) if isinstance(row, ast.Constant) else ""
                rows |= dict.fromkeys(ast.walk(node), label)
            case ast.Call(func=ast.Attribute(attr="holds"), args=names, keywords=keywords):
                named = next((one.value for one in keywords if one.arg == "row"), None)
                row_id = str(named.value) if isinstance(named, ast.Constant) else rows.get(node, "")
                yield from (
                    (str(one.value), row_id) for one in names if isinstance(one, ast.Constant)
                )


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
