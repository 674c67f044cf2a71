"""Several lines of text that others wrote, each fit to be shown."""

from __future__ import annotations

from applyprune.model.visible import visible


def shown(text: str) -> str:
    """Return the text with its line ends; whatever else is not printable as an escape."""
    return "\n".join(visible(line) for line in text.split("\n"))
