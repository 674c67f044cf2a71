"""The option ``--no-check`` of the verbs that show a plan."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.model.options import DryRun
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.options import Options


def check_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add --check and --no-check; they become part of ``options``, as a dry run."""

    @wraps(verb)
    def command(options: Options, check: bool, **others: Any) -> Any:
        dry_run = DryRun.SERVER if check else DryRun.CLIENT
        return verb(options=replace(options, dry_run=dry_run, check=check), **others)

    return click.option(
        "--check/--no-check",
        default=True,
        help="Whether the server checks, in a dry run, what would change. If not, the command "
        "only reads: for a job that has no right to write.  [default: check]",
    )(command)
