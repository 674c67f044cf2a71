"""Tell apart what applyprune and other tools have written into the inventory's ConfigMap.

Other tools may write to its metadata: a label for a backup, a finalizer. That is not another run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from applyprune.model.inventory import Inventory, StoredRoot
from applyprune.model.json_access import items, mapping, text
from applyprune.planning.applyset import OWN_ANNOTATIONS, OWN_LABELS

_OWN_FIELDS = ("data", "binaryData", "immutable")


def stored_root(body: Mapping[str, Any]) -> StoredRoot:
    """Return the part of a root ConfigMap that is not in the inventory itself."""
    metadata = mapping(body.get("metadata"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    own = {
        **{name: body[name] for name in _OWN_FIELDS if name in body},
        "labels": {key: labels[key] for key in OWN_LABELS & labels.keys()},
        "annotations": {key: annotations[key] for key in OWN_ANNOTATIONS & annotations.keys()},
    }
    canonical = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return StoredRoot(
        own=hashlib.sha256(canonical.encode()).hexdigest(),
        labels={key: value for key, value in labels.items() if key not in OWN_LABELS},
        annotations={
            key: value for key, value in annotations.items() if key not in OWN_ANNOTATIONS
        },
        owner_references=tuple(items(metadata, "ownerReferences")),
        finalizers=tuple(map(str, items(metadata, "finalizers"))),
        is_terminating=bool(text(metadata, "deletionTimestamp")),
    )


def with_foreign_metadata(body: dict[str, Any], root: StoredRoot) -> dict[str, Any]:
    """Return a root to write, with what other tools have added to the stored one."""
    metadata: dict[str, Any] = dict(body["metadata"])
    metadata["labels"] = {**root.labels, **metadata["labels"]}
    metadata["annotations"] = {**root.annotations, **metadata["annotations"]}
    if root.owner_references:
        metadata["ownerReferences"] = list(root.owner_references)
    if root.finalizers:
        metadata["finalizers"] = list(root.finalizers)
    return {**body, "metadata": metadata}


def changed_by_others_only(inventory: Inventory, body: Mapping[str, Any]) -> bool:
    """Return whether the stored root has applyprune's own data as they were read or written."""
    uid = text(mapping(body.get("metadata")), "uid")
    return inventory.exists and uid == inventory.uid and stored_root(body).own == inventory.root.own
