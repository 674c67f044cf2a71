"""A field that leaves the manifest, and whose value the server keeps: plan and line say so."""

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
NODE_PORT = {"type": "NodePort"}


def _service(**spec: Any) -> dict[str, Any]:
    given = {"selector": {"app": "shop"}, "ports": [{"port": 80}], **spec}
    return of_kind("Service", "shop", spec=given)


def _live(stage: Stage, api: Api) -> dict[str, Any]:
    live: dict[str, Any] = api.get(stage.path("shop", "services"))
    return live


def _node_ports(stage: Stage, api: Api) -> list[int]:
    return [port["nodePort"] for port in _live(stage, api)["spec"]["ports"]]


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
    """The plan says it too, and the next run has nothing to remove; ``--recreate`` does nothing."""
    assert stage.run(_service(**rest, **{field: value})).exit_code == 0
    before = _live(stage, api)
    stored, without = before["spec"][field], _service(**rest)
    how = "to change it, delete the Service and apply again"
    said = (Outcome.UPDATED, f"the server keeps spec.{field}: {stored}; {how}")
    verdict = stage.explain("service/shop", without).explanation.verdict
    assert verdict == f"It would be applied: its manifest has changed; {said[1]}."
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        assert _line(stage.run(without, recreate=True, check=True, dry_run=dry_run)) == said
    assert _line(stage.run(without, recreate=True)) == (Outcome.UNCHANGED, "")
    after = _live(stage, api)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"][field] == stored
    _delete(stage, api)
    assert _line(stage.run(without)) == (Outcome.CREATED, "")
    assert _live(stage, api)["spec"][field] != "None"


def test_node_port_stays_until_another_is_written(stage: Stage, api: Api) -> None:
    """Also without a check; no Service is deleted for it."""
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
    assert stage.run(_service(**NODE_PORT, ports=ports)).exit_code == 0
    uid, (port, other) = _live(stage, api)["metadata"]["uid"], _node_ports(stage, api)
    fixed = [{**ports[0], "nodePort": port}, ports[1]]
    assert stage.run(_service(**NODE_PORT, ports=fixed)).exit_code == 0
    outcome, reason = _line(stage.run(_service(**NODE_PORT, ports=ports), check=False))
    assert outcome is Outcome.UPDATED
    assert reason.endswith(f".nodePort: {port}; to change it, write another one")
    assert _node_ports(stage, api) == [port, other]
    moved = [{**ports[0], "nodePort": other}]
    assert _line(stage.run(_service(**NODE_PORT, ports=moved))) == (Outcome.UPDATED, "")
    assert _node_ports(stage, api) == [other]
    assert _live(stage, api)["metadata"]["uid"] == uid


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


def test_removal_that_the_server_follows_is_not_said(stage: Stage, api: Api) -> None:
    """A node port goes with the type."""
    assert stage.run(_service(**NODE_PORT)).exit_code == 0
    ports = [{"port": 80, "nodePort": _node_ports(stage, api)[0]}]
    assert stage.run(_service(**NODE_PORT, ports=ports)).exit_code == 0
    assert _line(stage.run(_service())) == (Outcome.UPDATED, "")
