"""Take the fields that are null out of a manifest: they ask for a removal.

Server-side apply has no word for that: it stores the empty value of the field's type, owned by the
set, or refuses it. In custom resources null may be a value, as in the values of a Helm release, so
there it is sent as it is, except in the metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import ListItem, Path, to_pointer
from applyprune.planning.fields.normalize import canonical

if TYPE_CHECKING:
    from applyprune.model.problem import Field

# Their parameters may be any JSON.
_FREE = frozenset({"ControllerRevision", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"})
# Of the metadata, only these fields are the manifest's to remove.
_OURS = frozenset({"annotations", "labels"})
_GENERATED = frozenset({"creationTimestamp", "status"})


def without_nulls(
    body: Mapping[str, Any], *, custom: bool
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a body without fields that are null, and the JSON pointers of these fields.

    ``custom`` says that a CRD or an aggregated API defines the kind. An item of a list is named by
    its name; null in any other item is left out, and that is all.
    """
    parts = _parts(body, custom=custom)
    places = [place for place, _ in _nulls_of(body, parts)]
    if not places:
        return body, ()
    left = {
        key: _stripped(value) if key in parts else value
        for key, value in body.items()
        if value is not None or key not in parts
    }
    return left, tuple(to_pointer(place) for place in places if _is_removable(place))


def without_status(pointers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pointers without those into the status, which no manifest sets."""
    return tuple(one for one in pointers if f"{one}/".split("/", 2)[1] != "status")


def unnamed_nulls(body: Mapping[str, Any], *, custom: bool) -> tuple[Field, ...]:
    """Return the nulls that are left out and remove nothing: those in items without a name.

    What generators write there is not counted.
    """
    return tuple(
        where
        for place, where in _nulls_of(body, _parts(body, custom=custom))
        if None in place and where[-1] not in _GENERATED
    )


def _parts(body: Mapping[str, Any], *, custom: bool) -> Collection[str]:
    return {"metadata"} if custom or body.get("kind") in _FREE else body.keys()


def _nulls_of(
    body: Mapping[str, Any], parts: Collection[str]
) -> Iterator[tuple[tuple[Any, ...], Field]]:
    # To write the whole object is ten times as fast as to walk through it.
    if b"null" not in canonical(body):
        return
    for key in parts:
        if key in body:
            yield from _nulls(body[key], (key,), (key,))


def _nulls(
    value: object, above: tuple[object, ...], where: Field
) -> Iterator[tuple[tuple[Any, ...], Field]]:
    """Yield the place of each null, in which items of lists have their names, and with indices.

    An item without a name is None in its place.
    """
    if value is None:
        yield above, where
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _nulls(inner, (*above, key), (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                name = item.get("name")
                step = ListItem((("name", name),)) if isinstance(name, str) else None
                yield from _nulls(item, (*above, step), (*where, index))


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_stripped(item) for item in value]
    return value


def _is_removable(place: Path) -> bool:
    if None in place or "" in place or place[-1] == "creationTimestamp":
        return False
    # All labels, or all annotations, are never one manifest's to remove: the set has its own there.
    return place[0] != "metadata" or (len(place) > 2 and place[1] in _OURS)
