"""What Pods of a kubelet write, and the one reason that it gives.

`make node ARGS=--write-pods` writes the files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.recorded_pods import FOLDER, reason

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_pod_gives_its_one_reason(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert reason(recorded) == recorded["says"]
