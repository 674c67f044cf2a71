"""The records of other tools, in the formats that these write."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import GROUP_KINDS, SET_ID, TOOLING, applyset_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from applyprune.model.identity import Ref


def release(
    name: str,
    manifest: str = "",
    *,
    revision: int = 1,
    status: str = "deployed",
    in_config_map: bool = False,
    data: bytes | None = None,
    **content: Any,
) -> dict[str, Any]:
    """Return a revision of a release, as Helm 3 and 4 store it.

    ``content`` is what the release has besides, and ``data`` stands in the place of all of it,
    before the API server encodes it.
    """
    full = {"name": name, "version": revision, "info": {"status": status}, **content}
    if manifest:
        full["manifest"] = manifest
    stored = encoded_release(full) if data is None else data
    labels = {"name": name, "owner": "helm", "status": status, "version": str(revision)}
    metadata = {"name": f"sh.helm.release.v1.{name}.v{revision}", "labels": labels}
    if in_config_map:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"release": stored.decode()}}
    else:
        text = base64.b64encode(stored).decode()
        body = {"apiVersion": "v1", "kind": "Secret", "data": {"release": text}}
        body["type"] = "helm.sh/release.v1"
    return {**body, "metadata": metadata}


def encoded_release(content: Any) -> bytes:
    """Return what Helm stores of a release."""
    return base64.b64encode(gzip.compress(json.dumps(content).encode()))


def kapp_app(name: str, label: str, kinds: Iterable[str] = (), **spec: Any) -> dict[str, Any]:
    """Return the ConfigMap of an app whose objects have a label; each kind is ``Kind.group``."""
    used = [dict(zip(("Kind", "Group"), one.partition(".")[::2], strict=True)) for one in kinds]
    full = {"labelKey": "kapp.k14s.io/app", "labelValue": label, "usedGKs": used, **spec}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"kapp.k14s.io/is-app": ""}},
        "data": {"spec": json.dumps({key: one for key, one in full.items() if one is not None})},
    }


def kapp_identity(namespace: str, group: str, kind: str, name: str) -> dict[str, str]:
    """Return the annotation of an object that kapp has made itself."""
    return {"kapp.k14s.io/identity": f"v1;{namespace}/{group}/{kind}/{name};v1"}


def cli_utils_inventory(name: str, *ids: str) -> dict[str, Any]:
    """Return the ConfigMap that lists objects, each as ``NAMESPACE_NAME_GROUP_KIND``."""
    labels = {"cli-utils.sigs.k8s.io/inventory-id": f"id-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": dict.fromkeys(ids, ""),
    }


def applyset_parent(
    ref: Ref, kinds: str, *, api: str = "v1", annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the parent of an ApplySet as kubectl writes it, with these group-kinds."""
    marks = {TOOLING: "kubectl/v1.36", GROUP_KINDS: kinds, **(annotations or {})}
    labels = {SET_ID: applyset_id(ref)}
    metadata = {"name": ref.name, "labels": labels, "annotations": marks}
    return {"apiVersion": api, "kind": ref.kind, "metadata": metadata}


def kustomization(name: str, *ids: str, **spec: Any) -> dict[str, Any]:
    """Return a Kustomization with what Flux has written into its status."""
    entries = [{"id": one, "v": "v1"} for one in ids]
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"inventory": {"entries": entries}},
    }


def application(
    name: str, *resources: Mapping[str, Any], destination: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return an Application with what Argo CD has written into its status."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name},
        "spec": {"destination": dict(destination or {})},
        "status": {"resources": [dict(one) for one in resources]},
    }
