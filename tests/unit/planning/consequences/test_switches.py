"""A Service that is switched to other Pods of the set, before these are ready."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.planning.consequences import Change
from applyprune.planning.marks import WAVE
from applyprune.values import replace
from tests.support.consequences import change, found, ref, told

Body = dict[str, Any]


def _service(*selectors: Body) -> Change:
    before, after = ({"spec": {"selector": one}} for one in selectors)
    return change("Service", before=before, after=after)


def _workload(label: str, ready: int | None = None, replicas: int = 3) -> Body:
    template = {"metadata": {"labels": {"app": "web", "version": label}}}
    body: Body = {"spec": {"replicas": replicas, "template": template}}
    return body if ready is None else {**body, "status": {"readyReplicas": ready}}


def _deployment(fate: Fate, name: str = "v2", **bodies: Any) -> Change:
    return change("Deployment", name, fate, **bodies)


OLD, NEW = {"version": "1"}, {"version": "2"}
SWITCHED = _service(OLD, NEW)
TOLD = (
    "switches: switches to deployment.apps/v2 before its Pods are ready; with a later "
    f"{WAVE} it waits for them"
)
MADE = _deployment(Fate.CREATE, manifest=_workload("2"))
# name: (the changes, whether it is told)
CASES: dict[str, tuple[list[Change], bool]] = {
    "a new workload": ([SWITCHED, MADE], True),
    "the same selector": ([_service(NEW, NEW), MADE], False),
    "no selector any more": ([_service(OLD, {}), MADE], False),
    "no workload of the set": ([SWITCHED], False),
    "a workload of another version": (
        [SWITCHED, _deployment(Fate.CREATE, manifest=_workload("3"))],
        False,
    ),
    "an unchanged workload": ([SWITCHED, _deployment(Fate.LEAVE, manifest=_workload("2"))], False),
    "a workload without Pods": (
        [SWITCHED, _deployment(Fate.CREATE, manifest=_workload("2", replicas=0))],
        False,
    ),
    "new labels": (
        [SWITCHED, _deployment(Fate.CHANGE, before=_workload("1", 3), after=_workload("2"))],
        True,
    ),
    "Pods that are not ready": (
        [SWITCHED, _deployment(Fate.CHANGE, before=_workload("2", 0), after=_workload("2"))],
        True,
    ),
    "ready Pods": (
        [SWITCHED, _deployment(Fate.CHANGE, before=_workload("2", 1), after=_workload("2"))],
        False,
    ),
    "Pods of which nothing is known": (
        [SWITCHED, _deployment(Fate.CHANGE, manifest=_workload("2"))],
        False,
    ),
    "a recreation": (
        [SWITCHED, _deployment(Fate.RECREATE, before=_workload("2", 3), manifest=_workload("2"))],
        True,
    ),
    "a Service that the server has not checked": (
        [change("Service", before={"spec": {"selector": OLD}}, manifest={"spec": {}}), MADE],
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_switch_before_the_pods_are_ready(name: str) -> None:
    """It is told only where the plan knows that no Pod is ready by then."""
    changes, expected = CASES[name]
    caused = [one for one in found(*changes) if one.kind == "switches"]
    assert told(caused) == ([TOLD] if expected else [])
    assert all(one.refs == (ref("Deployment", "v2"),) and one.count == 1 for one in caused)


def test_one_ready_workload_is_enough() -> None:
    """Its Pods answer until the others are ready."""
    ready = _deployment(Fate.LEAVE, "other", manifest=_workload("2"))
    assert [one for one in found(SWITCHED, MADE, ready) if one.kind == "switches"] == []


@pytest.mark.parametrize("how", ["wave", "depends-on"])
def test_service_that_waits_for_its_pods_is_not_told(how: str) -> None:
    """A run waits at the end of a wave, and for what others depend on."""
    assert SWITCHED.desired is not None
    wanted = SWITCHED.desired
    if how == "wave":
        wanted = replace(wanted, wave=wanted.wave._replace(wave=1))
    else:
        wanted = replace(wanted, depends_on=(MADE.ref,))
    assert found(replace(SWITCHED, desired=wanted), MADE) == []
