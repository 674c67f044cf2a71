"""What the tests of this folder share: text in, values or problems out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.sources.documents import read_documents
from applyprune.sources.yaml import YAMLFault

if TYPE_CHECKING:
    from pathlib import Path


def values(text: str | bytes) -> list[Any] | None:
    """Return the values of a stream's documents; None if one of them is rejected."""
    contents = [each.content for each in read_documents(_bytes(text))]
    read = [content.value for content in contents if not isinstance(content, YAMLFault)]
    return read if len(read) == len(contents) else None


def value(text: str | bytes) -> Any:
    """Return the value of a stream that has exactly one document."""
    read = values(text)
    assert read is not None
    (only,) = read
    return only


def refusals(text: str | bytes) -> list[tuple[int, str]]:
    """Return the line and problem of everything that is rejected in a stream."""
    contents = [each.content for each in read_documents(_bytes(text))]
    return [(each.line, each.problem) for each in contents if isinstance(each, YAMLFault)]


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files, named by their paths below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def config_map(name: str, more: str = "") -> str:
    """Return the text of a ConfigMap."""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{more}"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
