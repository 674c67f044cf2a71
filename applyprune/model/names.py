"""What Kubernetes takes for a name."""

from __future__ import annotations

import re

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def is_dns_label(text: str) -> bool:
    """Return whether a text can name a namespace, or a set: RFC 1123's label."""
    return _DNS_LABEL.fullmatch(text) is not None
