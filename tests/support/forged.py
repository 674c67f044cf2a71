"""Edit an inventory as somebody does who may edit ConfigMaps, and not as a run does."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api import Api
    from tests.support.stage import Stage


def edit_entries(
    stage: Stage, api: Api, edit: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    """Replace each entry by what ``edit`` returns; remove it for None."""
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps/{stage.target.inventory.name}"

    def entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
        edited = edit(entry)
        return [] if edited is None else [edited]

    edit_inventory(api, path, entries)


def edit_inventory(
    api: Api, path: str, edit: Callable[[dict[str, Any]], list[dict[str, Any]]]
) -> None:
    """Replace each entry of the inventory at a path by those that ``edit`` returns.

    The count and the digest in the header fit again; the annotations are left alone.
    """
    body = api.get(path)
    stored = [json.loads(line) for line in body["data"]["entries"].splitlines()]
    after = [one for line in stored if "name" in line for one in edit(line)]
    shared = [line for line in stored if "name" not in line]
    lines = "".join(f"{json.dumps(line)}\n" for line in (*shared, *after))
    header = json.loads(body["data"]["header"])
    header["count"], header["digest"] = len(after), hashlib.sha256(lines.encode()).hexdigest()
    body["data"] = {"header": json.dumps(header), "entries": lines}
    status, reply = api("PUT", path, body)
    assert status == 200, reply


def edit_entry(stage: Stage, api: Api, name: str, **changes: Any) -> None:
    """Change fields of the entry of one object; those of its fingerprint by ``fingerprint``."""

    def edited(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["name"] != name:
            return entry
        fingerprint = {**entry["fingerprint"], **changes.get("fingerprint", {})}
        return {**entry, **changes, "fingerprint": fingerprint}

    edit_entries(stage, api, edited)


def remove_entries(stage: Stage, api: Api, *names: str) -> None:
    """Remove the entries of some objects."""
    edit_entries(stage, api, lambda entry: None if entry["name"] in names else entry)


def forge(stage: Stage, name: str, **changes: Any) -> None:
    """Change the entry of one object by a write that no reader can tell from that of a run."""
    listed = stage.inventory().entries
    entries = {
        ref: replace(entry, **changes) if ref.name == name else entry
        for ref, entry in listed.items()
    }
    assert entries != dict(listed)
    stage.rewrite(entries=entries)
