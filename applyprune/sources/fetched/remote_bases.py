"""Find what a kustomization names outside of its source, before kustomize fetches it.

This is an over-approximation: what is not certainly a file or folder of the source is refused. A
field that this module does not know counts as one that is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from posixpath import normpath
from typing import Any

from applyprune.sources.kustomize import NAMES
from applyprune.sources.yaml.documents import read_documents
from applyprune.sources.yaml.error import YAMLFault
from applyprune.values import dataclass, pattern

# Fields whose texts kustomize never loads.
_HARMLESS = frozenset(
    {
        *("apiVersion", "kind", "metadata", "namePrefix", "nameSuffix", "namespace"),
        *("commonLabels", "commonAnnotations", "labels", "images", "replicas", "vars"),
        *("buildMetadata", "sortOptions", "generatorOptions"),
    }
)
_HARMLESS_IN: Mapping[str, frozenset[str]] = {
    "configMapGenerator": frozenset({"name", "namespace", "literals", "options"}),
    "secretGenerator": frozenset({"name", "namespace", "literals", "options", "type"}),
    "patches": frozenset({"patch", "target", "options"}),
    "patchesJson6902": frozenset({"patch", "target", "options"}),
    "replacements": frozenset({"source", "targets"}),
}
# Fields whose texts are files, or folders that are built.
_BASES = frozenset({"resources", "bases", "components"})
# Fields whose texts are the configuration of a plugin, or the file that holds it.
_PLUGINS = frozenset({"generators", "transformers", "validators"})
# Fields in which a text of several lines is a patch: no address has a line end.
_INLINE = frozenset({"patchesStrategicMerge"})
_ADDRESS = pattern(r"://|https?:|\bgit::|\bgh:|^[^/]*[@:]|^\s*github\.com", re.IGNORECASE)
_URL = pattern(r"://|https?:", re.IGNORECASE)
_HINT = "Copy it into the source, and name it by a relative path."


@dataclass(frozen=True, slots=True)
class RemoteBase:
    """The first thing that a kustomization names outside of its source."""

    file: str
    """The kustomization file, or a file that it names."""
    what: str
    reason: str = ""
    hint: str = _HINT


def remote_base(files: Mapping[str, bytes], folder: str) -> RemoteBase | None:
    """Return what the kustomization in a folder, or one that it includes, names outside of a tree.

    ``files`` are all files of the tree; ``folder`` is empty for its root. A kustomization that this
    program cannot read is such a fault, too. Return None if there is none.
    """
    folders = {parent for name in files for parent in _parents(name)}
    waiting, entered = [folder], {folder}
    while waiting:
        here = waiting.pop()
        for name in NAMES:
            file = f"{here}/{name}" if here else name
            if file not in files:
                continue
            for found in _named(files, folders, file, here):
                if isinstance(found, RemoteBase):
                    return found
                if found not in entered:
                    entered.add(found)
                    waiting.append(found)
    return None


def _parents(name: str) -> Iterator[str]:
    """Yield every folder that a file is in; the root is empty."""
    while name:
        name = name.rpartition("/")[0]
        yield name


def _named(
    files: Mapping[str, bytes], folders: AbstractSet[str], file: str, here: str
) -> Iterator[str | RemoteBase]:
    """Yield the folders that a kustomization file includes, and what it names elsewhere."""
    for document in _values(files[file]):
        if not isinstance(document, dict):
            yield RemoteBase(file, "the kustomization cannot be checked for remote bases", _NO_MAP)
            return
        for key, value in document.items():
            if key in _HARMLESS:
                continue
            for text in _texts(value, _HARMLESS_IN.get(key, frozenset())):
                if key in _BASES:
                    yield from _base(files, folders, file, here, text)
                elif key in _PLUGINS:
                    yield from _plugin(files, file, here, text)
                elif _URL.search(text) and not (key in _INLINE and "\n" in text):
                    yield _remote(file, key)


_NO_MAP = "it is not valid YAML, or not a mapping"


def _base(
    files: Mapping[str, bytes], folders: AbstractSet[str], file: str, here: str, text: str
) -> Iterator[str | RemoteBase]:
    path = _inside(here, text)
    if _ADDRESS.search(text) or path is None:
        yield _remote(file, "a base")
    elif path in folders:
        yield path
    elif path not in files:
        yield RemoteBase(
            file,
            "the kustomization names what the source does not have",
            "remote bases are not fetched",
            "Check the paths in its resources, bases and components.",
        )


def _plugin(
    files: Mapping[str, bytes], file: str, here: str, text: str
) -> Iterator[str | RemoteBase]:
    """Yield the fault of a plugin's configuration: a field of it may be loaded, too."""
    if "\n" in text:
        if _URL.search(text):
            yield _remote(file, "a plugin")
        return
    path = _inside(here, text)
    if _ADDRESS.search(text) or path is None:
        yield _remote(file, "a plugin")
    elif path not in files:
        yield RemoteBase(
            file,
            "a generator, transformer or validator must be a file of the source",
            "what a folder builds cannot be checked for remote bases",
            "Name the file itself.",
        )
    elif any(not isinstance(one, dict) for one in _values(files[path])):
        yield RemoteBase(path, "the file cannot be checked for remote bases", _NO_MAP)
    elif any(_URL.search(one) for one in _texts([*_values(files[path])], frozenset())):
        yield _remote(path, "a plugin")


def _remote(file: str, where: str) -> RemoteBase:
    return RemoteBase(file, "the kustomization names a URL or a remote base", f"it is in {where}")


def _values(data: bytes) -> Iterator[Any]:
    """Yield the value of each document; None for one that cannot be read."""
    for numbered in read_documents(data):
        content = numbered.content
        yield None if isinstance(content, YAMLFault) else content.value


def _texts(value: Any, harmless: frozenset[str]) -> Iterator[str]:
    """Yield every text in a value, keys too, but none of ``harmless`` fields of it or its items."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, harmless)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in harmless:
                yield str(key)
                yield from _texts(item, frozenset())


def _inside(folder: str, text: str) -> str | None:
    """Return the path in the tree that a text means, seen from a folder; None if it leads out."""
    if text.startswith("/") or "\\" in text:
        return None
    path = normpath(f"{folder}/{text}" if folder else text)
    if path == ".." or path.startswith("../"):
        return None
    return "" if path == "." else path
