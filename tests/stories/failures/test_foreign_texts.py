"""What nodes and controllers write about an object shows no value of the run's Secrets."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from applyprune.model.events import ObjectStatus, ReadinessReported
from applyprune.planning.secrets import HIDDEN
from tests.support.api import Api
from tests.support.objects import of_kind
from tests.support.stage import Stage, Story
from tests.support.workloads import pod

VALUE = "hunter2-of-a-node"
ENCODED = base64.b64encode(VALUE.encode()).decode()
SECRET: dict[str, Any] = of_kind("Secret", "s", stringData={"key": VALUE})
POD = pod("p")


def _without_values(story: Story) -> None:
    told = repr(story.events)
    assert VALUE not in told
    assert ENCODED not in told


@pytest.mark.holds("secret-in-readiness", "secret-in-status")
def test_message_of_a_pod_shows_no_value(stage: Stage, api: Api) -> None:
    """Neither after a wait nor in the status, where the Secret is read from the cluster alone."""
    assert stage.run(SECRET, POD).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/pods/p"
    message = f"cannot log in with {VALUE}\n::error::forged {ENCODED}\x1b[2J"
    failed = {"status": {"phase": "Failed", "reason": "Refused", "message": message}}
    api.patch(f"{path}/status", failed)
    waited = stage.run(SECRET, POD, wait=True)
    assert waited.exit_code != 0
    _without_values(waited)
    (problem,) = (one.problem for one in waited.of(ReadinessReported) if one.problem is not None)
    assert HIDDEN in str(problem)
    shown = stage.status()
    _without_values(shown)
    (status,) = (one.readiness for one in shown.of(ObjectStatus) if one.ref.kind == "Pod")
    assert HIDDEN in status.message
    assert status.message.isprintable()
