"""README's first block, pasted into a shell in a checkout: from nothing to the demo."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import README, ROOT
from tests.support.installing import run

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Binaries

pytestmark = pytest.mark.installs


def test_first_block_of_the_readme_leads_to_the_demo(binaries: Binaries, tmp_path: Path) -> None:
    """With the control plane that the test run has built already.

    Slow: it installs the package as a new user does, and the demo starts a control plane.
    """
    assert binaries.program.exists()
    block = next(text for language, text in README.blocks if language == "sh")
    assert block.endswith("applyprune demo\n")
    checkout = tmp_path / "applyprune"
    ours = shutil.ignore_patterns(".*", "tests", "build", "dist", "__pycache__", "corpus")
    shutil.copytree(ROOT, checkout, ignore=ours)
    # Compiling all of what it installs would take longer than everything else here.
    shown = run("bash", "-ec", block, cwd=checkout, more={"PIP_NO_COMPILE": "1"})
    assert (checkout / ".venv/bin/applyprune").exists()
    assert "# Demo finished." in shown.stdout
    assert "Demo finished." in shown.stdout
