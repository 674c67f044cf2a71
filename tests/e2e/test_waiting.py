"""``apply --wait`` as a user or a pipeline sees it: what is said, and the exit code."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import Ended, applyprune
from tests.support.objects import DEPLOYMENT
from tests.support.workloads import PROBE

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


@pytest.mark.parametrize("rule", ["deployment.apps", "deployment.apps=", "deployment.apps=self."])
def test_invalid_ready_rule_is_refused(plane: Plane, namespace: str, rule: str) -> None:
    """Exit code 2, with the option named; nothing is applied."""
    ended = applyprune(
        "apply", "web", "-n", namespace, "-f", "-", "--wait", "--ready-when", rule,
        kubeconfig=plane.kubeconfig, stdin=_deployment(),
    )  # fmt: skip
    assert (ended.code, ended.out) == (2, "")
    assert "--ready-when" in ended.err


def test_ready_rule_option_is_used(plane: Plane, namespace: str) -> None:
    """The expression may hold the sign that stands between kind and rule."""
    ended = applyprune(
        "apply", "web", "-n", namespace, "-f", "-", "--wait",
        "--ready-when", "deployment.apps=self.metadata.name == 'web'",
        kubeconfig=plane.kubeconfig, stdin=_deployment(nodeSelector={"no": "node"}),
    )  # fmt: skip
    assert ended.code == 0
    assert "deployment.apps/web ready (" in ended.out


KUSTOMIZATION = """
resources: [web.yaml]
configMapGenerator:
- name: conf
  literals: [colour=COLOUR]
"""


def test_hashed_kustomize_config_map_is_pruned_after_the_rollout(
    plane: Plane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, and with a warning at once if the user does not want to wait."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").symlink_to(plane.kubectl)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    reads = {"name": "main", "image": "main:1", "envFrom": [{"configMapRef": {"name": "conf"}}]}
    reads |= PROBE

    def apply(colour: str, *options: str, **pods: Any) -> Ended:
        overlay = KUSTOMIZATION.replace("COLOUR", colour)
        (tmp_path / "kustomization.yaml").write_text(overlay)
        (tmp_path / "web.yaml").write_text(_deployment(containers=[reads], **pods))
        return applyprune(
            "apply", "web", "-n", namespace, "-k", tmp_path, *options, kubeconfig=plane.kubeconfig
        )

    first = apply("red")
    (red,) = (name for name in first.lines if name.startswith("configmap/conf-"))
    assert (first.code, first.lines[red]) == (0, "created")
    late = apply("green", nodeSelector={"no": "node"})
    assert (late.code, late.lines[red]) == (
        5,
        "not pruned (deployment.apps/web is not ready (old Pods use it))",
    )
    assert " will not become ready: the progress deadline is exceeded" in late.err
    done = apply("green")
    assert (done.code, done.err) == (0, "")
    ended = [line.partition(" (")[0] for line in done.out.splitlines()]
    assert ended.index("deployment.apps/web ready") < ended.index(f"{red} pruned")
    at_once = apply("blue", "--no-wait", nodeSelector={"no": "node"})
    (green,) = (name for name, outcome in at_once.lines.items() if outcome == "pruned")
    assert at_once.code == 0
    assert at_once.err == (
        "warning: --no-wait: this run prunes at once what may still be in use: "
        f"{green} before deployment.apps/web (old Pods use it)\n"
    )
