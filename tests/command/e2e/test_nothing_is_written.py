"""The verbs that only look write nothing: the server's own audit log is the witness."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from applyprune.model.options import Mode
from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, crd, custom_resource, of_kind
from tests.support.settings import settings
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail


def test_reading_verbs_write_nothing(
    plane: Plane, api: Api, audit: AuditTrail, namespace: str, tmp_path: Path
) -> None:
    """Whatever stands in their way: objects to adopt, take over, recreate, prune and create.

    Slow: each verb is one process.
    """
    stage = Stage(plane.kubeconfig, namespace)
    fixed = {**config_map("fixed"), "immutable": True}
    stage.run(config_map("changed"), config_map("leaves"), fixed)
    Stage(plane.kubeconfig, namespace, name="other").run(config_map("theirs"))
    for name in ("found", "foreign"):
        api.create(stage.path(), config_map(name), by="kubectl-client-side-apply")
    bodies = [
        *(config_map(name, "new") for name in ("changed", "found", "theirs", "new")),
        {**fixed, "data": {"key": "new"}},
        of_kind("Namespace", f"{namespace}-more"),
        config_map("inside", namespace=f"{namespace}-more"),
        crd("Nothing"),
        custom_resource("one", "Nothing"),
    ]
    source, file = write_input(tmp_path / "set.json", bodies), tmp_path / "web.plan"
    given = ("-f", source)
    lifted = ("--adopt", "all", "--take-over", "kubectl-client-side-apply", "--recreate",
              "--conflicts=force", "--reapply-all", "--create-namespace")  # fmt: skip
    calls: list[tuple[set[int], tuple[str | Path, ...]]] = [
        ({3}, ("diff", "web", *given)),
        ({0}, ("diff", "web", *given, *lifted, "--drift", *settings(tmp_path, ignore="*:/data"))),
        ({3}, ("plan", "web", *given, "--no-check")),
        ({0}, ("plan", "web", *given, *lifted, "--out", file)),
        ({0}, ("apply", "web", *given, *lifted, "--plan", file, "--dry-run")),
        ({1}, ("diff", "fresh", *given, "-n", f"{namespace}-more", *lifted)),
        ({3}, ("apply", "web", *given, "--dry-run")),
        ({3}, ("apply", "web", *given, "--dry-run=client")),
        ({0}, ("apply", "web", *given, *lifted, "--dry-run", "--wait")),
        ({0}, ("prune", "web", *given, "--dry-run")),
        ({0}, ("delete", "web", "--dry-run", "--yes")),
        ({0}, ("explain", "web", "configmap/theirs", *given)),
        ({0, 5}, ("status", "web", "--drift")),
        ({0}, ("list", "-o", "wide")),
        ({0}, ("inventory", "show", "web")),
        ({0, 1}, ("inventory", "check", "web")),
        ({0}, ("inventory", "repair", "web", "--dry-run", "--yes")),
        ({0}, ("inventory", "orphan", "web", "--all", "--dry-run")),
        ({0}, ("inventory", "repair", "web", "--record-as=owned", "configmap/leaves", "--dry-run")),
        ({0}, ("version",)),
    ]
    before = api.get(stage.path())["items"]
    audit.restart()
    for codes, line in calls:
        where = () if "-n" in line else ("-n", namespace)
        ended = applyprune(*line, *where, kubeconfig=plane.kubeconfig)
        assert ended.code in codes, (line, ended)
    assert writes(audit) == []
    assert json.dumps(api.get(stage.path())["items"]) == json.dumps(before)
    # The witness sees a write.
    stage.run(mode=Mode.DELETE)
    assert writes(audit)
