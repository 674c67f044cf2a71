"""Words of kubectl, Helm and older versions, each with what to type instead.

One table for options, commands and keys of ``applyprune.yaml``; ``answer`` reads it. What is not in
it gets the suggestion of the nearest word.
"""

from __future__ import annotations

ANSWERS = {
    # Options of older versions.
    "--on-drift": "Write --conflicts: `--conflicts revert` sets back drift.",
    "--force-conflicts": "Write --conflicts force.",
    "on-drift": "Write conflicts: revert.",
    "force-conflicts": "Give --conflicts force on the command line, for the run that needs it.",
}
"""What is typed, and what to type instead."""


def answer(word: str) -> str:
    """Return what to type instead of an option, a command or a key; empty for an unknown word."""
    return ANSWERS.get(word, "")
