"""The options that choose the cluster and the namespace."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from applyprune.cli.options.combine import with_options
from applyprune.cli.options.completion import CONTEXT, FILE, NAMESPACE
from applyprune.cli.options.config_defaults import config_in_use
from applyprune.cli.target import ClusterTarget
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def not_empty(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return an option's value; raise UsageError if the command line gives an empty one.

    The default could be another cluster or namespace than the script meant.
    """
    is_given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if not value and is_given and not ctx.resilient_parsing:
        raise UsageError(
            f"empty value for {param.opts[-1]}", hint="Is a variable of the script not set?"
        )
    return value


def namespace_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the namespace of an option; raise BadParameter for an invalid name."""
    if not_empty(ctx, param, value) and not ctx.resilient_parsing:
        from applyprune.model.text.names import is_dns_label

        if not is_dns_label(value):
            raise click.BadParameter(f"{value!r} is not a valid namespace name", ctx, param)
    return value


def namespaces_option(help_text: str) -> Callable[[F], F]:
    """Return --watch-namespaces with its ``help_text``; the verb gets the names."""
    return click.option(
        "--watch-namespaces",
        metavar="NS,…",
        callback=_namespace_names,
        help=f"{help_text}  [default: all]",
    )


def _namespace_names(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, ...]:
    names = () if value is None else value.split(",")
    return tuple(namespace_name(ctx, param, name.strip()) for name in names)


def cluster_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the cluster; the verb gets them as ``cluster_target``."""

    @wraps(verb)
    def command(kubeconfig: str, context: str, namespace: str, **others: Any) -> Any:
        used = config_in_use()
        expected = "" if context or used.uses_context else used.context
        context = context or (used.context if used.uses_context else "")
        return verb(
            cluster_target=ClusterTarget(kubeconfig, context, namespace, expected=expected),
            **others,
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
