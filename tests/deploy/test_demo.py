"""``applyprune demo --controller``, which checks itself what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command import applyprune

if TYPE_CHECKING:
    from applyprune.localplane import Binaries


@pytest.mark.sweep
def test_demo_shows_the_life_of_a_bundle(binaries: Binaries) -> None:
    """On a control plane of its own, from the installation to the end of it."""
    assert binaries.program.exists()
    told = applyprune("demo", "--controller", kubeconfig="/nowhere")
    assert told.code == 0, told
    assert "Demo finished." in told.out
    for word in ("Change it", "refused", "approve", "Delete the Bundle"):
        assert word in told.out
