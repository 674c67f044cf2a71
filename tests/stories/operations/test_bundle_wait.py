"""How long a wait for a Bundle lasts, exactly."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.api.bundles import BundleWait, until_ready
from applyprune.engine.ports import Cancellation
from applyprune.model.events import Finished
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from tests.support.clocks import QuickClock
from tests.support.told_cluster import ToldCluster


@pytest.mark.holds("clock-of-bundle")
def test_bundle_is_waited_for_by_the_clock_of_the_run() -> None:
    """It looks every second, and ends after the timeout."""
    ref = Ref("applyprune.dev", "Bundle", "shop", "web")
    cluster: Any = ToldCluster([LiveObject.of(ref, "u", "1", {}, {"metadata": {}})])
    wait = BundleWait(ref, "", 3.0)
    events = list(until_ready(wait, cluster, Cancellation(clock=QuickClock(asks=40))))
    (end,) = (one for one in events if isinstance(one, Finished))
    assert (end.exit_code, end.elapsed) == (5, 4.0)
