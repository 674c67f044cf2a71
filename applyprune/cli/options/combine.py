"""Add several options to a verb at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """Return the command with the options; the help shows the last one first."""
    for option in options:
        command = option(command)
    return command
