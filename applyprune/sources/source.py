"""One text of the input, with the name that messages show."""

from __future__ import annotations

import os

from applyprune.errors import InputError
from applyprune.model.manifest import Origin
from applyprune.model.text.display import visible
from applyprune.values import dataclass

MAX_BYTES = 256 * 2**20
"""How many bytes one call reads in total; 100,000 objects are about 30 MB."""


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one file, build or response."""

    path: str
    """The name, safe to print."""
    data: bytes


def too_much(path: str) -> InputError:
    """Return the error for a source that exceeds what is left of MAX_BYTES."""
    message = f"the input is larger than {MAX_BYTES // 2**20} MiB"
    return InputError(message, location=Origin(path), hint="Split it into several sets.")


def shown_path(path: str) -> str:
    """Return a path that is safe to print: control characters and invalid bytes as escapes."""
    return visible(os.fsencode(path).decode("utf-8", "backslashreplace"))
