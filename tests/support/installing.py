"""Run what installs a package, and what was installed."""

from __future__ import annotations

import os
import re
import subprocess
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OFFLINE = re.compile(r"NewConnectionError|NameResolutionError|Network is unreachable|ProxyError")


def run(
    *command: str | Path, cwd: Path, more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run a command away from the checkout's modules; the test is skipped without an index.

    ``more`` is added to its environment.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    reply = subprocess.run(
        command, cwd=cwd, env={**environment, **more}, capture_output=True, text=True, check=False
    )
    if reply.returncode != 0 and OFFLINE.search(reply.stderr):
        pytest.skip("the package index cannot be reached")
    assert reply.returncode == 0, f"{reply.stdout}\n{reply.stderr}"
    return reply
