"""The modules of the package, and their imports."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = Path(__file__).parents[2] / "applyprune"
NAME = PACKAGE.name


@cache
def modules() -> Mapping[str, Path]:
    """Return every module of the package by its dotted name; a package has its folder's name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join((NAME, *(part for part in parts if part != "__init__")))] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """Return a module's syntax tree."""
    path = modules()[module]
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports(module: str) -> frozenset[str]:
    """Return every module that a module imports, also under TYPE_CHECKING and in functions."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            # `from applyprune import engine` imports a module by a plain name.
            named = {f"{base}.{alias.name}" for alias in node.names}
            submodules = named & modules().keys()
            found.update(submodules)
            if submodules != named:
                found.add(base)
    return frozenset(found)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    if modules()[module].stem == "__init__":
        parts.append("__init__")
    return ".".join(part for part in (*parts[: -node.level], node.module) if part)


def layer(module: str) -> str:
    """Return the layer of one of the package's modules: the first name below ``applyprune``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def is_ours(module: str) -> bool:
    """Return whether a module belongs to the package."""
    return module.partition(".")[0] == NAME
