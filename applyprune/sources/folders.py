"""Which files of a folder are manifests, how a pattern expands, and our own configuration file.

A folder is read recursively: every file that ends in .yaml, .yml or .json, also in capitals, and
also hidden files (a skipped file would one day prune the objects in it), but for those that a rule
leaves out (``source_ignore``). What cannot be read never counts as empty.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from fnmatch import translate
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.problem import Origin
from applyprune.sources.documents import read_documents, text_in, utf8
from applyprune.sources.excerpt import lines_of, locate
from applyprune.sources.kustomize import NAMES
from applyprune.sources.moment import not_regular, read_at_once
from applyprune.sources.source_ignore import IgnoreRulesInvalid
from applyprune.sources.tree import PathNotFound, SourceText, shown_path
from applyprune.sources.yaml import YAMLFault
from applyprune.values import hiding, pattern

SUFFIXES = (".yaml", ".yml", ".json")
"""The suffixes of manifests in a folder; a file that is named explicitly may have any suffix."""
P = TypeVar("P", bound=PurePath)


def is_manifest_name(name: str) -> bool:
    """Return whether a file of this name or path in a folder is read; B.YAML is one, too."""
    return name.lower().endswith(SUFFIXES)


def find(folders: Folders[P], top: P, *, is_named: bool = True) -> Iterator[Found[P]]:
    """Yield what is to be read or built at a path and below it, in order, and the errors.

    ``is_named`` is false for a path that a pattern has found.
    """
    try:
        yield from _found(folders, top, is_named=is_named)
    except IgnoreRulesInvalid as error:
        yield error


def _found(folders: Folders[P], top: P, *, is_named: bool) -> Iterator[Found[P]]:
    try:
        kind = folders.kind(top)
        if kind is Kind.FOLDER and folders.kustomization(top) is not None:
            yield FoundKustomization(top)
            return
    except (OSError, ValueError) as error:
        yield unreadable(folders.shown(top), error)
        return
    if kind is Kind.FOLDER:
        yield from _walk(folders, top)
    elif top.name in NAMES:
        yield InputError(
            "a kustomization is not a manifest",
            location=Origin(folders.shown(top)),
            hint=folders.build_hint(top.parent),
        )
    elif rule := folders.rule_for(top):
        yield ignored_path(folders.shown(top), rule) if is_named else FoundIgnored(top, rule)
    elif is_named or kind is Kind.FILE:
        yield FoundFile(top, is_named)
    else:
        yield not_regular(folders.shown(top))


class FoundFile(Struct, Generic[P], frozen=True):
    """A file to read."""

    path: P
    is_named: bool
    """Whether the user named it; otherwise it was found in a folder or by a pattern."""


class FoundKustomization(Struct, Generic[P], frozen=True):
    """A folder to build."""

    folder: P


class FoundIgnored(Struct, Generic[P], frozen=True):
    """A file that would be read, if a rule did not leave it out."""

    path: P
    rule: str
    """``the rule *.yaml in .sourceignore``."""


Found: TypeAlias = "FoundFile[P] | FoundKustomization[P] | FoundIgnored[P] | InputError"


def ignored_path(shown: str, rule: str) -> PathNotFound:
    """Return the error for a path that is named, and has nothing that is not ignored."""
    return PathNotFound(
        "it is ignored",
        location=Origin(shown),
        reason=f"by {rule}",
        hint="What is ignored is not a part of the source. Take it back with a rule that begins "
        "with an exclamation mark, or name another path.",
    )


class Folders(Protocol[P]):
    """What this module needs of a file system, or of the files of a fetched source."""

    def kind(self, path: P) -> Kind:
        """Return what a path leads to; raise OSError or ValueError."""

    def children(self, folder: P) -> Iterable[P]:
        """Return the paths in a folder, in any order; raise OSError or InputError."""

    def kustomization(self, folder: P) -> P | None:
        """Return the kustomization file of a folder, None if it has none; raise OSError.

        One that is ignored does not count.
        """

    def rule_for(self, file: P) -> str:
        """Return the rule that leaves out a file, empty if none does; raise IgnoreRulesInvalid."""

    def identity(self, folder: P) -> str:
        """Return a text that is equal for two paths to the same folder."""

    def shown(self, path: P) -> str:
        """Return a path, safe to print."""

    def build_hint(self, folder: P) -> str:
        """Return what to do to have the kustomization in a folder built."""

    def nested_hint(self, folder: P) -> str:
        """Return what to do about a kustomization further down."""


class Kind(Enum):
    """What a path leads to."""

    FOLDER = auto()
    FILE = auto()
    OTHER = auto()
    """A pipe, a device: reading it may never end."""


def _walk(folders: Folders[P], top: P) -> Iterator[FoundFile[P] | FoundIgnored[P] | InputError]:
    """Yield the manifests in a folder and below it, sorted by name within each folder."""
    entered: set[str] = set()
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            kind = folders.kind(path)
            if kind is Kind.FOLDER:
                if (identity := folders.identity(path)) in entered:
                    continue
                entered.add(identity)
                if (kustomization := folders.kustomization(path)) is not None:
                    yield _nested(folders, kustomization, top)
                    continue
                waiting += sorted(
                    folders.children(path), key=lambda child: child.name, reverse=True
                )
                continue
        except OSError as error:
            # A broken link may have led to a manifest, or to a folder of manifests.
            # Who could be a folder may have files that a rule takes back.
            if not (is_manifest_name(path.name) and folders.rule_for(path)):
                yield unreadable(folders.shown(path), error)
            continue
        except IgnoreRulesInvalid:
            raise
        except InputError as error:
            yield error
            continue
        if is_manifest_name(path.name):
            yield from _found_below(folders, path, kind)


def _found_below(
    folders: Folders[P], path: P, kind: Kind
) -> Iterator[FoundFile[P] | FoundIgnored[P] | InputError]:
    rule = folders.rule_for(path)
    if kind is Kind.FILE:
        yield FoundIgnored(path, rule) if rule else FoundFile(path, is_named=False)
    elif not rule:
        yield not_regular(folders.shown(path))


def _nested(folders: Folders[P], kustomization: P, top: P) -> InputError:
    return InputError(
        f"found a kustomization in a subfolder of {folders.shown(top)}",
        location=Origin(folders.shown(kustomization)),
        reason="it may be meant to be built, or to be the base of another build",
        hint=folders.nested_hint(kustomization.parent),
    )


def unreadable(shown: str, error: OSError | ValueError) -> InputError:
    """Return the error for a path that the system cannot read; ``shown`` is safe to print."""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError("cannot be read", location=Origin(shown), reason=reason or "")


def manifests_in(
    shown: str, data: bytes, *, is_named: bool, config_hint: str = ""
) -> SourceText | InputError | None:
    """Return the content of a file as input; None for our own configuration or its schema.

    ``shown`` is the file's path, safe to print. A file that the user named is never skipped.
    """
    if is_schema(data) and not is_named:
        return None
    if not is_configuration(data):
        return SourceText(shown, data)
    if not is_named:
        return None
    return InputError(
        "an applyprune configuration is not a manifest", location=Origin(shown), hint=config_hint
    )


# Expand a pattern into paths, as a shell does.
#
# As in a shell, only a pattern that begins with a dot matches a name that begins with a dot, and
# ``**`` matches any number of folders. Python's ``glob`` treats a folder that cannot be read as
# empty, so the objects in it would be pruned; here that is an error.


_MAGIC = pattern(r"[*?[]")


def is_pattern(path: str) -> bool:
    """Return whether a path has ``*``, ``?`` or ``[``, and no file has exactly that name."""
    return _MAGIC.search(path) is not None and not os.path.lexists(path)


Names: TypeAlias = Callable[[str], Sequence[str]]


def expand_pattern(pattern: str, names: Names = os.listdir) -> list[str]:
    """Return the paths that match, sorted; raises OSError for a folder that cannot be read.

    ``names`` returns the names in a folder.
    """
    root = "/" if pattern.startswith("/") else ""
    parts = [part for part in pattern.split("/") if part]
    return sorted(dict.fromkeys(_matches(root, parts, frozenset(), names)))


def _matches(
    folder: str, parts: Sequence[str], above: frozenset[str], names: Names
) -> Iterator[str]:
    """Yield the paths in a folder that match ``parts``; ``above`` are the folders ``**`` is in."""
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _at_any_depth(folder, parts, above, names)
    elif not _MAGIC.search(part):
        path = _join(folder, part)
        if _is_there(folder, path, names):
            yield from _matches(path, rest, above, names)
    else:
        fits = _glob(part)
        for name in _names(folder, names):
            if fits(name) and (part.startswith(".") or not name.startswith(".")):
                yield from _matches(_join(folder, name), rest, above, names)


@lru_cache(maxsize=256)  # to make an expression of a pattern takes longer than to match it
def _glob(part: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(part)).match


def _at_any_depth(
    folder: str, parts: Sequence[str], above: frozenset[str], names: Names
) -> Iterator[str]:
    """Yield the paths that match ``parts``, which begins with ``**``; follow links, not cycles."""
    rest = parts[1:]
    real = os.path.realpath(folder)
    if real in above:
        return
    if rest:
        yield from _matches(folder, rest, above, names)
    for name in _names(folder, names):
        path = _join(folder, name)
        if name.startswith("."):
            continue
        if _is_folder(path):
            yield from _at_any_depth(path, parts, above | {real}, names)
        elif not rest:
            yield path


def matches_pattern(pattern: str, path: str, kind: str | None) -> bool:
    """Return whether a path of a commit matches, as ``expand_pattern`` finds paths of a machine.

    ``kind`` is ``tree`` for a folder.
    """
    return _fits(pattern.split("/"), path.split("/"), is_folder=kind == "tree")


def _fits(parts: Sequence[str], names: Sequence[str], *, is_folder: bool) -> bool:
    if not parts or not names:
        return not parts and not names
    part, name = parts[0], names[0]
    is_hidden = name.startswith(".") and not part.startswith(".")
    if part != "**":
        fits = not is_hidden and _glob(part)(name) is not None
        return fits and _fits(parts[1:], names[1:], is_folder=is_folder)
    if not parts[1:]:
        return not is_folder and not any(one.startswith(".") for one in names)
    return _fits(parts[1:], names, is_folder=is_folder) or (
        not is_hidden and _fits(parts, names[1:], is_folder=is_folder)
    )


def _is_there(folder: str, path: str, names: Names) -> bool:
    """Return whether a folder has a path; raises OSError if unknown."""
    try:
        os.lstat(path)
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        # A broken link to a folder has no entries either: then the answer is unknown.
        os.stat(folder or ".")  # noqa: PTH116
        # So that the folder counts as read: what is missing may come.
        names(folder or ".")
        return os.path.lexists(path)
    return True


def _is_folder(path: str) -> bool:
    """Return whether a path is a folder; raises OSError if unknown.

    A broken link may have led to a folder.
    """
    return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116


def _join(folder: str, name: str) -> str:
    # Not a Path: the pattern's own ./ and ../ stay as the user wrote them.
    return os.path.join(folder, name)  # noqa: PTH118


def _names(folder: str, names: Names) -> Sequence[str]:
    try:
        return names(folder or ".")
    except NotADirectoryError:
        return ()


# ``applyprune.yaml``: the name, input and options of a set, in a file beside its manifests.
#
# The file looks like an object, but no API server serves its kind. So it may be in a folder of
# manifests: reading the folder skips it.


FILE = "applyprune.yaml"
API_VERSION = "applyprune.dev/v1alpha1"
KIND = "Config"
SCHEMA_ID = "https://applyprune.dev/schemas/v1alpha1/config.json"
"""The ``$id`` of the file's JSON Schema; a name, which no editor has to fetch."""
_MAX_BYTES = 2**20
_READ_AS = frozenset({"true", "false", "null"})
_WRITTEN = pattern(r"\w+")
_HINT = f"The file must begin with apiVersion: {API_VERSION} and kind: {KIND}."


class Configuration(Struct, frozen=True):
    """The content of one configuration file."""

    path: str
    """The path, safe to print."""
    settings: Mapping[str, Any]
    """The settings, without apiVersion and kind."""
    text: str
    """The text of the file."""
    line: int = 1
    """The line in which the document begins, from 1."""

    __repr__ = hiding("text")

    def __hash__(self) -> int:
        return hash((self.path, self.line))

    def origin(self, key: str) -> Origin:
        """Return the place of a setting in the file."""
        line, column = locate(self.text, self.line, [key]) or (self.line, 0)
        return Origin(self.path, 0, line, column)

    def written(self, key: str) -> str:
        """Return a key as the file has it: YAML reads ``yes`` as true."""
        place = self.origin(key)
        line = lines_of(self.text)[place.line - 1][max(0, place.column - 1) :]
        found = _WRITTEN.match(line) if key in _READ_AS else None
        return found[0] if found else key


def read_configuration(path: str, *, is_named: bool = True) -> Configuration:
    """Return the configuration in a file; only one that the user has named may be a pipe.

    Raises InputError when the file cannot be read or is not a configuration.
    """
    shown = shown_path(path)
    try:
        data = read_at_once(Path(path), _MAX_BYTES + 1, waits=is_named)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else ""
        raise InputError("cannot be read", location=Origin(shown), reason=reason or "") from None
    return configuration_in(shown, data)


def configuration_in(shown: str, data: bytes) -> Configuration:
    """Return the configuration in what was read of a file; raise InputError for anything else."""
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
    return Configuration(shown, settings, text_in(data), content.line)


def is_configuration(data: bytes) -> bool:
    """Return whether ``data`` is a configuration: one document with this apiVersion and kind."""
    if API_VERSION.encode() not in utf8(data):
        return False
    documents = read_documents(data)
    return len(documents) == 1 and _is_ours(getattr(documents[0].content, "value", None))


def holds_objects(data: bytes) -> bool:
    """Return whether ``data`` has only objects, so that it is a manifest of whatever name."""
    values = [getattr(one.content, "value", None) for one in read_documents(data)]
    return bool(values) and all(
        isinstance(value, dict)
        and isinstance(value.get("kind"), str)
        and isinstance(version := value.get("apiVersion"), str)
        and not (value["kind"] == KIND and version.startswith("applyprune.dev/"))
        for value in values
    )


def _is_ours(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.get("apiVersion") == API_VERSION
        and value.get("kind") == KIND
    )


def is_schema(data: bytes) -> bool:
    """Return whether ``data`` is the JSON Schema that ``applyprune init --schema`` writes."""
    if SCHEMA_ID.encode() not in utf8(data):
        return False
    try:
        value = json.loads(text_in(data))
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("$id") == SCHEMA_ID and "kind" not in value
