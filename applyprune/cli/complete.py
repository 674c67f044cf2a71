"""Shell completion: sets, Bundles, objects, namespaces, contexts, formats, files.

An error, or a wait of more than two seconds, completes nothing and prints nothing: the user is
typing."""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import click
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    from applyprune.api.sets import ClusterConnection


if TYPE_CHECKING:
    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # click 8.1 has no generic one


_TIMEOUT = 2.0


class CommandLine(Struct, frozen=True):
    """The command line so far."""

    arguments: dict[str, object]
    """The arguments by their names."""
    parameter: str
    """The parameter at the cursor."""
    prefix: str
    """The text before the cursor."""

    def text(self, name: str) -> str:
        """Return an argument as text; empty if it is not on the command line."""
        return str(self.arguments.get(name) or "")

    def connection(self) -> ClusterConnection:
        """Connect to the cluster of the command line."""
        from applyprune.cli.session import connection_to
        from applyprune.cli.target import ClusterTarget

        kubeconfig, context, namespace = map(self.text, ("kubeconfig", "context", "namespace"))
        return connection_to(ClusterTarget(kubeconfig, context, namespace))


class CompletedText(TextType):
    """A text with a function that returns its completions; the value is not checked."""

    def __init__(self, name: str, completions: Callable[[CommandLine], Iterable[str]]) -> None:
        self.name = name
        self._completions = completions

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the completions that begin with ``incomplete``, within two seconds."""
        from click.shell_completion import CompletionItem

        line = CommandLine(dict(ctx.params), str(param.name), incomplete)
        found: list[str] = []

        def query() -> None:
            with suppress(Exception):
                found.extend(self._completions(line))

        # A failing credential plugin must not write into the line that the user is typing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        thread = Thread(target=query, daemon=True)
        thread.start()
        thread.join(_TIMEOUT)
        return [CompletionItem(text) for text in sorted(set(found)) if text.startswith(incomplete)]


def _sets(line: CommandLine) -> Iterable[str]:
    from applyprune.cluster.inventory_store import list_sets

    with line.connection() as cluster:
        return [applyset.name for applyset in list_sets(cluster.client, cluster.namespace)]


SET_NAME = CompletedText("set", _sets)
"""A set in the namespace of ``-n`` or of the context."""


def _bundles(line: CommandLine) -> Iterable[str]:
    from applyprune.model.live import BUNDLES

    with line.connection() as cluster:
        found = cluster.client.list(BUNDLES, namespace=cluster.namespace)
        return [live.ref.name for live in found]


BUNDLE_NAME = CompletedText("bundle", _bundles)
"""A Bundle in the namespace of ``-n`` or of the context."""


def _objects(line: CommandLine) -> Iterable[str]:
    from applyprune.api.sets import ApplySet
    from applyprune.planning.names import kind_names

    name = line.text("name")
    word, slash, _ = line.prefix.partition("/")
    kinds = None
    with line.connection() as cluster:
        inventory = ApplySet(name, cluster=cluster).inventory()
        if slash:
            names = kind_names(cluster.client.resource_map(), [inventory])
            kinds = names.matches(word)[:1]
    for ref in inventory.entries:
        yield ref.short
        if ref.namespace and line.prefix:  # the long form, only after the user has begun to type
            yield f"{ref.namespace}/{ref.short}"
        if kinds and ref.group_kind in kinds:  # by the name of the kind that the user has typed
            yield f"{word}/{ref.name}"


OBJECT_NAME = CompletedText("kind/name", _objects)
"""An object of the set on the command line."""


def _guarded_kinds(_line: CommandLine) -> Iterable[str]:
    from applyprune.model.kinds import GUARDED_KINDS

    return GUARDED_KINDS.values()


KIND_NAME = CompletedText("kind", _guarded_kinds)
"""A kind that a prune deletes only if that is allowed."""


def _namespaces(line: CommandLine) -> Iterable[str]:
    from applyprune.model.live import NAMESPACES

    with line.connection() as cluster:
        return [live.ref.name for live in cluster.client.list(NAMESPACES)]


NAMESPACE_NAME = CompletedText("namespace", _namespaces)
"""A namespace in the cluster."""


def _contexts(line: CommandLine) -> Iterable[str]:
    from applyprune.cluster.credentials import candidate_files, load_kubeconfig

    return load_kubeconfig(candidate_files(line.text("kubeconfig"), os.environ)).contexts


CONTEXT_NAME = CompletedText("context", _contexts)
"""A context of the kubeconfig."""


def _formats(_line: CommandLine) -> Iterable[str]:
    from applyprune.output.printers import FORMATS

    return FORMATS


FORMAT_NAME = CompletedText("format", _formats)
"""A format of output."""


class _File(TextType):
    name = "path"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Let the shell complete files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


FILE_PATH = _File()
"""A file or a directory."""


# ``kubectl applyprune``: kubectl asks the program kubectl_complete-applyprune. It answers with a
# completion on each line, and on the last one with what the shell does beside it.


_FILES, _FOLDERS, _NOTHING = ":0", ":16", ":4"


def complete_plugin() -> None:
    """Print what completes the last argument, for kubectl."""
    import sys

    from click.shell_completion import ShellComplete

    from applyprune.cli.main import PROGRAM, cli
    from applyprune.output.terminal import Terminal

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(cli, {}, PROGRAM, "").get_completions(words, incomplete)
    kinds = {one.type for one in found}
    texts = [one.value for one in found if one.type == "plain"]
    beside = _FILES if "file" in kinds else _FOLDERS if "dir" in kinds else _NOTHING
    Terminal().out("\n".join((*texts, beside)))
