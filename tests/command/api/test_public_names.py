"""``import applyprune``: which names it has, and how little it loads."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
import typing

import pytest

import applyprune
from applyprune import Adopt
from tests.support.package import tree

HEAVY = {
    "click",
    "kubernetes",
    "urllib3",
    "yaml",
    "ruamel",
    "json",
    "dataclasses",
    "importlib.util",
}


def declared() -> dict[str, str]:
    """Return what type checkers see: the names of the TYPE_CHECKING block and their modules."""
    blocks = (node for node in tree("applyprune").body if isinstance(node, ast.If))
    (block,) = (node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_public_names_are_sorted_and_complete() -> None:
    """What type checkers see is what programs get, and is all of it."""
    assert sorted(applyprune.__all__) == applyprune.__all__
    assert {*declared(), "__version__"} == set(applyprune.__all__)
    assert {
        name: f"applyprune.{module}" for name, module in applyprune._WHERE.items()
    } == declared()


@pytest.mark.parametrize("name", sorted(declared()))
def test_public_name_is_that_of_its_class(name: str) -> None:
    """One idea has one name, inside and outside."""
    value = getattr(applyprune, name)
    if name != "Event":  # an alias
        assert (value.__name__, value.__module__) == (name, declared()[name])
    assert value.__doc__


@pytest.mark.parametrize("name", sorted(declared()))
def test_public_name_can_be_looked_up(name: str) -> None:
    """By ``help()``, by ``inspect.signature()``, and by whatever reads the types of its fields."""
    value = getattr(applyprune, name)
    assert pydoc.render_doc(value)
    if name == "Event":  # an alias
        return
    functions = [one for _, one in inspect.getmembers(value, inspect.isfunction)]
    ours = [one for one in functions if one.__module__.startswith("applyprune.")]
    public = [one for one in ours if not one.__name__.startswith("_")]
    for one in (value, *public):
        told = inspect.signature(one)
        hints = typing.get_type_hints(one)
        assert not inspect.isfunction(one) or {*told.parameters} - {"self"} <= {*hints}


def test_completion_shows_public_names_only() -> None:
    """And a value shows what differs from its defaults."""
    assert {name for name in dir(applyprune) if not name.startswith("__")} == {
        name for name in applyprune.__all__ if not name.startswith("__")
    }
    options = applyprune.Options(check=False, apply=applyprune.ApplyOptions(adopt=Adopt.ALL))
    assert repr(options) == "Options(check=False, apply=ApplyOptions(adopt=<Adopt.ALL: 'all'>))"


def test_unknown_name_is_an_attribute_error() -> None:
    """With the usual words, so that hasattr works."""
    with pytest.raises(AttributeError, match="module 'applyprune' has no attribute 'aply'"):
        getattr(applyprune, "aply")  # noqa: B009 -- mypy knows the names
    assert set(applyprune.__all__) <= set(dir(applyprune))


def test_import_loads_nothing_heavy() -> None:
    """A program that only asks for the version pays for nothing else."""
    script = "import sys; before = set(sys.modules); import applyprune; applyprune.__version__\n"
    loaded = _printed(f"{script}print(*(set(sys.modules) - before))")
    assert {one for one in loaded if one.startswith("applyprune")} == {
        "applyprune",
        "applyprune._version",
    }
    assert loaded & HEAVY == set()


def test_error_class_loads_neither_client_nor_parser() -> None:
    """Each name imports its own module."""
    loaded = _printed("import sys; from applyprune import RunFailed; print(*sys.modules)")
    assert loaded & {"urllib3", "ruamel", "applyprune.engine", "applyprune.cluster"} == set()


def test_star_import_gives_the_public_names() -> None:
    """For those who like it in a shell."""
    assert _printed("from applyprune import *; print(*dir())") >= set(applyprune.__all__)


def _printed(script: str) -> set[str]:
    reply = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(reply.stdout.split())
