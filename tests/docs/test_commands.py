"""The commands in the docs run, and print what the docs say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from applyprune import __version__
from tests.docs.pages import DOWN, PAGES, README, ROOT, Page, page
from tests.docs.reader import PROMPT, Command, commands, write_files, wrong_commands

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


ELSEWHERE = (
    *("make ", "pip install ", "applyprune demo", ".venv/bin/python -m pytest "),
    *("python3 -m venv ", ". .venv/"),
)
"""What begins so runs in tests of its own, or would run the tests in themselves."""
TWO_CLUSTERS = "docs/guides/other-clusters.md"
"""Its commands run in ``tests/controller/clusters/test_guide.py``."""
SOURCES = "docs/guides/sources.md"
"""Its commands need servers: they run in ``tests/command/e2e/sources/test_guide.py``."""


def runs_here(command: Command) -> bool:
    """Whether the test of the commands runs it."""
    return not command.line.startswith(ELSEWHERE) and command.line != DOWN


RUN = [
    one
    for one in PAGES
    if one.name not in {TWO_CLUSTERS, SOURCES} and any(map(runs_here, commands(one)))
]


@pytest.mark.parametrize("one", RUN, ids=lambda one: one.name)
def test_commands_print_what_the_page_shows(
    one: Page, environment: Mapping[str, str], tmp_path: Path
) -> None:
    """In order and in one shell, as a reader would type them.

    Slow: it types the commands of a page, and some start a control plane.
    """
    write_files(one, tmp_path)
    typed = [command for command in commands(one) if runs_here(command)]
    assert wrong_commands(typed, tmp_path, environment) == []


def test_commands_with_shown_output_exist() -> None:
    """Nothing above is empty by mistake."""
    assert {"README.md", "docs/guides/controller.md"} <= {one.name for one in RUN}
    promised = [command for one in RUN for command in commands(one) if command.output]
    assert len(promised) > len(RUN)


def test_make_targets_exist() -> None:
    """In the Makefile, as a target."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    typed = [command.line for one in PAGES for command in commands(one)]
    inline = [line for one in PAGES for line in re.findall(r"`(make [a-z-]+)`", one.prose)]
    named = {line.split()[1] for line in (*typed, *inline) if line.startswith("make ")}
    assert named
    assert named - targets == set()


def test_image_has_the_tag_of_this_version() -> None:
    """Wherever a page builds it."""
    built = [tag for one in PAGES for tag in re.findall(r"-t applyprune:(\S+) \.", one.text)]
    assert set(built) == {__version__}


def test_example_of_a_refused_prune_is_real() -> None:
    """It is what tests/command/e2e sees on a screen."""
    (example,) = [text for language, text in page("docs/concepts/safety.md").blocks if not language]
    screen = (ROOT / "fixtures/screens/tour.pipe.txt").read_text(encoding="utf-8")
    assert example in screen.replace("0" * 64, "…")


def test_screen_of_the_readme_is_real() -> None:
    """It is what tests/command/e2e sees at 80 columns; `…` stands for some of its lines."""
    (screen,) = [text for language, text in README.blocks if not language]
    left = (ROOT / "fixtures/screens/tour.80.txt").read_text(encoding="utf-8")
    for part in re.split(r"^…\n", screen, flags=re.MULTILINE):
        _, found, left = left.partition(f"\n{part}")
        assert found, f"not there, or not at this place:\n{part}"
        left = f"\n{left}"


def test_readme_takes_five_minutes() -> None:
    """It begins with what applyprune shows; what is longer belongs to docs/."""
    lines = README.text.splitlines()
    assert len(lines) <= 150
    assert any(line.startswith(f"{PROMPT}applyprune ") for line in lines[:15])
