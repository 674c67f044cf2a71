"""Words of kubectl, Helm and older versions, each with what to type instead.

One table for options, commands and keys of ``applyprune.yaml``; ``answer`` reads it. What is not in
it gets the suggestion of the nearest word. The other functions answer calls that the shell, or a
habit from kubectl, has put together in another way.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BELOW = "Leave it out: a folder is read with everything below it."
_DELETE = "Use applyprune delete NAME."
_APPLY = "Use applyprune apply NAME -f PATH."
_RENDER = "Render the chart first: helm template NAME CHART | applyprune apply NAME -f -"
ANSWERS = {
    # Options of older versions.
    "--on-drift": "Use --conflicts: `--conflicts revert` reverts drift.",
    "--force-conflicts": "Use --conflicts force.",
    "--prune-adopted": "Use --prune-also adopted.",
    "--prune-shared": "Use --prune-also shared.",
    # Options of kubectl, Helm and kapp.
    "-R": _BELOW,
    "--recursive": _BELOW,
    "--server-side": "Leave it out: every apply is a server-side apply.",
    "--field-manager": "Leave it out: each set has a field manager of its own.",
    "--applyset": "Leave it out: NAME is the set.",
    "--prune-allowlist": "Leave it out: the inventory knows what to prune.",
    "--force": "Use --recreate to change immutable fields, --conflicts force to take fields of "
    "others.",
    "--set": _RENDER,
    "--auto-approve": "Use --yes.",
    "--watch": "Use --wait, or afterwards applyprune status NAME --watch.",
    # Commands.
    "rollback": "Apply the older manifests again: applyprune apply NAME -f "
    "'git+https://HOST/REPO.git//PATH?ref=COMMIT'.",
    "history": "Use applyprune inventory history NAME.",
    "get": "The sets: applyprune list. The objects of one: applyprune status NAME.",
    "ls": "Use applyprune list.",
    "describe": "Use applyprune status NAME, or applyprune explain NAME KIND/NAME.",
    "create": _APPLY,
    "deploy": _APPLY,
    "sync": _APPLY,
    "upgrade": _APPLY,
    "template": _RENDER,
    "destroy": _DELETE,
    "remove": _DELETE,
    "rm": _DELETE,
    "uninstall": _DELETE,
    "rollout": "Use applyprune status NAME --wait.",
    "wait": "Use applyprune status NAME --wait.",
    **{
        verb: f"Use applyprune inventory {verb} NAME."
        for verb in ("check", "repair", "show", "orphan", "own", "move", "release")
    },
    **{
        verb: f"Use applyprune bundle {verb} NAME."
        for verb in ("approve", "logs", "reconcile", "resume", "suspend", "tree")
    },
    # Keys of applyprune.yaml; YAML reads the key `yes` as true.
    **dict.fromkeys(
        ("yes", "true"), "Use ask: never. To delete the set, give --yes on the command line."
    ),
    "on-drift": "Use conflicts: revert.",
    "prune-adopted": "Give --prune-also adopted on the command line, for the run that needs it.",
    "prune-shared": "Give --prune-also shared on the command line, for the run that needs it.",
    "force-conflicts": "Give --conflicts force on the command line, for the run that needs it.",
}
"""What is typed, and what to type instead."""


def answer(word: str) -> str:
    """Return what to type instead of an option, a command or a key; empty for an unknown word."""
    return ANSWERS.get(word, "")


def refuse_arguments(verb: str, words: Sequence[str], files: Sequence[str]) -> None:
    """Raise UsageError if ``words`` that stand alone name manifests; ``files`` are those of -f.

    ``verb`` is the whole command.
    """
    looks = [word for word in words if "/" in word or word.endswith((".yaml", ".yml", ".json"))]
    # The name of a set may be that of a folder.
    paths = looks or [word for word in words[1:] if os.path.lexists(word)]
    if not paths:
        return
    first = shlex.quote(files[0] if files else paths[0])
    shown = f"{', '.join(paths[:3])}{' …' if len(paths) > 3 else ''}"
    if files:
        folder = os.path.dirname(files[0]) or "."  # noqa: PTH120 -- as it was given
        raise UsageError(
            f"unexpected arguments: {shown}",
            reason="-f takes one path, and the shell expanded a pattern into several",
            hint=f"Give the folder, -f {shlex.quote(folder)}, or quote the pattern.",
        )
    names = [word for word in words if word not in paths]
    name = shlex.quote(names[0]) if names else "NAME"
    raise UsageError(
        f"unexpected argument: {shown}",
        reason="manifests are given with -f",
        hint=f"Use {verb} {name} -f {first}",
    )


def refuse_list(path: str) -> None:
    """Raise UsageError for ``-f a.yaml,b.yaml``, which kubectl takes."""
    parts = path.split(",")
    if len(parts) > 1 and "://" not in path and not os.path.lexists(path):
        raise UsageError(
            f"-f {path} is one path, and does not exist",
            hint=f"Use {' '.join(f'-f {shlex.quote(part)}' for part in parts if part)}",
        )
