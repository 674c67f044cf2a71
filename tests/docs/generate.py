"""``python -m tests.docs.generate``: write the parts of the docs that the code already knows.

A generated part is between the comments ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import yaml  # type: ignore[import-untyped]

import applyprune
from applyprune import errors
from applyprune.cli.config import Form
from applyprune.cli.main import cli
from applyprune.cli.options import EVERY_OPTION, KEYS, Setting
from tests import guarantees
from tests.benchmarks import tables
from tests.docs import bundle_crd, config_schema
from tests.docs.pages import PAGES, ROOT
from tests.node import image
from tests.support.package import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PART = re.compile(r"(<!-- generated: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
_SCHEMA = ROOT / "applyprune/output/schemas/events.json"
_SHARED_BY = 8
"""Options that so many commands have in the same words are described once."""

_Definition = ast.FunctionDef | ast.ClassDef
_WIDTH = 88
Row = tuple[str, str]
"""An option as it is written, and what it does."""


class _Recorder(click.HelpFormatter):
    """Takes the options of a command as click would write them, and writes nothing."""

    def __init__(self) -> None:
        super().__init__(width=10_000)
        self.rows: dict[str, list[Row]] = {}
        self._heading = ""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Note the heading of the rows to come."""
        self._heading = name
        yield

    def write_dl(self, rows: Any, col_max: int = 0, col_spacing: int = 0) -> None:
        """Keep the rows."""
        self.rows.setdefault(self._heading, []).extend((name, text) for name, text in rows)


def commands(
    command: click.Command = cli, name: str = "applyprune"
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, by its whole name, in the order of the help."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for verb in command.list_commands(context):
        found = command.get_command(context, verb)
        assert found is not None
        yield from commands(found, f"{name} {verb}")


def options(name: str, command: click.Command) -> Mapping[str, list[Row]]:
    """Return the options of a command by their heading in the help."""
    recorder = _Recorder()
    context = click.Context(command, info_name=name)
    context.meta[EVERY_OPTION] = True
    command.format_options(context, recorder)
    return {
        heading: kept
        for heading, rows in recorder.rows.items()
        if (kept := [row for row in rows if row[0] not in {"-h, --help", "--help-all"}])
    }


def command_sections() -> str:
    """Return a section for each command, and one for the options that most of them share."""
    named = list(commands())
    counts = Counter(
        (heading, tuple(rows))
        for name, command in named
        for heading, rows in options(name, command).items()
    )
    shared = {heading: rows for (heading, rows), count in counts.items() if count >= _SHARED_BY}
    parts = []
    for name, command in named:
        parts += [f"## {name}\n", *_about(name, command)]
        also = []
        for heading, rows in options(name, command).items():
            own = [row for row in rows if row not in shared.get(heading, ())]
            if len(own) < len(rows):
                also.append(heading)
            if own:
                parts.append(_options_table(heading, own))
        if also:
            links = ", ".join(f"[{one.lower()}](#{_shared_anchor(one)})" for one in also)
            parts.append(f"Shared options: {links}.\n")
    parts.append("## Shared options\n")
    for heading, all_rows in shared.items():
        parts += [f"### {heading} options\n", _options_table(heading, list(all_rows))]
    return "\n".join(parts).rstrip()


def _shared_anchor(heading: str) -> str:
    return f"{heading.lower().replace(' ', '-')}-options"


def _about(name: str, command: click.Command) -> Iterator[str]:
    text = inspect.cleandoc(command.help or "")
    paragraphs = re.split(r"\n\s*\n", text.replace("\b\n", ""))
    for paragraph in paragraphs:
        if paragraph.startswith("Examples:"):
            lines = paragraph.splitlines()[1:]
            yield "```text\n" + "\n".join(line.removeprefix("  ") for line in lines) + "\n```\n"
        else:
            yield _markdown(" ".join(paragraph.split())) + "\n"
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    yield f"Usage: `{name} {usage}`\n"


def _options_table(heading: str, rows: list[Row]) -> str:
    lines = [f"| {heading} | |", "|---|---|"]
    lines += [f"| `{_cell(name)}` | {_cell(_markdown(text))} |" for name, text in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _markdown(text: str) -> str:
    """Return plain help as Markdown: what would be read as emphasis, or as a tag, is escaped."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<])", r"\\\1", part) for part in parts
    )


_FORMS = {
    Form.CONTEXT: "a context, or `{name: CONTEXT, use: true}`",
    Form.FLAG: "`true` or `false`",
    Form.PATHS: "a path, or a list",
    Form.TEXT: "a text",
    Form.TEXTS: "a text, or a list",
}


def keys_table() -> str:
    """Return each key with its values and their meaning; those of no option say their default."""
    lines = ["| key | value | meaning |", "|---|---|---|"]
    for key, form in KEYS.forms.items():
        row = config_schema.BY_KEY.get(key)
        unsafe = str(KEYS.unsafe.get(key, "")).lower()
        given = _FORMS[form]
        if choices := getattr(row and row.type, "choices", ()):
            given = ", ".join(f"`{one}`" for one in choices if one != unsafe)
            given += ", or a list" if form is Form.TEXTS else ""
        elif row and row.metavar == "TIME":
            given = "TIME"
        elif unsafe in {"true", "false"}:
            given = "`true`"
        default = row.default if isinstance(row, Setting) and isinstance(row.default, str) else ""
        given += f"; default `{default}`" if default else ""
        lines.append(f"| `{key}` | {given} | {_cell(_markdown(config_schema.meaning(key)))} |")
    return "\n".join(lines)


def errors_table() -> str:
    """Return every class of errors with its exit code and its meaning, below its parent."""
    lines = ["| kind | exit code | meaning |", "|---|---|---|"]

    def add(error: type[errors.ApplypruneError], depth: int) -> None:
        if error not in {errors.ApplypruneError, errors.InputErrors}:
            summary = (error.__doc__ or "").partition("\n")[0].replace("``", "`")
            code = "130, 143" if error is errors.Interrupted else str(error.exit_code)
            indent = "&emsp;" * depth
            lines.append(f"| {indent}`{error.__name__}` | {code} | {_markdown(summary)} |")
        for child in error.__subclasses__():
            if child.__module__ == errors.__name__:
                add(child, depth + 1)

    add(errors.ApplypruneError, -1)
    return "\n".join(lines)


def events_table() -> str:
    """Return every event of ``-o jsonl`` with its keys, by the JSON Schema."""
    definitions = json.loads(_SCHEMA.read_text(encoding="utf-8"))["$defs"]
    lines = ["| event | keys | meaning |", "|---|---|---|"]
    for definition in definitions.values():
        properties = definition.get("properties", {})
        if "event" not in properties:
            continue
        # Every event may have a set.
        keys = ", ".join(f"`{key}`" for key in properties if key not in {"event", "set"})
        name = properties["event"]["const"]
        lines.append(f"| `{name}` | {keys} | {_markdown(definition.get('description', ''))} |")
    return "\n".join(lines)


def bundle_spec() -> str:
    """Return the fields of a Bundle's spec, by the CRD."""
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for path, schema in _fields(_bundle_schema()["spec"]):
        default = f"`{_shown(schema['default'])}`" if "default" in schema else ""
        lines.append(f"| `{path}` | {_type(schema)} | {default} | {_meaning(schema)} |")
    return "\n".join(lines)


def bundle_status() -> str:
    """Return the fields of a Bundle's status, by the CRD."""
    lines = ["| field | type | meaning |", "|---|---|---|"]
    for path, schema in _fields(_bundle_schema()["status"]):
        if not path.startswith("conditions[]."):  # as in any resource of Kubernetes
            lines.append(f"| `{path}` | {_type(schema)} | {_meaning(schema)} |")
    return "\n".join(lines)


def _bundle_schema() -> Mapping[str, Any]:
    crd = yaml.safe_load((ROOT / "deploy/crd.yaml").read_text(encoding="utf-8"))
    (version,) = crd["spec"]["versions"]
    properties: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return properties


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, child in schema.get("properties", {}).items():
        here = f"{path}{name}"
        yield here, child
        yield from _fields(child, f"{here}.")
        yield from _fields(child.get("items", {}), f"{here}[].")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {schema['items']['type']}s"
    return str(schema["type"])


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _meaning(schema: Mapping[str, Any]) -> str:
    return _cell(_markdown(schema.get("description", "")))


CALLS = (
    ("applyprune.api.sets", ("connect", "ClusterConnection")),
    ("applyprune.api.sets", ("load",)),
    ("applyprune.api.sets", ("ApplySet",)),
    ("applyprune.api.bundles", ("Bundle",)),
    ("applyprune.output.report", ("RunReport", "ObjectReport")),
    ("applyprune.engine.ports", ("Cancellation",)),
)
"""What has a section of its own in the reference of the Python API, by module."""
_INTERNAL = {"take", "store", "is_unready", "verdict", "name", "wait"}
"""Methods that the command line and the engine use."""
_ALSO = {"ApplySet": {"name"}, "Bundle": {"name"}}


def python_calls() -> str:
    """Return a section for each function and class: signatures and docstrings, from the source."""
    parts = []
    for module, names in CALLS:
        nodes = {one.name: one for one in tree(module).body if isinstance(one, _Definition)}
        for name in names:
            parts += [f"### {name}\n", *_definition(nodes[name])]
    return "\n".join(parts).rstrip()


def _definition(node: _Definition, of: str = "") -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        yield f"```python\n{_signature(node, of)}\n```\n"
        yield _prose(node)
        return
    yield _prose(node)
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and _is_shown(child, node.name):
            yield from _definition(child, node.name)


def _is_shown(node: ast.FunctionDef, of: str) -> bool:
    hidden = _INTERNAL - _ALSO.get(of, set())
    made_by_others = of == "ClusterConnection" and node.name == "__init__"
    return (
        not made_by_others
        and node.name not in hidden
        and not (node.name.startswith("_") and node.name != "__init__")
    )


def _signature(node: ast.FunctionDef, of: str) -> str:
    if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
        return f"{of}.{node.name}: {ast.unparse(node.returns or ast.Constant(None))}"
    given = copy.deepcopy(node.args)
    if of:
        given.args.pop(0)
    name = of if node.name == "__init__" else f"{of}.{node.name}" if of else node.name
    returns = (
        "" if node.name == "__init__" else f" -> {ast.unparse(node.returns or ast.Constant(None))}"
    )
    line = f"{name}({', '.join(_arguments(given))}){returns}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in _arguments(given)) + f"){returns}"


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Yield each argument as the source has it, with its type and default."""

    def one(argument: ast.arg, default: ast.expr | None) -> str:
        return ast.unparse(argument) + ("" if default is None else f" = {ast.unparse(default)}")

    missing = len(given.args) - len(given.defaults)
    defaults = [None] * missing + list(given.defaults)
    yield from (one(*pair) for pair in zip(given.args, defaults, strict=True))
    if given.vararg:
        yield f"*{ast.unparse(given.vararg)}"
    elif given.kwonlyargs:
        yield "*"
    yield from (one(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True))


def _prose(node: _Definition) -> str:
    text = (ast.get_docstring(node) or "").replace("``", "`")
    return "\n\n".join(" ".join(one.split()) for one in re.split(r"\n\s*\n", text)) + "\n"


def python_options() -> str:
    """Return a table of the fields of each public class of options."""
    parts = []
    for node in tree("applyprune.model.options").body:
        if isinstance(node, ast.ClassDef) and node.name in applyprune.__all__:
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            if not fields or not node.name.endswith("Options"):
                continue
            parts.append(f"### {node.name}\n\n{_prose(node)}")
            rows = ["| field | default | meaning |", "|---|---|---|"]
            for one in fields:
                after = node.body[node.body.index(one) + 1]
                assert isinstance(after, ast.Expr)
                assert isinstance(after.value, ast.Constant)
                default = "" if one.value is None else f"`{ast.unparse(one.value)}`"
                kind = ast.unparse(one.annotation).replace("|", "\\|")
                meaning = _cell(_markdown(str(after.value.value).replace("``", "`")))
                rows.append(f"| `{ast.unparse(one.target)}: {kind}` | {default} | {meaning} |")
            parts.append("\n".join(rows) + "\n")
    return "\n".join(parts).rstrip()


def python_names() -> str:
    """Return every public name with the first line of its docstring."""
    lines = ["| name | meaning |", "|---|---|"]
    for name in applyprune.__all__:
        text = {"__version__": "The version.", "Event": "One event of a run."}.get(name)
        text = text or (inspect.getdoc(getattr(applyprune, name)) or "").partition("\n")[0]
        lines.append(f"| `{name}` | {_cell(_markdown(text.replace('``', '`')))} |")
    return "\n".join(lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": command_sections,
    "keys": keys_table,
    "errors": errors_table,
    "events": events_table,
    "bundle spec": bundle_spec,
    "bundle status": bundle_status,
    "python calls": python_calls,
    "python options": python_options,
    "python names": python_names,
    "image": image.table,
    "guarantees": guarantees.table,
    "benchmarks": tables.whole_table,
    "benchmarks in short": tables.short_table,
}


def generated() -> Mapping[str, str]:
    """Return every page that has a generated part, as it should be."""
    return {
        page.name: _PART.sub(
            lambda match: f"{match[1]}\n{PARTS[match[2]]()}\n\n{match[3]}", page.text
        )
        for page in PAGES
        if _PART.search(page.text)
    }


if __name__ == "__main__":
    # First: the page of the Bundle is made of it.
    bundle_crd.FILE.write_text(bundle_crd.crd_text(), encoding="utf-8")
    for name, text in generated().items():
        (ROOT / name).write_text(text, encoding="utf-8")
    config_schema.FILE.write_text(config_schema.config_schema(), encoding="utf-8")
