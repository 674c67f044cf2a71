"""Which paths a folder consists of for kustomize: the folder, and every path that its files name.

Any string that could be a path counts as one. Too many paths cost a reconcile more than is needed;
one too few would miss a change.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from applyprune.sources.kustomize import NAMES
from applyprune.sources.yaml.documents import read_documents
from applyprune.sources.yaml.parser import Document
from applyprune.values import dataclass, pattern

ROOT = ""
_PLUGINS = frozenset({"generators", "transformers", "validators"})
_LOADED = frozenset({"resources", "bases", "components", "crds", "configurations"}) | _PLUGINS
_FILES = frozenset({"path", "files", "envs", "env", "patchesStrategicMerge", "schema"})
_HELM = frozenset({"helmCharts", "helmChartInflationGenerator", "helmGlobals"})
_REMOTE = pattern(
    r"\w[\w+.-]*://|git::|[\w.-]+@[\w.-]+:|github\.com[/:]|.*\?(?:.*&)?(?:ref|version)="
    r"|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?::\d+)?/\S*//",
    re.IGNORECASE,
)
_WORDS = pattern(r"[^\s\"'`,;=\[\]{}()<>|&]+")
_LONGEST = 4096
_MOST_PATHS = 5_000


class Tree(Protocol):
    """The files and folders of a commit."""

    def kind(self, path: str) -> str | None:
        """Return ``blob`` for a regular file, ``tree`` for a folder; None if neither exists."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a regular file; None if it cannot be read."""


@dataclass(frozen=True, slots=True)
class Included:
    """What a folder consists of."""

    paths: tuple[str, ...]
    """Sorted, with the folder itself; only the root if it cannot be determined."""
    remote: tuple[str, ...] = ()
    """The kustomization files that name something on another host, each with what it names."""
    is_build: bool = False
    """Whether the folder has a kustomization."""


def included(folder: str, tree: Tree) -> Included:
    """Return what a folder of a commit consists of, and whether it names something remote."""
    if not _kustomizations(folder, tree):
        return Included((folder,))
    finder = _Finder(tree)
    finder.enter(folder)
    while finder.waiting and not finder.is_unknown:
        finder.scan(finder.waiting.pop())
    paths = {ROOT} if finder.is_unknown else finder.paths
    outer = tuple(sorted(path for path in paths if not _is_inside(path, paths)))
    return Included(outer, tuple(sorted(set(finder.remote))), is_build=True)


class _Finder:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.paths: set[str] = set()
        self.waiting: list[str] = []
        self.remote: list[str] = []
        self.is_unknown = False

    def enter(self, folder: str) -> None:
        """Include a folder, and scan its kustomization later."""
        if folder in self.paths:
            return
        self.paths.add(folder)
        self.waiting.append(folder)
        self.is_unknown = self.is_unknown or len(self.paths) > _MOST_PATHS

    def scan(self, folder: str) -> None:
        """Include what the kustomization of a folder names."""
        for file in _kustomizations(folder, self._tree):
            body = _parse(self._tree.read(file))
            if body is None:
                self.is_unknown = True
                return
            if _HELM & body.keys():
                # Charts lie below a folder that another option may name, or on another host.
                self.is_unknown = True
            for key, text in _strings(body):
                self._name(folder, file, key, text)

    def _name(self, folder: str, file: str, key: str, text: str) -> None:
        found = False
        for candidate in _candidates(text):
            found = self._include(folder, candidate, is_plugin=key in _PLUGINS) or found
        is_loaded = key in _LOADED | _FILES and "\n" not in text.strip()
        value = text.strip()
        if is_loaded and not found and any(map(_REMOTE.match, (value, value.partition("=")[2]))):
            self.remote.append(f"{file}: {_without_login(value)}")

    def _include(self, folder: str, name: str, *, is_plugin: bool) -> bool:
        """Include what a name means in a folder; return whether it exists."""
        if len(name) > _LONGEST or name.startswith("/") or not name.isprintable():
            return False
        path = posixpath.normpath(posixpath.join(folder, name))
        if path == ".." or path.startswith("../"):
            self.is_unknown = True
            return False
        path = ROOT if path == "." else path
        kind = self._tree.kind(path)
        if kind == "tree":
            # An ancestor cannot be built from here, and a name such as . says nothing.
            if path != folder:
                self.enter(path)
        elif kind == "blob":
            self.paths.add(path)
            if is_plugin:
                self._plugin(folder, path)
        return kind is not None

    def _plugin(self, folder: str, path: str) -> None:
        """Include what the file of a generator or transformer names, from the folder's view."""
        data = self._tree.read(path)
        if data is None:
            self.is_unknown = True
            return
        for word in _WORDS.findall(data.decode("utf-8", "replace")):
            self._include(folder, word, is_plugin=False)


def _is_inside(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is inside one of the folders, and not that folder itself."""
    while path:
        path = posixpath.dirname(path)
        if path in folders:
            return True
    return False


def _kustomizations(folder: str, tree: Tree) -> list[str]:
    paths = [posixpath.join(folder, name) for name in NAMES]
    return [path for path in paths if tree.kind(path) == "blob"]


def _candidates(text: str) -> Iterator[str]:
    """Yield what of a string could be a path: all of it, a value after a key, each word."""
    text = text.strip()
    if "\n" in text:
        # A patch or a generator in the text, or a list in one string.
        for line in text.splitlines():
            yield line.strip().removeprefix("- ").strip()
        yield from _WORDS.findall(text)
    elif text:
        yield text
        key, equals, value = text.partition("=")
        if equals:
            yield from (part for part in (key.strip(), value.strip()) if part)


def _strings(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a value, with the nearest key above it."""
    waiting: list[tuple[str, Any]] = [(key, value)]
    while waiting:
        above, one = waiting.pop()
        if isinstance(one, str):
            yield above, one
        elif isinstance(one, Mapping):
            waiting += [
                (above if above in _PLUGINS else str(name), inner) for name, inner in one.items()
            ]
        elif isinstance(one, list):
            waiting += [(above, inner) for inner in one]


def _parse(data: bytes | None) -> Mapping[str, Any] | None:
    """Return the mapping in a kustomization file; None if it cannot be read."""
    if data is None:
        return None
    found: dict[str, Any] = {}
    for document in read_documents(data):
        value = document.content.value if isinstance(document.content, Document) else None
        if not isinstance(value, Mapping):
            return None
        # kustomize reads the first document only; its names in the others are too many, not wrong.
        found[f"{document.number}"] = value
        found.update(dict.fromkeys(_HELM & value.keys(), True))
    return found or None


def _without_login(text: str) -> str:
    """Return a remote base without what may be a credential."""
    bare = text.partition("?")[0]
    scheme, separator, rest = bare.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"[:200]
