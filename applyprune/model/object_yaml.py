"""Objects as YAML, and the unified diff of two states of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

from applyprune.values import pattern

_NOWHERE = "/dev/null"
_CONTEXT = 3
"""How many lines around a change are shown."""


def unified(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str
) -> Iterator[str]:
    """Yield the lines of the unified diff of an object's states; None is one where it is not."""
    was, will = as_yaml(before, after)
    old, new = (f"live/{name}" if was else _NOWHERE, f"merged/{name}" if will else _NOWHERE)
    if not (was and will):
        # The whole object is created or deleted.
        sign, lines = ("+", will) if will else ("-", was)
        yield f"--- {old}"
        yield f"+++ {new}"
        yield f"@@ -{0 if will else 1},{len(was)} +{1 if will else 0},{len(will)} @@"
        yield from (sign + line for line in lines)
    elif was == will:
        yield "  (no field changes, only field ownership)"
    else:
        yield from unified_diff(was, will, old, new, n=_CONTEXT, lineterm="")


# Objects as YAML. Keys are in a fixed order, so that the texts of two states of an object differ
# only where the states differ.


# libyaml writes a text of several lines in quotes on one line if it contains any of these.
_ONLY_PURE = pattern("[\t\U00010000-\U0010ffff]| \n")


def as_yaml(*bodies: Mapping[str, Any] | None) -> Sequence[list[str]]:
    """Return the lines of each body, all in the same style; None has no lines."""
    # libyaml is three times as fast, but it cannot write all texts as blocks.
    pure = any(_ONLY_PURE.search(text) for body in bodies for text in _blocks(body))
    yaml = _writer(pure=pure)
    return [[] if body is None else _lines(yaml, body) for body in bodies]


def as_manifest(body: Mapping[str, Any]) -> str:
    """Return an object as a person writes it: with its fields in the order of the API."""
    pure = any(_ONLY_PURE.search(text) for text in _blocks(body))
    stream = StringIO()
    _writer(pure=pure).dump(body, stream)
    return stream.getvalue()


def _writer(*, pure: bool) -> YAML:
    yaml = YAML(typ="safe", pure=pure)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = 1_000_000_000
    return yaml


_FIRST = {"apiVersion": 0, "kind": 1, "metadata": 2}
_FIRST_OF_METADATA = {"name": 0, "namespace": 1}


def _lines(yaml: YAML, body: Mapping[str, Any]) -> list[str]:
    stream = StringIO()
    ordered = _ordered(body, _FIRST)
    if isinstance(ordered.get("metadata"), dict):
        ordered["metadata"] = _ordered(body["metadata"], _FIRST_OF_METADATA)
    yaml.dump(ordered, stream)
    # Not splitlines(): it also splits at characters that do not end a line of YAML.
    return stream.getvalue().removesuffix("\n").split("\n")


def _ordered(value: Any, first: Mapping[str, int]) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (first.get(name, len(first)), name))
        return {name: _ordered(value[name], {}) for name in names}
    if isinstance(value, list):
        return [_ordered(item, {}) for item in value]
    return value


def _blocks(value: Any) -> Iterator[str]:
    """Yield every text of several lines."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _blocks(item)
    elif isinstance(value, list):
        for item in value:
            yield from _blocks(item)
    elif isinstance(value, str) and "\n" in value:
        yield value


# Texts that YAML 1.1, which Kubernetes reads, takes for another type.
_NO_TEXT = pattern(r"y|n|yes|no|on|off|[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?", re.IGNORECASE)
# A text with one of these is written in quotes, with escapes: a block would lose or hide it.
_UNSAFE = pattern("[^\t\n -~\u00a0-\u1fff\u2030-\u205e\u2070-\ud7ff\ue000-\U0010ffff]")


class _Representer(SafeRepresenter):
    """Texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - ruamel's signature
        """Write every value in full, without anchors."""
        return True

    def represent_text(self, data: str) -> Any:
        """Write a text so that YAML reads it as a text."""
        style = None
        if _UNSAFE.search(data):
            style = '"'
        elif "\n" in data:
            style = "|"
        elif _NO_TEXT.fullmatch(data):
            style = "'"
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_text)
