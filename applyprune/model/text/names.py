"""The DNS rules for names, which no other module has.

They need no other module: help and completion check names without loading the values of a run.
"""

from __future__ import annotations

from applyprune.values import pattern

DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
"""The pattern of an RFC 1123 label."""

_LABEL = pattern(DNS_LABEL)
# Only the length of the whole subdomain is limited: a label may have 200 letters.
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = pattern(rf"{_PART}(?:\.{_PART})*")
_LONGEST_SUBDOMAIN = 253


def is_dns_label(text: str) -> bool:
    """Return whether a text can name a namespace or a set: an RFC 1123 label."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text can name most objects: an RFC 1123 subdomain."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None
