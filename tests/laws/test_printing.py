"""All that is printed goes through one place, which makes harmless what others wrote."""

from __future__ import annotations

import ast

import pytest

from tests.support.package import layer, modules, tree

PRINTS = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
ASKS = {"click.confirm", "click.prompt"}
MAY = {
    "print": {"applyprune.output.terminal"},
    # Its lines are about the user's own planes, and what the programs say that it runs.
    "demo": {"applyprune.cli.sandbox"},
    # Words of its own, on Windows, where nothing else of the package is imported.
    "windows": {"applyprune"},
}


def _calls(module: str) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree(module)) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("module", sorted(modules()))
def test_only_one_module_prints(module: str) -> None:
    """A name, a message, a path: whoever printed it himself could forget to look at it."""
    if layer(module) == "localplane" or module in set().union(*MAY.values()):
        return
    assert _calls(module) & PRINTS == set()
    assert _calls(module) & ASKS == set()


def test_exceptions_are_all_used() -> None:
    """Nothing is allowed that is not needed."""
    assert all(_calls(module) & PRINTS for module in MAY["demo"] | MAY["windows"])
