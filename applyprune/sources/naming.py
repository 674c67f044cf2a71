"""Check which names, kinds and versions an API path can hold; the server's rules are stricter.

Only what could change its meaning in a URL or in a terminal is rejected here.
"""

from __future__ import annotations

import re

from applyprune.model.identity import DNS_LABEL

_API_VERSION = re.compile(rf"(?:{DNS_LABEL}(?:\.{DNS_LABEL})*/)?{DNS_LABEL}")
_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_LONGEST_API_VERSION = 253 + 1 + 63
# apimachinery's IsValidPathSegmentName forbids the first two; the others would end the path.
_UNSAFE = frozenset("/%?#")


def name_problem(name: str) -> str:
    """Return why ``name`` cannot be in a URL path, to follow ``metadata.name``; "" if it can."""
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return f"cannot be {name!r}"
    for char in name:
        if char in _UNSAFE:
            return f"cannot contain {char!r}"
        if not char.isprintable() or char.isspace():
            return f"cannot contain the character U+{ord(char):04X}"
    return ""


def is_api_version(text: str) -> bool:
    """Return whether ``text`` has the form ``version`` or ``group/version``."""
    return len(text) <= _LONGEST_API_VERSION and _API_VERSION.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Return whether ``text`` can name a kind: a DNS label with capitals."""
    return _KIND.fullmatch(text) is not None
