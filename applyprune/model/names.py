"""What Kubernetes takes for a name: the one home of the DNS rules."""

from __future__ import annotations

import re

DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
"""The pattern of RFC 1123's label."""

_LABEL = re.compile(DNS_LABEL)
# As a whole a subdomain is bounded, its labels are not: a name of 200 letters is one.
_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_PART}(?:\.{_PART})*")
_LONGEST_SUBDOMAIN = 253


def is_dns_label(text: str) -> bool:
    """Return whether a text can name a namespace, or a set: RFC 1123's label."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text can name most objects: RFC 1123's subdomain."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None
