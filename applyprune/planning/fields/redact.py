"""Hide the values of Secrets; no other module does this.

The output depends on a value in only one way: it shows whether two values are equal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from applyprune.model.json_access import mapping
from applyprune.planning.fields.normalize import SECRET_PARTS, is_secret
from applyprune.planning.fields.path import MISSING

HIDDEN = "(secret)"
"""The text that replaces any field of a Secret in a message."""
_SAME, _BEFORE, _AFTER = "***", "*** (before)", "*** (after)"
_LONGEST = 60
# A document in an annotation, plain or gzipped (as by Rancher), is probably a copy of the object.
_DOCUMENTS = ("{", "[", "H4sI")

Body: TypeAlias = "Mapping[str, Any] | None"


def shown(value: object, *, secret: bool) -> str:
    """Return a value on one short line; HIDDEN for a Secret."""
    if secret:  # guard: secret-in-conflict
        return HIDDEN
    if value is MISSING:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def masked(before: Body, after: Body) -> tuple[Body, Body]:
    """Return two states of an object with a Secret's values masked, as kubectl's diff does.

    The mask shows whether a value is equal in both states. An annotation that may contain a copy of
    a value is masked like a value.
    """
    if not any(body is not None and is_secret(body) for body in (before, after)):
        return before, after
    values = {*_texts(before), *_texts(after)}
    for part in SECRET_PARTS:
        before, after = _masked_at(before, after, (part,), lambda _: True)  # guard: secret-in-diff
    return _masked_at(
        before, after, ("metadata", "annotations"), lambda text: _may_hold(text, values)
    )


def _masked_at(
    before: Body, after: Body, path: tuple[str, ...], hides: Callable[[object], bool]
) -> tuple[Body, Body]:
    old, new = _at(before, path), _at(after, path)
    hidden = {
        key
        for side in (old, new)
        if isinstance(side, dict)
        for key, value in side.items()
        if hides(value)
    }
    return (
        _put(before, path, _shown_side(old, new, hidden, _BEFORE)),
        _put(after, path, _shown_side(new, old, hidden, _AFTER)),
    )


def _shown_side(side: Any, other: Any, hidden: set[str], changed: str) -> Any:
    if side is None or side is MISSING:
        return side
    if not isinstance(side, dict):
        return _SAME if side == other else changed
    others = mapping(other)
    return {
        key: value
        if key not in hidden
        else changed
        if key in others and others[key] != value
        else _SAME
        for key, value in side.items()
    }


def _at(body: Body, path: tuple[str, ...]) -> Any:
    value: Any = body
    for name in path:
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
    return value


def _put(body: Any, path: tuple[str, ...], value: Any) -> Any:
    if value is MISSING or body is None:
        return body
    return {**body, path[0]: _put(body[path[0]], path[1:], value)} if path else value


def _texts(body: Body) -> Iterator[str]:
    """Yield every value of a Secret in each form in which a text may contain a copy."""
    for part in SECRET_PARTS:
        for value in mapping(mapping(body).get(part)).values():
            text = str(value)
            yield text
            try:
                plain = base64.b64decode(text, validate=True).decode()
            except ValueError:
                continue
            yield from (plain, json.dumps(plain)[1:-1])


def _may_hold(text: object, values: set[str]) -> bool:
    words = str(text)
    return words.lstrip().startswith(_DOCUMENTS) or any(
        value and value in words for value in values
    )
