"""``python -m tests.docs.words PATH…``: where a file uses the words that docs/words.md rejects.

Without a path it lists the modules and golden files that use one.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tokenize
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.docs.pages import PAGES, ROOT, page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WORDS = "docs/words.md"
PACKAGE = ROOT / "applyprune"

_GOLDEN = ("broken", "output", "screens")

# Good English that a phrase of the table would match.
_FINE = re.compile(
    r"there is no\b|there are no\b|\bis no (longer|more|less)\b|\bare no (longer|more|less)\b"
    r"|\bready-when",
    re.IGNORECASE,
)


class Found(NamedTuple):
    """A rejected word, where it is, and what to say instead."""

    place: str
    line: int
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.phrase!r}: say {self.instead}"


def _rows(heading: str) -> list[tuple[str, str]]:
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", page(WORDS).section(heading), re.MULTILINE)
    return [row for row in rows if row[0] != "not"]


@cache
def phrases() -> Mapping[str, str]:
    """Return every rejected phrase, and what to say instead."""
    return {
        phrase.strip(): instead
        for phrases, instead in _rows("Phrases")
        for phrase in phrases.split(", ")
    }


@cache
def old_words() -> Mapping[str, str]:
    """Return every old public word, and the new one."""
    return {
        word: instead
        for words, instead in _rows("Old public words")
        for word in re.findall(r"`([^`]+)`", words)
    }


@cache
def _pattern() -> re.Pattern[str]:
    plain = "|".join(re.escape(one).replace(r"\ ", r"\s+") for one in phrases())
    public = "|".join(re.escape(one) for one in old_words())
    return re.compile(
        rf"(?<![\w-])(?:(?P<phrase>(?i:{plain}))|(?P<word>{public}))(?![\w-])", re.DOTALL
    )


def found_in(text: str, place: str, first_line: int = 1) -> Iterator[Found]:
    """Yield every rejected word in a text."""
    fine = [match.span() for match in _FINE.finditer(text)]
    for match in _pattern().finditer(text):
        if any(start <= match.start() < end or start < match.end() <= end for start, end in fine):
            continue
        said = " ".join(match[0].split())
        instead = old_words()[said] if match["word"] else phrases()[said.lower()]
        yield Found(place, first_line + text.count("\n", 0, match.start()), said, instead)


def in_file(path: Path) -> list[Found]:
    """Return the rejected words of a file: of Python, only what is in comments and strings."""
    place = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return sorted(set(_in_python(path, place, text)), key=lambda found: found.line)
    if path.suffix == ".json":
        return [found for words in _strings(json.loads(text)) for found in found_in(words, place)]
    return list(found_in(text, place))


def _in_python(path: Path, place: str, text: str) -> Iterator[Found]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from found_in(node.value, place, node.lineno)
        elif isinstance(node, ast.JoinedStr):
            # A placeholder counts as one word.
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield from found_in("".join(map(str, parts)), place, node.lineno)
    with path.open("rb") as file:
        comments = [
            (token.start[0], token.string.lstrip("# "))
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.COMMENT
        ]
    # A comment of several lines is one text.
    joined: list[tuple[int, str]] = []
    for line, comment in comments:
        if joined and joined[-1][0] + joined[-1][1].count("\n") + 1 == line:
            joined[-1] = (joined[-1][0], f"{joined[-1][1]}\n{comment}")
        else:
            joined.append((line, comment))
    for line, comment in joined:
        yield from found_in(comment, place, line)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def documents() -> list[Path]:
    """Return all that is read as documentation, but the page that lists the words."""
    pages = [ROOT / one.name for one in PAGES if one.name != WORDS]
    schemas = (PACKAGE / "output/schemas").glob("*.json")
    deployed = (path for path in (ROOT / "deploy").rglob("*") if path.suffix in {".yaml", ""})
    used = [ROOT / "action.yml", *sorted(path for path in deployed if path.is_file())]
    return [*pages, *sorted(schemas), *used]


def sources() -> list[Path]:
    """Return every module of the package, and every golden file of what users see."""
    golden = (path for name in _GOLDEN for path in (ROOT / "fixtures" / name).rglob("*.txt"))
    return [*sorted(PACKAGE.rglob("*.py")), *sorted(golden)]


if __name__ == "__main__":
    asked = [(ROOT / name).resolve() for name in sys.argv[1:]]
    for path in asked:
        files = [one for one in sources() if path in one.parents] if path.is_dir() else [path]
        for file in files:
            for found in in_file(file):
                print(found)  # noqa: T201
    if not asked:
        for path in sources():
            if in_file(path):
                print(path.relative_to(ROOT))  # noqa: T201
