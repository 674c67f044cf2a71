"""All objects of a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api


def everything(api: Api) -> dict[str, str]:
    """Return the UID of every object of every kind that discovery names, by its path."""
    return {key: item["metadata"]["uid"] for key, item in _objects(api)}


def contents(api: Api) -> dict[str, str]:
    """Return every object as text, without its resourceVersion, by its path."""
    found = {}
    for key, item in _objects(api):
        del item["metadata"]["resourceVersion"]
        found[key] = json.dumps(item, sort_keys=True)
    return found


def _objects(api: Api) -> Iterator[tuple[str, dict[str, Any]]]:
    groups = ["/api/v1"]
    for group in api.get("/apis")["groups"]:
        groups += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for group in groups:
        status, resources = api("GET", group)
        if status != 200:
            continue  # an aggregated API whose backend never came up
        for resource in resources["resources"]:
            if "/" not in resource["name"] and {"list", "delete"} <= set(resource["verbs"]):
                listed = api.get(f"{group}/{resource['name']}")
                for item in listed.get("items") or ():
                    metadata = item["metadata"]
                    key = f"{resource['name']} {metadata.get('namespace', '')}/{metadata['name']}"
                    yield key, item


def lasting(things: dict[str, str]) -> dict[str, str]:
    """Return the objects that neither time nor a controller's round makes or removes.

    Endpoints and IPAddresses belong to a Service, and are not named after its set.
    """
    passing = ("events ", "leases ", "endpoints ", "endpointslices ", "ipaddresses ")
    return {key: uid for key, uid in things.items() if not key.startswith(passing)}
