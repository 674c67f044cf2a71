"""Where the benchmarks take the control plane from: from the mirror that is named, as the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("module", ["", ".controller", ".sources"])
def test_benchmark_takes_the_control_plane_from_the_mirror_that_is_named(
    module: str, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks{module}"],
        env=os.environ | {"APPLYPRUNE_PLANE": str(missing)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert f"{missing}: the folder has no control plane" in ended.stderr
