"""Read a Bundle's source, as the Bundle's ServiceAccount, into manifests and a revision.

The revision never contains a Secret's value, not even as a digest. For a Secret among the
manifests only its keys count, and for a source in a Secret only its resourceVersion.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.controller.bundle import Bundle
from applyprune.controller.clusters.kubeconfig_secret import kubeconfig_ref
from applyprune.controller.fetching.source_request import SourceMissing, secret_refs
from applyprune.controller.source_spec import SourceRef
from applyprune.errors import InputError, NotFound, raise_all
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.manifest import Manifest
from applyprune.model.resources import CONFIG_MAPS, SECRETS, Resource
from applyprune.planning.fields.ignore_rule import IgnoreRule
from applyprune.planning.fields.normalize import digest, manifest_digest
from applyprune.planning.ownership.ignored_fields import with_ignored_fields
from applyprune.sources.load import read_source, text_of
from applyprune.sources.tree import Source as Text
from applyprune.sources.yaml import Allowance
from applyprune.values import dataclass, packed, replace

if TYPE_CHECKING:
    from applyprune.controller.fetching.fetch_task import SourceState
    from applyprune.engine.ports import Cluster

MOST_MEMORY = 64 * 2**20
"""Bytes for all values of one source: other Bundles are reconciled in the same process."""
MOST_ERRORS = 100
Uses = dict[Ref, str]


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """The content of a source: its manifests and their revision."""

    manifests: tuple[Manifest, ...]
    revision: str
    version: str = ""
    """A digest that changes with every write of the source; empty if no manifest is a Secret.

    The revision does not show that a value of a Secret has changed.
    """
    state: SourceState | None = None
    """What it was read of, if its source is on another host."""


@dataclass(frozen=True, slots=True)
class FetchedTexts:
    """The texts of a source on another host."""

    texts: Sequence[Text]
    revision: str
    content: str
    """What changes with the content."""


def used_refs(bundle: Bundle) -> tuple[tuple[Resource, Ref], ...]:
    """Return the ConfigMaps and Secrets that a Bundle's source is read from."""
    source = bundle.spec.source
    kinds = ((CONFIG_MAPS, source.config_map_refs), (SECRETS, source.secret_refs))
    return tuple(
        (resource, Ref(resource.group, resource.kind, bundle.namespace, ref.name))
        for resource, refs in kinds
        for ref in refs
    )


def watched_refs(bundle: Bundle) -> tuple[tuple[Resource, Ref], ...]:
    """Return what a Bundle is read from in its own cluster: its source, Secrets and kubeconfig."""
    kubeconfig = kubeconfig_ref(bundle)
    secrets = (*secret_refs(bundle), *(() if kubeconfig is None else (kubeconfig,)))
    return (*used_refs(bundle), *((SECRETS, ref) for ref in secrets))


def load_source(
    bundle: Bundle, cluster: Cluster, uses: Uses, fetched: FetchedTexts | None
) -> LoadedSource:
    """Read a Bundle's source; the resourceVersion of each object read goes into ``uses``.

    It is empty for an object that does not exist. ``fetched`` is what was read from another host;
    None if the manifests are in the cluster. Raises SourceMissing, InputError for an invalid
    manifest, and AccessError.
    """
    source = bundle.spec.source
    if fetched is not None:
        texts = fetched.texts
    elif source.inline is not None:
        texts = [Text("spec.source.inline", source.inline.encode("utf-8", "replace"))]
    else:
        lives = _lives(bundle, cluster, uses)
        refs = (*source.config_map_refs, *source.secret_refs)
        texts = [text for ref, live in zip(refs, lives, strict=True) for text in _texts(ref, live)]
    manifests = _manifests(texts, bundle.ignore_rules)
    if fetched is not None:
        version = digest([bundle.generation, fetched.content])
        is_secret = any(one.gvk.group_kind == SECRETS.group_kind for one in manifests)
        return LoadedSource(manifests, fetched.revision, version if is_secret else "")
    if bundle.has_secret_source:  # guard: secret-revision
        content: object = sorted((ref.name, version) for ref, version in uses.items())
    else:
        content = [[manifest.namespace, manifest_digest(manifest.body)] for manifest in manifests]
    revision = f"sha256:{digest(content)}"
    version = ""
    if any(manifest.gvk.group_kind == SECRETS.group_kind for manifest in manifests):
        read = sorted((ref.kind, ref.name, version) for ref, version in uses.items())
        version = digest([bundle.generation, read])
    return LoadedSource(manifests, revision, version)


def _lives(bundle: Bundle, cluster: Cluster, uses: Uses) -> Sequence[LiveObject]:
    found = []
    missing = []
    for resource, ref in used_refs(bundle):
        try:
            live = cluster.get(resource, ref, full=True)
        except NotFound:
            uses[ref] = ""
            missing.append(f"{ref.short} does not exist")
            continue
        uses[ref] = live.resource_version
        found.append(live)
    if missing:
        raise SourceMissing("the source is incomplete", reason="; ".join(missing))
    return found


def _texts(ref: SourceRef, live: LiveObject) -> Iterator[Text]:
    """Yield the value of each selected key, in order."""
    body = live.body or {}
    values = {**(body.get("data") or {}), **(body.get("binaryData") or {})}
    encoded = values if live.ref.kind == SECRETS.kind else body.get("binaryData") or {}
    for key in ref.keys or sorted(values):
        if key not in values:
            raise SourceMissing(
                "the source is incomplete", reason=f"{live.ref.short} has no key {key!r}"
            )
        yield Text(
            f"{live.ref.short}[{key}]", _bytes(values[key], encoded=key in encoded, where=live.ref)
        )


def _bytes(value: object, *, encoded: bool, where: Ref) -> bytes:
    if not encoded:
        return str(value).encode("utf-8", "replace")
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where.short} has a value that is not base64") from None


def _manifests(texts: Sequence[Text], rules: Sequence[IgnoreRule]) -> tuple[Manifest, ...]:
    manifests: list[Manifest] = []
    errors: list[InputError] = []
    allowance = Allowance(MOST_MEMORY, MOST_ERRORS)
    for text in texts:
        for found in read_source(text, text_of(text), allowance):
            if isinstance(found, Manifest):
                manifests.append(_ignoring(found, rules))
            else:
                errors.append(found)
    raise_all(errors)
    return tuple(manifests)


def _ignoring(manifest: Manifest, rules: Sequence[IgnoreRule]) -> Manifest:
    """Return a manifest with the annotation that lists the fields left to other managers.

    So anyone who reads the object sees why the set does not own a field.
    """
    kind, name = manifest.gvk.group_kind, manifest.name
    pointers = [rule.pointer for rule in rules if rule.matches(kind, name)]
    if not pointers:
        return manifest
    return replace(manifest, packed=packed(with_ignored_fields(manifest.body, pointers)))
