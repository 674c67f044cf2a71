"""A real admission webhook that answers with 409: it has refused, and nobody was faster."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import Forbidden
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.webhook import Webhook

DENIED = 'admission webhook "missing.example.com" denied the request: not today'


def conflict(request: dict[str, Any]) -> dict[str, Any]:
    """Return the Status of a conflict with another field manager, as the server would word it."""
    return {
        "status": "Failure",
        "reason": "Conflict",
        "code": 409,
        "message": "not today",
        "details": {
            "name": request["name"],
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "somebody" using v1',
                    "field": ".data.key",
                }
            ],
        },
    }


@pytest.mark.holds("denied-by-admission")
def test_conflict_of_a_webhook_does_not_repeat_a_delete(
    stage: Stage, plane: Plane, api: Api
) -> None:
    """One request, the webhook's words, and the entry stays."""
    stage.run(config_map("a"), config_map("b"))
    with Webhook(plane, api, stage.namespace, ("DELETE",), conflict) as webhook:
        story = stage.run(config_map("a"))
        assert webhook.refused == ["DELETE b"]
    assert story.outcomes["configmap/b"] is Outcome.FAILED
    assert DENIED in story.problem("configmap/b")
    assert "faster" not in story.problem("configmap/b")
    assert story.exit_code == 3
    assert "configmap/b" in stage.listed()


@pytest.mark.parametrize("annotations", [{}, {"applyprune.dev/conflicts": "skip"}], ids=str)
def test_conflict_of_a_webhook_is_no_field_conflict(
    stage: Stage, plane: Plane, api: Api, annotations: dict[str, str]
) -> None:
    """No field has another owner: there is nothing to skip, and no force helps."""
    stage.run(config_map("a", annotations=annotations))
    with Webhook(plane, api, stage.namespace, ("UPDATE",), _of_the_object):
        story = stage.run(config_map("a", "new", annotations=annotations))
    assert story.outcomes == {"configmap/a": Outcome.FAILED}
    told = story.problem("configmap/a")
    assert DENIED in told
    assert "somebody" not in told
    assert "--conflicts force" not in told
    assert story.exit_code == 3


def test_conflict_of_a_webhook_is_no_other_run(stage: Stage, plane: Plane, api: Api) -> None:
    """The inventory cannot be written; no other run has changed it."""
    stage.run(config_map("a"))
    with (
        Webhook(plane, api, stage.namespace, ("UPDATE",), conflict),
        pytest.raises(Forbidden, match="not today"),
    ):
        stage.run(config_map("a"), config_map("b"))
    assert stage.listed() == {"configmap/a"}
    assert not api.exists(stage.path("b"))


def _of_the_object(request: dict[str, Any]) -> dict[str, Any] | None:
    return conflict(request) if request["name"] == "a" else None
