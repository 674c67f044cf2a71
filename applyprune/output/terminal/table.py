"""Tables in the style of kubectl."""

from __future__ import annotations

from collections.abc import Sequence

from applyprune.model.events import EntryListed
from applyprune.output.terminal.style import cells

_GAP = "   "
_NARROW = 24
_INDENT = "    "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return lines whose columns are as wide as their widest cell, with three spaces between them.

    On a terminal of ``width`` columns wrap the last cell, a message, at spaces: in its own column,
    or below the line if the column is narrow.
    """
    # A cell must not contain a line end.
    lines = [[cell.replace("\n", "\\n") for cell in line] for line in (head, *rows)]
    widths = [max(cells(line[column]) for line in lines) for column in range(len(head))]
    first, *others = (_row(line, widths, width) for line in lines)
    # If messages are below their lines, drop the heading of their column.
    return "\n".join((first.split("\n")[0], *others))


def _row(line: Sequence[str], widths: Sequence[int], width: int | None) -> str:
    aligned = [
        cell + " " * (column - cells(cell)) for cell, column in zip(line, widths, strict=True)
    ]
    whole = _GAP.join(aligned).rstrip()
    if width is None or cells(whole) <= width:
        return whole
    *front, message = aligned
    start = _GAP.join((*front, ""))
    room = width - cells(start)
    if room >= _NARROW:
        return start + f"\n{' ' * cells(start)}".join(wrapped(message, room))
    above = [start.rstrip()] if start.strip() else []
    return "\n".join((*above, *wrapped(message, width, _INDENT)))


def wrapped(message: str, width: int, indent: str = "") -> list[str]:
    """Return a message as lines, broken at spaces, never in a name with hyphens that fits."""
    from textwrap import wrap

    return wrap(
        message, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def entry_table(events: Sequence[EntryListed]) -> str:
    """Return the table of an inventory's entries."""
    rows = [
        (
            entry.ref.namespace or "-",
            entry.ref.short,
            str(entry.ownership),
            entry.uid or "not confirmed",
        )
        for entry in (event.entry for event in events)
    ]
    return table(("NAMESPACE", "OBJECT", "OWNERSHIP", "UID"), rows)
