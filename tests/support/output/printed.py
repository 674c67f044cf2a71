"""The output of each format for the stream of ``stream.py``, and where its golden file is.

JSON is a promise to programs: its golden files are those of this version in ``fixtures/formats``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune._version import __version__
from applyprune.output.printers import OutputTarget, RepositoryPaths, printer
from applyprune.values import replace
from tests.support.output.stream import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune.model.events import Event

FIXTURES = Path(__file__).parents[3] / "fixtures"
FILES = {
    "json": f"formats/{__version__}/output.json",
    "jsonl": f"formats/{__version__}/output.jsonl",
    "junit": "output/stream.junit.xml",
    "github": "output/stream.github.txt",
    "gitlab": "output/stream.gitlab.json",
    "markdown": "output/stream.markdown.md",
    "name": "output/stream.name.txt",
}
_VERSION = re.compile(rf'("(?:version|client)": ?)"{re.escape(__version__)}"')
PATHS = RepositoryPaths("/repo/deploy", "/repo")


def printed(form: str, events: Iterable[Event] = EVENTS, summary: Path | None = None) -> str:
    """Return a format's output of a stream, without the program's version."""
    lines: list[str] = []
    target = OutputTarget(out=lines.append, err=lines.append, repository_paths=PATHS)
    one = printer(form, replace(target, summary=summary))
    for event in events:
        one.show(event)
    one.close()
    text = "".join(f"{line}\n" for line in lines)
    # Only the program's own version: a name or a message may contain the same text.
    return _VERSION.sub(r'\1"VERSION"', text)
