"""The contents of the cluster, as plain requests see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from applyprune.planning.applyset import PART_OF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.api import Api

Body: TypeAlias = dict[str, Any]

KINDS: Mapping[str, str] = {"configmap": "configmaps", "service": "services"}
"""The kinds that sweeps apply, each with its plural.

Other objects may have a set's label too: the server copies a Service's to its EndpointSlices.
"""


def config_maps(api: Api, namespace: str) -> dict[str, Body]:
    """Return the ConfigMaps of a namespace by name, without the one that every namespace has."""
    items = api.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    found = {item["metadata"]["name"]: item for item in items}
    found.pop("kube-root-ca.crt", None)
    return found


def objects(api: Api, namespace: str, prefix: str) -> dict[str, Body]:
    """Return the objects of a namespace whose names have a prefix, by ``kind/name``."""
    return {
        f"{kind}/{item['metadata']['name']}": item
        for kind, plural in KINDS.items()
        for item in api.get(f"/api/v1/namespaces/{namespace}/{plural}")["items"]
        if item["metadata"]["name"].startswith(prefix)
    }


def members(api: Api, set_id: str) -> dict[str, str]:
    """Return the UIDs, by ``kind/name``, of the objects with a set's label in any namespace."""
    selector = quote(f"{PART_OF}={set_id}")
    return {
        f"{kind}/{item['metadata']['name']}": item["metadata"]["uid"]
        for kind, plural in KINDS.items()
        for item in api.get(f"/api/v1/{plural}?labelSelector={selector}")["items"]
    }
