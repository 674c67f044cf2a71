"""One text of the input and the name that it is shown by."""

from __future__ import annotations

import os
from dataclasses import dataclass

from applyprune.errors import InputError
from applyprune.model.manifests import Origin
from applyprune.model.visible import visible

MAX_BYTES = 256 * 2**20
"""How much one call reads in all; 100,000 objects are about 30 MB."""


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one file, build or reply; ``path`` is fit to be shown."""

    path: str
    data: bytes


def too_much(path: str) -> InputError:
    """Return the error of a source that is longer than what is left of MAX_BYTES."""
    what = f"more than {MAX_BYTES // 2**20} MiB of manifests in all"
    return InputError(what, where=Origin(path), hint="Apply them as several sets.")


def shown_path(path: str) -> str:
    """Return a path that can be written anywhere: control characters and odd bytes as escapes."""
    return visible(os.fsencode(path).decode("utf-8", "backslashreplace"))
