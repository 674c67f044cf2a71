"""The options that disable the guards of a prune."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.options.approval import approval_option
from applyprune.cli.options.combine import with_options
from applyprune.cli.options.completion import GUARDED_KIND
from applyprune.model.options import Options, PruneLimit
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable


def guard_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that disable the guards of a prune; they become part of ``options``."""
    from applyprune.model.resources import GUARDED_KINDS

    @wraps(verb)
    def command(
        options: Options,
        max_prune: PruneLimit | None,
        allow_kind: tuple[str, ...],
        allow_empty: bool,
        **others: Any,
    ) -> Any:
        options = replace(
            options,
            prune=replace(
                options.prune,
                max_prune=max_prune,
                allow_kinds=frozenset(allow_kind),
                allow_empty=allow_empty,
            ),
        )
        return verb(options=options, **others)

    return with_options(
        approval_option(command),
        click.option(
            "--allow-empty",
            is_flag=True,
            help="Allow empty input.",
        ),
        click.option(
            "--allow-kind",
            multiple=True,
            type=GUARDED_KIND,
            metavar="KIND",
            help="Allow the pruning of this kind, by any of its names: "
            + ", ".join(sorted(GUARDED_KINDS.values()))
            + ".",
        ),
        click.option(
            "--max-prune",
            metavar="N|N%",
            callback=_prune_limit,
            help="How many objects a prune may delete, including cascaded deletions.  "
            "[default: 5 or 30% of the set's live objects, the larger of the two, and at most "
            "half of them]",
        ),
    )


def _prune_limit(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> PruneLimit | None:
    if value is None:
        return None
    try:
        return PruneLimit.parse(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None
