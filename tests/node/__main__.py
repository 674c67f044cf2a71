"""``python -m tests.node [ARGUMENT …]``: run the stories of real nodes, or ``--run COMMAND …``.

The arguments go to pytest, for example ``-k ssh``. With ``--run``, the rest of the line is a
command that runs beside the cluster, for example ``--run kubectl get nodes``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.node.isolation import isolated, remove_left
from tests.node.programs import missing

if TYPE_CHECKING:
    from collections.abc import Sequence

STORIES = ("-m", "pytest", "-m", "node", "tests/node")


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: of pytest or the command, or 2 if no node can run here."""
    if why := missing():
        sys.stderr.write(f"make node cannot run here. {why}\n")
        return 2
    remove_left()
    if arguments[:1] == ["--run"]:
        command = [*arguments[1:]]
    else:
        command = [sys.executable, *STORIES, *arguments]
    # A network of its own comes after the images, which need that of the machine.
    return isolated((sys.executable, "-m", "tests.node.cluster", *command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
