"""Real namespaces of the kernel (time, PID, mount): a machine as containers and services see it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

PROVED = (False, pytest.param(True, marks=pytest.mark.sweep))
"""The values of ``proof``: a machine without the rights skips a story, but fails its sweep."""
HIDDEN = "mount -t proc -o hidepid=2 proc /proc"
"""A shell command: processes of other users are not shown, as with ``ProtectProc=invisible``."""
OTHER_MEMORY = "mount -t tmpfs tmpfs /dev/shm"
"""A shell command: nothing in memory is shared with the rest of the machine."""
NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    # It may still read the files of the test.
    *("--inh-caps=+dac_override,+dac_read_search", "--ambient-caps=+dac_override,+dac_read_search"),
)
"""The beginning of a command that another user runs."""


def own_namespaces(
    *options: str, proof: bool, mounts: Sequence[str] = (), user: Sequence[str] = ()
) -> Sequence[str]:
    """Return the beginning of a command that runs the rest in namespaces of its own.

    ``mounts`` are shell commands to run before it. If this machine cannot do it, skip the test, or
    fail it with ``proof``.
    """
    script = " && ".join((*mounts, 'exec "$@"'))
    command = ("unshare", "--fork", "--kill-child", *options, "sh", "-c", script, "sh", *user)
    try:
        tried = subprocess.run((*command, "true"), capture_output=True, text=True, check=False)
        why = tried.stderr.strip() if tried.returncode else ""
    except OSError as error:
        why = str(error)
    if why and proof:
        pytest.fail(f"this machine cannot prove it: {why}")
    if why:
        pytest.skip(f"needs the right to create namespaces (root, on Linux): {why}")
    return command
