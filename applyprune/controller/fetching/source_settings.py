"""How sources on other hosts are read."""

from __future__ import annotations

from pathlib import Path

from applyprune.http import AddressRules
from applyprune.values import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How sources on other hosts are read, and where they are kept."""

    folder: Path
    """The folder of the cache."""
    limit: int
    """Bytes on the disk for the cache."""
    secret: bytes = field(repr=False)
    """What the names in the cache are made with."""
    addresses: AddressRules = field(default_factory=AddressRules)
    """Which addresses their hosts may have."""
