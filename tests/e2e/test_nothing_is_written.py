"""The verbs that only look write nothing: the server's own audit log is the witness."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, crd, custom_resource
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail


def _deployment(app: str) -> dict[str, Any]:
    labels = {"app": app}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }


def test_reading_verbs_write_nothing(
    plane: Plane, api: Api, audit: AuditTrail, namespace: str, tmp_path: Path
) -> None:
    """Whatever stands in their way: objects to adopt, take over, recreate, prune and create."""
    stage = Stage(plane.kubeconfig, namespace)
    stage.run(config_map("changed"), config_map("leaves"), _deployment("old"))
    Stage(plane.kubeconfig, namespace, name="other").run(config_map("theirs"))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("found", "foreign"):
        made = api("POST", f"{maps}?fieldManager=kubectl-client-side-apply", config_map(name))
        assert made[0] == 201
    source = write_input(
        tmp_path / "set.json",
        [
            config_map("changed", "new"),
            config_map("found", "new"),
            config_map("theirs", "new"),
            config_map("new"),
            _deployment("new"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-more"}},
            config_map("inside", namespace=f"{namespace}-more"),
            crd("Nothing"),
            custom_resource("one", "Nothing"),
        ],
    )
    into = ("-f", source, "-n", namespace)
    lifted = ("--adopt", "all", "--take-over", "kubectl-client-side-apply", "--recreate",
              "--conflicts=force", "--reapply-all", "--create-namespace")  # fmt: skip
    dry = ("-n", namespace, "--dry-run")
    calls: list[tuple[set[int], tuple[str | Path, ...]]] = [
        *(({1, 3, 4}, ("diff", "web", *into, *more)) for more in ((), lifted)),
        ({1}, ("diff", "web", *into, *lifted, "--external-diff", "true")),
        ({0}, ("diff", "web", *into, *lifted, "--fail-on-drift", "--ignore", "*:/data")),
        *(({3}, ("plan", "web", *into, *more)) for more in ((), ("--no-check",))),
        ({0}, ("plan", "web", *into, *lifted, "--out", tmp_path / "web.plan")),
        ({0}, ("apply", "web", *into, *lifted, "--plan", tmp_path / "web.plan", "--dry-run")),
        ({1}, ("diff", "new", "-f", source, "-n", f"{namespace}-more", *lifted)),
        *(
            ({0, 3, 6}, (verb, "web", *into, dry))
            for verb in ("apply", "prune")
            for dry in ("--dry-run", "--dry-run=client")
        ),
        ({0}, ("apply", "web", *into, *lifted, "--dry-run", "--wait")),
        ({0}, ("delete", "web", "-n", namespace, "--dry-run", "--yes")),
        *(
            ({0}, ("explain", "web", name, "-n", namespace, *more))
            for name in ("configmap/changed", "configmap/theirs")
            for more in ((), ("-f", source))
        ),
        ({0, 5}, ("status", "web", "-n", namespace, "--drift")),
        ({0}, ("list", "-n", namespace, "--count-ready")),
        ({0}, ("inventory", "show", "web", "-n", namespace)),
        ({0, 1}, ("inventory", "check", "web", "-n", namespace)),
        ({0}, ("inventory", "repair", "web", "-n", namespace, "--dry-run", "--yes")),
        (
            {0},
            ("inventory", "move", "web", "new", "configmap/leaves", "-n", namespace, "--dry-run"),
        ),
        ({0}, ("inventory", "orphan", "web", "--all", "-n", namespace, "--dry-run")),
        (
            {0, 3},
            ("inventory", "repair", "web", "--record-as=owned", "configmap/leaves", *dry),
        ),
        ({0}, ("version", "-n", namespace)),
    ]
    kinds = ("configmaps", "secrets")
    before = [api.get(f"/api/v1/namespaces/{namespace}/{kind}")["items"] for kind in kinds]
    audit.restart()
    for codes, arguments in calls:
        ended = applyprune(*arguments, kubeconfig=plane.kubeconfig)
        assert ended.code in codes, (arguments, ended)
    assert writes(audit) == []
    after = [api.get(f"/api/v1/namespaces/{namespace}/{kind}")["items"] for kind in kinds]
    assert json.dumps(after) == json.dumps(before)
    # The witness sees a write.
    assert (
        applyprune("delete", "web", "-n", namespace, "--yes", kubeconfig=plane.kubeconfig).code == 0
    )
    assert writes(audit)
