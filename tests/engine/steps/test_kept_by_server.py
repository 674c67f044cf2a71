"""A field that leaves the manifest of a Service, and whose value the server keeps."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.objects import of_kind
from tests.support.stage import Stage, Story

HEALTH = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}


def _service(**spec: Any) -> dict[str, Any]:
    given = {"selector": {"app": "shop"}, "ports": [{"port": 80}], **spec}
    return of_kind("Service", "shop", spec=given)


def _live(stage: Stage, api: Api) -> dict[str, Any]:
    live: dict[str, Any] = api.get(stage.path("shop", "services"))
    return live


def _line(story: Story) -> tuple[Outcome, str]:
    (done,) = story.of(ObjectDone)
    return done.outcome, done.reason


def _delete(stage: Stage, api: Api) -> None:
    status, reply = api("DELETE", stage.path("shop", "services"))
    assert status == 200, reply


@pytest.mark.parametrize(
    ("rest", "field", "value"),
    [({}, "clusterIP", "None"), (HEALTH, "healthCheckNodePort", 0)],
    ids=["headless", "health-check"],
)
def test_value_stays_until_the_service_is_deleted(
    stage: Stage, api: Api, rest: dict[str, Any], field: str, value: str | int
) -> None:
    """The next run has nothing to remove; ``--recreate`` does nothing."""
    assert stage.run(_service(**rest, **{field: value})).exit_code == 0
    before = _live(stage, api)
    without = _service(**rest)
    assert _line(stage.run(without, recreate=True)) == (Outcome.UPDATED, "")
    assert _line(stage.run(without, recreate=True)) == (Outcome.UNCHANGED, "")
    after = _live(stage, api)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"][field] == before["spec"][field]
    _delete(stage, api)
    assert _line(stage.run(without)) == (Outcome.CREATED, "")
    assert _live(stage, api)["spec"][field] != "None"


def test_empty_cluster_ip_does_not_replace_none(stage: Stage, api: Api) -> None:
    """A warning says so, of a plan too, until the Service is deleted and applied again."""
    assert stage.run(_service(clusterIP="None")).exit_code == 0
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        story = stage.run(_service(clusterIP=""), recreate=True, dry_run=dry_run)
        assert _line(story) == (Outcome.UNCHANGED, "")
        (told,) = story.warnings
        assert "service/shop at .spec.clusterIP: an empty value does not replace" in told
        assert "Delete the Service and apply again" in told
    assert _live(stage, api)["spec"]["clusterIP"] == "None"
    _delete(stage, api)
    story = stage.run(_service(clusterIP=""))
    assert (_line(story), story.warnings) == ((Outcome.CREATED, ""), [])
    assert _live(stage, api)["spec"]["clusterIP"] != "None"
