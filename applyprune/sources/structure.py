"""One document → one manifest, or everything that keeps it from being one.

What the API server checks is left to it; here is only what must hold before an object has a path,
and what would go wrong later without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from applyprune.model.manifests import Manifest
from applyprune.model.names import is_dns_label
from applyprune.model.refs import GVK
from applyprune.sources.dialect import shown
from applyprune.sources.naming import is_api_version, is_kind, name_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.manifests import JSONObject, Origin

# What only `kubectl get -o yaml` writes. The first two are guards that a run sets itself: from a
# file they would make the apply fail as soon as the object changes or is created anew. The third
# is refused by the server. To drop them would hide that the file is a copy of a live object, whose
# defaults (clusterIP, nodeName, …) it then claims to own as well: that is for its author to see.
_SET_BY_SERVER = ("uid", "resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a document and where: ``path`` are the keys that lead there.

    ``what`` names fields, keys and types, never a value: it may be a Secret's.
    """

    path: tuple[str, ...]
    what: str
    hint: str = ""


def read_manifest(value: Any, origin: Origin) -> Manifest | list[Fault]:
    """Return the manifest that a document holds, or all of its faults."""
    if not isinstance(value, dict):
        return [Fault((), f"not a Kubernetes object but {_type(value)}")]
    if "apiVersion" not in value and "kind" not in value:
        return [Fault((), "not a Kubernetes object: no apiVersion, no kind", _hint_for(origin))]
    metadata = value.get("metadata")
    faults = [*_type_faults(value), *_metadata_faults(metadata)]
    if faults or not isinstance(metadata, dict):
        return faults
    return Manifest(
        gvk=GVK.parse(value["apiVersion"], value["kind"]),
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        body=_without_noise(value, metadata),
        origin=origin,
    )


def _type_faults(value: JSONObject) -> Iterator[Fault]:
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not _is_text(api_version):
        yield Fault(("apiVersion",), _not_text("apiVersion", api_version))
    elif not is_api_version(api_version):
        what = "apiVersion is not of the form version or group/version"
        yield Fault(("apiVersion",), what)
    elif api_version.startswith("kustomize.config.k8s.io/"):
        yield Fault((), "a kustomization, not an object", _KUSTOMIZE)
    if not _is_text(kind):
        yield Fault(("kind",), _not_text("kind", kind))
    elif not is_kind(kind):
        yield Fault(("kind",), "kind is no name that a kind may have")


def _metadata_faults(metadata: Any) -> Iterator[Fault]:
    if not isinstance(metadata, dict):
        what = (
            "no metadata" if metadata is None else f"metadata is {_type(metadata)}, not a mapping"
        )
        yield Fault(("metadata",), what)
        return
    yield from _name_faults(metadata)
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        what = _not_text("metadata.namespace", namespace)
        yield Fault(("metadata", "namespace"), what, _QUOTE)
    elif namespace and not is_dns_label(namespace):
        what = "metadata.namespace is no name that a namespace may have"
        yield Fault(("metadata", "namespace"), what, _DNS_LABEL)
    yield from _text_map_faults(metadata, "labels")
    yield from _text_map_faults(metadata, "annotations")
    if live := [field for field in _SET_BY_SERVER if metadata.get(field)]:
        what = f"only the server sets {', '.join(f'metadata.{field}' for field in live)}"
        yield Fault(("metadata", live[0]), what, _LIVE)


def _name_faults(metadata: JSONObject) -> Iterator[Fault]:
    name = metadata.get("name")
    if name is None or name == "":
        if metadata.get("generateName"):
            what = "metadata.generateName without metadata.name"
            yield Fault(("metadata", "generateName"), what, _GENERATED)
        else:
            path = ("metadata", "name") if "name" in metadata else ("metadata",)
            yield Fault(path, "no metadata.name")
    elif not isinstance(name, str):
        yield Fault(("metadata", "name"), _not_text("metadata.name", name), _QUOTE)
    elif problem := name_problem(name):
        what = f"metadata.name {problem}, which no name may"
        yield Fault(("metadata", "name"), what)


def _text_map_faults(metadata: JSONObject, field: str) -> Iterator[Fault]:
    texts = metadata.get(field)
    if texts is None:
        return
    if not isinstance(texts, dict):
        yield Fault(("metadata", field), f"metadata.{field} is {_type(texts)}, not a mapping")
        return
    for key, text in texts.items():
        if not isinstance(text, str):
            what = f"metadata.{field}: the value of {shown(key)} is {_type(text)}, not text"
            yield Fault(("metadata", field, key), what, _hint_to_quote(text))


def _without_noise(value: JSONObject, metadata: JSONObject) -> JSONObject:
    """Leave out ``creationTimestamp: null`` and its like: what Go writes for fields not set."""
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
    return f"no {field}" if value in (None, "") else f"{field} is {_type(value)}, not text"


def _type(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "a boolean"
    if value is None:
        return "null"
    return "text" if isinstance(value, str) else "a number"


def _hint_to_quote(value: Any) -> str:
    if value is None:
        return 'Write "" for an empty text.'
    return "" if isinstance(value, dict | list) else _QUOTE


def _hint_for(origin: Origin) -> str:
    return _KUSTOMIZE if "kustomization.y" in origin.path.lower() else ""


_QUOTE = "Quote it: without quotes y, no, on, 1.0 and 0x10 are not text."
_DNS_LABEL = "Lower-case letters, digits and '-', at most 63 of them."
_GENERATED = "Each run would create one more, and none could find it again: give it a name."
_KUSTOMIZE = "Build its folder: applyprune apply NAME -k DIR"
_LIVE = "This is a copy of a live object: take out what the server added, status and defaults too."
