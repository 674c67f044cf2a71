"""The options that find the cluster."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.completing import CONTEXT, FILE, NAMESPACE
from applyprune.cli.configuration import used
from applyprune.cli.where import Where

if TYPE_CHECKING:
    from collections.abc import Callable


def cluster_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add what finds the cluster; the verb gets it as ``where``."""

    @wraps(verb)
    def command(kubeconfig: str, context: str, namespace: str, **others: Any) -> Any:
        expected = "" if context else used().context
        return verb(where=Where(kubeconfig, context, namespace, expected=expected), **others)

    for option in (
        click.option(
            "-n",
            "--namespace",
            default="",
            type=NAMESPACE,
            metavar="NS",
            help="Namespace of the inventory, and of manifests that name none.",
        ),
        click.option(
            "--context",
            default="",
            type=CONTEXT,
            metavar="NAME",
            help="The kubeconfig context to use.",
        ),
        click.option(
            "--kubeconfig",
            default="",
            type=FILE,
            metavar="FILE",
            help="The kubeconfig; default: KUBECONFIG, ~/.kube/config, or the pod's own account.",
        ),
    ):
        command = option(command)
    return command
