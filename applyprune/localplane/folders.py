"""The folders of the cache and of the planes: the XDG base directories."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return applyprune's cache folder; everything in it can be rebuilt."""
    return _base("XDG_CACHE_HOME", ".cache") / "applyprune"


def planes_folder() -> Path:
    """Return the folder that holds one folder for each named plane."""
    return _base("XDG_STATE_HOME", ".local/state") / "applyprune" / "planes"


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification: ignore a relative path in these variables.
    return Path(value) if value.startswith("/") else Path.home() / default
