"""What the shell offers when TAB is pressed, asked as the shells ask."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.cli.about import SHELLS
from tests.support.command import applyprune
from tests.support.completion import offered
from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane


@pytest.fixture
def stage(plane: Plane, namespace: str) -> Stage:
    """Two sets in a namespace."""
    made = Stage(plane.kubeconfig, namespace)
    made.run(config_map("a"), config_map("b"))
    Stage(plane.kubeconfig, namespace, name="shop").run(config_map("s"))
    return made


def test_completion_offers_verbs_and_options() -> None:
    """They need no cluster."""
    nowhere = os.devnull
    assert offered("applyprune ap", nowhere) == ["apply"]
    assert {"repair", "show", "orphan"} <= set(offered("applyprune inventory ", nowhere))
    assert offered("applyprune li", nowhere) == ["list"]
    assert offered("applyprune apply web --max", nowhere) == ["--max-prune"]
    assert offered("applyprune apply web --allow-kind pers", nowhere) == [
        "persistentvolume",
        "persistentvolumeclaim",
    ]
    assert "text" in offered("applyprune apply web -o ", nowhere)
    assert offered("applyprune completion z", nowhere) == ["zsh"]


def test_completion_offers_what_is_in_the_cluster(stage: Stage) -> None:
    """Sets of the namespace that is named, objects of the set that is named, namespaces."""
    config, here = stage.kubeconfig, f"-n {stage.namespace}"

    def offers(line: str, kubeconfig: Path | str = config) -> list[str]:
        # On a busy machine the cluster may answer too late for one press of the key.
        found: list[str] = eventually(lambda: offered(line, kubeconfig), lambda: line)
        return found

    assert offers(f"applyprune apply {here} ") == ["shop", "web"]
    assert offers(f"applyprune inventory show {here} s") == ["shop"]
    assert offered("applyprune delete -n kube-public ", config) == []
    assert offers(f"applyprune apply {here} web --orphan ") == ["configmap/a", "configmap/b"]
    for kind in ("cm/", f"{stage.namespace}/configmap/"):
        line = f"applyprune inventory orphan web {here} {kind}"
        assert offers(line) == [f"{kind}a", f"{kind}b"]
    assert offers(f"applyprune apply web -n {stage.namespace[:-2]}") == [stage.namespace]
    context = offers("applyprune apply web --context ")[0]
    assert offered(f"applyprune apply --context {context} {here} w", os.devnull) == []
    named = f"--kubeconfig {config} --context {context}"
    assert offers(f"applyprune apply {named} {here} w", os.devnull) == ["web"]


def test_answer_that_does_not_come_is_not_waited_for() -> None:
    """After two seconds the line is the user's again; the process ends all the same."""
    program = """
from threading import Event
from types import SimpleNamespace as Facts
from applyprune.cli.complete import CompletedText
text = CompletedText('set', lambda _: Event().wait() and [])
print(text.shell_complete(Facts(params={}), Facts(name='set'), ''))
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_is_the_shells_own(shell: str, tmp_path: Path) -> None:
    """Each shell that is here takes its own without a word."""
    ended = applyprune("completion", shell, kubeconfig=os.devnull)
    assert (ended.code, ended.err) == (0, "")
    assert f"_APPLYPRUNE_COMPLETE={shell}_complete" in ended.out
    script = tmp_path / "script"
    script.write_text(ended.out)
    if shutil.which(shell) is not None:
        check = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
        assert (check.returncode, check.stderr) == (0, "")


def test_bash_completes(stage: Stage, tmp_path: Path) -> None:
    """Real bash, from its own function to COMPREPLY."""
    program = tmp_path / "applyprune"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m applyprune "$@"\n')
    program.chmod(0o755)
    script = f"""
        source <(applyprune completion bash) || exit 1
        try() {{
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            $(complete -p applyprune | sed 's/.*-F \\([^ ]*\\).*/\\1/') applyprune
            echo "${{COMPREPLY[*]}}"
        }}
        try applyprune stat
        # On a busy machine the cluster may answer too late for one press of the key.
        until [ -n "$found" ]; do
            found=$(try applyprune status -n {stage.namespace} "")
        done
        echo "$found"
        # Bash refuses this outside of a completion; it then completes files itself.
        compopt() {{ echo "$@"; }}
        try applyprune apply web --plan we
        try applyprune plan web --out we
    """
    more = {"KUBECONFIG": str(stage.kubeconfig), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    reply = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert (reply.returncode, reply.stderr) == (0, "")
    files = ["-o default", ""]
    assert reply.stdout.splitlines() == ["status", "shop web", *files, *files]
