"""Hide the values of Secrets in diffs, in messages and in what the server says.

The output depends on a value in only one way: it shows whether two values are equal.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from threading import Lock
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

from applyprune.model.fieldset import MISSING, Path, value_at, with_value
from applyprune.model.live import mapping
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.planning.normalize import SECRET_PARTS, may_be_secret
from applyprune.values import pattern

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
        "Opaque", "bootstrap.kubernetes.io/token", "helm.sh/release.v1", "kubernetes.io/basic-auth",
        "kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson", "kubernetes.io/ssh-auth",
        "kubernetes.io/service-account-token", "kubernetes.io/tls",
    }
)  # fmt: skip


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
        return value != mapping(written.get("labels")).get(key)  # guard: secret-label -> False

    def is_hidden_annotation(key: str, value: object) -> bool:
        if key == OWNED_BY and value == mapping(written.get("labels")).get(PART_OF):
            return False  # the set's id, which every run sends
        is_written = value == mapping(written.get("annotations")).get(key)
        return not is_written or _may_hold(value, values)  # guard: secret-annotation -> False

    for part in SECRET_PARTS:
        # guard: secret-in-diff -> _masked_at(before, after, (part,), lambda *_: False)
        before, after = _masked_at(before, after, (part,), lambda *_: True)
    for path, hides in (
        ((), is_hidden),
        (("metadata",), is_hidden_metadata),
        (("metadata", "labels"), is_hidden_label),
        (("metadata", "annotations"), is_hidden_annotation),
    ):
        before, after = _masked_at(before, after, path, hides)
    return before, after


def _masked_at(
    before: Body, after: Body, path: Path, hides: Callable[[str, object], bool]
) -> tuple[Body, Body]:
    def side_of(body: Body, value: Any, other: Any, changed: str) -> Body:
        if body is None or value is None or value is MISSING:
            return body
        if not isinstance(value, dict):
            return with_value(body, path, _SAME if value == other else changed)
        others = mapping(other)
        masks = {
            key: changed if key in others and others[key] != inner else _SAME
            for key, inner in value.items()
            if hides(key, inner)
        }
        return with_value(body, path, {**value, **masks})

    old, new = value_at(before, path), value_at(after, path)
    return side_of(before, old, new, _BEFORE), side_of(after, new, old, _AFTER)


def _may_hold(text: object, values: set[str]) -> bool:
    words = str(text)
    return words.lstrip().startswith(_DOCUMENTS) or any(
        value and value in words for value in values
    )


class KnownSecrets:
    """The Secrets that a run knows; hides their values in the texts of others. Thread-safe."""

    def __init__(self, bodies: Callable[[], Iterable[Mapping[str, Any]]] = tuple) -> None:
        """Know the Secrets that ``bodies`` returns; it is called with the first text."""
        self._lock = Lock()
        self.know(bodies)

    def know(self, bodies: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """Know these Secrets instead; ``bodies`` is called with the next text."""
        with self._lock:
            self._bodies = bodies
            self._values: frozenset[bytes] | None = None
            self._forms: dict[Encoding, _Forms] = {}

    def masked(self, text: str) -> str:
        """Return a text with the values of the Secrets hidden, and also their single lines.

        They are hidden in each form in which programs write them, in capitals or not. A value of
        less than four characters is hidden where it is a word: it would hide parts of common ones.
        Whoever wrote a long text may have cut it within a value.
        """
        was_cut = len(text) >= _CUT_AT
        with self._lock:
            if self._values is None:
                self._values = frozenset(_values(self._bodies()))
            for looks, encoding in _ENCODINGS if self._values else ():
                if looks.search(text) is None:
                    continue
                if encoding not in self._forms:
                    self._forms[encoding] = _Forms(self._values, encoding)
                forms = self._forms[encoding]
                text = forms.replaced(text, was_cut=was_cut)  # guard: secret-in-text
        return text


Encoding: TypeAlias = "Callable[[bytes], Iterator[str]]"


class _Forms:
    """Texts to look for, by their first characters and their length: one walk finds them all."""

    def __init__(self, values: Iterable[bytes], encoding: Encoding) -> None:
        forms = {_lower(form) for value in values for form in encoding(value)}
        self._long = sorted(form for form in forms if len(form) >= _SHORTEST)
        self._found: dict[str, dict[int, set[str]]] = {}
        for form in self._long:
            lengths = self._found.setdefault(form[:_SHORTEST], {})
            lengths.setdefault(len(form), set()).add(form)
        # The longest first.
        for start, lengths in self._found.items():
            self._found[start] = dict(sorted(lengths.items(), reverse=True))
        short = sorted(re.escape(form) for form in forms if 0 < len(form) < _SHORTEST)
        word = f"(?<![^\\W_])(?:{'|'.join(short)})(?![^\\W_])" if short else "(?!)"
        self._word = re.compile(word, re.IGNORECASE)

    def replaced(self, text: str, *, was_cut: bool) -> str:
        lower = _lower(text)
        parts: list[str] = []
        shown = at = 0
        while at <= len(text) - _SHORTEST:
            if length := self._length_at(lower, at, was_cut=was_cut):
                parts += [text[shown:at], HIDDEN]
                shown = at = at + length
            else:
                at += 1
        found = "".join((*parts, text[shown:]))
        return self._word.sub(HIDDEN, found)  # guard: short-secret-in-text -> found

    def _length_at(self, text: str, at: int, *, was_cut: bool) -> int:
        lengths = self._found.get(text[at : at + _SHORTEST])
        if lengths is None:
            return 0
        for length, forms in lengths.items():
            if text[at : at + length] in forms:
                return length
        ends = (text.find("…", at), len(text) if was_cut else -1)
        for end in ends:  # guard: cut-secret-in-text -> ()
            rest = text[at : max(at, end)]
            next_one = bisect_left(self._long, rest) if len(rest) >= _SHORTEST else len(self._long)
            if next_one < len(self._long) and self._long[next_one].startswith(rest):
                return len(rest)
        return 0


def _lower(text: str) -> str:
    """Return a text of the same length, without capitals of ASCII."""
    return text.translate(_CAPITALS)


_CAPITALS = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
# The start of a longer value is enough: a message is cut.
_LONGEST_VALUE = 2048


def _texts(body: Body) -> Iterator[str]:
    """Yield the values of a Secret as they are written, in base64 or not."""
    for part in SECRET_PARTS:
        yield from map(str, mapping(mapping(body).get(part)).values())


def _values(bodies: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the values of Secrets, and the lines of each."""
    for text in chain.from_iterable(map(_texts, bodies)):
        written = text.encode("utf-8", "surrogatepass")
        found = [written[:_LONGEST_VALUE]]
        with suppress(ValueError):
            found.append(base64.b64decode(written, validate=True)[:_LONGEST_VALUE])
        for whole in found:
            yield whole
            lines = whole.splitlines()
            yield from (line.strip() for line in lines if len(lines) > 1)


def _plain(value: bytes) -> Iterator[str]:
    with suppress(UnicodeDecodeError):
        text = value.decode("utf-8", "ignore" if len(value) == _LONGEST_VALUE else "strict")
        yield from (text, " ".join(text.split()), text[::-1])


# Lines of base64 in PEM and in MIME.
_WRAPPED_AT = (64, 76)
# A part of a longer text in base64: a shorter one could be a part of a word.
_SHORTEST_PART = 8


def _base64(value: bytes) -> Iterator[str]:
    """Yield base64 of a value: with the letters of URLs too, in lines, doubled, and as a part."""
    whole = base64.b64encode(value).decode()
    parts = [whole, whole.rstrip("=")]
    for offset in range(3):  # behind as many other bytes
        after = base64.b64encode(b"\0" * offset + value).decode()
        part = after[(8 * offset + 5) // 6 : (8 * (offset + len(value))) // 6]
        parts += [part] if len(part) >= _SHORTEST_PART else []
    parts.append(base64.b64encode(whole.encode()).decode().rstrip("="))
    for width in _WRAPPED_AT:
        if len(whole) > width:
            parts += [whole[at : at + width] for at in range(0, len(whole), width)]
    for part in parts:
        yield part
        yield part.replace("+", "-").replace("/", "_")


def _base32(value: bytes) -> Iterator[str]:
    yield base64.b32encode(value).decode().rstrip("=")


def _numbers(value: bytes) -> Iterator[str]:
    """Yield the bytes of a value as numbers, with what may be between them."""
    if len(value) == 1:
        return  # any number could be it
    for numbers in (value.hex(" "), " ".join(map(str, value))):
        yield from (numbers.replace(" ", between) for between in (" ", ", ", ",", ":", ""))


def _escaped(value: bytes) -> Iterator[str]:
    """Yield a value as JSON, Go and Python quote it, once or twice."""
    yield "".join(f"\\x{byte:02x}" for byte in value)
    for text in _plain(value):
        for encoded in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            yield encoded
            yield json.dumps(encoded, ensure_ascii=False)[1:-1]
            quoted = encoded
            for char in "<>&":
                quoted = quoted.replace(char, f"\\u{ord(char):04x}")
            yield from (quoted, encoded.replace("/", "\\/"))
        yield repr(text)[1:-1]
        yield "".join(f"\\u{ord(char):04x}" for char in text)


def _of_html(value: bytes) -> Iterator[str]:
    import html  # most texts have no reference of HTML

    for text in _plain(value):
        yield from (html.escape(text), html.escape(text, quote=False))
        yield html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
        yield "".join(f"&#{ord(char)};" for char in text)


def _of_url(value: bytes) -> Iterator[str]:
    yield from (quote(value, safe=safe) for safe in ("", "/", "!*'()~"))
    yield from (quote_plus(value), "".join(f"%{byte:02x}" for byte in value))


# Each encoding, and how a text looks that may have it: most texts need no forms but the first two.
_ENCODINGS: tuple[tuple[re.Pattern[str], Encoding], ...] = (
    (pattern(r"\\"), _escaped),
    (pattern(r"&"), _of_html),
    (pattern(r"[%+]"), _of_url),
    (pattern(r""), _plain),
    (pattern(r"[\w+/-]{4}"), _base64),
    (pattern(r"[A-Za-z2-7]{7}"), _base32),
    (pattern(r"[0-9A-Fa-f]{2}"), _numbers),
)


def _value_forms(body: Body) -> Iterator[str]:
    """Yield every value of a Secret in each form in which a text may contain a copy."""
    for text in _texts(body):
        yield from (text, base64.b64encode(text.encode()).decode())
        with suppress(ValueError):
            plain = base64.b64decode(text, validate=True).decode()
            yield from (plain, json.dumps(plain)[1:-1])


def value_text(value: object, *, secret: bool) -> str:
    """Return a value on one short line; HIDDEN for a Secret."""
    if secret:  # guard: secret-in-conflict never
        return HIDDEN
    if value is MISSING:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
