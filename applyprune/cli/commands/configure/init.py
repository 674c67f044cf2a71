"""``applyprune init``: write an ``applyprune.yaml``, and its JSON Schema for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import namespace_name, not_empty
from applyprune.cli.options.completion import CONTEXT, FILE, NAMESPACE
from applyprune.cli.options.reporting import reporting_options
from applyprune.errors import ApplypruneError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.cli.options.reporting import Reporting

SCHEMA_FILE = "applyprune.schema.json"
"""The file beside applyprune.yaml: editors need no network, and each version has its own keys."""
_SCHEMA = Path(__file__).parents[3] / "output/schemas/config.json"


@click.command(cls=Command)
@click.argument("name")
@click.option(
    "-f",
    "--filename",
    "paths",
    type=FILE,
    multiple=True,
    metavar="PATH",
    help="The manifests of the set, relative to the file. Repeatable.",
)
@click.option(
    "-k",
    "--kustomize",
    type=FILE,
    multiple=True,
    metavar="DIR",
    help="A kustomization of the set. Repeatable.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    type=NAMESPACE,
    metavar="NS",
    callback=namespace_name,
    help="Namespace of the inventory, and of manifests without one.",
)
@click.option(
    "--context",
    default="",
    type=CONTEXT,
    metavar="NAME",
    callback=not_empty,
    help="The context that must be in use.",
)
@click.option("--use-context", is_flag=True, help="Use that context, whatever the current one is.")
@click.option(
    "--config",
    default="applyprune.yaml",
    type=FILE,
    metavar="FILE",
    show_default=True,
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@reporting_options
def init(
    name: str,
    paths: tuple[str, ...],
    kustomize: tuple[str, ...],
    namespace: str,
    context: str,
    use_context: bool,
    config: str,
    force: bool,
    reporting: Reporting,
) -> int:
    """Write an applyprune.yaml for the set NAME, and the JSON Schema for editors.

    Editors with the YAML language server check the file and complete its keys. The schema is a
    file beside it, so that this works without a network. No existing file is overwritten, unless
    you give --force. No cluster is asked.

    \b
    Examples:
      applyprune init web -f manifests/
      applyprune init web -f manifests/ -n shop --context prod
      applyprune init web -k overlays/prod --context prod --use-context
    """
    from applyprune.planning.applyset import applyset_identity

    applyset_identity(name, namespace or "default")  # raises UsageError for an invalid name
    if use_context and not context:
        raise UsageError("--use-context needs --context NAME")
    if "-" in {*paths, *kustomize}:
        raise UsageError("standard input cannot be the input of a configuration")
    chosen = {"name": context, "use": True} if use_context else context
    settings = {
        "name": name,
        "namespace": namespace,
        "context": chosen,
        "filename": list(paths),
        "kustomize": list(kustomize),
    }
    file = Path(config)
    schema = file.parent / SCHEMA_FILE
    _write({file: _text(settings), schema: _SCHEMA.read_text(encoding="utf-8")}, force=force)
    return reporting.print_text(f"{file} and {schema} written")


def _text(settings: Mapping[str, object]) -> str:
    from applyprune.sources.folders import API_VERSION, KIND

    lines = [
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        *(line for key, value in settings.items() if value for line in _lines(key, value)),
    ]
    return "\n".join((*lines, ""))


def _lines(key: str, value: object) -> Iterator[str]:
    # A text of JSON is a text of YAML too, whatever is in it.
    if key == "context" and isinstance(value, str):
        yield "# A condition: if another context is in use, applyprune refuses to run."
    if isinstance(value, list):
        yield f"{key}:"
        yield from (f"  - {json.dumps(text, ensure_ascii=False)}" for text in value)
    else:
        yield f"{key}: {json.dumps(value, ensure_ascii=False)}"


def _write(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write all files or none; raise UsageError if one exists and may not be overwritten."""
    _refuse([path for path, text in texts.items() if not force and _differs(path, text)])
    for path, text in texts.items():
        if not force and path.exists():
            continue  # it is the same already
        try:
            with path.open("w" if force else "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            _refuse([path])
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ApplypruneError(f"{path} cannot be written", reason=reason or "") from error


def _refuse(existing: Sequence[Path]) -> None:
    if existing:
        raise UsageError(
            f"{' and '.join(map(str, existing))} exists already",
            hint="To overwrite it: --force. Nothing was written.",
        )


def _differs(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") != text
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
