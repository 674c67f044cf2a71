"""What this version writes, by real runs: inventories, marks of objects, plan files, records.

The sets are in a namespace with a fixed name, because digests and the identity of a set depend on
it. They are deleted at the end, so that a test can put older inventories in their place.
"""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from applyprune.cluster import inventory_format
from applyprune.cluster.inventory_format import decode_root, decode_shard
from applyprune.planning.applyset import SHARD_OF, shard_ref
from tests.support.command import applyprune
from tests.support.objects import config_map
from tests.support.settings import settings
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from applyprune.localplane import Plane
    from tests.support.api import Api

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"
INPUT = FORMATS / "input"
NAMESPACE = "formats"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
SETS = {"text": "web", "stream": "packed", "shards": "large"}
"""The set of each form of an inventory."""


def write(plane: Plane, api: Api, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Write a file for each format into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "input"
    shutil.copytree(INPUT, place)
    ensure_namespace(api)

    def call(*arguments: str | Path) -> str:
        more = ("-n", NAMESPACE)
        ended = applyprune(*arguments, *more, kubeconfig=plane.kubeconfig, cwd=folder)
        assert ended.code == 0, ended.err
        return ended.out

    somebody = settings(place, actor="somebody")
    try:
        call("plan", "web", "-f", "input/first", "--out", "create.plan")
        assert api("POST", CONFIG_MAPS, config_map("found"))[0] == 201
        call("apply", "web", "-f", "input/first", *somebody)
        call("plan", "web", "-f", "input/second", "--out", "change.plan")
        call("apply", "--plan", "change.plan", *somebody)
        _save(folder / "objects.json", _live(api))
        _save(folder / "inventory-text.json", _inventory(api, SETS["text"]))
        _save(folder / "entries.json", entries_of(call("inventory", "show", "web", "-o", "json")))
        history = json.loads(call("history", "web", "-o", "json"))
        _save(folder / "runs.json", history["runs"])
        for form, name in SETS.items():
            if form != "text":
                with _small(patch, form):
                    assert Stage(plane.kubeconfig, NAMESPACE, name).run(*many(name)).exit_code == 0
                    _save(folder / f"inventory-{form}.json", _inventory(api, name))
    finally:
        clear(api)
        shutil.rmtree(place)


def many(name: str) -> list[dict[str, Any]]:
    """Return the objects of a set whose inventory does not fit as text, or into one shard."""
    return [config_map(f"{name}-{number:02}") for number in range(24)]


@contextmanager
def _small(patch: pytest.MonkeyPatch, form: str) -> Iterator[None]:
    """Let few entries be many: the form depends on nothing else."""
    with patch.context() as limits:
        limits.setattr(inventory_format, "MAX_TEXT", 64)
        if form == "shards":
            limits.setattr(inventory_format, "_PER_SHARD", 8)
        yield


def ensure_namespace(api: Api) -> None:
    """Create the namespace unless it exists."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    status, reply = api("POST", "/api/v1/namespaces", body)
    assert status in {201, 409}, reply


def clear(api: Api) -> None:
    """Delete all that the sets have in the namespace, and their inventories."""
    for kind in ("configmaps", "secrets", "services"):
        for found in api.get(f"/api/v1/namespaces/{NAMESPACE}/{kind}")["items"]:
            if (name := found["metadata"]["name"]) != "kube-root-ca.crt":
                status, reply = api("DELETE", f"/api/v1/namespaces/{NAMESPACE}/{kind}/{name}")
                assert status in {200, 404}, reply


def _save(path: Path, value: object) -> None:
    text = json.dumps(value, indent=1, sort_keys=True)
    # Who it was, and where, is nobody's business.
    text = text.replace(f"{getpass.getuser()}@{socket.gethostname()}", "somebody@somewhere")
    path.write_text(f"{text}\n", encoding="utf-8")


def entries_of(shown: str) -> list[dict[str, Any]]:
    """Return the entries in what ``inventory show -o json`` has printed."""
    return [one["inventoryEntry"] for one in json.loads(shown)["objects"]]


def _live(api: Api) -> list[dict[str, Any]]:
    """Return the objects of the namespace that have a mark of ours, without inventories."""
    found = []
    for kind in ("configmaps", "secrets", "services"):
        for one in api.get(f"/api/v1/namespaces/{NAMESPACE}/{kind}")["items"]:
            marks = {**one["metadata"].get("labels", {}), **one["metadata"].get("annotations", {})}
            is_inventory = one["metadata"]["name"].startswith("applyprune-")
            if not is_inventory and "applyset.kubernetes.io/part-of" in marks:
                kinds = {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service"}
                found.append({"apiVersion": "v1", "kind": kinds[kind], **one})
    return found


def _inventory(api: Api, name: str) -> list[dict[str, Any]]:
    """Return the root of an inventory and its shards, as the server stores them.

    Of managedFields, who has written them: all that they hold is the set's.
    """
    root = api.get(f"{CONFIG_MAPS}/applyprune-{name}")
    shards = f"{CONFIG_MAPS}?labelSelector={SHARD_OF}%3D{name}"
    others = api.get(shards)["items"]
    stored = [root, *({"apiVersion": "v1", "kind": "ConfigMap", **one} for one in others)]
    for one in stored:
        for managed in one["metadata"]["managedFields"]:
            del managed["fieldsV1"]
    return stored


def lines_of(stored: list[dict[str, Any]]) -> tuple[bytes, ...]:
    """Return the lines in an inventory, unpacked, by the reader of this version."""
    root = decode_root(stored[0])
    if root.inline is not None:
        return (root.inline,)
    bodies = {one["metadata"]["name"]: one for one in stored[1:]}
    inventory = root.inventory
    refs = [shard_ref(inventory.name, inventory.namespace, one.digest) for one in root.shards]
    pairs = zip(refs, root.shards, strict=True)
    return tuple(decode_shard(bodies[ref.name], shard) for ref, shard in pairs)


# What differs from run to run, and what takes its place in a comparison.
_VARIES: Mapping[str, re.Pattern[str]] = {
    "UID": re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    "TIME": re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
    "DIGEST": re.compile(r"\b[0-9a-f]{16,64}\b"),
}
_VARYING_KEYS = {"resourceVersion", "run", "who", "elapsed"}


def compared(path: Path) -> Any:
    """Return the content of a file with one word for each value that differs from run to run."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return _constant(text)
    value = json.loads(text)
    if path.name.startswith("inventory-"):
        root = {**value[0], "binaryData": {}, "data": {"header": "", **value[0].get("data", {})}}
        header = json.loads(root["data"].pop("header"))
        root["data"].pop("entries", None)
        lines = [json.loads(line) for part in lines_of(value) for line in part.splitlines()]
        forms = [sorted({**one.get("data", {}), **one.get("binaryData", {})}) for one in value]
        return _without([root, header, lines, forms])
    return _without(value)


def _without(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _without(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, key) for one in value]
    if key in _VARYING_KEYS and value is not None:
        return type(value).__name__
    return _constant(value) if isinstance(value, str) else value


def _constant(text: str) -> str:
    for word, pattern in _VARIES.items():
        text = pattern.sub(word, text)
    return text
