"""The option ``--approve`` of every verb that prunes by an input."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.options import Options


def approval_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add --approve; it becomes part of ``options``."""

    @wraps(verb)
    def command(options: Options, approve: str, **others: Any) -> Any:
        options = replace(options, prune=replace(options.prune, approved=approve))
        return verb(options=options, **others)

    return click.option(
        "--approve",
        envvar="APPLYPRUNE_APPROVE",
        default="",
        metavar="DIGEST",
        callback=digest_value,
        help="Allow exactly the deletions with this digest, as `plan` and `diff` show it.  "
        "[env: APPLYPRUNE_APPROVE]",
    )(command)


def digest_value(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the digest that an option gives, empty if it gives none; raise BadParameter."""
    from applyprune.planning.approval.digests import is_digest

    digest = value.strip()
    if digest and not is_digest(digest):
        raise click.BadParameter(
            f"{value!r} is not a digest: write sha256: and 64 hex digits", ctx, param
        )
    return digest
