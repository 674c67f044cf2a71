"""A problem as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.output.terminal.style import Colour, styled
from applyprune.patterns import pattern

if TYPE_CHECKING:
    from applyprune.model.problem import Problem

_COLOURS = {"error": Colour.RED, "warning": Colour.YELLOW}
_INDENT = "  "
# Options or a command at the end of a line: a user can copy them only from one line.
_TO_COPY = pattern(r"(?:: |^ *)(?:--|applyprune |kubectl )[^,]*(?<!\.)$")


def problem_text(label: str, problem: Problem, width: int | None = None) -> str:
    """Return ``error: location: message: reason``, or ``warning: …``, and below it the rest.

    The other lines are indented, so that no part of a message looks like a line of ours. Lines
    wider than ``width`` are wrapped at spaces, except lines of the input and commands.
    """
    first, *below = str(problem).splitlines() or [""]
    excerpt = {f"{_INDENT}{line}" for line in problem.excerpt.splitlines()}
    lines = wrapped_line(f"{label}: {first}", width)
    for line in below:
        indented = line if line.startswith(_INDENT) else f"{_INDENT}{line}"
        keep_whole = line in excerpt or _TO_COPY.search(line)
        lines += [indented] if keep_whole else wrapped_line(indented, width)
    lines[0] = lines[0].replace(f"{label}:", styled(f"{label}:", _COLOURS[label]), 1)
    return "\n".join(lines)


def wrapped_line(line: str, width: int | None) -> list[str]:
    """Wrap a line at that width, unless it is None; indent all lines but the first once more."""
    if width is None or len(line) <= width:
        return [line]
    from textwrap import wrap

    margin = line[: len(line) - len(line.lstrip())]
    return wrap(
        line.lstrip(),
        width,
        initial_indent=margin,
        subsequent_indent=margin + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
