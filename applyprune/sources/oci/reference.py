"""The name of an artifact: ``oci://HOST[:PORT]/NAME[:TAG][@sha256:…]``."""

from __future__ import annotations

import re

from applyprune.errors import UsageError
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, pattern

SCHEME = "oci://"
DEFAULT_TAG = "latest"

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]{{2,45}}\])(?::(?P<port>[0-9]{{1,5}}))?"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}"
_REFERENCE = pattern(
    rf"oci://(?P<host>{_HOST})/(?P<name>{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?"
    rf"(?:@(?P<digest>{_DIGEST}))?"
)
_LONGEST_NAME = 255
_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class Reference:
    """An artifact, or all versions of one if it has neither tag nor digest."""

    host: str
    """The host of the registry, with its port if it is not 443."""
    repository: str
    tag: str = ""
    digest: str = ""
    """``sha256:…`` of the manifest."""

    def __str__(self) -> str:
        """Return the reference as it is written."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.host}/{self.repository}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Return what a text names; raise UsageError if it is not such a name.

    There is no place in it for a user, a password, a query or a path with dots.
    """
    found = _REFERENCE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or len(found["name"]) > _LONGEST_NAME or not _is_port(found["port"]):
        # What comes before an @ may be a password, and what comes after a ? as well.
        shown = shown_path(text.rpartition("@")[2].partition("?")[0][:200])
        raise UsageError(
            f"invalid name of an OCI artifact: {'…' if '@' in text else ''}{shown}",
            hint="Write oci://HOST/NAME, oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST; "
            "names are in lower case, and credentials are given elsewhere.",
        )
    return Reference(found["host"], found["name"], found["tag"] or "", found["digest"] or "")


def is_tag(text: str) -> bool:
    """Return whether a text can be a tag."""
    return re.fullmatch(_TAG, text) is not None


def is_digest(text: str) -> bool:
    """Return whether a text is a digest that is checked here: ``sha256:`` and 64 digits."""
    return re.fullmatch(_DIGEST, text) is not None


def _is_port(text: str | None) -> bool:
    return text is None or 0 < int(text) <= 65535
