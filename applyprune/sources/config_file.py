"""Read ``applyprune.yaml``: the name, input and options of a set, in a file beside its manifests.

The file looks like an object, but no API server serves its kind. So it may be in a folder of
manifests: reading the folder skips it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from applyprune.errors import InputError
from applyprune.model.manifest import Origin
from applyprune.sources.source import shown_path
from applyprune.sources.yaml.documents import read_documents
from applyprune.sources.yaml.error import YAMLFault
from applyprune.sources.yaml.locate import locate
from applyprune.values import dataclass, field

FILE = "applyprune.yaml"
API_VERSION = "applyprune.dev/v1alpha1"
KIND = "Config"
SCHEMA_ID = "https://applyprune.dev/schemas/v1alpha1/config.json"
"""The ``$id`` of the file's JSON Schema; a name, which no editor has to fetch."""

_MAX_BYTES = 2**20
_HINT = f"The file must begin with apiVersion: {API_VERSION} and kind: {KIND}."


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of one configuration file."""

    path: str
    """The path, safe to print."""
    settings: Mapping[str, Any] = field(hash=False)
    """The settings, without apiVersion and kind."""
    text: str = field(repr=False)
    """The text of the file."""
    line: int = 1
    """The line in which the document begins, from 1."""

    def origin(self, key: str) -> Origin:
        """Return the place of a setting in the file."""
        line, column = locate(self.text, self.line, [key]) or (self.line, 0)
        return Origin(self.path, 0, line, column)


def is_schema(data: bytes) -> bool:
    """Return whether ``data`` is the JSON Schema that ``applyprune init`` writes beside a file."""
    if SCHEMA_ID.encode() not in data:
        return False
    try:
        value = json.loads(data)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("$id") == SCHEMA_ID and "kind" not in value


def is_configuration(data: bytes) -> bool:
    """Return whether ``data`` is a configuration: one document with this apiVersion and kind."""
    if API_VERSION.encode() not in data:
        return False
    documents = read_documents(data)
    return len(documents) == 1 and _is_ours(getattr(documents[0].content, "value", None))


def read_configuration(path: str) -> Configuration:
    """Return the configuration in a file.

    Raises InputError when the file cannot be read or is not a configuration.
    """
    shown = shown_path(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else ""
        raise InputError("cannot be read", location=Origin(shown), reason=reason or "") from None
    documents = read_documents(data) if len(data) <= _MAX_BYTES else []
    if len(documents) != 1:
        raise InputError("expected a single YAML document", location=Origin(shown), hint=_HINT)
    content = documents[0].content
    if isinstance(content, YAMLFault):
        where = Origin(shown, 0, content.line)
        raise InputError(content.problem, location=where, hint=content.hint)
    if not _is_ours(content.value):
        where = Origin(shown, 0, content.line)
        raise InputError("not an applyprune configuration", location=where, hint=_HINT)
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
