"""The life of a set in a process without what Windows lacks; see tests/support/as_windows.py."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.input_files import write_input
from tests.support.objects import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane


def test_set_is_applied_inspected_pruned_and_deleted(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """No step needs a module or a name that Windows does not have."""

    def run(verb: str, *arguments: str | Path) -> tuple[int, str]:
        command = (sys.executable, "-m", "tests.support.as_windows", verb)
        reply = subprocess.run(
            [*command, *arguments, "-n", namespace],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "KUBECONFIG": str(plane.kubeconfig),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "internal error" not in reply.stderr, reply.stderr
        return reply.returncode, reply.stdout + reply.stderr

    both = write_input(tmp_path / "both.json", [config_map("a"), config_map("b")])
    one = write_input(tmp_path / "one.json", [config_map("a")])
    code, told = run("apply", "web", "-f", both, "--wait")
    assert (code, "2 created" in told) == (0, True), told
    code, told = run("diff", "web", "-f", one)
    assert (code, "configmap/b" in told) == (1, True), told
    plan = tmp_path / "web.plan"
    code, told = run("plan", "web", "-f", one, "--out", plan)
    assert (code, plan.is_file()) == (0, True), told
    code, told = run("apply", "web", "-f", one, "--plan", plan)
    assert (code, "1 pruned" in told) == (0, True), told
    for verb in (("status", "web"), ("inventory", "check", "web"), ("list",)):
        code, told = run(*verb)
        assert code == 0, told
    code, told = run("delete", "web", "--yes")
    assert (code, "1 deleted" in told) == (0, True), told
