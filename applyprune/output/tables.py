"""Columns of text, as kubectl's users know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.events import Listed


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines whose columns are as wide as their widest cell, three blanks between them."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def listed(events: Sequence[Listed]) -> str:
    """Return the table of what an inventory lists."""
    entries = [one.entry for one in events]
    rows = [
        (one.ref.namespace or "-", one.ref.short, str(one.made), one.uid or "not confirmed")
        for one in entries
    ]
    return table(
        ("NAMESPACE", "OBJECT", "MADE", "UID"),
        [[visible(cell) for cell in row] for row in rows],
    )
