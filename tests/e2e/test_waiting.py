"""``apply --wait`` as a user or a pipeline sees it: what is said, and the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.command import applyprune
from tests.support.objects import DEPLOYMENT
from tests.support.settings import settings

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane


def _deployment(**pods: Any) -> str:
    spec = DEPLOYMENT["spec"]
    template = {**spec["template"], "spec": {**spec["template"]["spec"], **pods}}
    # What cannot run fails soon; what can may take its time.
    deadline = 3 if "nodeSelector" in pods else 3600
    body = {
        **DEPLOYMENT,
        "spec": {**spec, "progressDeadlineSeconds": deadline, "template": template},
    }
    return json.dumps(body)


def test_deployment_becomes_ready(plane: Plane, namespace: str) -> None:
    """Created, then ready, then the summary; exit code 0."""
    ended = applyprune(
        "apply", namespace, "-n", namespace, "-f", "-", "--wait", "--timeout=1h",
        kubeconfig=plane.kubeconfig, stdin=_deployment(),
    )  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    created, ready, summary = ended.out.splitlines()
    assert created == "deployment.apps/web created"
    assert ready.startswith("deployment.apps/web ready (")
    assert summary.startswith(f"{namespace}: 1 created in ")


def test_deployment_does_not_become_ready(plane: Plane, namespace: str) -> None:
    """Exit code 5 as soon as it has failed, the reason on standard error; the object stays."""
    ended = applyprune(
        "apply", "web", "-n", namespace, "-f", "-", "--wait", "--timeout=1h",
        kubeconfig=plane.kubeconfig, stdin=_deployment(nodeSelector={"no": "node"}),
    )  # fmt: skip
    assert ended.code == 5
    assert "deployment.apps/web created" in ended.out
    assert " ready (" not in ended.out
    assert " will not become ready: the progress deadline is exceeded" in ended.err
    assert "Unschedulable: 0/1 nodes are available" in ended.err
    shown = applyprune("inventory", "show", "web", "-n", namespace, kubeconfig=plane.kubeconfig)
    assert "deployment.apps/web" in shown.out


def test_ready_rule_of_the_file_is_used(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """The expression may hold the sign that stands between kind and rule."""
    ruled = settings(tmp_path, ready_when="deployment.apps=self.metadata.name == 'web'")
    ended = applyprune(
        "apply", "web", "-n", namespace, "-f", "-", "--wait", *ruled,
        kubeconfig=plane.kubeconfig, stdin=_deployment(nodeSelector={"no": "node"}),
    )  # fmt: skip
    assert ended.code == 0
    assert "deployment.apps/web ready (" in ended.out
