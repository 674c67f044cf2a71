"""The options that find the cluster."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from applyprune.cli.options.combine import with_options
from applyprune.cli.options.completion import CONTEXT, FILE, NAMESPACE
from applyprune.cli.options.config_defaults import used
from applyprune.cli.target import ClusterTarget
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def not_empty(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return what an option says; raises UsageError where the command line says nothing by it.

    The default in its place would be another cluster or namespace than the script meant.
    """
    said = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if not value and said and not ctx.resilient_parsing:
        raise UsageError(
            f"an empty value for {param.opts[-1]}", hint="Is a variable of the script not set?"
        )
    return value


def namespace_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the namespace that an option names; raises UsageError for what can name none."""
    if not_empty(ctx, param, value) and not ctx.resilient_parsing:
        from applyprune.model.identity import is_dns_label

        if not is_dns_label(value):
            raise click.BadParameter(f"{value!r} cannot name a namespace", ctx, param)
    return value


def namespaces_option(what: str) -> Callable[[F], F]:
    """Return --watch-namespaces, of which the help says ``what`` they are; the verb gets names."""
    return click.option(
        "--watch-namespaces",
        metavar="NS,…",
        callback=_namespace_names,
        help=f"{what}  [default: all]",
    )


def _namespace_names(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, ...]:
    names = () if value is None else value.split(",")
    return tuple(namespace_name(ctx, param, one.strip()) for one in names)


def cluster_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add what finds the cluster; the verb gets it as ``where``."""

    @wraps(verb)
    def command(kubeconfig: str, context: str, namespace: str, **others: Any) -> Any:
        expected = "" if context else used().context
        return verb(
            where=ClusterTarget(kubeconfig, context, namespace, expected=expected), **others
        )

    return with_options(
        command,
        click.option(
            "-n",
            "--namespace",
            default="",
            type=NAMESPACE,
            metavar="NS",
            callback=namespace_name,
            help="Namespace of the inventory, and of manifests without one; default: the "
            "context's.",
        ),
        click.option(
            "--context",
            default="",
            type=CONTEXT,
            metavar="NAME",
            callback=not_empty,
            help="The kubeconfig context to use.",
        ),
        click.option(
            "--kubeconfig",
            default="",
            type=FILE,
            metavar="FILE",
            callback=not_empty,
            help="The kubeconfig; default: KUBECONFIG, ~/.kube/config, or the pod's own account.",
        ),
    )
