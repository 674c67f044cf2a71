"""Columns of text, as kubectl's users know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.output.paint import cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.events import Listed


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines whose columns are as wide as their widest cell, three blanks between them."""
    # A cell is a cell, whatever its text holds.
    lines = [[cell.replace("\n", "\\n") for cell in line] for line in (head, *rows)]
    widths = [max(cells(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "   ".join(
            cell + " " * (width - cells(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def listed(events: Sequence[Listed]) -> str:
    """Return the table of what an inventory lists."""
    entries = [one.entry for one in events]
    rows = [
        (one.ref.namespace or "-", one.ref.short, str(one.made), one.uid or "not confirmed")
        for one in entries
    ]
    return table(("NAMESPACE", "OBJECT", "MADE", "UID"), rows)
