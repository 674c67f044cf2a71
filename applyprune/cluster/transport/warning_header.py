r"""Read the warnings of a server from the Warning headers of a reply (RFC 7234, section 5.5).

A header is a list of ``CODE AGENT "TEXT" ["DATE"]``; in a text, a backslash precedes a quote and a
backslash. Kubernetes uses the code 299 only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_MOST = 100
_CODE = "299"


def warning_texts(headers: Iterable[str]) -> list[str]:
    """Return the texts of all warnings; an invalid header ends with its last valid warning."""
    found = [text for header in headers for text in _texts_in(header)]
    return found[:_MOST]


def _texts_in(header: str) -> Iterator[str]:
    # Compiled when a warning comes: most runs have none.
    quoted = r'"((?:[^"\\]|\\.)*)"'
    one = re.compile(rf"\s*(\d{{3}}) (\S+) {quoted}(?: {quoted})?\s*(?:,|$)", re.DOTALL)
    at = 0
    while at < len(header) and (found := one.match(header, at)) is not None:
        at = found.end()
        if found[1] == _CODE:
            yield _decoded(re.sub(r"\\(.)", r"\1", found[3], flags=re.DOTALL))


def _decoded(text: str) -> str:
    """Return a text that http.client has read as Latin-1; the server sends UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except ValueError:
        return text
