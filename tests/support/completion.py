"""Ask for completions as a shell does when TAB is pressed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tests.support.command import applyprune

if TYPE_CHECKING:
    from pathlib import Path


def offered(line: str, kubeconfig: Path | str) -> list[str]:
    """Return what is offered for the last word of a line, by the protocol of click's scripts."""
    words = shlex.split(line)
    if line.endswith(" "):
        words.append("")
    pressed = {
        "COMP_WORDS": shlex.join(words[:-1]) + f" {words[-1]}",
        "COMP_CWORD": str(len(words) - 1),
        "_APPLYPRUNE_COMPLETE": "bash_complete",
    }
    ended = applyprune(kubeconfig=kubeconfig, more=pressed)
    assert (ended.code, ended.err) == (0, "")
    return [one.partition(",")[2] for one in ended.out.splitlines() if one]
