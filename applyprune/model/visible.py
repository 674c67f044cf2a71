r"""Text that others wrote, as characters that can be shown anywhere: the one home of that rule.

Names, annotations, server messages and file names may hold what a terminal obeys (C0, C1, DEL, the
escape sequences that begin with them) or what makes it show something else than is there (bidi
controls, characters without width). Each is shown as an escape: ``\x1b``, ``\u202e``. Beyond C0,
which JSON holds as escapes already, these are JSON's own, so that JSON stays what it is.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """Return the text on one line, whatever is not printable in it as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if char < " ":
        return ascii(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
