"""Where printed text goes, and what that place can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Screen:
    """Two places for lines: data goes to ``out``, talk to ``err``.

    ``colour`` says whether ``out`` may be coloured, ``live`` whether ``err`` is a terminal on which
    a line may be drawn again, ``width`` its columns. ``quiet`` leaves out all talk but errors.
    """

    out: Callable[[str], None]
    err: Callable[[str], None]
    colour: bool = False
    live: bool = False
    width: int = 80
    quiet: bool = False
