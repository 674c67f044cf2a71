"""The Python in the docs runs, and has the types that a strict checker wants."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.docs.pages import PAGES, ROOT, Page, page
from tests.docs.reader import write_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def programs(one: Page) -> list[str]:
    """Return the blocks of Python that are whole programs; the others are signatures."""
    return [
        block
        for language, block in one.blocks
        if language == "python" and block.startswith(("from ", "import "))
    ]


def test_programs_pass_a_strict_type_check(tmp_path: Path) -> None:
    """On every page."""
    files = []
    for one in PAGES:
        for number, program in enumerate(programs(one)):
            files.append(tmp_path / f"{one.name.replace('/', '_').partition('.')[0]}_{number}.py")
            files[-1].write_text(program)
    assert len(files) > 3
    reply = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 0, reply.stdout


def test_program_of_the_guide_runs(environment: Mapping[str, str], tmp_path: Path) -> None:
    """With the manifests of the page, and as `python -c`; it prints what the page shows."""
    guide = page("docs/guides/python.md")
    write_files(guide, tmp_path)
    (program,) = programs(guide)
    (shown,) = [block for language, block in guide.blocks if language == "text"]
    reply = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (reply.returncode, reply.stderr) == (0, "")
    assert reply.stdout == shown
