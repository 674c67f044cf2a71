"""The pages of the documentation, and what can be read in one: sections, blocks, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "deploy/README.md")
DOWN = "applyprune local down"
"""All pages share one control plane, so this runs at the end of the last page only."""
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NO_TEXT = re.compile(r"^(?:#+ | *\|).*$", re.MULTILINE)
"""Headings and rows of tables."""
_BETWEEN = re.compile(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )")
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One Markdown file; ``name`` is its path from the root of the repository."""

    name: str

    @cached_property
    def text(self) -> str:
        """The whole page."""
        return (ROOT / self.name).read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _FENCED.sub("", self.text)

    @cached_property
    def paragraphs(self) -> list[str]:
        """The paragraphs and the items of lists; an item ends where a nested one begins."""
        text = _NO_TEXT.sub("", self.prose)
        return [part.strip() for part in _BETWEEN.split(text) if part.strip()]

    @cached_property
    def blocks(self) -> list[tuple[str, str]]:
        """Every fenced block in order: its language, and its lines."""
        return _FENCED.findall(self.text)

    @cached_property
    def anchors(self) -> list[str]:
        """The anchor of every heading, as GitHub makes it."""
        return [_anchor(heading) for _, heading in _HEADING.findall(self.prose)]

    def section(self, heading: str) -> str:
        """Return the prose below a heading, up to the next one of its level or above."""
        level, _, rest = self.prose.partition(f" {heading}\n")
        marks = level.rsplit("\n", 1)[-1]
        assert rest, f"{self.name} has no section {heading}"
        assert set(marks) == {"#"}, f"{self.name} has no section {heading}"
        return re.split(rf"^#{{1,{len(marks)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def first_column(text: str) -> list[str]:
    """Return the first cell of every row of the tables in a text, without their heads."""
    rows = re.findall(r"^\| (.*?) \|.*\|$(?!\n\|---)", text, re.MULTILINE)
    return [row for row in rows if row]


PAGES = [
    Page(name)
    for name in (
        *_TOP,
        *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
    )
]
"""README first; the order of the others means nothing."""
README = PAGES[0]


def page(name: str) -> Page:
    """Return the page of a path."""
    return next(one for one in PAGES if one.name == name)


def yaml_files(one: Page) -> dict[str, str]:
    """Return the YAML blocks by the path that their first line, a comment, names."""
    found = {}
    for language, block in one.blocks:
        head, _, content = block.partition("\n")
        if language == "yaml":
            assert head.startswith("# "), f"{one.name}: a YAML block names its file"
            found[head.removeprefix("# ")] = content
    return found
