"""The laws of the house (design §3): who may import whom, and what every module owes its reader."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from tests.support.package import imports, is_ours, layer, modules, tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


CORE = frozenset({"model", "errors", "planning"})
ALLOWED: Mapping[str, frozenset[str]] = {
    # The public names, each imported when it is asked for.
    "__init__": CORE | {"api", "engine", "cluster", "output", "sources"},
    "__main__": frozenset({"cli"}),
    "_version": frozenset(),
    # Copies of frozen values, JSON, and what is done late.
    "values": frozenset(),
    # It reads the time, so nothing that decides may import it.
    "clock": frozenset(),
    "model": frozenset(),
    "errors": frozenset({"model"}),
    # What the operating systems have in different ways.
    "system": frozenset({"errors", "clock"}),
    "planning": frozenset({"model", "errors"}),
    "engine": CORE | {"clock", "system"},
    "addresses": frozenset(),
    "http": frozenset({"addresses", "errors", "clock"}),
    # These three sit beside the engine; `api` and the controller put them together with it.
    "sources": CORE | {"addresses", "http", "clock", "system"},
    "cluster": CORE | {"addresses", "http", "clock", "system"},
    "output": CORE | {"clock"},
    "localplane": frozenset({"model", "errors", "system"}),
    "controller": CORE | {"engine", "sources", "cluster", "addresses", "http", "clock", "system"},
    "api": CORE | {"engine", "sources", "cluster", "output"},
    "cli": CORE
    | {"api", "engine", "sources", "cluster", "output", "localplane", "controller"}
    | {"addresses", "http", "system"},
}
"""What each layer may import beside itself and the modules of ``EVERYWHERE``."""
EVERYWHERE = frozenset({"_version", "values"})
LIBRARIES = frozenset(
    {
        "cel_expr_python",
        "click",
        "cryptography",
        "deepdiff",
        "jsonpatch",
        "kubernetes",
        "msgspec",
        "platformdirs",
        "prometheus_client",
        "pycurl",
        "pydantic",
        "ruamel",
        "urllib3",
    }
)
CORE_AND_BELOW = ("_version", "clock", "model", "errors", "system", "planning", "engine")


ENTRY = {"applyprune.cli.main"}
_ENTRY_LAYERS = frozenset({"_version", "cli"})
_OPTION_LAYERS = _ENTRY_LAYERS | {"errors", "model", "output", "values"}
_VALUES = frozenset({"click", "msgspec"})
LIGHT: Mapping[tuple[str, ...], tuple[frozenset[str], frozenset[str]]] = {
    ("--help",): (_ENTRY_LAYERS, frozenset({"click"})),
    ("--version",): (_ENTRY_LAYERS, frozenset({"click"})),
    ("apply", "--help"): (_OPTION_LAYERS, _VALUES),
    ("status", "--help"): (_OPTION_LAYERS, _VALUES),
    ("list", "--help"): (_OPTION_LAYERS, _VALUES),
}
"""Which layers and which libraries each command loads, if it only prints what it knows itself."""


def test_module_belongs_to_a_layer() -> None:
    """A new folder or top-level module needs a line in the table first."""
    assert {layer(module) for module in modules()} - ALLOWED.keys() == set()


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_layer_imports_only_what_it_may(name: str) -> None:
    """Imports point one way: model ← errors ← planning ← engine ← api ← cli."""
    may = ALLOWED[name] | EVERYWHERE | {name}
    wrong = [
        f"{module} imports {imported}"
        for module in modules()
        if layer(module) == name
        for imported in sorted(imports(module))
        if is_ours(imported) and layer(imported) not in may
    ]
    assert wrong == []


BUT = {
    ("applyprune.model.object_yaml", "ruamel.yaml"),
    ("applyprune.model.object_yaml", "ruamel.yaml.representer"),
    ("applyprune.planning.requests", "jsonpatch"),
    ("applyprune.planning.cel", "cel_expr_python"),
    ("applyprune.planning.cel", "cel_expr_python.ext"),
}


def test_few_modules_use_more_of_msgspec_than_its_structs() -> None:
    """Its encoder and decoder end the process where no memory is left; a copy is not checked."""
    users = {name for name in modules() if _imported_of_msgspec(name) - STRUCTS}
    assert users == {f"applyprune.{name}" for name in USERS_OF_MSGSPEC}


STRUCTS = frozenset({"Struct", "StructMeta", "field", "asdict", "astuple"})
USERS_OF_MSGSPEC = ("cluster.messages", "values")
"""``json_parts`` leaves parts as text."""


def _imported_of_msgspec(name: str) -> set[str]:
    """Return what a module imports of it; the package itself is all of it."""
    found = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names if one.name.startswith("msgspec")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("msgspec"):
            found |= {one.name for one in node.names}
    return found


@pytest.mark.parametrize("name", CORE_AND_BELOW)
def test_core_needs_few_packages(name: str) -> None:
    """It needs Python, msgspec for its values, and a few packages, each in one place."""
    wrong = [
        f"{module} imports {imported}"
        for module in modules()
        if layer(module) == name
        for imported in sorted(imports(module))
        if not is_ours(imported)
        and imported.split(".")[0] not in {"msgspec", *sys.stdlib_module_names}
        and (module, imported) not in BUT
    ]
    assert wrong == []


def test_kinds_are_named_in_their_table_alone() -> None:
    """A set of kinds elsewhere would be a second table."""
    named = {
        name
        for name in modules()
        for call in ast.walk(tree(name))
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") == "GroupKind"
        and any(isinstance(part, ast.Constant) and part.value for part in call.args)
    }
    assert named == set()


def test_no_class_is_known_by_its_name() -> None:
    """Nothing compares ``__name__``: a class may be renamed, an enum says what it is."""
    wrong = [
        f"{module}:{node.lineno}"
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Compare)
        and any(isinstance(one, ast.Attribute) and one.attr == "__name__" for one in ast.walk(node))
    ]
    assert wrong == []


def test_every_option_says_what_it_is() -> None:
    """A docstring below each field of each group of options."""
    silent = [
        f"{group.name}.{field.target.id}"
        for group in tree("applyprune.model.options").body
        if isinstance(group, ast.ClassDef) and group.name.endswith("Options")
        for field, after in zip(group.body, [*group.body[1:], ast.Pass()], strict=True)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]
    assert silent == []


def test_every_error_says_what_kind_of_problem_it_is() -> None:
    """The kind is a public word: no error gets it from its class's name."""
    silent = [
        node.name
        for node in tree("applyprune.errors").body
        if isinstance(node, ast.ClassDef)
        and not any(
            isinstance(one, ast.Assign | ast.AnnAssign) and _assigned(one) == "kind"
            for one in node.body
        )
    ]
    assert silent == []


def _assigned(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else ""


def test_imports_form_no_cycle() -> None:
    """Not even one for type checking only: two modules that know each other are one module."""
    graph = {
        module: {one for one in imports(module) if is_ours(one) and one != module}
        for module in modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle: {' → '.join(reversed(error.args[1]))}")


def test_entry_of_the_package_imports_alone() -> None:
    """The entries of the package; the sweep takes every module."""
    imported = {one for module in modules() for one in imports(module)}
    entries = sorted(modules().keys() - imported)
    assert len(entries) > 1
    _import_alone(entries)


@pytest.mark.sweep
def test_module_imports_alone() -> None:
    """Each in a fresh state: none may work only because another was imported before it."""
    _import_alone(sorted(modules()))


def _import_alone(names: Sequence[str]) -> None:
    script = (
        # What others have made is loaded once: it is our modules that must stand alone.
        "import importlib, os, sys, traceback, click, urllib3\n"
        "for name in sys.argv[1:]:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try:\n"
        "            importlib.import_module(name)\n"
        "        except BaseException:\n"
        "            traceback.print_exc()\n"
        "            os._exit(1)\n"
        "        os._exit(0)\n"
        "    if os.waitpid(child, 0)[1]:\n"
        "        print(name)\n"
    )
    reply = _python(script, *names)
    assert (reply.returncode, reply.stdout) == (0, ""), reply.stderr


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_command_line_is_light(arguments: tuple[str, ...]) -> None:
    """What answers without a cluster waits for few modules, and for few libraries."""
    loaded = _loaded(*arguments)
    ours, libraries = LIGHT[arguments]
    assert {layer(one) for one in loaded & modules().keys()} == ours | {"__init__"}
    assert {one.split(".")[0] for one in loaded} & LIBRARIES == libraries


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_list_of_commands_imports_no_command(argument: str) -> None:
    """The entry of the command line knows the words of each command, and nothing else."""
    loaded = _loaded(argument)
    assert {one for one in loaded if one.startswith("applyprune.cli.")} == ENTRY


def _loaded(*arguments: str) -> set[str]:
    """Return the modules that a command has imported at its end."""
    script = (
        "import sys\n"
        "from applyprune.cli.main import main\n"
        "sys.stdout = sys.stderr\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.__stdout__)\n"
    )
    return set(_python(script, *arguments).stdout.split())


def test_public_names_have_docstrings() -> None:
    """A docstring for each module, and for all of the Python API.

    Another class or function whose name says it all needs none.
    """
    exported = {alias.name for node in tree("applyprune").body for alias in _names(node)}
    silent = [
        name
        for module in modules()
        for name, node in _public(module, tree(module), exported)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def _names(node: ast.AST) -> Iterator[ast.alias]:
    """Yield what an import, or a block of imports for the type checker, imports."""
    for one in ast.walk(node):
        if isinstance(one, ast.ImportFrom):
            yield from one.names


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _public(
    name: str, node: _Documented, exported: Collection[str], *, is_api: bool = False
) -> Iterator[tuple[str, _Documented]]:
    """Yield a module or class and what is public in it; what is inside functions is not."""
    is_api = is_api or name.startswith("applyprune.api") or name.rpartition(".")[2] in exported
    if is_api or isinstance(node, ast.Module):
        yield name, node
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, _Documented) and not child.name.startswith("_"):
                yield from _public(f"{name}.{child.name}", child, exported, is_api=is_api)


def _python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )


STANDARD_DATACLASSES = {
    # pydantic makes the classes.
    "applyprune.controller.spec",
    # To a type checker, a copy is made by the standard library.
    "applyprune.values",
}


def test_values_are_structs() -> None:
    """Each dataclass of the standard library costs every start 0.6 ms."""
    assert {name for name in modules() if "dataclasses" in imports(name)} == STANDARD_DATACLASSES


def test_patterns_are_compiled_when_they_are_used() -> None:
    """A constant that is compiled at once costs every start what few runs need."""
    found = [
        f"{name}:{node.lineno}"
        for name in modules()
        for node in tree(name).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if ast.unparse(node.value).startswith("re.compile(")
    ]
    assert found == []
