"""Input files of commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def write_input(path: Path, bodies: Iterable[dict[str, Any]]) -> Path:
    """Write manifests into one file and return its path."""
    path.write_text("\n".join(json.dumps(body) for body in bodies))
    return path
