"""What the shell offers when TAB is pressed: sets, objects and namespaces from the cluster itself.

Whatever goes wrong, or takes longer than two seconds, offers nothing and says nothing: somebody is
in the middle of typing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    from applyprune.api.cluster_connection import ClusterConnection

if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    _Text = click.ParamType  # click 8.1 has no generic one

_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Typed:
    """What has been typed: the arguments so far by their names, and the parameter at the cursor."""

    said: dict[str, object]
    at: str
    begun: str

    def text(self, name: str) -> str:
        """Return an argument that is text; empty when it is not on the line."""
        return str(self.said.get(name) or "")

    def connection(self) -> ClusterConnection:
        """Return a connection to the cluster that is named on the line."""
        from applyprune.cli.session import connection_to
        from applyprune.cli.target import ClusterTarget

        kubeconfig, context, namespace = map(self.text, ("kubeconfig", "context", "namespace"))
        return connection_to(ClusterTarget(kubeconfig, context, namespace))


class Offered(_Text):
    """A text, with a function that knows what it may be; what is typed is not checked by it."""

    def __init__(self, name: str, offers: Callable[[Typed], Iterable[str]]) -> None:
        """Take the name of what it is, and what returns all that there is to choose from."""
        self.name = name
        self._offers = offers

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return what begins like what has been typed; whoever is asked, at most two seconds."""
        from click.shell_completion import CompletionItem

        typed = Typed(dict(ctx.params), str(param.name), incomplete)
        found: list[str] = []

        def ask() -> None:
            with suppress(Exception):
                found.extend(self._offers(typed))

        # A credential plugin that fails would write into the middle of the line being typed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        asker = Thread(target=ask, daemon=True)
        asker.start()
        asker.join(_PATIENCE)
        return [CompletionItem(one) for one in sorted(set(found)) if one.startswith(incomplete)]


class _File(_Text):
    name = "path"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Leave it to the shell, which knows files best."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def _sets(typed: Typed) -> Iterable[str]:
    from applyprune.errors import UsageError
    from applyprune.model.resources import CONFIG_MAPS
    from applyprune.planning.applyset import SET_ID, applyset_identity, set_name

    with typed.connection() as cluster:
        other = typed.text("to_namespace") if typed.at == "to" else ""
        home = other or cluster.namespace
        roots = cluster.client.list(CONFIG_MAPS, namespace=home, selector=SET_ID)
    for root in roots:
        with suppress(UsageError):  # another tool's ApplySet parent
            target = applyset_identity(set_name(root.ref.name), root.ref.namespace)
            if target.inventory == root.ref and root.labels[SET_ID] == target.id:
                yield target.name


def _objects(typed: Typed) -> Iterable[str]:
    from applyprune.api.apply_set import ApplySet

    name = typed.text("name") or typed.text("source")
    with typed.connection() as cluster:
        refs = ApplySet(name, cluster=cluster).inventory().entries
    for ref in refs:
        yield ref.short
        if ref.namespace and typed.begun:  # a second form of each, only for who has begun with it
            yield f"{ref.namespace}/{ref.short}"


def _namespaces(typed: Typed) -> Iterable[str]:
    from applyprune.model.resources import NAMESPACES

    with typed.connection() as cluster:
        return [live.ref.name for live in cluster.client.list(NAMESPACES)]


def _contexts(typed: Typed) -> Iterable[str]:
    from applyprune.cluster.auth.kubeconfig_files import candidate_files, load

    return load(candidate_files(typed.text("kubeconfig"), os.environ)).contexts


def _formats(_typed: Typed) -> Iterable[str]:
    from applyprune.output.printers import PRINTERS

    return PRINTERS


SET = Offered("set", _sets)
"""A set of the namespace that ``-n`` or the context names."""
OBJECT = Offered("kind/name", _objects)
"""An object that the set on the line lists."""
NAMESPACE = Offered("namespace", _namespaces)
"""A namespace of the cluster."""
CONTEXT = Offered("context", _contexts)
"""A context of the kubeconfig."""
FORMAT = Offered("format", _formats)
"""A format of output."""
FILE = _File()
"""A file or a directory."""
