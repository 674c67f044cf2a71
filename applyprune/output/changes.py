"""A comparison explained for programs: a patch that does it, and a list of what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.model.events import ObjectDiff

_KINDS = {
    "dictionary_item_added": "added",
    "iterable_item_added": "added",
    "dictionary_item_removed": "removed",
    "iterable_item_removed": "removed",
}


def json_patch(compared: ObjectDiff) -> Sequence[Mapping[str, Any]]:
    """Return the operations (RFC 6902) that make ``before`` of a comparison its ``after``.

    Of a Secret they hold the masks, not the values.
    """
    before, after = compared.before, compared.after
    if after is None:
        return [{"op": "remove", "path": ""}]
    if before is None:
        return [{"op": "add", "path": "", "value": after}]
    # Imported here, as deepdiff below: both take longer than most runs.
    from jsonpatch import make_patch

    patch: Sequence[Mapping[str, Any]] = make_patch(before, after).patch
    return patch


def changes(compared: ObjectDiff) -> Sequence[Mapping[str, Any]]:
    """Return each difference: ``path`` (a JSON pointer), ``kind`` and the values.

    The kind is ``added`` (with ``new``), ``removed`` (with ``old``) or ``changed`` (with both); an
    object that comes or goes as a whole is one change of the path "". deepdiff takes some 12 ms.
    """
    before, after = compared.before, compared.after
    if before is None or after is None:
        if before is after:
            return []
        whole = {"kind": "added", "new": after} if before is None else {"kind": "removed"}
        return [{"path": "", **whole, **({"old": before} if after is None else {})}]
    from deepdiff import DeepDiff

    tree = DeepDiff(before, after, view="tree")
    found = [_change(kind, node) for kind, nodes in tree.items() for node in nodes]
    return sorted(found, key=lambda one: str(one["path"]))


def _change(kind: str, node: Any) -> Mapping[str, Any]:
    steps = node.path(output_format="list")
    path = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    word = _KINDS.get(kind, "changed")
    old = {} if word == "added" else {"old": node.t1}
    new = {} if word == "removed" else {"new": node.t2}
    return {"path": path, "kind": word, **old, **new}
