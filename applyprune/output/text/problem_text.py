"""A problem as lines that can be read on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from applyprune.output.terminal.style import Colour, painted

if TYPE_CHECKING:
    from applyprune.model.problem import Problem

_COLOURS = {"error": Colour.RED, "warning": Colour.YELLOW}
_INDENT = "  "
# Options or a command at the end of a line: whoever copies them wants them whole.
_TO_COPY = re.compile(r"(?:: |^ *)(?:--|applyprune )[^,]*(?<!\.)$")


def problem_text(label: str, problem: Problem, width: int | None = None) -> str:
    """Return ``error: where: what: why``, or ``warning: …``, and below it, indented, the rest.

    Lines wider than ``width`` are broken at blanks, but for lines of the input and what is there
    to be copied. Nothing in a message can look like another line of ours, for these begin at the
    margin.
    """
    first, *below = str(problem).splitlines() or [""]
    excerpt = {f"{_INDENT}{line}" for line in problem.excerpt.splitlines()}
    lines = _broken(f"{label}: {first}", width)
    for line in below:
        indented = line if line.startswith(_INDENT) else f"{_INDENT}{line}"
        as_it_is = line in excerpt or _TO_COPY.search(line)
        lines += [indented] if as_it_is else _broken(indented, width)
    lines[0] = lines[0].replace(f"{label}:", painted(f"{label}:", _COLOURS[label]), 1)
    return "\n".join(lines)


def _broken(line: str, width: int | None) -> list[str]:
    """Return the line in lines of that width, those after the first indented once more."""
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
