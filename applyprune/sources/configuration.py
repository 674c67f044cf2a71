"""``applyprune.yaml``: a set's name, input and options in a file beside its manifests.

It looks like an object, and is none: no API server ever serves its kind. So it may lie in a folder
of manifests, which are read without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError
from applyprune.model.manifests import Origin
from applyprune.sources.positions import locate
from applyprune.sources.refusal import Refused
from applyprune.sources.source import shown_path
from applyprune.sources.stream import read_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "applyprune.yaml"
API_VERSION = "applyprune.dev/v1alpha1"
KIND = "Config"

_MAX_BYTES = 2**20
_HINT = f"It begins with apiVersion: {API_VERSION} and kind: {KIND}."


@dataclass(frozen=True, slots=True)
class Configuration:
    """What such a file says, apiVersion and kind left out; ``path`` is fit to be shown."""

    path: str
    settings: Mapping[str, Any] = field(hash=False)
    text: str = field(repr=False)
    line: int = 1

    def origin(self, key: str) -> Origin:
        """Return where a setting stands."""
        line, column = locate(self.text, self.line, [key]) or (self.line, 0)
        return Origin(self.path, 0, line, column)


def is_configuration(data: bytes) -> bool:
    """Return whether a text is such a file: one document, of that very apiVersion and kind."""
    if API_VERSION.encode() not in data:
        return False
    documents = read_documents(data)
    return len(documents) == 1 and _is_ours(getattr(documents[0].content, "value", None))


def read_configuration(path: str) -> Configuration:
    """Return what a file says; raises InputError for one that is no such file."""
    shown = shown_path(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else ""
        raise InputError("cannot be read", where=Origin(shown), why=why or "") from None
    documents = read_documents(data) if len(data) <= _MAX_BYTES else []
    if len(documents) != 1:
        raise InputError("no configuration: one document is one", where=Origin(shown), hint=_HINT)
    content = documents[0].content
    if isinstance(content, Refused):
        where = Origin(shown, 0, content.line)
        raise InputError(content.problem, where=where, hint=content.hint)
    if not _is_ours(content.value):
        where = Origin(shown, 0, content.line)
        raise InputError("no configuration of applyprune", where=where, hint=_HINT)
    settings = {
        key: value for key, value in content.value.items() if key not in {"apiVersion", "kind"}
    }
    return Configuration(shown, settings, data.decode().removeprefix("\ufeff"), content.line)


def _is_ours(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("apiVersion") == API_VERSION
        and value.get("kind") == KIND
    )
