"""Find, read and merge kubeconfig files by kubectl's rules."""

from __future__ import annotations

import base64
import binascii
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scanner import ScannerError

from applyprune.errors import AccessError
from applyprune.system.files import in_home
from applyprune.values import dataclass, field

T = TypeVar("T")

# How YAML spells null and true; every scalar is read as text.
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_YES = frozenset({"true", "yes", "on", "y", "1", "t"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One named cluster, user or context."""

    name: str
    fields: Mapping[str, Any] = field(repr=False)
    base: Path
    """The folder at which its relative paths start."""

    def text(self, key: str) -> str:
        """Return a text field; empty when it is missing or null."""
        value = self.fields.get(key, "")
        if not isinstance(value, str):
            raise _malformed(self.name, f"{key} must be text")
        return "" if value in _NOTHING else value

    def flag(self, key: str) -> bool:
        """Return a boolean field; false when it is missing."""
        return self.text(key).lower() in _YES

    def path(self, key: str) -> Path | None:
        """Return a field with the path of a file, made absolute."""
        value = self.text(key)
        return self.base / value if value else None

    def data(self, key: str) -> bytes:
        """Return a base64 field as bytes; empty when it is missing."""
        try:
            return base64.b64decode("".join(self.text(key).split()), validate=True)
        except (binascii.Error, ValueError):
            raise _malformed(self.name, f"{key} is not base64") from None

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; empty when it is missing or null."""
        return self._list(key, str, "texts")

    def items(self, key: str) -> list[Mapping[str, Any]]:
        """Return a list of mappings; empty when it is missing or null."""
        return self._list(key, dict, "mappings")

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """Return a mapping; None when it is missing or null."""
        value = self.fields.get(key, "")
        if isinstance(value, str) and value in _NOTHING:
            return None
        if not isinstance(value, dict):
            raise _malformed(self.name, f"{key} must be a mapping")
        return value

    def _list(self, key: str, kind: type[T], kinds: str) -> list[T]:
        value = self.fields.get(key, [])
        if isinstance(value, str) and value in _NOTHING:
            return []
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise _malformed(self.name, f"{key} must be a list of {kinds}")
        return value


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Kubeconfig files merged into one: for each name, the first file that has it wins."""

    files: tuple[Path, ...] = ()
    current_context: str = ""
    clusters: Mapping[str, Entry] = field(default_factory=dict)
    users: Mapping[str, Entry] = field(default_factory=dict)
    contexts: Mapping[str, Entry] = field(default_factory=dict)


def candidate_files(kubeconfig: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files to read: the option's, else those in ``KUBECONFIG``, else the default.

    The option's file is the only one and must exist; raises AccessError.
    """
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.exists():
            raise AccessError(
                "the kubeconfig file does not exist",
                location=kubeconfig,
                hint="--kubeconfig names exactly one file, and it must exist.",
            )
        return (path,)
    if listed := environ.get("KUBECONFIG"):
        # Even if it names no file, as ":" does, the default is not used.
        parts = [part for part in listed.split(os.pathsep) if part]
        return tuple(dict.fromkeys(Path(part) for part in parts))
    file = in_home(environ, ".kube", "config")
    return (file,) if file else ()


def load(paths: Iterable[Path]) -> Kubeconfig:
    """Read the files that exist and merge them; raises AccessError for an invalid one."""
    files: list[Path] = []
    current = ""
    merged: dict[str, dict[str, Entry]] = {"clusters": {}, "users": {}, "contexts": {}}
    for path in paths:
        content = _read(path)
        if content is None:
            continue
        files.append(path)
        whole = Entry(str(path), content, path.absolute().parent)
        current = current or whole.text("current-context")
        for section, kind in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in _entries(whole, section, kind):
                merged[section].setdefault(entry.name, entry)
    return Kubeconfig(
        tuple(files), current, merged["clusters"], merged["users"], merged["contexts"]
    )


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file, every scalar as text; None when it does not exist."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AccessError(
            "cannot read the kubeconfig", location=str(path), reason=error.strerror or ""
        ) from None
    try:
        content = _parsed(raw)
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        # The parser's own message may quote a value, and values here are tokens.
        raise AccessError(
            "the kubeconfig is not valid YAML", location=str(path), reason=_problem(error)
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _malformed(str(path), "it must be a mapping")
    return content


def _parsed(raw: bytes) -> Any:
    """Parse one YAML document, every scalar as text."""
    try:
        return YAML(typ="base").load(raw)
    except ScannerError:
        # The C parser is older than YAML 1.2: it refuses ``{server: https://host}``.
        return YAML(typ="base", pure=True).load(raw)


def _problem(error: Exception) -> str:
    if not isinstance(error, MarkedYAMLError):
        return ""
    problem = "duplicate key" if isinstance(error, DuplicateKeyError) else error.problem
    line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
    return ": ".join(part for part in (line, problem) if part)


def _entries(whole: Entry, section: str, kind: str) -> list[Entry]:
    """Return the entries of ``clusters``, ``users`` or ``contexts`` of one file."""
    items = whole.fields.get(section, [])
    if isinstance(items, str) and items in _NOTHING:
        return []
    entries = []
    for item in items if isinstance(items, list) else [items]:
        named = Entry(f"{whole.name}: {section}", item, whole.base) if _is_named(item) else None
        if named is None:
            raise _malformed(whole.name, f"{section} must be a list of mappings with a name")
        entries.append(Entry(item["name"], named.mapping(kind) or {}, whole.base))
    times = Counter(entry.name for entry in entries)
    if twice := next((name for name, count in times.items() if count > 1), None):
        hint = "kubectl refuses this too: remove one of the two."
        raise _malformed(whole.name, f"{section} has {twice!r} twice", hint)
    return entries


def _is_named(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str) and bool(item["name"])


def _malformed(location: str, reason: str, hint: str = "") -> AccessError:
    return AccessError("the kubeconfig is malformed", location=location, reason=reason, hint=hint)
