"""The options that select a part of a set, by label or by name."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.options.combine import F, with_options
from applyprune.cli.options.completion import OBJECT
from applyprune.errors import UsageError
from applyprune.model.text.label_selector import parse_selector
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.options import Options
    from applyprune.model.text.label_selector import Selector


def selection_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -l and --only to a verb that can apply a part of the set; they become ``options``."""

    @wraps(verb)
    def command(
        options: Options, selector: Selector | None, only: tuple[str, ...], **others: Any
    ) -> Any:
        _refuse_both(selector, only)
        apply = replace(options.apply, selector=selector, only=frozenset(only))
        return verb(options=replace(options, apply=apply), **others)

    return with_options(
        command,
        _only(
            "Apply only this object. The rest of the set does not change, and nothing is pruned."
        ),
        _selector(
            "Apply only the manifests with these labels: app=web or 'app in (web,db)'. "
            "The rest of the set does not change, and nothing is pruned."
        ),
    )


def deletion_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -l and --only to a verb that can delete a part of the set; they become ``options``."""

    @wraps(verb)
    def command(
        options: Options, selector: Selector | None, only: tuple[str, ...], **others: Any
    ) -> Any:
        _refuse_both(selector, only)
        options = replace(options, select=frozenset(only), select_labels=selector)
        return verb(options=options, **others)

    return with_options(
        command,
        _only("Delete only this object. The rest of the set and its inventory stay."),
        _selector(
            "Delete only the objects that have these labels in the cluster. The rest of the set "
            "and its inventory stay."
        ),
    )


def _refuse_both(selector: Selector | None, only: tuple[str, ...]) -> None:
    if selector is not None and only:
        raise UsageError(
            "--only and --selector exclude each other",
            hint="Run once with each of them.",
        )


def _only(help_text: str) -> Callable[[F], F]:
    return click.option(
        "--only",
        type=OBJECT,
        multiple=True,
        metavar="KIND/NAME",
        help=f"{help_text} Repeatable.",
    )


def _selector(help_text: str) -> Callable[[F], F]:
    return click.option("-l", "--selector", metavar="SELECTOR", callback=_parsed, help=help_text)


def _parsed(ctx: click.Context, param: click.Parameter, value: str | None) -> Selector | None:
    del ctx, param
    if value is None:
        return None
    try:
        return parse_selector(value)
    except ValueError as error:
        raise UsageError(
            f"invalid label selector {value!r}",
            reason=str(error),
            hint="Write labels as app=web,tier!=db or 'app in (web,db),!canary'.",
        ) from error
