"""What only ``applyprune.yaml`` can say, for one call of the command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from applyprune.sources.folders import API_VERSION, KIND

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, **keys: object) -> tuple[str, Path]:
    """Write a file with these keys; return the arguments that name it."""
    file = folder / "settings.yaml"
    said = {key.replace("_", "-"): value for key, value in keys.items()}
    file.write_text(json.dumps({"apiVersion": API_VERSION, "kind": KIND, **said}))
    return "--config", file
