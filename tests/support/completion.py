"""Ask for completions as a shell does when TAB is pressed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def offered(line: str, kubeconfig: Path | str) -> list[str]:
    """Return what is offered for the last word of a line, by the protocol of click's scripts."""
    words = shlex.split(line)
    if line.endswith(" "):
        words.append("")
    reply = subprocess.run(
        [sys.executable, "-m", "applyprune"],
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "COMP_WORDS": shlex.join(words[:-1]) + f" {words[-1]}",
            "COMP_CWORD": str(len(words) - 1),
            "_APPLYPRUNE_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert reply.stderr == ""
    return [one.partition(",")[2] for one in reply.stdout.splitlines() if one]
