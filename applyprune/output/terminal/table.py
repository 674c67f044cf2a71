"""Columns of text, as kubectl's users know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.output.terminal.style import cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.events import EntryListed

_GAP = "   "
_NARROW = 24
_INDENT = "    "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return lines whose columns are as wide as their widest cell, three blanks between them.

    On a terminal of ``width`` columns the last cell, a message, is broken at blanks: below its own
    column, or below the whole line where there is hardly room for that.
    """
    # A cell is a cell, whatever its text holds.
    lines = [[cell.replace("\n", "\\n") for cell in line] for line in (head, *rows)]
    widths = [max(cells(line[column]) for line in lines) for column in range(len(head))]
    first, *others = (_row(line, widths, width) for line in lines)
    # Where messages stand below their lines, a heading above them would be a line of its own.
    return "\n".join((first.split("\n")[0], *others))


def _row(line: Sequence[str], widths: Sequence[int], width: int | None) -> str:
    aligned = [
        cell + " " * (column - cells(cell)) for cell, column in zip(line, widths, strict=True)
    ]
    whole = _GAP.join(aligned).rstrip()
    if width is None or cells(whole) <= width:
        return whole
    from textwrap import wrap

    *front, message = aligned
    start = _GAP.join((*front, ""))
    room = width - cells(start)
    if room >= _NARROW:
        return start + f"\n{' ' * cells(start)}".join(wrap(message, room))
    below = wrap(message, width, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join((start.rstrip(), *below))


def listed(events: Sequence[EntryListed]) -> str:
    """Return the table of what an inventory lists."""
    entries = [one.entry for one in events]
    rows = [
        (one.ref.namespace or "-", one.ref.short, str(one.ownership), one.uid or "not confirmed")
        for one in entries
    ]
    return table(("NAMESPACE", "OBJECT", "OWNERSHIP", "UID"), rows)
