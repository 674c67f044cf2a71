"""``status`` and ``version``: what a user types, what is said, and how it ends."""

from __future__ import annotations

import os
import platform
import re
import signal
from typing import TYPE_CHECKING

from applyprune import __version__
from tests.support.command import Ended, applyprune, start
from tests.support.input_files import write_input
from tests.support.listening import silent_port
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api


def test_status_prints_health_and_drift(plane: Plane, namespace: str, api: Api) -> None:
    """A table, then the sum and the last run; the exit code tells whether all is well."""
    Stage(plane.kubeconfig, namespace).run(config_map("a"), config_map("b"))
    where = ("-n", namespace)
    ended = applyprune("status", "web", *where, kubeconfig=plane.kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    cells = [re.split(r" {3,}", line) for line in lines[:3]]
    assert cells[0] == ["NAMESPACE", "OBJECT", "STATUS", "DRIFTED", "AGE", "MESSAGE"]
    assert cells[1][:4] == [namespace, "configmap/a", "Ready", "no"]
    assert re.fullmatch(r"\d+s", cells[1][4])
    assert lines[3] == f"web -n {namespace}: 2 objects, 2 ready"
    assert re.fullmatch(r"last change: apply by \S+@\S+, \d+s ago, exit code 0", lines[4])

    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.patch(f"{path}/a", {"data": {"key": "\x1b[31m"}}, by="kubectl-patch")
    brief = applyprune("status", "web", *where, kubeconfig=plane.kubeconfig)
    assert "kubectl-patch changed /data/key\n" in brief.out
    assert "has drifted:" not in brief.out
    asked = ("status", "web", *where, "--drift", "--exit-code")
    drifted = applyprune(*asked, kubeconfig=plane.kubeconfig)
    assert (drifted.code, drifted.err) == (1, "")
    assert f"configmap/a -n {namespace} has drifted:\n  /data/key: " in drifted.out
    assert ", by kubectl-patch Update 20" in drifted.out
    assert "\x1b" not in drifted.out
    api("DELETE", f"{path}/b")
    gone = applyprune(*asked, kubeconfig=plane.kubeconfig)
    assert gone.code == 5
    assert "error: 1 of the set's 2 objects is not ready: configmap/b" in gone.err
    nothing = applyprune("status", "shop", *where, kubeconfig=plane.kubeconfig)
    assert (nothing.code, nothing.out) == (2, "")
    assert f"there is no set shop in namespace {namespace}" in nothing.err


def test_status_watch_prints_changes_to_a_pipe(plane: Plane, namespace: str, api: Api) -> None:
    """The table, then a line for each change; SIGINT ends it without an error."""
    Stage(plane.kubeconfig, namespace).run(config_map("a"))
    process = start("status", "web", "-w", "-n", namespace, kubeconfig=plane.kubeconfig)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        head = [process.stdout.readline() for _ in range(4)]
        assert head[2] == f"web -n {namespace}: 1 object, 1 ready\n"
        path = f"/api/v1/namespaces/{namespace}/configmaps/a"
        api.patch(path, {"data": {"key": "w"}}, by="kubectl-patch")
        told = f"configmap/a -n {namespace} Ready, drifted: kubectl-patch changed /data/key\n"
        assert process.stdout.readline() == told
        process.send_signal(signal.SIGINT)
        assert (process.wait(HANG), process.stderr.read()) == (130, "")


def test_explain_prints_the_decision(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """The object and its place, the verdict, the reasons in order; a wrong input is none."""
    source = write_input(tmp_path / "set.json", [config_map("a")])
    Stage(plane.kubeconfig, namespace).run(config_map("a"), config_map("b"))

    def explained(*words: str | Path, cwd: Path | None = None) -> Ended:
        return applyprune("explain", "web", *words, kubeconfig=plane.kubeconfig, cwd=cwd)

    here = ("-n", namespace)
    given = explained("configmap/a", *here, "-f", source)
    assert (given.code, given.err) == (0, "")
    lines = given.out.splitlines()
    assert lines[0] == f"configmap/a in namespace {namespace} ({source}:1)"
    assert lines[1].startswith("→ Nothing would be sent")
    assert all(line.startswith("  - ") for line in lines[2:])
    # The set's file is that of any run.
    head = f"apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\nnamespace: {namespace}\n"
    (tmp_path / "applyprune.yaml").write_text(f"{head}filename: set.json\nprune: false\n")
    assert "it is in the input: set.json:1" in explained("configmap/a", cwd=tmp_path).out
    assert "--no-prune" in explained("configmap/b", cwd=tmp_path).out
    unknown = explained("deploymnt/x", *here)
    assert (unknown.code, unknown.out) == (2, "")
    assert "Did you mean deployment? Write KIND/NAME" in unknown.err
    source.write_text("{")
    wrong = explained("configmap/a", *here, "-f", source)
    assert (wrong.code, wrong.out) == (2, "")


def test_version_prints_all_versions(plane: Plane, tmp_path: Path) -> None:
    """Our own is told whether or not a server answers; only then the exit code is 0."""
    own = (
        f"applyprune {__version__} (Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()})\n"
    )
    ended = applyprune("version", kubeconfig=plane.kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(re.escape(own) + r"Kubernetes v1\.\d+\.\d+\S*\n", ended.out)
    client = applyprune("--version", kubeconfig=os.devnull)
    assert (client.code, client.out, client.err) == (0, f"applyprune, version {__version__}\n", "")
    config = tmp_path / "config"
    with silent_port() as port:
        config.write_text(
            f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
        )
        refused = applyprune("version", kubeconfig=config)
    assert (refused.code, refused.out) == (7, own)
    assert refused.err.startswith("error: ")
