"""The files that applyprune carries beside its code: the demo's manifests, and ``deploy/``."""

from __future__ import annotations

from pathlib import Path

from applyprune.errors import UsageError

_PACKAGE = Path(__file__).parent.parent
_CHECKOUT = {"demo": "fixtures/demo", "deploy": "deploy"}


def packaged_folder(name: str) -> Path:
    """Return the folder ``demo`` or ``deploy``: a wheel's ``applyprune/_data``, or the checkout's.

    Raises UsageError when there is neither.
    """
    places = (_PACKAGE / "_data" / name, _PACKAGE.parent / _CHECKOUT[name])
    for place in places:
        if place.is_dir():
            return place
    raise UsageError(
        f"the folder {name!r} that applyprune came with is missing",
        reason=f"looked at {places[0]} and {places[1]}",
        hint="Install applyprune again.",
    )
