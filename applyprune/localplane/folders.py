"""The folders of the cache and of the planes, where the user's system keeps such things."""

from __future__ import annotations

from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from pathlib import Path


def cache_folder() -> Path:
    """Return applyprune's cache folder; everything in it can be rebuilt."""
    return platformdirs.user_cache_path("applyprune", appauthor=False)


def planes_folder() -> Path:
    """Return the folder that holds one folder for each named plane."""
    return platformdirs.user_state_path("applyprune", appauthor=False) / "planes"
