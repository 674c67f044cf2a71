"""Changes from outside: of what we own they are seen and put back, of the rest left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import Outcome
from tests.engine.stage import Stage, config_map
from tests.engine.test_set import DEPLOYMENT, SECRET, SERVICE

if TYPE_CHECKING:
    from tests.conftest import Api, Kubectl

BODIES: tuple[dict[str, Any], ...] = (
    config_map("a", labels={"team": "x"}, annotations={"note": "y"}),
    SECRET,
    SERVICE,
    DEPLOYMENT,
)
CHANGES: dict[str, tuple[str, list[str]]] = {
    "a value": ("configmap/a", ["--type=merge", "-p", '{"data":{"key":"other"}}']),
    "a key removed": (
        "configmap/a",
        ["--type=json", "-p", '[{"op":"remove","path":"/data/key"}]'],
    ),
    "a label": ("configmap/a", ["--type=merge", "-p", '{"metadata":{"labels":{"team":"z"}}}']),
    "an annotation": (
        "configmap/a",
        ["--type=merge", "-p", '{"metadata":{"annotations":{"note":null}}}'],
    ),
    "our own label": (
        "configmap/a",
        [
            "--type=merge",
            "-p",
            '{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null}}}',
        ],
    ),
    "a secret's value": ("secret/s", ["--type=merge", "-p", '{"data":{"password":"eA=="}}']),
    # Not the port itself: it is the list's merge key, and the server refuses what then results.
    "a target port": (
        "service/web",
        ["--type=json", "-p", '[{"op":"replace","path":"/spec/ports/0/targetPort","value":81}]'],
    ),
    "an image": (
        "deployment.apps/web",
        [
            "--type=json",
            "-p",
            '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"x:2"}]',
        ],
    ),
    "replicas, by the scale subresource": (
        "deployment.apps/web",
        ["--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":3}}'],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_we_own_is_put_back(stage: Stage, kubectl: Kubectl, name: str) -> None:
    """By force of conflict rules the other manager owns it now, so it takes ``force_conflicts``."""
    target, patch = CHANGES[name]
    stage.run(*BODIES)
    before = _owned(kubectl, stage, target)
    kubectl("patch", target, "-n", stage.namespace, *patch)
    assert _owned(kubectl, stage, target) != before, "the change took"
    story = stage.run(*BODIES, force_conflicts=True)
    outcomes = story.outcomes
    assert outcomes.pop(target) is Outcome.CONFIGURED, story.problem(target)
    assert set(outcomes.values()) == {Outcome.UNCHANGED}
    assert _owned(kubectl, stage, target) == before


def _owned(kubectl: Kubectl, stage: Stage, target: str) -> str:
    """Return spec, data, labels and annotations of an object as text."""
    columns = "{.spec}{.data}{.metadata.labels}{.metadata.annotations.note}"
    return kubectl("get", target, "-n", stage.namespace, "-o", f"jsonpath={columns}")


@pytest.mark.parametrize(
    ("target", "patch"),
    [
        ("configmap/a", '{"data":{"foreign":"1"}}'),
        ("configmap/a", '{"metadata":{"annotations":{"foreign":"1"}}}'),
        ("service/web", '{"metadata":{"labels":{"foreign":"1"}}}'),
        ("secret/s", '{"data":{"foreign":"eA=="}}'),
    ],
)
def test_a_change_of_what_we_do_not_own_is_left_alone(
    stage: Stage, kubectl: Kubectl, api: Api, target: str, patch: str
) -> None:
    """Nothing is written and nothing touched."""
    stage.run(*BODIES)
    kubectl("patch", target, "-n", stage.namespace, "--type=merge", "-p", patch)
    kind, _, name = target.partition("/")
    path = f"/api/v1/namespaces/{stage.namespace}/{kind}s/{name}"
    before = api.get(path)["metadata"]["resourceVersion"]
    assert set(stage.run(*BODIES).outcomes.values()) == {Outcome.UNCHANGED}
    assert api.get(path)["metadata"]["resourceVersion"] == before


def test_an_object_deleted_outside_comes_back(stage: Stage, kubectl: Kubectl) -> None:
    """As a new object, recorded under its new UID."""
    stage.run(*BODIES)
    kubectl("delete", "service/web", "-n", stage.namespace)
    assert stage.run(*BODIES).outcomes["service/web"] is Outcome.CREATED
    assert set(stage.run(*BODIES).outcomes.values()) == {Outcome.UNCHANGED}


def test_a_finished_job_with_a_ttl_stays_gone(stage: Stage, api: Api) -> None:
    """It has done its work; a changed one runs again."""
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "ttlSecondsAfterFinished": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "x:1"}],
                }
            },
        },
    }
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs/j"
    stage.run(job)
    api("DELETE", path + "?propagationPolicy=Background")
    assert not api.exists(path)
    assert stage.run(job).outcomes == {"job.batch/j": Outcome.UNCHANGED}
    assert not api.exists(path)
    job["spec"]["backoffLimit"] = 1
    assert stage.run(job).outcomes == {"job.batch/j": Outcome.CREATED}
