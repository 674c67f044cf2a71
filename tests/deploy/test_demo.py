"""The demos of Bundles, which check themselves what they tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.command import applyprune
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from applyprune.localplane import Binaries


@pytest.mark.sweep
def test_demo_shows_the_life_of_a_bundle(binaries: Binaries) -> None:
    """On a control plane of its own, from the installation to the end of it."""
    assert binaries.program.exists()
    told = applyprune("demo", "bundles", kubeconfig="/nowhere")
    assert told.code == 0, told
    assert "Demo finished." in told.out
    stops = ("reverts it", "gives way", "Change it", "refused", "approve", "Delete the Bundle")
    for word in stops:
        assert word in told.out


@pytest.mark.sweep
def test_demo_shows_what_commits_do(binaries: Binaries) -> None:
    """``make demo-gitops``: each commit is applied, pruned or refused, and drift is reverted."""
    assert binaries.program.exists()
    told = subprocess.run(
        [sys.executable, "-m", "tests.demos.gitops"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert told.returncode == 0, told
    assert "Demo finished." in told.stdout
    for word in (
        "it is applied",
        "is pruned",
        "the prune is blocked",
        "all is well",
        "reverts it",
    ):
        assert word in told.stdout
