"""Turn a document into a manifest, or into the list of its faults.

The API server checks most rules. This module checks only what an object needs to have a path, and
what would silently go wrong later. Of names, kinds and versions, it rejects only what could change
its meaning in a URL or in a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Any, TypeGuard

from applyprune.model.identity import GVK
from applyprune.model.manifest import JSONObject, Manifest, Origin
from applyprune.model.text.names import DNS_LABEL, is_dns_label
from applyprune.sources.yaml.parser import shown
from applyprune.values import dataclass, packed, pattern

# Fields that only `kubectl get -o yaml` writes. The first two are preconditions that a run sets
# itself: in a file they would make the apply fail as soon as the object changes or is recreated.
# The server rejects the third. It stores the other two, and the object can then never be deleted.
# Dropping them would hide that the file is a copy of a live object: the apply would then also own
# the object's defaults (clusterIP, nodeName, …). The author must see that.
_SET_BY_SERVER = (
    "uid",
    "resourceVersion",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@dataclass(frozen=True, slots=True)
class StructureFault:
    """One fault of a document."""

    path: tuple[str, ...]
    """The keys that lead to the faulty field."""
    what: str
    """The message: it names fields, keys and types, never a value, which may belong to a Secret."""
    hint: str = ""
    """What to do about it; may be empty."""


def read_manifest(value: Any, origin: Origin) -> Manifest | list[StructureFault]:
    """Return the manifest that a document holds, or all of its faults."""
    if not isinstance(value, dict):
        return [StructureFault((), f"expected a Kubernetes object, got {_type(value)}")]
    if "apiVersion" not in value and "kind" not in value:
        return [
            StructureFault((), "not a Kubernetes object: no apiVersion, no kind", _hint_for(origin))
        ]
    metadata = value.get("metadata")
    faults = [*_type_faults(value), *_metadata_faults(metadata)]
    if faults or not isinstance(metadata, dict):
        return faults
    return Manifest(
        gvk=GVK.parse(value["apiVersion"], value["kind"]),
        namespace=intern(metadata.get("namespace") or ""),
        name=metadata["name"],
        packed=packed(_without_noise(value, metadata)),
        origin=origin,
    )


def _type_faults(value: JSONObject) -> Iterator[StructureFault]:
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not _is_text(api_version):
        yield StructureFault(("apiVersion",), _not_text("apiVersion", api_version))
    elif not is_api_version(api_version):
        yield StructureFault(
            ("apiVersion",), "apiVersion must have the form VERSION or GROUP/VERSION"
        )
    elif api_version.startswith("kustomize.config.k8s.io/"):
        yield StructureFault((), "a kustomization, not an object", _KUSTOMIZE)
    if not _is_text(kind):
        yield StructureFault(("kind",), _not_text("kind", kind))
    elif not is_kind(kind):
        yield StructureFault(("kind",), "invalid kind")


def _metadata_faults(metadata: Any) -> Iterator[StructureFault]:
    if not isinstance(metadata, dict):
        message = (
            "no metadata" if metadata is None else f"metadata is {_type(metadata)}, not a mapping"
        )
        yield StructureFault(("metadata",), message)
        return
    yield from _name_faults(metadata)
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        message = _not_text("metadata.namespace", namespace)
        yield StructureFault(("metadata", "namespace"), message, _QUOTE)
    elif namespace and not is_dns_label(namespace):
        yield StructureFault(("metadata", "namespace"), "invalid metadata.namespace", _DNS_LABEL)
    yield from _text_map_faults(metadata, "labels")
    yield from _text_map_faults(metadata, "annotations")
    if live := [field for field in _SET_BY_SERVER if metadata.get(field)]:
        message = f"only the server sets {', '.join(f'metadata.{field}' for field in live)}"
        yield StructureFault(("metadata", live[0]), message, _LIVE)


def _name_faults(metadata: JSONObject) -> Iterator[StructureFault]:
    name = metadata.get("name")
    if name is None or name == "":
        if metadata.get("generateName"):
            message = "metadata.generateName without metadata.name"
            yield StructureFault(("metadata", "generateName"), message, _GENERATED)
        else:
            path = ("metadata", "name") if "name" in metadata else ("metadata",)
            yield StructureFault(path, "no metadata.name")
    elif not isinstance(name, str):
        yield StructureFault(("metadata", "name"), _not_text("metadata.name", name), _QUOTE)
    elif problem := name_problem(name):
        yield StructureFault(("metadata", "name"), f"metadata.name {problem}")


def _text_map_faults(metadata: JSONObject, field: str) -> Iterator[StructureFault]:
    texts = metadata.get(field)
    if texts is None:
        return
    if not isinstance(texts, dict):
        yield StructureFault(
            ("metadata", field), f"metadata.{field} is {_type(texts)}, not a mapping"
        )
        return
    for key, text in texts.items():
        if not isinstance(text, str):
            message = f"metadata.{field}: the value of {shown(key)} is {_type(text)}, not a string"
            yield StructureFault(("metadata", field, key), message, _hint_to_quote(text))


def _without_noise(value: JSONObject, metadata: JSONObject) -> JSONObject:
    """Remove ``creationTimestamp: null`` and the like, which Go writes for unset fields."""
    empty = [
        field for field in ("creationTimestamp", *_SET_BY_SERVER)
        if field in metadata and not metadata[field]
    ]  # fmt: skip
    if not empty:
        return value
    kept = {key: inner for key, inner in metadata.items() if key not in empty}
    return {**value, "metadata": kept}


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def _not_text(field: str, value: Any) -> str:
    return f"no {field}" if value in (None, "") else f"{field} is {_type(value)}, not a string"


def _type(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "a boolean"
    if value is None:
        return "null"
    return "a string" if isinstance(value, str) else "a number"


def _hint_to_quote(value: Any) -> str:
    if value is None:
        return 'Write "" for an empty string.'
    return "" if isinstance(value, dict | list) else _QUOTE


def _hint_for(origin: Origin) -> str:
    return _KUSTOMIZE if "kustomization.y" in origin.path.lower() else ""


_QUOTE = "Quote it: without quotes, y, no, on, 1.0 and 0x10 are not strings."
_DNS_LABEL = "Use lower-case letters, digits and '-', at most 63 characters."
_GENERATED = (
    "Set metadata.name: each run would create another object, and no run could find it again."
)
_KUSTOMIZE = "Build its folder: applyprune apply NAME -k DIR"
_LIVE = "This is a copy of a live object: remove what the server added, also status and defaults."


_API_VERSION = pattern(rf"(?:{DNS_LABEL}(?:\.{DNS_LABEL})*/)?{DNS_LABEL}")
_KIND = pattern(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_LONGEST_API_VERSION = 253 + 1 + 63
# apimachinery's IsValidPathSegmentName forbids the first two; the others would end the path.
_UNSAFE = frozenset("/%?#")


def name_problem(name: str) -> str:
    """Return why ``name`` cannot be in a URL path, to follow ``metadata.name``; "" if it can."""
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return f"cannot be {name!r}"
    for char in name:
        if char in _UNSAFE:
            return f"cannot contain {char!r}"
        if not char.isprintable() or char.isspace():
            return f"cannot contain the character U+{ord(char):04X}"
    return ""


def is_api_version(text: str) -> bool:
    """Return whether ``text`` has the form ``version`` or ``group/version``."""
    return len(text) <= _LONGEST_API_VERSION and _API_VERSION.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Return whether ``text`` can name a kind: a DNS label with capitals."""
    return _KIND.fullmatch(text) is not None
