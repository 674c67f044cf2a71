"""Order means order: waves and dependencies are waited for, whatever else a run waits for."""

from __future__ import annotations

import pytest

from applyprune.model.events import Event, ReadinessReported, Waiting
from applyprune.model.fate import Outcome
from tests.support.api import AuditTrail
from tests.support.clocks import AGES
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.workloads import (
    DEPENDS_ON,
    WAVE,
    Puppets,
    became_ready,
    complaints,
    meanwhile,
    out_of_time,
    pod,
    ready,
    when_waiting,
    widget,
)

PENDING = "the Pod is pending"


def patches(audit: AuditTrail, namespace: str) -> list[str]:
    """Return what a run or the test has patched in a namespace, in the server's order."""
    home = f"/api/v1/namespaces/{namespace}/"
    return [
        event["requestURI"].partition("?")[0].removeprefix(home)
        for event in audit.events()
        if event["verb"] == "patch"
        and event["requestURI"].startswith(home)
        and event["userAgent"].startswith("applyprune")
    ]


def after(*names: str, namespace: str) -> str:
    """Return the depends-on annotation for Pods of a namespace."""
    return ",".join(f"/namespaces/{namespace}/Pod/{name}" for name in names)


def test_dependent_is_sent_when_its_dependency_is_ready_even_without_wait(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """By the server's log the status comes first; what depends on a ConfigMap waits for nothing."""
    home = stage.namespace
    bodies = (
        pod("first"),
        config_map("second", annotations={DEPENDS_ON: after("first", namespace=home)}),
        config_map("at-once", annotations={DEPENDS_ON: f"/namespaces/{home}/ConfigMap/free"}),
        config_map("free"),
    )

    when_waiting(stage, lambda: puppets.pod("first", ready()), PENDING)
    story = stage.run(*bodies, timeout=AGES)
    assert (story.exit_code, became_ready(story)) == (0, {"pod/first"})
    writes = patches(audit, home)
    assert writes.index("pods/first/status") < writes.index("configmaps/second")
    watched = {event["objectRef"]["resource"] for event in audit.ours() if event["verb"] == "watch"}
    assert watched - {"events"} == {"pods"}, "events are those about the Pod"


def test_dependent_is_held_back_while_its_dependency_is_not_ready(stage: Stage, group: str) -> None:
    """Everything else is applied, of later ranks too; nothing is pruned; the object is named."""
    stage.run(config_map("old"))
    back = f"/namespaces/{stage.namespace}/ConfigMap/back"
    bodies = (
        pod("never"),
        config_map("back", annotations={DEPENDS_ON: after("never", namespace=stage.namespace)}),
        config_map("further", annotations={DEPENDS_ON: back}),
        config_map("free"),
        widget(group, "free"),
    )
    out_of_time(stage, PENDING)
    story = stage.run(*bodies, timeout=3600.0)
    assert story.exit_code == 5, "one object is not ready, and that is all that is wrong"
    assert story.outcomes == {
        "pod/never": Outcome.CREATED,
        "configmap/back": Outcome.SKIPPED,
        "configmap/further": Outcome.SKIPPED,
        "configmap/free": Outcome.CREATED,
        f"widget.{group}/free": Outcome.CREATED,
        "configmap/old": Outcome.NOT_PRUNED,
    }
    told = story.problem("configmap/back")
    assert "pod/never in namespace" in told
    assert "which is not ready" in told
    assert complaints(story).keys() == {"pod/never"}


def test_failure_does_not_release_dependents_of_another_object(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """Nothing is sent before what it depends on is ready, whatever became of the others."""
    bodies = [pod("lost"), pod("slow")]
    for name, needed in (("a", "lost"), ("b", "slow")):
        needs = {DEPENDS_ON: after(needed, namespace=stage.namespace)}
        bodies.append(config_map(name, annotations=needs))

    def see(event: Event) -> None:
        if isinstance(event, ReadinessReported) and event.ref.name == "lost":
            puppets.pod("slow", ready())

    stage.seen = see
    with meanwhile(lambda: puppets.pod("lost", {"phase": "Failed", "reason": "Evicted"})):
        story = stage.run(*bodies, timeout=AGES)
    assert story.outcomes["configmap/a"] is Outcome.SKIPPED
    writes = patches(audit, stage.namespace)
    assert writes.index("pods/slow/status") < writes.index("configmaps/b")


def test_second_wave_is_held_back_by_every_run_until_the_first_is_ready(
    stage: Stage, puppets: Puppets, audit: AuditTrail
) -> None:
    """The second run changes nothing in the first wave, and must not overtake it.

    When it is ready, the next wave is sent, even with --no-wait.
    """
    stage.run(config_map("old"))
    bodies = (
        pod("first", wave="-1"),
        config_map("second"),
        config_map("third", annotations={WAVE: "1"}),
    )
    out_of_time(stage, PENDING)
    first = stage.run(*bodies, timeout=3600.0)
    assert first.exit_code == 5
    assert first.outcomes == {
        "pod/first": Outcome.CREATED,
        **dict.fromkeys(("configmap/second", "configmap/third"), Outcome.SKIPPED),
        "configmap/old": Outcome.NOT_PRUNED,
    }
    assert complaints(first).keys() == {"pod/first"}
    assert "pod/first in namespace" in first.problem("configmap/second")
    for name in ("configmap/second", "configmap/third"):
        assert ", of an earlier wave, is not ready" in first.problem(name)
    again = stage.run(*bodies, timeout=3600.0)
    assert again.exit_code == 5
    assert again.outcomes == {**first.outcomes, "pod/first": Outcome.UNCHANGED}
    when_waiting(stage, lambda: puppets.pod("first", ready()), PENDING)
    done = stage.run(*bodies, wait=False, timeout=AGES)
    assert done.exit_code == 0
    writes = patches(audit, stage.namespace)
    assert writes.index("pods/first/status") < writes.index("configmaps/second")
    assert done.outcomes["configmap/third"] is Outcome.CREATED
    assert done.outcomes["configmap/old"] is Outcome.PRUNED


@pytest.mark.holds("wave-order")
def test_second_wave_is_held_back_by_an_object_that_was_not_applied(stage: Stage) -> None:
    """A migration that the server rejects must not be followed by the new version."""
    bad = config_map("first", annotations={WAVE: "-1"})
    bad["data"] = {"not a key": ""}
    slow = pod("slow", wave="-1")
    out_of_time(stage)
    story = stage.run(bad, slow, config_map("second"), timeout=3600.0)
    assert not any(isinstance(one, Waiting) for one in story.events), "there is nothing to wait for"
    assert story.exit_code == 3
    assert story.outcomes == {
        "configmap/first": Outcome.FAILED,
        "pod/slow": Outcome.CREATED,
        "configmap/second": Outcome.SKIPPED,
    }
    assert ", of an earlier wave, was not applied" in story.problem("configmap/second")


def test_unchanged_set_is_not_waited_for(stage: Stage, puppets: Puppets, audit: AuditTrail) -> None:
    """Waves and dependencies cost nothing where nothing is to be sent after them."""
    bodies = (
        pod("first", wave="-1"),
        pod("second"),
        config_map("third", annotations={DEPENDS_ON: after("second", namespace=stage.namespace)}),
        config_map("fourth", annotations={WAVE: "1"}),
    )

    def turn() -> None:
        puppets.pod("first", ready())
        puppets.pod("second", ready())

    with meanwhile(turn):
        assert stage.run(*bodies, timeout=AGES).exit_code == 0
    puppets.pod("first", ready(value="False"))
    audit.restart()
    again = stage.run(*bodies, timeout=AGES)
    assert (again.exit_code, set(again.outcomes.values())) == (0, {Outcome.UNCHANGED})
    assert "watch" not in {event["verb"] for event in audit.ours()}
