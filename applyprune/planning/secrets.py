"""Hide the values of Secrets in diffs, in messages and in what the server says.

The output depends on a value in only one way: it shows whether two values are equal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from applyprune.model.fieldset import MISSING
from applyprune.model.live import mapping
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.planning.normalize import SECRET_PARTS, may_be_secret

HIDDEN = "(secret)"
"""The text that replaces any field of a Secret in a message."""
Body: TypeAlias = "Mapping[str, Any] | None"
_PARTS = frozenset({"apiVersion", "kind", "metadata", *SECRET_PARTS})
_METADATA = frozenset({"annotations", "labels", "name", "namespace"})
_SAME, _BEFORE, _AFTER = "***", "*** (before)", "*** (after)"
# A document in an annotation, plain or gzipped (as by Rancher), is probably a copy of the object.
_DOCUMENTS = ("{", "[", "H4sI")
# From here on the server cuts a warning, if it has too many of them.
_CUT_AT = 256
_SHORTEST = 4
_LONGEST = 60
# The types of Kubernetes itself, which the server fills in, and Helm's.
_TYPES = frozenset(
    {
        "Opaque",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
        "kubernetes.io/basic-auth",
        "kubernetes.io/dockercfg",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/service-account-token",
        "kubernetes.io/ssh-auth",
        "kubernetes.io/tls",
    }
)


def masked(before: Body, after: Body, manifest: Body = None) -> tuple[Body, Body]:
    """Return two states of an object with a Secret's values masked, as kubectl's diff does.

    The mask shows whether a value is equal in both states. Outside the values too, only such texts
    are shown as the manifest has in the same place: anybody may have put a copy of a value into an
    annotation, in any form. One of the manifest that may contain a copy is masked as well.
    """
    if not any(body is not None and may_be_secret(body) for body in (before, after)):
        return before, after
    # The manifest's own values too: what it leaves to others may be in neither state.
    values = {
        *_value_forms(before),
        *_value_forms(after),
        *_value_forms(manifest),  # guard: secret-unsent
    }
    allowed = mapping(manifest)
    written = mapping(allowed.get("metadata"))

    def is_hidden(key: str, value: object) -> bool:
        if key in _PARTS or isinstance(value, bool):
            return False
        return value != allowed.get(key) and not (key == "type" and value in _TYPES)

    def is_hidden_metadata(key: str, value: object) -> bool:
        return key not in _METADATA and value != written.get(key)

    def is_hidden_label(key: str, value: object) -> bool:
        return value != mapping(written.get("labels")).get(key)  # guard: secret-label

    def is_hidden_annotation(key: str, value: object) -> bool:
        if key == OWNED_BY and value == mapping(written.get("labels")).get(PART_OF):
            return False  # the set's id, which every run sends
        is_written = value == mapping(written.get("annotations")).get(key)
        return not is_written or _may_hold(value, values)  # guard: secret-annotation

    for part in SECRET_PARTS:
        before, after = _masked_at(before, after, (part,), lambda *_: True)  # guard: secret-in-diff
    for path, hides in (
        ((), is_hidden),
        (("metadata",), is_hidden_metadata),
        (("metadata", "labels"), is_hidden_label),
        (("metadata", "annotations"), is_hidden_annotation),
    ):
        before, after = _masked_at(before, after, path, hides)
    return before, after


def _masked_at(
    before: Body, after: Body, path: tuple[str, ...], hides: Callable[[str, object], bool]
) -> tuple[Body, Body]:
    old, new = _at(before, path), _at(after, path)
    return (
        _put(before, path, _shown_side(old, new, hides, _BEFORE)),
        _put(after, path, _shown_side(new, old, hides, _AFTER)),
    )


def _shown_side(side: Any, other: Any, hides: Callable[[str, object], bool], changed: str) -> Any:
    if side is None or side is MISSING:
        return side
    if not isinstance(side, dict):
        return _SAME if side == other else changed
    others = mapping(other)
    return {
        key: value
        if not hides(key, value)
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


def _may_hold(text: object, values: set[str]) -> bool:
    words = str(text)
    return words.lstrip().startswith(_DOCUMENTS) or any(
        value and value in words for value in values
    )


def without_secrets(text: str, bodies: Iterable[Mapping[str, Any]]) -> str:
    """Return a text of the server with the values of some Secrets hidden, also single lines.

    A value of less than four characters stays: it would hide parts of common words. The server may
    have cut a long text within a value.
    """
    was_cut = len(text) >= _CUT_AT
    values = {value for body in bodies for value in _value_forms(body)}
    values |= {line.strip() for value in values for line in value.splitlines()}
    values = {value for value in values if len(value) >= _SHORTEST}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)  # guard: secret-in-text
    starts = (_start_at_end(text, value) for value in values) if was_cut else ()
    start = max(starts, default=0)  # guard: cut-secret-in-text
    return text[:-start] + HIDDEN if start else text


def _start_at_end(text: str, value: str) -> int:
    """Return how many characters at the end of a text are the start of a value."""
    lengths = range(min(len(text), len(value)), _SHORTEST - 1, -1)
    return next((length for length in lengths if text.endswith(value[:length])), 0)


def _value_forms(body: Body) -> Iterator[str]:
    """Yield every value of a Secret in each form in which a text may contain a copy."""
    for part in SECRET_PARTS:
        for value in mapping(mapping(body).get(part)).values():
            text = str(value)
            yield text
            yield base64.b64encode(text.encode()).decode()
            try:
                plain = base64.b64decode(text, validate=True).decode()
            except ValueError:
                continue
            yield from (plain, json.dumps(plain)[1:-1])


def value_text(value: object, *, secret: bool) -> str:
    """Return a value on one short line; HIDDEN for a Secret."""
    if secret:  # guard: secret-in-conflict
        return HIDDEN
    if value is MISSING:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
