"""Expand a ``List``, or a typed list such as ``RoleList``, into its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.sources.dialect import Document
from applyprune.sources.refusal import YAMLFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def expand(
    document: Document, lines_of: Callable[[int], list[int]]
) -> Iterator[Document | YAMLFault]:
    """Yield the objects of a document in order: the document itself, or the items of nested lists.

    As in kubectl, an item with neither apiVersion nor kind has those of its list. ``lines_of``
    returns the lines of the items of the list that begins in a line, or [] where it cannot.
    """
    body = document.value
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not _is_list(kind, body):
        yield document
        return
    items = body.get("items", _MISSING)
    if items is _MISSING or not isinstance(items, list | None):
        yield YAMLFault("the items of a List must be a list", document.line)
        return
    items = items or []
    lines = lines_of(document.line) if items else []
    if len(lines) != len(items):
        lines = [document.line] * len(items)
    for item, line in zip(items, lines, strict=True):
        yield from expand(Document(_typed(item, body, kind), line), lines_of)


_MISSING = object()


def _is_list(kind: str, body: dict[str, Any]) -> bool:
    """Return whether ``body`` is a list; a kind that only ends in List has a name, or no items."""
    if kind == "List":
        return body.get("apiVersion") == "v1"
    metadata = body.get("metadata")
    named = isinstance(metadata, dict) and bool(metadata.get("name"))
    return kind.endswith("List") and not named and isinstance(body.get("items", 0), list | None)


def _typed(item: Any, body: dict[str, Any], kind: str) -> Any:
    if not isinstance(item, dict) or "kind" in item or "apiVersion" in item or kind == "List":
        return item
    return {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
